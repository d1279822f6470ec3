"""Two contexts on two threads: what one does is not taken for what the other does."""

from __future__ import annotations

import platform
import signal
from pathlib import Path

import pytest

from tests.record import engine as engines
from tests.record.runs import Recorder
from tests.registry import MissingError

_STEPS = pytest.mark.skipif(platform.machine() != "x86_64", reason="single stepping needs x86-64")
_EXACT = pytest.param("--exact-writes", marks=_STEPS)


def _program(recorder: Recorder, name: str) -> Path:
    try:
        return engines.build_fork(recorder.engine, name)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("options", [(), _EXACT], ids=["default", "exact"])
def test_inputs_set_at_the_same_time_are_each_threads_own(recorder: Recorder, options: str) -> None:
    run = recorder.record(*([options] if options else []), command=[_program(recorder, "two_threads")])
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


@pytest.mark.parametrize("options", [(), _EXACT], ids=["default", "exact"])
def test_a_store_of_a_thread_that_sets_no_input_goes_through(recorder: Recorder, options: str) -> None:
    # Into memory that is protected meanwhile, and the program handles faults of its own.
    program = _program(recorder, "stray_stores")
    run = recorder.record(*([options] if options else []), command=[program], ROUNDS="200")
    assert (run.status, run.output) == (0, "200 opened\n")
    assert len(run.rows("ubatch")) == 200


@_STEPS
@pytest.mark.parametrize(
    ("ends", "status", "ubatches"),
    [
        ("fault", 128 + signal.SIGSEGV, 1),
        ("sent", 128 + signal.SIGSEGV, 1),
        ("handled", 3, 1),
        ("chained", 128 + signal.SIGSEGV, 2),
    ],
)
def test_a_fault_that_is_the_programs_own_stays_so(recorder: Recorder, ends: str, status: int, ubatches: int) -> None:
    run = recorder.record("--exact-writes", command=[_program(recorder, "stray_stores")], ROUNDS="2", ENDS=ends)
    assert run.status == status
    assert len(run.rows("ubatch")) == ubatches
