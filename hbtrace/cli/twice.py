"""A trace for the verbs that read it twice; standard input and pipes are kept in a temporary file meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hbtrace.errors import TraceError

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.source import Source


def opened_twice(trace: str) -> tuple[Source, Callable[[], Iterator[pa.RecordBatch]]]:
    """The trace, and its batches once more after they have been read. Raises TraceError if it cannot be read."""
    from hbtrace.source import Twice, open_source

    source = open_source(trace)
    twice = Twice(source)

    def again() -> Iterator[pa.RecordBatch]:
        if not twice.whole:
            raise TraceError(f"{trace}: no room to keep it for a second reading: save it to a file first")
        return twice.again()

    source.batches = twice.batches  # type: ignore[method-assign]
    return source, again
