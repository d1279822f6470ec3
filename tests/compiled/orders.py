"""Both clocks on the same programs, compared step by step."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from hbtrace.replay.clocks import Clocks, Order
from hbtrace.replay.native_clocks import NativeClocks
from hbtrace.replay.program import Program
from tests.compiled import programs
from tests.compiled.twins import DifferenceError


class TwinClocks:
    """Both clocks as one. Raises DifferenceError where they differ."""

    steps = 0
    learnt = 0

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._python = Clocks()
        self._native = NativeClocks(library)

    def order(self, program: Program) -> Order:
        expected, got = self._python.order(program), self._native.order(program)
        for name in ("ticks", "known", "learnt"):
            pairs = zip(getattr(expected, name), getattr(got, name), strict=True)
            for step, (one, other) in enumerate(pairs):
                if one != other or type(one) is not type(other) or getattr(got, name)[step] != one:
                    raise DifferenceError(f"{name} at {step}: {one} and {other}")
        TwinClocks.steps += len(got.ticks)
        TwinClocks.learnt += sum(got.learnt)
        return got


def found_by(seeds: Iterable[int], library: ctypes.CDLL | None = None) -> int | None:
    """The first seed on which the clocks differ, None where they never do. One that ends with an error differs."""
    for seed in seeds:
        twins = TwinClocks(library)
        try:
            for program in programs.script(seed).chunks:
                twins.order(program)
        except (DifferenceError, ValueError, KeyError, IndexError, MemoryError):
            return seed
    return None
