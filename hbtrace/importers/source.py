"""What a path given to a verb is: a trace, or a log of another program that becomes one or a set of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

from hbtrace import importers
from hbtrace.errors import TraceError
from hbtrace.importers import LogFile
from hbtrace.importers.wrapped import wraps_rows
from hbtrace.trace.vocabulary import EventRow

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.importers.logged import LoggedReports

_BATCH_ROWS = 1 << 14
_DECIDES = 1 << 15
"""Bytes that tell a trace from a wrapped log, whose lines hold at most 16 KiB: a pipe may be slow to give more."""
_KEPT_BYTES = 1 << 25
"""Of batches that are kept for another reading; decoding them again would cost more than these."""


class Source(Protocol):
    """What the verbs need of a trace, wherever it comes from. What it says of itself is complete when it was read."""

    @property
    def path(self) -> str: ...

    @property
    def kind(self) -> str:
        """Which foreign log it is, empty for a trace."""

    @property
    def rows(self) -> int: ...

    @property
    def dropped_bytes(self) -> int: ...

    @property
    def warnings(self) -> list[str]: ...

    @property
    def partial(self) -> bool:
        """Whether a part of it is missing."""

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(slots=True)
class ImportedTrace:
    """A foreign log as a trace: its events in batches."""

    log: LogFile
    kind: str
    rows: int = 0
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.log.path

    @property
    def partial(self) -> bool:
        """An importer warns of what it assumed: nothing is missing for that."""
        return self.dropped_bytes > 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        from hbtrace.trace.rows import batch_from_rows

        self.warnings.clear()  # they are told anew whenever it is read
        self.rows = 0
        for rows in chunks(importers.foreign_events(self.kind, self.log, self.warnings)):
            self.rows += len(rows)
            yield batch_from_rows(rows)
        self.dropped_bytes = cut_off(self.kind, [self.log], self.warnings)

    def own_reports(self) -> LoggedReports:
        """The RACE blocks in the log itself."""
        from hbtrace.importers.ggml_sanitize import reports

        return reports(self.log)


@dataclass(slots=True)
class ReportLog:
    """A log that holds reports of races, or says that there were none, and no accesses beside them: no trace."""

    log: LogFile
    kind: str
    rows: int = 0
    """Lines."""
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    partial: bool = False

    @property
    def path(self) -> str:
        return self.log.path

    def batches(self) -> Iterator[pa.RecordBatch]:
        raise TraceError(
            f"{self.path}: holds {importers.REPORTS[self.kind]} and no accesses, so nothing can be replayed: `hbtrace"
            f" triage -v {quote(self.path)}` tells what there is to tell"
        )


def cut_off(kind: str, logs: Sequence[LogFile], warnings: list[str]) -> int:
    """Bytes of last lines that were cut off in their middle; each is warned of, as a trace's is."""
    dropped = {log.path: importers.cut_bytes(kind, log) for log in logs}
    warnings += [f"{path}: the last line is cut off: {count} bytes dropped" for path, count in dropped.items() if count]
    return sum(dropped.values())


def chunks(events: Iterable[EventRow]) -> Iterator[list[EventRow]]:
    iterator = iter(events)
    while chunk := list(islice(iterator, _BATCH_ROWS)):
        yield chunk


class Rereadable:
    """A source whose batches can be had again and again.

    What is small is kept, a file is read anew, and what comes from a pipe goes through a temporary file meanwhile.
    whole: all that passed could be kept; if not, it cannot be read again. What the source says of itself is that of its
    first reading.
    """

    def __init__(self, source: Source, *, keep: bool = True) -> None:
        from hbtrace.trace.spool import Spool

        if source.kind in importers.REPORTS:
            next(source.batches(), None)  # raises: there is nothing to read once, either
        self._source = source
        self._kept: list[pa.RecordBatch] | None = [] if keep else None
        self._spool = None if Path(source.path).is_file() else Spool()
        self._read = False
        self._rows = 0

    path = property(lambda self: self._source.path)
    kind = property(lambda self: self._source.kind)
    rows = property(lambda self: self._source.rows)
    dropped_bytes = property(lambda self: self._source.dropped_bytes)
    warnings = property(lambda self: self._source.warnings)
    partial = property(lambda self: self._source.partial)

    @property
    def whole(self) -> bool:
        return self._spool is None or self._spool.whole

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Once the first reading is through, the same again. Raises TraceError where there was no room to keep it."""
        if not self._read:
            return self._first()
        if self._kept is not None:
            return iter(self._kept)
        if self._spool is None:
            return self._as_far(self._seen(open_source(self.path)))
        if not self.whole:
            raise TraceError(f"{self.path}: no room to keep it for a second reading: save it to a file first")
        return self._spool.again()

    def _seen(self, source: Source) -> Iterator[pa.RecordBatch]:
        """Another reading, seen by whoever looks at the first one."""
        again: Callable[[Source], Iterator[pa.RecordBatch]] | None = getattr(self._source, "again", None)
        return source.batches() if again is None else again(source)

    def _as_far(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """No further than the first reading went, which may have been ended early."""
        left = self._rows
        for batch in batches:
            if not left:
                return
            yield (part := batch.slice(0, left))
            left -= part.num_rows

    def _first(self) -> Iterator[pa.RecordBatch]:
        batches, held = self._source.batches(), 0
        for batch in batches if self._spool is None else self._spool.passing(batches):
            held += batch.nbytes
            self._rows += batch.num_rows
            if held > _KEPT_BYTES:
                self._kept = None
            elif self._kept is not None:
                self._kept.append(batch)
            yield batch
        self._read = True


def holds_trace(path: str) -> bool:
    """Whether a file's first bytes are those of a trace, not of a log; what cannot be read is none."""
    log = _log_file(path)
    return log is not None and _shows_trace(log.head)


def _shows_trace(head: bytes) -> bool:
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    return begin.startswith((b"ARROW1", b"\xff\xff\xff\xff", b"{", b"PAR1")) and not wraps_rows(head)


def _log_file(path: str) -> LogFile | None:
    """A file by its path; None for what cannot be opened: whoever opens it for its events says what is wrong."""
    try:
        return LogFile(path) if path != "-" and Path(path).is_file() else None
    except (OSError, ValueError, TraceError):
        return None


def foreign_kind(path: str) -> str | None:
    """Which foreign log a file is, by its content; None for a trace, or what cannot be read."""
    log = _log_file(path)
    return None if log is None or _shows_trace(log.head) else importers.identify_foreign(log)


def open_source(path: str) -> Source:
    """Open a trace, or a log that becomes one, or one that holds only reports. Raises TraceError in one sentence."""
    from hbtrace.trace.reader import open_input, open_trace

    log = _log_file(path)
    piped = log is None
    if log is None:
        opened = open_input(path, path)
        if _shows_trace(opened.peek(_DECIDES)):
            return open_trace(path, opened)
        log = LogFile(path, opened)
    if not _shows_trace(log.head) and (kind := importers.identify_foreign(log)) is not None:
        return ReportLog(log, kind) if kind in importers.REPORTS else ImportedTrace(log, kind)
    return open_trace(path, log.again() if piped else None)
