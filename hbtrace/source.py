"""What a path given to a verb is: a trace, or a log of another program that becomes one or a set of reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hbtrace import importers
from hbtrace.errors import TraceError

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.importers.ggml_sanitize import Reports
    from hbtrace.importers.strata import Settings

_HEAD = 1 << 16
_BATCH_ROWS = 1 << 14


class Source(Protocol):
    """What the verbs need of a trace, wherever it comes from."""

    path: str
    rows: int
    dropped_bytes: int
    warnings: list[str]

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(slots=True)
class ImportedTrace:
    """A foreign log as a trace: its events in batches."""

    path: str
    kind: str
    rows: int = 0
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[pa.RecordBatch]:
        from hbtrace.trace.rows import batch_from_rows

        self.warnings.clear()  # they are told anew whenever it is read
        for rows in _chunks(self._events()):
            self.rows += len(rows)
            yield batch_from_rows(rows)
        self.dropped_bytes = _cut_off(self.kind, [self.path], self.warnings)

    def _events(self) -> Iterator[dict[str, Any]]:
        log = importers.LogFile(self.path)
        if self.kind != importers.STRATA_LOG:
            return importers.foreign_events(self.kind, log)
        from hbtrace.importers.strata import events_of

        return events_of([log], warnings=self.warnings)

    def own_reports(self) -> Reports:
        """The RACE blocks in the log itself."""
        from hbtrace.importers.ggml_sanitize import reports

        return reports(importers.LogFile(self.path))


@dataclass(slots=True)
class StrataCaptures:
    """The captures of one Strata run as a trace, with what no log tells."""

    paths: Sequence[str]
    settings: Settings
    rows: int = 0
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    path: str = ""

    def __post_init__(self) -> None:
        self.path = self.paths[0]

    def batches(self) -> Iterator[pa.RecordBatch]:
        from hbtrace.importers.strata import events_of
        from hbtrace.importers.strata_run import CaptureError
        from hbtrace.trace.rows import batch_from_rows

        self.warnings.clear()
        logs = [importers.LogFile(path) for path in self.paths]
        try:
            for rows in _chunks(events_of(logs, self.settings, self.warnings)):
                self.rows += len(rows)
                yield batch_from_rows(rows)
            self.dropped_bytes = _cut_off(importers.STRATA_LOG, self.paths, self.warnings)
        except OSError as error:
            raise TraceError(f"{error.filename or self.path}: cannot be read: {error.strerror}") from None
        except CaptureError:  # it names the one that is wrong
            raise
        except TraceError as error:
            raise TraceError(f"{', '.join(self.paths)}: {error}") from None


def _cut_off(kind: str, paths: Sequence[str], warnings: list[str]) -> int:
    """Bytes of last lines that were cut off in their middle; each is warned of, as a trace's is."""
    dropped = {path: importers.cut_bytes(kind, path) for path in paths}
    warnings += [f"{path}: the last line is cut off: {count} bytes dropped" for path, count in dropped.items() if count]
    return sum(dropped.values())


def _chunks(events: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(events)
    while chunk := list(islice(iterator, _BATCH_ROWS)):
        yield chunk


class Twice:
    """A source's batches, and the same once more; standard input and pipes go through a temporary file meanwhile."""

    def __init__(self, source: Source) -> None:
        from hbtrace.trace.spool import Spool

        self._path, self._first = source.path, source.batches
        self._spool = None if Path(source.path).is_file() else Spool()

    @property
    def whole(self) -> bool:
        """Whether all could be kept; if not, nothing comes the second time."""
        return self._spool is None or self._spool.whole

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The first time."""
        return self._first() if self._spool is None else self._spool.passing(self._first())

    def again(self) -> Iterator[pa.RecordBatch]:
        """Once the first are through."""
        return open_source(self._path).batches() if self._spool is None else self._spool.again()


def partial(source: Source) -> bool:
    """Whether a part of the trace is missing. An importer warns of what it assumed: nothing is missing for that."""
    return bool(source.dropped_bytes or (source.warnings and not isinstance(source, ImportedTrace | StrataCaptures)))


def holds_trace(path: str) -> bool:
    """Whether a file's first bytes are those of a trace, not of a log; what cannot be read is none."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as stream:
            return _shows_trace(stream.read(_HEAD))
    except (OSError, ValueError):
        return False


def _shows_trace(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"ARROW1", b"\xff\xff\xff\xff", b"{", b"PAR1"))


def foreign_kind(path: str) -> str | None:
    """Which foreign log a file is, by its content; None for a trace, or what cannot be read."""
    try:
        if path == "-" or not Path(path).is_file():
            return None
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError):  # the reader says what is wrong with it
        return None
    if _shows_trace(head):
        return None
    return importers.identify_foreign(importers.LogFile(path))


def pasted_reports(path: str) -> Reports | None:
    """The reports of a log that holds nothing but RACE blocks, as people paste them; None for anything else."""
    if foreign_kind(path) != "ggml-sanitizer-reports":
        return None
    from hbtrace.importers.ggml_sanitize import reports

    return reports(importers.LogFile(path))


def open_source(path: str) -> Source:
    """Open a trace, or a log that becomes one. Raises TraceError in one sentence."""
    kind = foreign_kind(path)
    if kind is not None:
        return ImportedTrace(path, kind)
    from hbtrace.trace.reader import open_trace

    return open_trace(path)
