"""Older versions, whose structs and tables differ: the same library records them, as it finds out where things are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.record import engine as engines
from tests.record.runs import Recorder, Run
from tests.registry import MissingError

DRIVER = Path(__file__).with_name("python_driver.py")
# August 2025 (b6122), and February 2025 (b4753), which has no function that sets inputs to put a bracket around.
OLDER, OLDEST = "linux-x64@3.12.0", "linux-x64@3.6.0"


def _recorder(package: str, model: Path, folder: Path, *, plugin: bool) -> Recorder:
    try:
        engine = engines.fetch(package)
        built = engines.build_plugin(engine, interface=1) if plugin else Path()
    except MissingError as error:
        pytest.skip(str(error))
    return Recorder(engine, built, DRIVER, model, folder)


def _record(recorder: Recorder, **settings: str) -> Run:
    return recorder.record(command=[sys.executable, DRIVER], **settings)


@pytest.mark.parametrize("package", [OLDER, OLDEST])
def test_on_the_cpu(package: str, model: Path, tmp_path: Path) -> None:
    recorder = _recorder(package, model, tmp_path, plugin=False)
    run = _record(recorder, LAYERS="0", PLUGIN="")
    assert run.tokens == recorder.plain(sys.executable, DRIVER)
    assert run.races == {}
    assert run.warnings == []
    assert len(run.rows("compute")) == 7 + 16
    assert [event["tokens"] for event in run.rows("ubatch")] == [32] * 6 + [8] + [1] * 16
    # Three inputs an ubatch in the older, the mask only in the oldest; the ids of the outputs where they change.
    assert len(run.rows("set_direct")) == {OLDER: 3 * 23 + 2, OLDEST: 23 + 2}[package]


@pytest.mark.parametrize("settings", [{"HBTEST_DISCRETE": "1"}, {"HBTEST_SYNC": "1"}], ids=["discrete", "synchronous"])
def test_a_device_that_is_right(model: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    recorder = _recorder(OLDER, model, tmp_path, plugin=True)
    run = _record(recorder, **settings)
    assert run.tokens == recorder.plain(sys.executable, DRIVER)
    assert run.races == {}


def test_an_integrated_device(model: Path, tmp_path: Path) -> None:
    recorder = _recorder(OLDER, model, tmp_path, plugin=True)
    run = _record(recorder, HBTEST_HOLD="1")
    assert run.tokens != recorder.plain(sys.executable, DRIVER)
    # Its inputs have no names. The CPU looks the embeddings up and writes them where the device reads them, so there
    # the fifth is written by the CPU's compute.
    assert run.races == dict.fromkeys(("leaf_4", "leaf_7", "leaf_8", "leaf_11", "inp_embd"), 6)
    embeddings = [report for report in run.analysis["reports"] if report["current"]["root"] == "inp_embd"]
    assert {report["current"]["actor"] for report in embeddings} == {"CPU"}


def test_a_function_that_this_version_has_not_is_done_by_those_that_it_has(model: Path, tmp_path: Path) -> None:
    # The program asks whether its address is null, and it is not: the recorder has the name.
    recorder = _recorder(OLDER, model, tmp_path, plugin=False)
    program = engines.build_weak(recorder.engine)
    assert recorder.plain(program) == "0 0 0 0"
    run = recorder.record(command=[program], PLUGIN="")
    assert run.output == "direct prepare 1 3 2 4\n", run.told
    touched = [
        (event["ev"], event.get("offset", 0), event["size"], event.get("rows", 1))
        for event in run.rows("set_direct", "tensor_set", "tensor_get", "set_async", "sched_prepare")
    ]
    assert touched == [
        ("set_direct", 0, 4, 1), ("tensor_set", 0, 4, 2), ("tensor_get", 0, 4, 2),
        ("tensor_set", 0, 4, 1), ("tensor_set", 8, 4, 1), ("tensor_get", 0, 4, 1), ("tensor_get", 8, 4, 1),
    ]  # fmt: skip
    assert run.warnings == []
