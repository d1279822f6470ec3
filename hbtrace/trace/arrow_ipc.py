"""Arrow IPC, file and stream format, to canonical batches: read from front to back, up to the damage if there is any.

The file format is a stream between a magic and a footer. Reading it as that stream needs no seeking, works on a pipe,
and survives a missing footer. Only a file that is none between them (Polars') is read by its footer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from hbtrace.errors import TraceError
from hbtrace.trace import vocabulary as v
from hbtrace.trace.arrow_blocks import Blocks
from hbtrace.trace.budget import EVENT, LISTED, ROWS, UNPACKED, Budget, listed
from hbtrace.trace.conform import check_names, conform
from hbtrace.trace.input import Input
from hbtrace.trace.messages import CONTINUATION, FOOTER_END, MAGIC, Damage, Messages
from hbtrace.trace.schema import VERSION_KEY

_FILE_HEAD: Final = 8
_BATCH_ROWS: Final = 1 << 16
_BATCH_ELEMENTS: Final = 250_000


def newer(path: str, version: int) -> TraceError:
    """What is said of a trace of a later version."""
    return TraceError(f"{path}: is a trace of version {version}; this hbtrace reads up to {v.VERSION}: update it")


DAMAGE: Final = (pa.ArrowException, OSError, ValueError, OverflowError, KeyError, IndexError, Damage)
"""What pyarrow raises for malformed input."""


class ArrowIpc:
    """Reads one file or stream. After it ended, `dropped_bytes` is what could not be read."""

    def __init__(self, path: str, stream: Input, budget: Budget) -> None:
        self._path = path
        self._budget = budget
        self._input = stream
        self._is_file = stream.peek(len(MAGIC)) == MAGIC
        self._messages = Messages(stream)
        self.dropped_bytes = 0
        self.warnings: list[str] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in order, at most 65,536 rows each. Raises TraceError if nothing can be read."""
        if self._is_file and not starts_stream(self._input.peek(_FILE_HEAD + 8)[_FILE_HEAD:]):
            return self._by_footer()
        if self._is_file:
            self._input.read(_FILE_HEAD)
        try:
            reader = pa.ipc.open_stream(pa.PythonFile(self._messages, mode="r"))
            wrong = self._wrong_schema(reader.schema)
        except DAMAGE as error:
            if self._is_file and self._input.size is not None:
                return self._by_footer()
            raise self._unreadable(error) from None
        if wrong is not None:
            raise wrong
        return self._in_order(reader)

    def _in_order(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        sound = self._input.position
        unpacked = 0
        while True:
            try:
                batch = reader.read_next_batch()
                self._budget.spend(UNPACKED, self._messages.unpacked - unpacked)
                yield from self._canonical(batch)
            except StopIteration:
                self._check_end(sound)
                return
            except MemoryError:
                raise self._no_memory(sound) from None
            except DAMAGE as error:
                self._damaged(sound, error)
                return
            sound, unpacked = self._input.position, self._messages.unpacked

    def _by_footer(self) -> Iterator[pa.RecordBatch]:
        try:
            blocks = Blocks(self._input)
            wrong = self._wrong_schema(blocks.schema)
        except DAMAGE as error:
            raise self._unreadable(error) from None
        if wrong is not None:
            raise wrong
        try:
            unpacked = 0
            for batch in blocks.batches():
                self._budget.spend(UNPACKED, blocks.unpacked - unpacked)
                unpacked = blocks.unpacked
                yield from self._canonical(batch)
        except MemoryError:
            raise self._no_memory(blocks.sound) from None
        except DAMAGE as error:
            self._drop(blocks.size - blocks.sound, f"is damaged after byte {blocks.sound} ({_short(error)})")

    def _canonical(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch from outside, checked and cut: offsets and indices that point nowhere would crash whoever reads it.
        """
        self._budget.spend(ROWS, batch.num_rows)
        batch.validate(full=True)
        self._budget.spend(LISTED, listed(batch))
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield from map(conform, self._short(batch.slice(start, _BATCH_ROWS)))

    def _short(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut where its rows have long lists: in the canonical form each element takes many times as much."""
        elements = listed(batch)
        if elements <= _BATCH_ELEMENTS:
            yield batch
        elif batch.num_rows == 1:
            self._budget.check(EVENT, elements)
            yield batch
        else:
            half = batch.num_rows // 2
            yield from self._short(batch.slice(0, half))
            yield from self._short(batch.slice(half))

    def _no_memory(self, sound: int) -> TraceError:
        return TraceError(f"{self._path}: not enough memory to read on after byte {sound}")

    def _unreadable(self, error: Exception) -> TraceError:
        end = self._messages.end
        why = {None: _short(error), "data": "it is cut off", "mark": "it is cut off"}.get(end, end)
        return TraceError(f"{self._path}: cannot be read as Arrow IPC: {why}")

    def _wrong_schema(self, schema: pa.Schema) -> TraceError | None:
        wrong = check_names(schema)
        version = (schema.metadata or {}).get(VERSION_KEY, b"")
        if version.isdigit() and int(version[:9]) > v.VERSION:
            return newer(self._path, int(version[:9]))
        return None if wrong is None else TraceError(f"{self._path}: {wrong}")

    def _check_end(self, sound: int) -> None:
        """pyarrow has met the end of the messages; was that the end of the trace?"""
        end = self._messages.end
        if end == "mark":
            at = self._input.position
            rest = self._input.rest()
            footer = self._footer(rest) if self._is_file else not rest
            if not footer:
                self._drop(rest, f"has {'no sound footer' if self._is_file else 'more'} after byte {at}")
        elif end == "data":
            self._drop(self._input.position - sound, "has no end-of-stream mark: it was cut off, or is still written")
        else:
            self._damaged(sound, Damage(end or "it ends within a message"))

    def _footer(self, length: int) -> bool:
        """Whether the last `length` bytes look like a whole footer: its length stands before the magic at its end."""
        tail = self._input.tail
        claimed = int.from_bytes(tail[-FOOTER_END : -len(MAGIC)], "little", signed=True)
        return tail.endswith(MAGIC) and 0 < claimed == length - FOOTER_END

    def _damaged(self, sound: int, error: Exception) -> None:
        """What comes after byte `sound` cannot be read; unless it is the footer of a file without an end mark."""
        read = self._input.position - sound
        lost = read + self._input.rest()
        if self._is_file and self._footer(lost):
            return
        end = self._messages.end
        why = _short(error) if end in (None, "mark", "data") else end
        self._drop(lost, f"is damaged or cut off after byte {sound} ({why})")

    def _drop(self, lost: int, why: str) -> None:
        self.dropped_bytes = lost
        self.warnings.append(f"{self._path}: {why}: {lost} bytes dropped, what came before was read")


def starts_stream(head: bytes) -> bool:
    """Whether an IPC stream may start here: with its mark, or (before Arrow 0.15) with a length and a Flatbuffer."""
    if head.startswith(CONTINUATION):
        return True
    length, root = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
    return len(head) >= 8 and length % 4 == 0 and root % 4 == 0 and 4 <= root < length < 1 << 24


def _short(error: Exception) -> str:
    """The first line of a message, short enough for a sentence."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 160 else line[:157] + "..."
