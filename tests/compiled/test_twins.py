"""Both kernels say the same: hits in the same order, counters, what is remembered; on anything a trace can be.

HBTRACE_PROGRAMS and HBTRACE_SEED as in `tests/test_random_programs.py`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hbtrace.compiled import compile as compiling
from hbtrace.errors import TraceError
from hbtrace.replay import kernel as python_kernel
from hbtrace.replay import recording, shadow
from hbtrace.replay.kernel import UNBOUNDED, Kernel
from hbtrace.replay.kernels import described
from hbtrace.replay.native_kernel import NativeKernel
from hbtrace.replay.program import HOST, QUEUE, Program
from hbtrace.replay.session import Session
from hbtrace.replay.settings import Settings
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import batch_from_rows
from tests.compiled import programs
from tests.compiled.planted import must_be_found, needs_library
from tests.compiled.twins import Twins, bounded, found_by, replay
from tests.material import RECORDINGS, cases
from tests.material import recording as recorded
from tests.oracle.programs import random_program

PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "2000"))
FIRST_SEED = int(os.environ.get("HBTRACE_SEED", "0"))


def test_where_a_compiler_is_the_kernel_is_compiled() -> None:
    """Else the tests below would be skipped and nobody would know. `make venv` builds it."""
    if os.environ.get("HBTRACE_NATIVE") == "0":
        pytest.skip("HBTRACE_NATIVE is 0")
    try:
        compiling.compiler()
    except compiling.BuildError as error:
        pytest.skip(str(error))
    assert described() == "compiled kernel"


# --- flat programs


@needs_library
def test_on_random_flat_programs() -> None:
    hits = sum(replay(programs.script(seed)) for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 10, 1)))
    assert hits or PROGRAMS < 100


@needs_library
def test_the_flat_programs_reach_what_they_should() -> None:
    """They sweep what is known, keep footprints resident and read by many, and leave both worlds."""
    scripts = [programs.script(seed) for seed in range(150)]
    swept = many = 0
    for script in scripts:
        kernel = Kernel(closed=script.closed)
        for program in script.chunks:
            kernel.run(program)
            before = kernel.cells
            kernel.remembered()
            swept += kernel.cells < before
            cells = (cell for space in kernel._spaces.values() for cell in space.cells.values())
            many += any(cell.reads is not None and len(cell.reads) > 2 for cell in cells)
    assert min(swept, many) > 3, (swept, many)
    assert {script.closed for script in scripts} == {True, False}


# --- traces


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every session replays with both kernels, and must have done so."""
    for module in ("session", "recording"):
        monkeypatch.setattr(f"hbtrace.replay.{module}.new_kernel", lambda *, ordered: Twins(closed=not ordered))
    before = Twins.chunks
    yield
    assert Twins.chunks > before


@needs_library
@pytest.mark.usefixtures("both")
def test_on_random_traces() -> None:
    """Batch by batch of several sizes, over all settings. A trace that ends with an error ends with both."""
    for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 5, 1)):
        events = random_program(random.Random(seed), weird=0.0 if seed % 3 else 0.1)
        options: dict[str, Any] = {
            "skip_weights": seed % 5 == 0, "threads": {1: "one", 2: "ordered"}.get(seed % 7), "strict": seed % 11 == 0,
        }  # fmt: skip
        size = (1000, 1, 2, 7)[seed % 4]
        batches = (batch_from_rows(events[at : at + size]) for at in range(0, len(events), size))
        try:
            Session(batches, Settings(**options)).run()
        except TraceError:
            assert options["strict"], f"seed {seed}"


@needs_library
@pytest.mark.parametrize("trace", cases())
@pytest.mark.usefixtures("both")
def test_on_a_case(trace: Path) -> None:
    try:
        with open_trace(trace) as found:
            Session(found.batches(), Settings()).run()
    except TraceError:
        Twins.chunks += 1  # no trace at all: that is the reader's business


@needs_library
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("rows", [100_000, 313])
@pytest.mark.usefixtures("both")
def test_on_a_recorded_run(name: str, rows: int) -> None:
    """As it is, and without every seventh of its rows, by the programs it left."""
    with open_trace(recorded(name)) as trace:
        batches = (batch.slice(at, rows) for batch in trace.batches() for at in range(0, batch.num_rows, rows))
        kept = recording.record(batches, Settings())
    if rows == 313:
        kept.without(range(0, kept.rows, 7))


# --- a planted error is found

SEEDS = range(400)

_hits = python_kernel._Access.hits
_replace = shadow.Space.replace

