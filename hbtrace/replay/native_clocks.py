"""The compiled clocks as `Clocks.order`: the same orders, from the library, in a tenth of the time and memory."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbtrace.compiled.library import the_library
from hbtrace.replay.clocks import NOTHING, Order
from hbtrace.replay.kernel import Clock
from hbtrace.replay.passing import chunk, demand, integers
from hbtrace.replay.program import Program


class NativeClocks:
    """Vector clocks of all actors. library: another one than this installation's.

    Raises UnusableError where there is no library; later MemoryError, and ValueError for what is no program: then it
    can only be thrown away.
    """

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = the_library() if library is None else library
        self._order = self._library.hb_order_new()
        if not self._order:
            raise MemoryError
        weakref.finalize(self, self._library.hb_order_free, self._order)

    def order(self, program: Program) -> Order:
        """Do all steps of a program; what was known at each."""
        library, order = self._library, self._order
        code, count, *_ = chunk(program)
        demand(library.hb_order_run(order, code, count))
        steps = integers(library.hb_order_steps(order), 3 * count).reshape(-1, 3)
        bounds = integers(library.hb_order_bounds(order), library.hb_order_count(order) + 1).copy()
        pairs = integers(library.hb_order_pairs(order), int(bounds[-1])).reshape(-1, 2).copy()
        known = KnownClocks(steps[:, 1].astype(np.int32), bounds // 2, pairs)
        return Order(array("q", steps[:, 0].tobytes()), known, (steps[:, 2] > 0).tolist())


class KnownClocks(Sequence[Clock]):
    """By step, what an actor knew of others: which of few clocks, and these as pairs (actor, clock); each is made a
    dict when somebody asks, the same one for all of its steps."""

    def __init__(
        self, steps: npt.NDArray[np.int32], bounds: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]
    ) -> None:
        self._steps = steps
        self._bounds = bounds
        self._pairs = pairs
        self._made: dict[int, Clock] = {0: NOTHING}

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, step: Any) -> Any:
        return self._clock(int(self._steps[step]))

    def __iter__(self) -> Any:
        return map(self._clock, self._steps.tolist())

    def _clock(self, place: int) -> Clock:
        clock = self._made.get(place)
        if clock is None:
            pairs = self._pairs[self._bounds[place] : self._bounds[place + 1]].tolist()
            clock = self._made[place] = {actor: tick for actor, tick in pairs}  # noqa: C416 - lists are no tuples
        return clock
