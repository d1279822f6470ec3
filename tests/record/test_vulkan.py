"""A real asynchronous GPU backend on any machine: the Vulkan build of llama.cpp, on Mesa's software device (lavapipe).

Where the loader and the driver are installed (Debian: mesa-vulkan-drivers). The first run compiles shaders for a minute
or two; they are kept.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.record import engine as engines
from tests.record.runs import Recorder, Run
from tests.registry import MissingError

DRIVER = Path(__file__).with_name("python_driver.py")
COMMAND = [sys.executable, DRIVER]
SETTINGS = {
    "GGML_VK_VISIBLE_DEVICES": "0",  # else ggml leaves out devices that are CPUs
    "MESA_SHADER_CACHE_DIR": str(engines.CACHE / "shaders"),
    "PLUGIN": "",
}
UBATCHES = 7 + 16


def _software_device() -> Path:
    """The manifest of its driver. Raises MissingError."""
    try:
        ctypes.CDLL("libvulkan.so.1")
    except OSError:
        raise MissingError("no Vulkan loader: install libvulkan1") from None
    named = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    manifests = [Path(name) for name in named.split(":")] if named else Path("/usr/share/vulkan/icd.d").glob("*")
    found = next((path for path in manifests if path.name.startswith("lvp_icd") and path.is_file()), None)
    if found is None:
        raise MissingError("no software Vulkan device: install mesa-vulkan-drivers")
    return found


@dataclass(frozen=True)
class Vulkan(Recorder):
    """Runs on the software device, also where there is a GPU."""

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        manifest = str(_software_device())
        return super().environment({**SETTINGS, "VK_DRIVER_FILES": manifest, "VK_ICD_FILENAMES": manifest, **settings})


@pytest.fixture(scope="module")
def vulkan(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Vulkan:
    """Its shaders are compiled."""
    try:
        _software_device()
        libraries = engines.fetch("linux-x64-vulkan@3.22.1")
    except MissingError as error:
        pytest.skip(str(error))
    recorder = Vulkan(libraries, Path(), DRIVER, model, tmp_path_factory.mktemp("vulkan"))
    subprocess.run(COMMAND, env=recorder.environment({}), capture_output=True, check=True, timeout=1800)
    return recorder


@pytest.fixture(scope="module")
def run(vulkan: Vulkan) -> Run:
    return vulkan.record(command=COMMAND)


def test_the_tokens_are_right_and_nothing_races(vulkan: Vulkan, run: Run) -> None:
    # Sums in another order give other logits in their last digits; of this model's tokens none is that close.
    assert run.tokens == vulkan.plain(*COMMAND, LAYERS="0")
    assert run.races == {}
    assert run.warnings == []


def test_what_the_device_can_do_is_read_from_it(run: Run) -> None:
    (queue,) = [event for event in run.rows("backend") if event["name"] == "Vulkan0"]
    assert (queue["type"], queue["async"], queue["synchronous"], queue["events"]) == ("gpu", True, False, True)
    assert queue["accepts"] == ["Vulkan0"]  # not Vulkan_Host, which the CPU's slot was handed
    (scheduler,) = run.rows("sched")
    assert scheduler["cpu_buffer_type"] == "Vulkan_Host"


def test_inputs_are_copied_and_the_queue_of_a_copy_is_known(run: Run) -> None:
    # The CPU looks the embeddings up, once an ubatch, and a copy from pinned host memory runs on the destination's
    # queue. The five inputs are copied one by one, each behind a wait.
    copies = run.rows("copy_async")
    assert len(copies) == UBATCHES
    assert {(copy["runs_on"], copy["after_dst"]) for copy in copies} == {("dst", False)}
    assert len(run.rows("tensor_copy")) == 5 * UBATCHES
    assert len(run.rows("compute")) == 2 * UBATCHES


def test_partial_offload_is_right_where_copies_are_refused(vulkan: Vulkan) -> None:
    run = vulkan.record(command=COMMAND, name="partial.arrow", LAYERS="2")
    assert run.races == {}
    assert run.warnings == []
    # From the device to the CPU the backend refuses: the scheduler waits and copies.
    refused = [event for event in run.rows("note") if event["what"] == "copy_refused"]
    assert refused
    assert len(run.rows("tensor_copy")) >= len(refused)
