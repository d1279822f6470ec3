"""An older and a newer llama.cpp, recorded on one model and one device, and compared by `hbtrace diff`.

The older one (b6122) gives its inputs no names, so the same race is known by another tensor: what tells is the place
in the graph.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.record import engine as engines
from tests.record.runs import Recorder, Run, hbtrace
from tests.registry import MissingError

DRIVER = Path(__file__).with_name("python_driver.py")
OLDER = "linux-x64@3.12.0"
STATES = ("new", "fixed", "persisting", "moved", "not_exercised")
# Flash attention off: with it, the newer one reads the mask in another operation than the older one.
HELD = {"HBTEST_HOLD": "1", "FLASH": "0"}


@pytest.fixture(scope="module")
def older(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    try:
        engine = engines.fetch(OLDER)
        plugin = engines.build_plugin(engine, interface=1)
    except MissingError as error:
        pytest.skip(str(error))
    recorder = Recorder(engine, plugin, DRIVER, model, tmp_path_factory.mktemp("older"))
    return recorder.record(command=[sys.executable, DRIVER], HBTEST_HOLD="1")


@pytest.fixture(scope="module")
def newer(
    engine: Path, plugin: Path, driver: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recorder:
    return Recorder(engine, plugin, driver, model, tmp_path_factory.mktemp("newer"))


@pytest.fixture(scope="module")
def head(newer: Recorder) -> Run:
    return newer.record(**HELD)


def _states(base: Run, head: Run, status: int) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """The tensors of each state, by their name on the side where they are."""
    done = hbtrace("diff", "--format", "json", base.trace, head.trace)
    assert done.returncode == status, done.stderr
    result = json.loads(done.stdout)
    return {state: {_tensor(finding) for finding in result[state]} for state in STATES}, result


def _tensor(finding: dict[str, Any]) -> str:
    return str(finding["signature"][6])


def test_races_that_changed_their_names_are_moved_and_none_is_fixed(older: Run, head: Run) -> None:
    states, result = _states(older, head, status=1)
    assert states["moved"] == {"inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs"}
    assert states["fixed"] == states["persisting"] == set()
    # The older one looks the embeddings up on the CPU, which then writes them, and the newer one on the device, which
    # then reads the tokens: these are others. Both read the mask in a softmax that has a name of its own in the newer
    # one only, so nothing shows that it is one place; nor is it said to be fixed.
    assert states["new"] == {"inp_tokens", "attn_inp_kq_mask"}
    assert states["not_exercised"] == {"inp_embd", "leaf_11"}
    assert result["comparable"]["ok"]
    assert result["workload"]["tokens"] == {"base": 216, "head": 216}


def test_a_device_that_cannot_have_the_race_mends_none(older: Run, newer: Recorder) -> None:
    states, _ = _states(older, newer.record(HBTEST_DISCRETE="1", name="discrete.arrow", **HELD), status=0)
    assert states["fixed"] == set()
    assert len(states["not_exercised"]) == 5


def test_two_runs_of_one_version_persist(newer: Recorder, head: Run) -> None:
    states, _ = _states(head, newer.record(name="second.arrow", **HELD), status=0)
    names = {"inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask"}
    assert states == {"new": set(), "fixed": set(), "persisting": names, "moved": set(), "not_exercised": set()}
