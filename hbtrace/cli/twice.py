"""A trace for the verbs that read it twice; standard input and pipes are kept in a temporary file meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hbtrace.errors import TraceError

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.source import Source


def opened_twice(trace: str) -> tuple[Source, Callable[[], Iterator[pa.RecordBatch]]]:
    """The trace, and its batches once more after they have been read. Raises TraceError if it cannot be read."""
    from hbtrace.source import open_source

    source = open_source(trace)
    if Path(trace).is_file():
        return source, lambda: open_source(trace).batches()
    from hbtrace.trace.spool import Spool

    spool, batches = Spool(), source.batches

    def again() -> Iterator[pa.RecordBatch]:
        if not spool.whole:
            raise TraceError(f"{trace}: no room to keep it for a second reading: save it to a file first")
        return spool.again()

    source.batches = lambda: spool.passing(batches())  # type: ignore[method-assign]
    return source, again
