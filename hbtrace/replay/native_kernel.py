"""The compiled kernel as a `Kernel`: the same doors, the same answers, from the library."""

from __future__ import annotations

import ctypes
import weakref
from array import array
from typing import Final

import numpy as np
import numpy.typing as npt

from hbtrace.compiled.compile import HERE
from hbtrace.compiled.library import HEADER, constants, the_library
from hbtrace.replay.kernel import UNBOUNDED, Hit
from hbtrace.replay.program import STEP, Program

_STATUS: Final = constants((HERE / HEADER).read_text(encoding="utf-8"))
_WIDTH: Final = len(Hit._fields)
_HALF: Final = 1 << 63


class NativeKernel:
    """Replays programs of one trace in order. See `Kernel`, its twin, for `closed` and for what the counts mean.
    library: another one than this installation's.

    Raises UnusableError where there is no library; later MemoryError, and ValueError for what is no program: then it
    can only be thrown away.
    """

    def __init__(self, *, closed: bool, library: ctypes.CDLL | None = None) -> None:
        self._library = the_library() if library is None else library
        self._kernel = self._library.hb_kernel_new(closed)
        if not self._kernel:
            raise MemoryError
        weakref.finalize(self, self._library.hb_kernel_free, self._kernel)

    @property
    def visited(self) -> int:
        """Atoms looked at so far."""
        return int(self._library.hb_kernel_visited(self._kernel))

    @property
    def cells(self) -> int:
        """How many are remembered."""
        return int(self._library.hb_kernel_cells(self._kernel))

    @property
    def known(self) -> int:
        """The entries of all vector clocks."""
        return int(self._library.hb_kernel_known(self._kernel))

    def run(self, program: Program, *, visits: int = UNBOUNDED, races: int = UNBOUNDED) -> list[Hit]:
        """Replay one chunk; the races in it, in order. It ends early as `Kernel.run` does."""
        code, steps = _address(program.code)
        footprints, count = _address(program.footprints)
        bounds, ends = _address(program.bounds)
        pieces, integers = _address(program.pieces)
        if steps % STEP or ends != count + 1:
            raise ValueError("a step is cut off, or a footprint has no end")
        defined = footprints, bounds, count, pieces, integers, program.forget_footprints
        self._demand(self._library.hb_kernel_run(self._kernel, code, steps // STEP, *defined, visits, races))
        found = self._library.hb_kernel_hit_count(self._kernel)
        if not found:
            return []
        flat = _integers(self._library.hb_kernel_hits(self._kernel), found * _WIDTH).reshape(-1, _WIDTH)
        hits = list(map(Hit._make, flat.tolist()))
        if flat[:, -1].min() < 0:  # unsigned, so as many as that
            hits = [hit if hit.bytes >= 0 else hit._replace(bytes=hit.bytes + 2 * _HALF) for hit in hits]
        return hits

    def remembered(self) -> set[int]:
        """The rows whose accesses can still be met. Forgets what cannot."""
        self._demand(self._library.hb_kernel_remember(self._kernel))
        count = self._library.hb_kernel_row_count(self._kernel)
        return set(_integers(self._library.hb_kernel_rows(self._kernel), count).tolist()) if count else set()

    @staticmethod
    def _demand(status: int) -> None:
        if status == _STATUS["HB_NO_MEMORY"]:
            raise MemoryError
        if status != _STATUS["HB_OK"]:
            raise ValueError("a step or a footprint that no program has")


def _address(integers: array[int]) -> tuple[int, int]:
    """Where they lie, and how many there are."""
    return integers.buffer_info()


def _integers(address: int, count: int) -> npt.NDArray[np.int64]:
    """What the library shows there; good until it is called again."""
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (count,))
