"""Long runs: how far a reading is, on a terminal only; and Ctrl-C, which ends it early and keeps what was found."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

from hbtrace.cli import interrupt
from hbtrace.cli.output import redraws
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
_SELDOM: Final = 10.0
"""Seconds between two words where a line cannot be written over."""
READING: Final = "reading and replaying"
JUDGING: Final = "second pass, judging"


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
        rows = left = 0
        batches = self._source.batches()
        with _first_ctrl_c_asks():
            for part, behind in self._told(batches, _Line(self._source)):
                rows, left = rows + part.num_rows, behind
                yield part
        if interrupt.asked():
            self.cut = self._cut(rows, left, batches)

    def again(self, source: Source) -> Iterator[pa.RecordBatch]:
        """A second reading, told as such. Ctrl-C ends it as well, and then nothing is known of what it was for."""
        line, asked = _Line(source, JUDGING), interrupt.asked()
        if asked:  # in the first reading: this one goes no further, and another Ctrl-C ends all
            yield from (part for part, _ in self._told(source.batches(), line, heed=False))
            return
        rows = 0
        with _first_ctrl_c_asks():
            for part, _ in self._told(source.batches(), line):
                rows += part.num_rows
                yield part
        if interrupt.asked() and rows < self._source.rows:
            self.cut = f"{self._source.path}: partial: all rows were replayed, what races come to was not judged"

    def _told(
        self, batches: Iterator[pa.RecordBatch], line: _Line, *, heed: bool = True
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Parts of batches, each with the rows of its batch behind it, until Ctrl-C was pressed."""
        rows = 0
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS):
                    part = batch.slice(start, _ROWS)
                    yield part, batch.num_rows - start - part.num_rows
                    rows += part.num_rows
                    line.tell(rows)
                    if heed and interrupt.asked():
                        return
        finally:
            line.clear()

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
    """What says of each distinct race of a long run that it was found, on a terminal only; of those of its first
    second once that is over and another is found or the line of progress is written."""
    _FOUND.clear()
    if not sys.stderr.isatty():
        return None
    start = time.monotonic()

    def tell(report: Report) -> None:
        _FOUND.append(f"found: RACE ({report.kind}) of {report.earlier.root or '-'} in row {report.current.row:,}")
        if time.monotonic() - start >= _PATIENCE:
            _tell_found()

    return tell


_FOUND: Final[list[str]] = []
"""What is to be told of found races: a run that is over within its first second says nothing beside its result."""


def _tell_found() -> None:
    for line in _FOUND:
        print(f"{_BEGIN if redraws() else ''}{harmless(line)}", file=sys.stderr, flush=True)
    _FOUND.clear()


_BEGIN: Final = "\r\x1b[K"
"""The line anew. Only where `redraws()`."""


class _Line:
    """The progress of one reading: rows, and of a file its share and the time left. doing: which pass it is."""

    def __init__(self, source: Source, doing: str = READING) -> None:
        self._source = source
        self._doing = doing
        self._start = time.monotonic()
        self._last = 0.0
        self._told = False

    def tell(self, rows: int) -> None:
        spent = time.monotonic() - self._start
        if spent < _PATIENCE or not sys.stderr.isatty():
            return
        _tell_found()
        words = harmless(self._words(rows, spent))
        if redraws():
            self._told = True
            words = _within(words, get_terminal_size().columns - 1)
            print(f"{_BEGIN}{words}", end="", file=sys.stderr, flush=True)
        elif spent - self._last >= _SELDOM:
            self._last = spent
            print(words, file=sys.stderr, flush=True)

    def _words(self, rows: int, spent: float) -> str:
        words = f"{self._source.path}: {self._doing}: {rows:,} rows"
        share = getattr(self._source, "share", None)
        if not share:
            return words
        full = round(_BAR * share)
        left = round(spent * (1 - share) / share)
        return f"{words} [{'#' * full}{'.' * (_BAR - full)}] {share:.0%}, {left // 60}:{left % 60:02} left"

    def clear(self) -> None:
        if self._told:
            print(_BEGIN, end="", file=sys.stderr, flush=True)


def _within(words: str, width: int) -> str:
    """The end of a line counts more than the path at its begin: one that is broken cannot be written over."""
    return words if len(words) <= width else "..." + words[len(words) - max(width - 3, 0) :]
