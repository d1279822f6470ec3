"""A progress line on a terminal, for what takes over a second; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hbtrace.importers.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE: Final = 1.0
"""Seconds before the first word."""


def watched(source: Source) -> Source:
    """The source, telling its progress on standard error if that is a terminal."""
    return _Telling(source) if sys.stderr.isatty() else source


class _Telling:
    """A source that is seen through."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._path = source.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batches(self) -> Iterator[pa.RecordBatch]:
        start, rows, told = time.monotonic(), 0, False
        for batch in self._source.batches():
            yield batch
            rows += batch.num_rows
            if time.monotonic() - start > _PATIENCE:
                told = True
                print(f"\r{self._path}: {rows:,} rows", end="", file=sys.stderr, flush=True)
        if told:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
