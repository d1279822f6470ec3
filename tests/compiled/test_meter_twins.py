"""Both counters of steps count the same, on anything a trace can be.

HBTRACE_PROGRAMS and HBTRACE_SEED as in `tests/test_random_programs.py`.
"""

from __future__ import annotations

import os
import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hbtrace.checks import steps, windows
from hbtrace.checks.meter import Meter
from hbtrace.checks.native_steps import NativeSteps
from hbtrace.checks.steps import COMPUTES, BatchKinds, Counted
from hbtrace.errors import TraceError
from hbtrace.replay.passing import CONSTANTS
from hbtrace.replay.program import HOST, QUEUE, Program
from hbtrace.replay.session import Session
from hbtrace.replay.settings import Settings
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import batch_from_rows
from tests.compiled.meters import TwinSteps, count, found_by, run_of
from tests.compiled.planted import must_be_found, needs_library
from tests.material import RECORDINGS, cases
from tests.material import recording as recorded
from tests.oracle.programs import random_program

PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "2000"))
FIRST_SEED = int(os.environ.get("HBTRACE_SEED", "0"))

pytestmark = needs_library


def test_both_speak_of_the_same_numbers() -> None:
    names = {"HB_COMPUTES": "COMPUTES", "HB_ENDS": "ENDING", "HB_HOST_WRITES": "HOST_SETTING",
             "HB_HOST_WAITS": "HOST_WAITING"}  # fmt: skip
    assert {name: CONSTANTS[name] for name in names} == {name: getattr(steps, of) for name, of in names.items()}
    assert CONSTANTS["HB_COUNTED"] == len(Counted._fields) - 2 + 2 * len(windows.WINDOWS)
    assert NativeSteps().counted() == Counted()


# --- flat programs


def test_on_random_flat_programs() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 10, 1)):
        count(run_of(seed))


def test_the_flat_programs_reach_what_they_should() -> None:
    """Every counter counts, and of windows some are open and some are not."""
    found = [count(run_of(seed)) for seed in range(150)]
    for number in ("queues", "serial_queues", "waited_queues", "per_node"):
        assert sum(getattr(one, number) > 0 for one in found) > 3, number
    assert sum(one.max_in_flight > 1 for one in found) > 3
    for nature in range(len(windows.WINDOWS)):
        assert sum(one.open[nature] > 0 for one in found) > 3, nature
        assert sum(one.windows[nature] > one.open[nature] for one in found) > 3, nature


