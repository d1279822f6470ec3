"""What a trace may cost against its size, so that a few hostile bytes take neither all memory nor the whole day.

Counts, not seconds or bytes of memory: they are the same on every machine. Recorded runs use less than a hundredth;
a megabyte of input takes at most about a minute and a gigabyte. `--budget N` allows N times as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

import pyarrow as pa

from hbtrace.errors import TraceError
from hbtrace.trace.conform import is_list

_TIMES: Final = ContextVar("times", default=1)
_READ: Final = b"hbtrace.read"


class Share(NamedTuple):
    """So many are free, and so many more for each byte of the trace."""

    what: str
    free: int
    a_byte: float


ROWS: Final = Share("rows", 1_000_000, 1)
UNPACKED: Final = Share("bytes when unpacked", 1 << 30, 256)
LISTED: Final = Share("listed ranges and nodes", 4_000_000, 6)
"""Each costs time."""
EVENT: Final = Share("ranges and nodes in one event", 400_000, 0.25)
"""Each of an event costs memory while it is replayed, about a kilobyte."""
VISITED: Final = Share("pieces to be visited", 5_000_000, 5)
"""Pieces of ranges, at each access that must look at them again."""
REPORTED: Final = Share("races to be reported", 400_000, 0.4)
"""Each pair of accesses is a report, about a kilobyte while its batch is told."""
KEPT: Final = Share("pieces that can still race", 250_000, 0.25)

KNOWN: Final = Share("entries of vector clocks", 800_000, 0.4)
"""What queues, threads and events know of each other: the square of their number."""
FOLLOWED: Final = Share("links from views to their roots", 2_000_000, 1)

UNBOUNDED: Final = 1 << 62


@contextmanager
def raised(times: int) -> Iterator[None]:
    """Allow so many times as much."""
    token = _TIMES.set(times)
    try:
        yield
    finally:
        _TIMES.reset(token)


class Budget:
    """What was spent of one trace. `size`: bytes of it, None where nobody counts, as for events in memory."""

    def __init__(self, path: str = "", size: int | None = None) -> None:
        self.path = path
        self.size = size
        self._spent: Counter[Share] = Counter()

    def spend(self, share: Share, count: int) -> None:
        """So many more. Raises TraceError past the budget."""
        self._spent[share] += count
        self.check(share, self._spent[share])

    def left(self, share: Share) -> int:
        """So many more can be spent."""
        return UNBOUNDED if self.size is None else max(0, self._most(share, self.size) - self._spent[share])

    def check(self, share: Share, count: int) -> None:
        """So many at once, or in all. Raises TraceError past the budget."""
        if self.size is None or count <= self._most(share, self.size):
            return
        raise TraceError(
            f"{self.path}: costs too much for its size: {count:,} {share.what} in {self.size:,} bytes of input; "
            "--budget N allows N times as much"
        )

    @staticmethod
    def _most(share: Share, size: int) -> int:
        return int((share.free + share.a_byte * size) * _TIMES.get())

    def marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, which says for `follow` what trace it is of."""
        said = f"{self.size} {self.path}".encode("utf-8", "surrogateescape")
        return batch.replace_schema_metadata({**(batch.schema.metadata or {}), _READ: said})

    def follow(self, batch: pa.RecordBatch) -> None:
        """Go on with a batch of the same trace; a batch of no file costs nothing."""
        size, _, path = (batch.schema.metadata or {}).get(_READ, b"").partition(b" ")
        self.size, self.path = int(size) if size else None, path.decode("utf-8", "surrogateescape")


def listed(batch: pa.RecordBatch) -> int:
    """How many elements the lists of a batch have, those in lists of lists too."""
    return sum(_elements(column) for column in batch.columns)


def _elements(column: pa.Array) -> int:
    kind = column.type
    if pa.types.is_struct(kind):
        return sum(_elements(field) for field in column.flatten())
    if is_list(kind):
        inside = column.flatten()
        return len(inside) + _elements(inside)
    return 0
