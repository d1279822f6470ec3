"""The compiled kernel as a `Kernel`: the same doors, the same answers, from the library."""

from __future__ import annotations

import ctypes
import weakref
from typing import Final

from hbtrace.compiled.library import the_library
from hbtrace.replay.kernel import UNBOUNDED, Hit
from hbtrace.replay.passing import chunk, demand, integers
from hbtrace.replay.program import Program

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
        demand(self._library.hb_kernel_run(self._kernel, *chunk(program), visits, races))
        found = self._library.hb_kernel_hit_count(self._kernel)
        if not found:
            return []
        flat = integers(self._library.hb_kernel_hits(self._kernel), found * _WIDTH).reshape(-1, _WIDTH)
        hits = list(map(Hit._make, flat.tolist()))
        if flat[:, -1].min() < 0:  # unsigned, so as many as that
            hits = [hit if hit.bytes >= 0 else hit._replace(bytes=hit.bytes + 2 * _HALF) for hit in hits]
        return hits

    def remembered(self) -> set[int]:
        """The rows whose accesses can still be met. Forgets what cannot."""
        demand(self._library.hb_kernel_remember(self._kernel))
        count = self._library.hb_kernel_row_count(self._kernel)
        return set(integers(self._library.hb_kernel_rows(self._kernel), count).tolist()) if count else set()
