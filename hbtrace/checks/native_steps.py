"""The compiled counter of steps: the same doors as `Steps`, the same counts, from the library."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Set

import numpy as np

from hbtrace.checks.steps import BatchKinds, Counted
from hbtrace.checks.windows import WINDOWS
from hbtrace.compiled.library import the_library
from hbtrace.replay.passing import CONSTANTS, chunk, demand, integers
from hbtrace.replay.program import Program


class NativeSteps:
    """Counts the steps of a trace. library: another one than this installation's.

    Raises UnusableError where there is no library; later MemoryError, and ValueError for what is no program: then it
    can only be thrown away.
    """

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = the_library() if library is None else library
        self._meter = self._library.hb_meter_new()
        if not self._meter:
            raise MemoryError
        weakref.finalize(self, self._library.hb_meter_free, self._meter)
        self._told: set[int] = set()

    def take(self, programs: Iterable[Program], batch: BatchKinds, waits: Set[int]) -> None:
        """The programs of the next batch. waits: the actors whose work is complete when the call returns."""
        if len(waits) > len(self._told):
            news = np.array(sorted(waits - self._told), dtype=np.int64)
            demand(self._library.hb_meter_waits(self._meter, news.ctypes.data, len(news)))
            self._told |= waits
        kinds, splits = np.ascontiguousarray(batch.kinds), np.ascontiguousarray(batch.splits)
        rows = kinds.ctypes.data, splits.ctypes.data, batch.first, len(kinds)
        for program in programs:
            demand(self._library.hb_meter_run(self._meter, *chunk(program), *rows))

    def counted(self) -> Counted:
        """What there is so far."""
        flat = integers(self._library.hb_meter_counted(self._meter), CONSTANTS["HB_COUNTED"]).tolist()
        numbers, windows = flat[: -2 * len(WINDOWS)], flat[-2 * len(WINDOWS) :]
        queues, most, serial, waited, per_node = numbers
        return Counted(
            queues, most, serial, waited, per_node, tuple(windows[: len(WINDOWS)]), tuple(windows[len(WINDOWS) :])
        )
