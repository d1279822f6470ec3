"""Long runs: how far a reading is, on a terminal only; and Ctrl-C, which ends it early and keeps what was found."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hbtrace.cli import interrupt
from hbtrace.escape import harmless
from hbtrace.importers.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.replay.reports import Report

_PATIENCE: Final = 1.0
"""Seconds before the first word."""
_ROWS: Final = 1 << 14
"""Rows between two looks at Ctrl-C and at the clock."""
_BAR: Final = 24


def watched(source: Source) -> Source:
    """The source, telling its progress on standard error if that is a terminal; Ctrl-C ends it behind a batch."""
    return _Watched(source)


class _Watched:
    """A source that is seen through. Ended early it is `partial`, and `cut`, a warning, says how much was read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.cut = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    @property
    def partial(self) -> bool:
        return bool(self.cut) or self._source.partial

    @property
    def warnings(self) -> list[str]:
        return [self.cut, *self._source.warnings] if self.cut else self._source.warnings

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows, line = 0, _Line(self._source)
        batches = self._source.batches()
        with _first_ctrl_c_asks():
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    yield (part := batch.slice(start, _ROWS))
                    rows += part.num_rows
                    line.tell(rows)
                    if interrupt.asked():
                        break
                if interrupt.asked():
                    break
        line.clear()
        if interrupt.asked():
            self.cut = self._cut(rows, batch.num_rows - min(batch.num_rows, start + _ROWS), batches)

    def _cut(self, rows: int, left: int, batches: Iterator[pa.RecordBatch]) -> str:
        """How much was read, empty for all. The rest of a file is counted, that of a pipe may never end."""
        if getattr(self._source, "size", None) is None:
            return f"{self._source.path}: partial: {rows:,} of an unknown number of rows"
        left += sum(batch.num_rows for batch in batches)
        return f"{self._source.path}: partial: {rows:,} of {rows + left:,} rows" if left else ""


@contextmanager
def _first_ctrl_c_asks() -> Iterator[None]:
    """While a trace is read: a second one ends at once, with nothing."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return

    def ask(*_: object) -> None:
        interrupt.ask()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def tell_races() -> Callable[[Report], None] | None:
    """What says of each distinct race of a long run that it was found, on a terminal only."""
    if not sys.stderr.isatty():
        return None
    start = time.monotonic()

    def tell(report: Report) -> None:
        if time.monotonic() - start >= _PATIENCE:
            line = f"found: RACE ({report.kind}) of {report.earlier.root or '-'} in row {report.current.row:,}"
            print(f"\r\x1b[K{harmless(line)}", file=sys.stderr, flush=True)

    return tell


class _Line:
    """The progress of one reading: rows, and of a file its share and the time left."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = time.monotonic()
        self._told = False

    def tell(self, rows: int) -> None:
        spent = time.monotonic() - self._start
        if spent < _PATIENCE or not sys.stderr.isatty():
            return
        self._told = True
        print(f"\r\x1b[K{self._words(rows, spent)}", end="", file=sys.stderr, flush=True)

    def _words(self, rows: int, spent: float) -> str:
        words = f"{self._source.path}: reading and replaying: {rows:,} rows"
        share = getattr(self._source, "share", None)
        if not share:
            return words
        full = round(_BAR * share)
        left = round(spent * (1 - share) / share)
        return f"{words} [{'#' * full}{'.' * (_BAR - full)}] {share:.0%}, {left // 60}:{left % 60:02} left"

    def clear(self) -> None:
        if self._told:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
