"""Both counters of steps on the same programs, compared at every chunk.

A counter is fed what a script of `programs.py` holds, and of each row what its event is: any number, for it knows no
event's name.
"""

from __future__ import annotations

import ctypes
import random
from array import array
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

import numpy as np

from hbtrace.checks.native_steps import NativeSteps
from hbtrace.checks.steps import COMPUTES, ENDING, HOST_SETTING, HOST_WAITING, BatchKinds, Counted, Steps
from hbtrace.replay.program import HOST, JOIN, QUEUE, STEP, Program
from tests.compiled import programs
from tests.compiled.programs import LIMIT, WILD, Script
from tests.compiled.twins import DifferenceError

SPLITS = (-1, -1, -1, 0, 1, 2, LIMIT, -LIMIT - 1, -2)

_KINDS = {
    HOST: (HOST_SETTING, HOST_SETTING, 0, ENDING, ENDING | HOST_SETTING),
    QUEUE: (COMPUTES, COMPUTES, COMPUTES, 0, ENDING, ENDING | COMPUTES),
    JOIN: (HOST_WAITING, HOST_WAITING, HOST_WAITING, 0),
}


@dataclass
class Run:
    """A script, and what its rows are. waits: by chunk, the actors known by then whose work is done at the return."""

    script: Script
    batch: BatchKinds
    waits: list[set[int]] = field(default_factory=list)


def run_of(seed: int) -> Run:
    """The script of a seed, with events that fit its steps."""
    rng, made = random.Random(seed), programs.script(seed)
    if rng.random() < 0.5:
        _wait_at_once(made, rng)
    rows = 1 + max((program.code[-1] for program in made.chunks if program.code), default=0)
    first = rng.choice((0, 1)) if rows > 1 else 0
    kinds = np.zeros(rows - first, dtype=np.uint8)
    splits = np.array([rng.choice(SPLITS) for _ in range(rows - first)], dtype=np.int64)
    queues: set[int] = set()
    run = Run(made, BatchKinds(first, kinds, splits))
    for program in made.chunks:
        for op, actor, _, _, row in program.steps():
            kinds[row - first] |= rng.choice(_KINDS.get(op, (0,)))
            if op == QUEUE and actor not in queues:
                queues.add(actor)
        known = run.waits[-1] if run.waits else set()
        run.waits.append(known | {actor for actor in queues - known if rng.random() < 0.1})
    return run


def _wait_at_once(script: Script, rng: random.Random) -> None:
    """The host waits for a queue behind most of its work, as under an eval callback."""
    lazy = rng.choice((0, 0, 0.02, 0.2))
    for program in script.chunks:
        code = array("q")
        for step in program.steps():
            code.extend(step)
            op, actor, thread, _, row = step
            if op == QUEUE and rng.random() >= lazy:
                code.extend((JOIN, thread, actor, 0, row))
        program.code = code


def hostile(seed: int) -> Run:
    """A run with numbers in it that no trace has, anywhere."""
    rng, run = random.Random(seed), run_of(seed)
    batch = run.batch
    run.script = programs.hostile(seed)
    kinds = np.array([rng.randrange(256) for _ in batch.kinds], dtype=np.uint8)
    splits = np.array([rng.choice((*WILD, 0, -1)) for _ in batch.splits], dtype=np.int64)
    first = batch.first if rng.random() < 0.7 else rng.choice(WILD)
    waits = [known | ({rng.choice(WILD)} if rng.random() < 0.3 else set()) for known in run.waits]
    return Run(run.script, BatchKinds(first, kinds, splits), waits)


class TwinSteps:
    """Both counters as one. Raises DifferenceError where they differ."""

    chunks = 0

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._python = Steps()
        self._native = NativeSteps(library)

    def take(self, programs: Iterable[Program], batch: BatchKinds, waits: Set[int]) -> None:
        programs = list(programs)
        self._python.take(programs, batch, waits)
        self._native.take(programs, batch, waits)
        self.counted()
        TwinSteps.chunks += 1

    def counted(self) -> Counted:
        expected, got = self._python.counted(), self._native.counted()
        if expected != got:
            raise DifferenceError(f"{expected} and {got}")
        return got


def count(run: Run, library: ctypes.CDLL | None = None) -> Counted:
    """A run on both counters. Raises DifferenceError."""
    twins = TwinSteps(library)
    for program, waits in zip(run.script.chunks, run.waits, strict=True):
        twins.take([program], run.batch, waits)
    return twins.counted()


def found_by(seeds: Iterable[int], library: ctypes.CDLL | None = None) -> int | None:
    """The first seed on which the counters differ, None where they never do. One that ends with an error differs."""
    for seed in seeds:
        try:
            count(run_of(seed), library)
        except (DifferenceError, ValueError, KeyError, IndexError, MemoryError):
            return seed
    return None


def flat(run: Run) -> bytes:
    """A run as the driver reads it: int64 by int64."""
    batch = run.batch
    out = array("q", (len(run.script.chunks), batch.first, len(batch.kinds)))
    out.extend(batch.kinds.tolist())
    out.extend(batch.splits.tolist())
    for program, waits in zip(run.script.chunks, run.waits, strict=True):
        parts = (program.code[: len(program.code) // STEP * STEP], program.footprints, program.bounds, program.pieces)
        out.extend((program.forget_footprints, len(waits), *map(len, parts)))
        for part in (sorted(waits), *parts):
            out.extend(part)
    return out.tobytes()
