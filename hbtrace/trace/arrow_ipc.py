"""Arrow IPC, file and stream format, to canonical batches: read from front to back, up to the damage if there is any.

The file format is a stream between a magic and a footer. Reading it as that stream needs no seeking, works on a pipe,
and survives a missing footer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from hbtrace.errors import TraceError
from hbtrace.trace import vocabulary as v
from hbtrace.trace.conform import conform
from hbtrace.trace.input import Input
from hbtrace.trace.schema import VERSION_KEY

MAGIC: Final = b"ARROW1"
_FILE_HEAD: Final = 8
_END_MARK: Final = b"\xff\xff\xff\xff\0\0\0\0"
_LEGACY_END_MARK: Final = b"\0\0\0\0"
_BATCH_ROWS: Final = 1 << 16

DAMAGE: Final = (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError)
"""What pyarrow raises for malformed input."""


class ArrowIpc:
    """Reads one file or stream. After it ended, `dropped_bytes` is what could not be read."""

    def __init__(self, path: str, stream: Input) -> None:
        self._path = path
        self._input = stream
        self._is_file = stream.peek(len(MAGIC)) == MAGIC
        self.dropped_bytes = 0
        self.warnings: list[str] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in order, at most 65,536 rows each. Raises TraceError if nothing can be read."""
        if self._is_file:
            self._input.read(_FILE_HEAD)
        reader = self._open()
        sound = self._input.position
        while True:
            try:
                batch = reader.read_next_batch()
                batch.validate(full=True)
                batch = conform(batch)
            except StopIteration:
                self._check_end(sound)
                return
            except DAMAGE as error:
                self._damaged(sound, error)
                return
            sound = self._input.position
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)

    def _open(self) -> pa.RecordBatchReader:
        try:
            reader = pa.ipc.open_stream(pa.PythonFile(self._input, mode="r"))
            schema = reader.schema
            names = set(schema.names)
        except DAMAGE as error:
            raise TraceError(f"{self._path}: cannot be read as Arrow IPC: {_short(error)}") from None
        if "ev" not in names:
            raise TraceError(f"{self._path}: is Arrow, but no trace: it has no column `ev`")
        version = (schema.metadata or {}).get(VERSION_KEY, b"")
        if version.isdigit() and int(version) > v.VERSION:
            raise TraceError(
                f"{self._path}: is a trace of version {int(version)}; this hbtrace reads up to {v.VERSION}: update it"
            )
        return reader

    def _check_end(self, sound: int) -> None:
        """The last batch came whole; was that the end?"""
        marked = self._input.tail == _END_MARK or self._input.tail.endswith(_LEGACY_END_MARK)
        if not marked:
            self._drop(self._input.position - sound + self._input.rest(), "has no end-of-stream mark")
        elif self._is_file:
            rest = self._input.rest()
            if not self._input.tail.endswith(MAGIC) and not self._ends_with_magic():
                self._drop(rest, "has no footer")

    def _ends_with_magic(self) -> bool:
        self._input.rest()
        while self._input.read(1 << 20):
            pass
        return self._input.tail.endswith(MAGIC)

    def _damaged(self, sound: int, error: Exception) -> None:
        lost = self._input.position - sound + self._input.rest()
        self._drop(lost, f"is damaged or cut off after byte {sound} ({_short(error)})")

    def _drop(self, lost: int, why: str) -> None:
        self.dropped_bytes = lost
        self.warnings.append(f"{self._path}: {why}: {lost} bytes dropped, what came before was read")


def _short(error: Exception) -> str:
    """The first line of a message, short enough for a sentence."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 160 else line[:157] + "..."
