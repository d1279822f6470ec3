"""Two contexts on two threads: what one does is not taken for what the other does."""

from __future__ import annotations

import platform

import pytest

from tests.record import engine as engines
from tests.record.runs import Recorder
from tests.registry import MissingError

_EXACT = pytest.param(
    "--exact-writes", marks=pytest.mark.skipif(platform.machine() != "x86_64", reason="single stepping needs x86-64")
)


@pytest.mark.parametrize("options", [(), _EXACT], ids=["default", "exact"])
def test_inputs_set_at_the_same_time_are_each_threads_own(recorder: Recorder, options: str) -> None:
    try:
        program = engines.build_fork(recorder.engine, "two_threads")
    except MissingError as error:
        pytest.skip(str(error))
    run = recorder.record(*([options] if options else []), command=[program])
    assert run.output == "7 14\n"
    for kind in ("ubatch", "sched_compute"):
        rows = {event["ubatch"]: (event.get("thread", 0), event["sched"]) for event in run.rows(kind)}
        assert sorted(rows) == list(range(6))
        assert len(set(rows.values())) == 2
    inputs = [event["id"] for event in run.rows("tensor") if event["name"] == "input"]
    writes = [(event.get("thread", 0), event["tensor"]) for event in run.rows("set_direct")]
    assert {writes.count(pair) for pair in writes} == {3}
    assert sorted({tensor for _, tensor in writes}) == inputs
    assert len({thread for thread, _ in writes}) == 2
