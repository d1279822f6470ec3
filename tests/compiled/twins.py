"""Two kernels on the same programs, compared at every chunk."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from hbtrace.replay.kernel import UNBOUNDED, Hit, Kernel
from hbtrace.replay.native_kernel import NativeKernel
from hbtrace.replay.program import Program
from tests.compiled.programs import Script


class DifferenceError(AssertionError):
    """The twins do not say the same."""


def counts(kernel: Kernel | NativeKernel) -> tuple[int, int, int]:
    """What the budget asks a kernel."""
    return kernel.visited, kernel.cells, kernel.known


class Twins:
    """Both kernels as one. Raises DifferenceError where they differ, and answers what they agree on."""

    chunks = 0
    hits = 0

    def __init__(self, *, closed: bool, python: type[Kernel] = Kernel, library: ctypes.CDLL | None = None) -> None:
        self._python = python(closed=closed)
        self._native = NativeKernel(closed=closed, library=library)

    def run(self, program: Program, *, visits: int = UNBOUNDED, races: int = UNBOUNDED) -> list[Hit]:
        """One chunk, on both. Beyond the bounds they agree on the counts, and are of no use any more."""
        end = self._python.visited + visits
        expected, got = (kernel.run(program, visits=visits, races=races) for kernel in (self._python, self._native))
        if len(expected) > races:  # the compiled one joins what it met before it counts
            self._same("hits", len(expected), len(got))
            return got
        if self._python.visited > end:
            self._same("visited", self._python.visited, self._native.visited)
            return got
        if expected != got:
            pairs = zip([*expected, None], [*got, None], strict=False)
            first = next(pair for pair in pairs if pair[0] != pair[1])
            raise DifferenceError(f"hits: {len(expected)} and {len(got)}, first {first}")
        self._same("visited, cells, known", counts(self._python), counts(self._native))
        Twins.chunks += 1
        Twins.hits += len(got)
        return got

    def remembered(self) -> set[int]:
        expected, got = self._python.remembered(), self._native.remembered()
        self._same("remembered", expected, got)
        self._same("visited, cells, known, then", counts(self._python), counts(self._native))
        return got

    @staticmethod
    def _same(what: str, expected: object, got: object) -> None:
        if expected != got:
            raise DifferenceError(f"{what}: {expected} and {got}")

    visited = property(lambda self: self._native.visited)
    cells = property(lambda self: self._native.cells)
    known = property(lambda self: self._native.known)


def replay(script: Script, **kernels: Any) -> int:
    """A script on both kernels; how many hits. Raises DifferenceError."""
    twins, hits = Twins(closed=script.closed, **kernels), 0
    for program, asks in zip(script.chunks, script.asks, strict=True):
        hits += len(twins.run(program))
        if asks:
            twins.remembered()
    return hits


def bounded(script: Script, visits: int, races: int) -> bool:
    """Whether a script came to the bounds, on both kernels at the same place. Raises DifferenceError."""
    twins, hits = Twins(closed=script.closed), 0
    for program in script.chunks:
        hits += len(twins.run(program, visits=visits - twins.visited, races=races - hits))
        if twins.visited > visits or hits > races:
            return True
    return False


def found_by(seeds: range, script: Callable[[int], Script], **kernels: Any) -> int | None:
    """The first seed on which the twins differ, None where they never do. A twin that ends with an error differs."""
    for seed in seeds:
        try:
            replay(script(seed), **kernels)
        except (DifferenceError, ValueError, KeyError, IndexError, MemoryError):
            return seed
    return None
