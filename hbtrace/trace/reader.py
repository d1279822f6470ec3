"""Open a trace, whatever its encoding: told by its content, read in batches.

    with open_trace("run.arrow") as trace:
        for event in trace:
            print(event["ev"])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from hbtrace.errors import TraceError, UsageError
from hbtrace.trace import vocabulary as v
from hbtrace.trace.arrow_ipc import ArrowIpc, newer, starts_stream
from hbtrace.trace.budget import Budget
from hbtrace.trace.compressed import unpacked
from hbtrace.trace.conform import WrongTypeError
from hbtrace.trace.input import Input, size_of
from hbtrace.trace.jsonl import JsonLines
from hbtrace.trace.jsontext import Unkept
from hbtrace.trace.messages import MAGIC
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.schema import SCHEMA
from hbtrace.trace.wrong_files import may_be_rows, wrong_file

if TYPE_CHECKING:
    import pyarrow as pa

STOPPED: Final = "stopped before the run ended"
"""In the warning of a trace whose recorder says so."""

_FIRST: Final = 1 << 12
"""Bytes that tell most traces; a pipe may be slow to give more."""
_HEAD: Final = 1 << 16


class Trace:
    """One trace. Iterate it for events as dicts, or take `batches()` or `table()`.

    path: as given. format: `jsonl`, `arrow file` or `arrow stream`. rows: delivered so far. dropped_bytes, warnings:
    what could not be read, complete once the trace was read to its end. meta: the `meta` row, empty if there is none.
    What can seek can be read again and again, standard input or a pipe once. A stream that was handed in is not closed.
    """

    def __init__(self, source: str | os.PathLike[str] | BinaryIO, opened: Input | None = None) -> None:
        self._source = source
        self.path = source if isinstance(source, str) else _name(source)
        self._owned = isinstance(source, str | os.PathLike) and self.path != "-"
        self._start = _position(source) if not isinstance(source, str | os.PathLike) else None
        self._taken = opened is not None
        self._input: Input | None = opened or self._open()
        self._reading: Input | None = None
        self.format = self._sniff(self._input)
        self.rows = 0
        self.dropped_bytes = 0
        self.warnings: list[str] = []
        self.meta: dict[str, Any] = {}

    kind = ""
    """No foreign log: what sources of a trace have (`hbtrace.importers.source`)."""

    @property
    def size(self) -> int | None:
        """Bytes of it, None for a pipe; known once it is read."""
        return self._reading.size if self._reading is not None else None

    @property
    def share(self) -> float | None:
        """How much of it was read, from 0 to 1; None where nobody knows."""
        return self._reading.position / self.size if self._reading is not None and self.size else None

    @property
    def partial(self) -> bool:
        """Whether a part of it could not be read; known once it was read."""
        return bool(self.dropped_bytes or self.warnings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._input is not None and self._owned:
            self._input.close()
        self._input = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches of the canonical schema, in order. Raises TraceError for what cannot be read.

        Memory stays bounded: no batch is kept.
        """
        stream, self._input = self._input or self._open(), None
        self._reading = stream
        self.rows = self.dropped_bytes = 0
        self.warnings = []
        budget = Budget(self.path, stream.size or 0)
        jsonl = self.format == "jsonl"
        reader = JsonLines(self.path, stream) if jsonl else ArrowIpc(self.path, stream, budget)
        stopped = ""
        try:
            for batch in reader.batches():
                budget.size = stream.size or stream.position
                if not self.rows:
                    self._first(batch)
                self.rows += batch.num_rows
                stopped = why_stopped(batch) or stopped
                yield budget.marked(batch)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        except (Unkept, WrongTypeError) as error:
            raise TraceError(f"{self.path}: {error}") from None
        finally:
            self.dropped_bytes, self.warnings = reader.dropped_bytes, reader.warnings
            if stopped:
                self.warnings.append(f"{self.path}: the recording {STOPPED} ({stopped}): what came later is not in it")
            if self._owned:
                stream.close()
        if not self.rows:
            lost = "; ".join(warning.removeprefix(f"{self.path}: ") for warning in self.warnings)
            lost = f" ({lost})" if lost else ""
            raise TraceError(f"{self.path}: has no event at all{lost}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from rows_from_batch(batch)

    def table(self) -> pa.Table:
        """The whole trace as one Arrow table; it is held in memory."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), SCHEMA)

    def _open(self) -> Input:
        if self._taken and not self._owned and self._start is None:
            raise UsageError(f"{self.path}: can be read only once")
        if self._taken and self._start is not None:
            self._source.seek(self._start)  # type: ignore[union-attr]  # a stream: it has a start
        self._taken = True
        return open_input(self._source, self.path)

    def _sniff(self, stream: Input) -> str:
        try:
            head = stream.peek(_FIRST)
            if not (starts_stream(head) or (head.startswith(b"{") and may_be_rows(head))):
                head = stream.peek(_HEAD)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {error.strerror}") from None
        if head.startswith(MAGIC):
            return "arrow file"
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
        if not text or (text.startswith(b"{") and (may_be_rows(text) or wrong_file(head, self.path) is None)):
            return "jsonl"
        if starts_stream(head):
            return "arrow stream"
        if found := wrong_file(head, self.path):
            raise TraceError(f"{self.path}: is no trace but {found.what}: {found.step}")
        raise TraceError(f"{self.path}: is no trace: neither Arrow IPC nor JSON Lines (it begins with {text[:16]!r})")

    def _first(self, batch: pa.RecordBatch) -> None:
        if batch.column("ev")[0].as_py() != "meta":
            return
        self.meta = rows_from_batch(batch.slice(0, 1))[0]
        version = self.meta.get("version")
        if type(version) is int and version > v.VERSION:
            raise newer(self.path, version)


def _position(stream: BinaryIO) -> int | None:
    """Where a stream is, if it can be brought back there."""
    try:
        return stream.tell() if stream.seekable() else None
    except (OSError, ValueError):
        return None


def _name(source: os.PathLike[str] | BinaryIO) -> str:
    return os.fspath(source) if isinstance(source, os.PathLike) else str(getattr(source, "name", "<stream>"))


_LONGEST_REASON: Final = 200
"""Characters of it in a warning."""


def open_trace(source: str | os.PathLike[str] | BinaryIO, opened: Input | None = None) -> Trace:
    """Open a trace by path (`-` is standard input) or from a binary stream. Raises TraceError in one sentence.

    opened: what was opened of the source already, nothing of it read.
    """
    return Trace(source, opened)


def open_input(source: str | os.PathLike[str] | BinaryIO, path: str) -> Input:
    """The bytes of a source, unpacked. path: for what goes wrong. Raises TraceError in one sentence."""
    try:
        return unpacked(_packed(source, path), path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None


def _packed(source: str | os.PathLike[str] | BinaryIO, path: str) -> Input:
    if path == "-":
        if sys.stdin is None:  # started with it closed: `<&-`
            raise TraceError("-: cannot be read: standard input is closed")
        return Input(sys.stdin.buffer, None)
    if not isinstance(source, str | os.PathLike):
        return Input(source, size_of(source))
    try:
        stream = open(source, "rb")  # noqa: SIM115 - the Input owns it
    except OSError as error:
        hint = f" (one trace at a time: {path}/*.arrow)" if isinstance(error, IsADirectoryError) else ""
        raise TraceError(f"{path}: cannot be opened: {error.strerror}{hint}") from None
    except ValueError as error:  # a NUL in the name
        raise TraceError(f"{path!r}: cannot be opened: {error}") from None
    return Input(stream, size_of(stream) or None)  # size 0 may be a pipe or a file of /proc


_ENDS: Final = frozenset({"recording_stopped", "recording_ended"})
"""What the notes of a recorder's end are."""


def why_stopped(batch: pa.RecordBatch) -> str:
    """The reason of a recorder's note that it stopped, such as `disk_full`, or the exception that ended what it
    recorded; empty without one."""
    what = batch.column("what")
    if what.null_count == len(what) or _ENDS.isdisjoint(what.dictionary.to_pylist()):
        return ""
    for row, word in enumerate(what.to_pylist()):
        if word in _ENDS:
            (event,) = rows_from_batch(batch.slice(row, 1))
            attrs = event["attrs"] if isinstance(event.get("attrs"), dict) else {}
            if word == "recording_stopped" or "exception" in attrs:
                reason = str(attrs.get("exception", attrs.get("reason", "?")))
                return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 3]}..."
    return ""
