"""Both clocks tell the same orders, on anything a trace can be.

HBTRACE_PROGRAMS and HBTRACE_SEED as in `tests/test_random_programs.py`.
"""

from __future__ import annotations

import os
import random
from array import array
from pathlib import Path
from typing import Any

import pytest

from hbtrace.errors import TraceError
from hbtrace.replay import clocks, recording
from hbtrace.replay.kernels import new_clocks
from hbtrace.replay.native_clocks import NativeClocks
from hbtrace.replay.program import HOST, STEP, WAIT, Program
from hbtrace.replay.settings import Settings
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import batch_from_rows
from tests.compiled.orders import TwinClocks, found_by
from tests.compiled.planted import must_be_found, needs_library
from tests.material import CASES, RECORDINGS, cases
from tests.material import recording as recorded
from tests.oracle.programs import random_program

PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "2000"))
FIRST_SEED = int(os.environ.get("HBTRACE_SEED", "0"))

pytestmark = needs_library


def test_on_random_flat_programs() -> None:
    before = TwinClocks.learnt
    assert found_by(range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 10, 1))) is None
    assert TwinClocks.learnt > before or PROGRAMS < 100


def test_on_random_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.recording.new_clocks", TwinClocks)
    for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 5, 1)):
        events = random_program(random.Random(seed), weird=0.0 if seed % 3 else 0.1)
        size = (1000, 1, 2, 7)[seed % 4]
        batches = (batch_from_rows(events[at : at + size]) for at in range(0, len(events), size))
        kept = recording.record(batches, Settings(threads={2: "ordered"}.get(seed % 7)), replay=False)
        assert len(kept.orders) == len(kept.programs)


def _is_trace(path: Path) -> bool:
    """Two of the cases are none: there is no order in them."""
    try:
        return bool(list(open_trace(path).batches()))
    except TraceError:
        return False


@pytest.mark.parametrize("trace", [*cases(filter(_is_trace, CASES)), *RECORDINGS])
def test_on_a_trace(trace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.recording.new_clocks", TwinClocks)
    with open_trace(trace if isinstance(trace, Path) else recorded(trace)) as found:
        kept = recording.record(found.batches(), replay=False)
    assert sum(len(order.ticks) for order in kept.orders) == sum(len(program.code) // STEP for program in kept.programs)


def test_which_clocks_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(new_clocks(), NativeClocks)
    monkeypatch.setenv("HBTRACE_NATIVE", "0")
    assert isinstance(new_clocks(), clocks.Clocks)


def test_what_is_no_program_is_refused() -> None:
    for code in ((9, 0, 0, -1, 0), (HOST, 0, 0, -1)):
        with pytest.raises(ValueError, match="step"):
            NativeClocks().order(Program(code=array("q", code)))
    assert list(NativeClocks().order(Program()).known) == []
    assert list(NativeClocks().order(Program(code=array("q", (WAIT, -5, 2**62, -1, 0)))).known) == [{}]


# --- a planted error is found

SEEDS = range(100)


def test_an_error_in_the_python_clocks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.clocks._raised", lambda held, news: {**held, **news})
    assert found_by(SEEDS) is not None


NATIVE_FAULTS = {
    "a record is news": ("order.hpp", "return !same;", "return true;"),
    "what is known is told once": ("order.hpp", "told.version == clocks_.version(actor)", "true"),
    "an actor knows itself": ("order.hpp", "if (other != actor) pairs", "pairs"),
}


@pytest.mark.parametrize("name", NATIVE_FAULTS)
def test_an_error_in_the_compiled_clocks_is_found(name: str, tmp_path: Path) -> None:
    must_be_found(NATIVE_FAULTS[name], tmp_path, str(SEEDS.stop), "orders")