# --- traces


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every meter counts with both, and must have done so."""
    monkeypatch.setattr("hbtrace.checks.meter.NativeSteps", TwinSteps)
    before = TwinSteps.chunks
    yield
    assert TwinSteps.chunks > before


@pytest.mark.usefixtures("both")
def test_on_random_traces() -> None:
    """Batch by batch of several sizes, over all settings. However it is cut, the whole comes to the same."""
    for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 5, 1)):
        events = random_program(random.Random(seed), weird=0.0 if seed % 3 else 0.1)
        settings = Settings(skip_weights=seed % 5 == 0, threads={1: "one", 2: "ordered"}.get(seed % 7))
        told = []
        for size in (1000, (1, 2, 7)[seed % 3]):
            meter = Meter()
            batches = (batch_from_rows(events[at : at + size]) for at in range(0, len(events), size))
            Session(batches, settings, [meter], kernel=False).run()
            told.append((meter.counters(), meter.more(), meter.events, meter.phases, meter.rings, meter.serialized))
        assert told[0] == told[1], f"seed {seed}"


@pytest.mark.parametrize("trace", cases())
@pytest.mark.usefixtures("both")
def test_on_a_case(trace: Path) -> None:
    try:
        with open_trace(trace) as found:
            Session(found.batches(), Settings(), [Meter()], kernel=False).run()
    except TraceError:
        TwinSteps.chunks += 1  # no trace at all: that is the reader's business


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("rows", [100_000, 313])
@pytest.mark.usefixtures("both")
def test_on_a_recorded_run(name: str, rows: int) -> None:
    with open_trace(recorded(name)) as trace:
        batches = (batch.slice(at, rows) for batch in trace.batches() for at in range(0, batch.num_rows, rows))
        meter = Meter()
        Session(batches, Settings(), [meter], kernel=False).run()
    assert meter.windows.all["input"]


def test_without_the_library_a_meter_counts_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBTRACE_NATIVE", "0")
    assert isinstance(Meter()._steps, steps.Steps)
    monkeypatch.delenv("HBTRACE_NATIVE")
    assert isinstance(Meter()._steps, NativeSteps)


# --- a planted error is found

SEEDS = range(400)

PYTHON_FAULTS: dict[str, tuple[str, Any]] = {
    "a host is not noticed": ("steps.Steps._host", lambda self, kind, split, footprint, known: None),
    "no wait comes at once": ("steps.Steps._waited", lambda self, actor: None),
    "reads meet nothing": ("windows._Memory.met", lambda self, write, transfers: (self.written[transfers],)),
}


@pytest.mark.parametrize("name", PYTHON_FAULTS)
def test_an_error_in_the_python_counter_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, instead = PYTHON_FAULTS[name]
    monkeypatch.setattr(f"hbtrace.checks.{where}", instead)
    assert found_by(SEEDS) is not None


NATIVE_FAULTS = {
    "what is known is open": ("windows.hpp", "touch.tick > clocks_.known", "touch.tick >= clocks_.known"),
    "old work is lost": ("windows.hpp", "list_[--kept] = list_[k];", "list_[--kept] = list_.back();"),
    "own work is met": ("windows.hpp", "if (touch.queue == who.queue) return false;", ""),
    "pieces are not forgotten": ("meter.cpp", "in_pieces_ = false;", ""),
    "a wait comes late": ("meter.cpp", "if (queue.fresh != hosts_) return;", "if (queue.fresh == 0) return;"),
    "a queue that waits goes on": ("meter.cpp", "if (!its.goes_on) return;", ""),
}


@pytest.mark.parametrize("name", NATIVE_FAULTS)
def test_an_error_in_the_compiled_counter_is_found(name: str, tmp_path: Path) -> None:
    must_be_found(NATIVE_FAULTS[name], tmp_path, str(SEEDS.stop), "meters")


# --- what the interface refuses


@pytest.mark.parametrize(
    "program",
    [
        Program(code=array("q", (9, 0, 0, -1, 0))),
        Program(code=array("q", (QUEUE, 1, 0, 0, 0))),
        Program(code=array("q", (HOST, 0, 0, -1))),
        Program(code=array("q", (HOST, 0, 0, -1, 1))),
        Program(code=array("q", (HOST, 0, 0, -1, -1))),
        Program(footprints=array("q", (0,))),
        Program(footprints=array("q", (0,)), bounds=array("q", (0, 5))),
        Program(footprints=array("q", (0, 0)), bounds=array("q", (0, 0, 0))),
    ],
    ids=["operation", "footprint", "half a step", "a later row", "an earlier row", "no bounds", "no pieces", "twice"],
)
def test_what_is_no_program_is_refused(program: Program) -> None:
    batch = BatchKinds(0, np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.int64))
    counter = NativeSteps()
    with pytest.raises(ValueError, match="step"):
        counter.take([program], batch, set())


def test_many_queues_and_spaces() -> None:
    """Of 60,000 queues with large numbers each meets the one before it in the space of all, and nobody in its own."""
    queues = 60_000
    code, pieces, bounds = array("q"), array("q"), array("q", [0])
    for queue in range(queues):
        for space in (0, queue + 1):
            pieces.extend((space, 0, 8, 0, 1))
        bounds.append(len(pieces))
        code.extend((QUEUE, (1 << 31) + queue, 0, queue, 0))
    program = Program(code, array("q", range(queues)), bounds, pieces)
    batch = BatchKinds(0, np.array([COMPUTES], dtype=np.uint8), np.array([-1], dtype=np.int64))
    counter = TwinSteps()
    counter.take([program], batch, set())
    found = counter.counted()
    assert (found.queues, found.max_in_flight) == (queues, 1)
    assert found.windows == found.open == (0, 0, 0, 0, queues - 1)