PYTHON_FAULTS: dict[str, tuple[str, Any]] = {
    "a clock one behind": ("raise_to", lambda known, news: python_kernel.Clock.update(known, news) or True),
    "nothing is forgotten": ("Kernel._drop_known", lambda self, cell: None),
    "neighbours stay apart": ("Space.merge", lambda self, inside: None),
    "a home is not told": ("Space.replace", None),
    "only the first bytes": ("_Access.hits", lambda self: _hits(self)[:1]),
}


def _replace_and_tell_nobody(self: Any, inside: list[int], lo: int, cell: Any) -> None:
    for start in inside:
        self.cells[start].home = None
    _replace(self, inside, lo, cell)


@needs_library
@pytest.mark.parametrize("name", PYTHON_FAULTS)
def test_an_error_in_the_python_kernel_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, instead = PYTHON_FAULTS[name]
    module = "shadow" if where.startswith("Space") else "kernel"
    monkeypatch.setattr(f"hbtrace.replay.{module}.{where}", instead or _replace_and_tell_nobody)
    assert found_by(SEEDS, programs.script) is not None


NATIVE_FAULTS = {
    "what is known races": ("kernel.cpp", "epoch.clock > now_.known->of", "epoch.clock >= now_.known->of"),
    "a home is not told": ("kernel.cpp", "residents_[cell.home].mark(cell.atom);", "(void)home;"),
    "an epoch is mistaken": ("kernel.cpp", "epochs_[kept] = epochs_[k];", "epochs_[kept] = epochs_[0];"),
    "readers are lost": ("kernel.cpp", "else readers.insert(", "else if (readers.size() < 3) readers.insert("),
    "a list of clocks is cut": ("clocks.hpp", "learnt |= clock > before;", "learnt = clock > before;"),
    "a leaf is split wrongly": ("cells.hpp", "if (at.slot > kept || append)", "if (at.slot > kept + 1 || append)"),
}


@needs_library
@pytest.mark.parametrize("name", NATIVE_FAULTS)
def test_an_error_in_the_compiled_kernel_is_found(name: str, tmp_path: Path) -> None:
    must_be_found(NATIVE_FAULTS[name], tmp_path, str(SEEDS.stop))


# --- what the interface refuses


@needs_library
@pytest.mark.parametrize(
    "program",
    [
        Program(code=array("q", (9, 0, 0, -1, 0))),
        Program(code=array("q", (QUEUE, 1, 0, 0, 0))),
        Program(code=array("q", (HOST, 0, 0, -1))),
        Program(footprints=array("q", (0,))),
        Program(footprints=array("q", (0,)), bounds=array("q", (0, 5))),
    ],
    ids=["operation", "footprint", "half a step", "no bounds", "no pieces"],
)
def test_what_is_no_program_is_refused(program: Program) -> None:
    kernel = NativeKernel(closed=True)
    with pytest.raises(ValueError, match="step"):
        kernel.run(program)


@needs_library
def test_without_memory(tmp_path: Path) -> None:
    """An address space that does not hold the cells: MemoryError, and the process goes on."""
    code = (
        "import resource\n"
        "from array import array\n"
        "from hbtrace.replay.native_kernel import NativeKernel\n"
        "from hbtrace.replay.program import QUEUE, Program\n"
        "count = 400_000\n"
        "pieces = array('q', [n for k in range(count) for n in (0, 2 * k, 2 * k + 1, 0, 1)])\n"
        "program = Program(array('q', [QUEUE, 1, 0, 0, 0]), array('q', [0]), array('q', [0, len(pieces)]), pieces)\n"
        "kernel = NativeKernel(closed=True)\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (30 << 20), resource.RLIM_INFINITY))\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        kernel.run(program)\n"
        "    except MemoryError:\n"
        "        print('none left')\n"
    )
    if not sys.platform.startswith("linux"):
        pytest.skip("no such limit here")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert (done.stdout, done.returncode) == ("none left\nnone left\n", 0), done.stderr


@needs_library
def test_both_end_at_the_bounds_of_a_budget() -> None:
    """Amid a chunk, an access or an atom: the counts are what the sentence of the budget tells."""
    ended = 0
    for seed in range(FIRST_SEED, FIRST_SEED + 60):
        rng = random.Random(seed)
        ended += bounded(programs.script(seed), rng.choice([0, 7, 60, 400]), UNBOUNDED)
        ended += bounded(programs.script(seed), UNBOUNDED, rng.choice([0, 1, 3, 20]))
    assert ended > 60
