"""The messages of an Arrow IPC stream, looked at before pyarrow sees them.

pyarrow trusts what a message says of its own size: a few bytes of a damaged file make it allocate terabytes, or unpack
gigabytes of zeros. So this stands between the file and pyarrow: it reads message by message, holds every length against
what is there, and ends the stream where one does not hold. It decodes no value; of the metadata (a Flatbuffer) it reads
only the numbers that say how large something is. Source: the Arrow columnar format, `Message.fbs`.
"""

from __future__ import annotations

import io
import struct
from typing import Final

from hbtrace.trace.input import Input

MAGIC: Final = b"ARROW1"
"""A file begins and ends with it; before the one at its end stands the length of its footer."""
FOOTER_END: Final = 4 + len(MAGIC)
CONTINUATION: Final = b"\xff\xff\xff\xff"
"""What a message begins with, since Arrow 0.15."""
_LONGEST_METADATA: Final = 1 << 26
_DICTIONARY: Final = 2
_RECORDS: Final = 3

_UNPACKED_FREE: Final = 1 << 26
_UNPACKED_RATIO: Final = 1 << 12
_UNPACKED_MOST: Final = 1 << 28
_UNPACKED_DENSE: Final = 1 << 8
"""What a message may unpack to: 64 MiB and 4,096 times its size, as far as 256 MiB; or 256 times its size. Columns that
are all null pack better than anything else does, but where a trace is large there are values among them."""

_ROWS_FREE: Final = 1 << 16
_ROWS_A_BYTE: Final = 8


class Damage(Exception):  # noqa: N818 - what is wrong with a message, not with the program
    """One clause that says what."""


class Messages(io.RawIOBase):
    """A readable for `pa.ipc.open_stream`. Ends where the stream ends or the damage begins; `end` says which.

    end: `mark` (end-of-stream mark), `data` (nothing more, no mark), or what the damage is; None while there is more.
    """

    def __init__(self, stream: Input) -> None:
        self._input = stream
        self._parts: list[bytes] = []
        self.end: str | None = None
        self.unpacked = 0
        """What the messages so far unpack to."""

    def readable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        """Up to `count` bytes. One message is asked for in several reads, its body in one."""
        if not self._parts and self.end is None:
            try:
                self._parts = [part for part in self._message() if part]
            except Damage as damage:
                self.end = str(damage)
        if not self._parts:
            return b""
        head = self._parts.pop(0)
        if 0 <= count < len(head):
            self._parts.insert(0, head[count:])
            return head[:count]
        while self._parts and (count < 0 or count > len(head)):  # a reader that asks for more than one part
            more = self._parts.pop(0)
            take = len(more) if count < 0 else count - len(head)
            head += more[:take]
            if more[take:]:
                self._parts.insert(0, more[take:])
        return head

    def _message(self) -> tuple[bytes, ...]:
        """The next message in parts: length prefix, metadata, body; or the end mark."""
        prefix = self._input.read(4)
        if not prefix:
            self.end = "data"
            return ()
        length_bytes = self._exactly(4) if prefix == CONTINUATION else prefix
        if len(length_bytes) < 4:
            raise Damage("it is cut off")
        (length,) = struct.unpack("<i", length_bytes)
        if length == 0:
            self.end = "mark"
            return (prefix, length_bytes) if prefix == CONTINUATION else (prefix,)
        if not 8 <= length <= _LONGEST_METADATA:
            raise Damage(f"a message claims {length} bytes of metadata")
        metadata = self._exactly(length)
        sizes = Sizes(metadata)
        body = self._exactly(sizes.body) if sizes.body else b""
        self.unpacked += sizes.check(body)
        return (prefix, length_bytes, metadata, body) if prefix == CONTINUATION else (prefix, metadata, body)

    def _exactly(self, count: int) -> bytes:
        data = self._input.read(count)
        if len(data) < count:
            raise Damage("it is cut off")
        return data


class Flatbuffer:
    """Reads numbers of a Flatbuffer, each held against its bounds. Raises Damage, or struct.error."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def _number(self, format_: str, at: int) -> int:
        if at < 0:
            raise Damage("its metadata is damaged")
        value: int = struct.unpack_from(format_, self._data, at)[0]
        return value

    def _field(self, table: int, number: int) -> int:
        """Where a table's field is, 0 if it has its default."""
        vtable = table - self._number("<i", table)
        entry = 4 + 2 * number
        if entry + 2 > self._number("<H", vtable):
            return 0
        offset = self._number("<H", vtable + entry)
        return table + offset if offset else 0

    def _scalar(self, table: int, number: int, format_: str) -> int:
        at = self._field(table, number)
        return self._number(format_, at) if at else 0

    def _table(self, table: int, number: int) -> int:
        at = self._field(table, number)
        if not at:
            raise Damage("its metadata is damaged")
        return at + self._number("<I", at)

    def _structs(self, table: int, number: int, format_: str) -> list[tuple[int, ...]]:
        """A vector of structs."""
        at = self._field(table, number)
        if not at:
            return []
        start = at + self._number("<I", at)
        count = self._number("<I", start)
        size = count * struct.calcsize(format_)
        if size > len(self._data) - start - 4:
            raise Damage("its metadata is damaged")
        return list(struct.iter_unpack(format_, self._data[start + 4 : start + 4 + size]))


class Sizes(Flatbuffer):
    """The numbers in a message's metadata that say how large something is. Raises Damage where they cannot be read."""

    def __init__(self, metadata: bytes) -> None:
        super().__init__(metadata)
        try:
            self._read()
        except struct.error:
            raise Damage("its metadata is damaged") from None

    def _read(self) -> None:
        message = self._number("<I", 0)
        self.kind = self._scalar(message, 1, "<B")
        self.body = self._scalar(message, 3, "<q")
        self._nodes: list[tuple[int, ...]] = []
        self._buffers: list[tuple[int, ...]] = []
        self._packed = False
        self._rows = 0
        if self.body < 0:
            raise Damage(f"a message claims {self.body} bytes")
        if self.kind not in (_DICTIONARY, _RECORDS):
            return
        batch = self._table(message, 2)
        if self.kind == _DICTIONARY:
            batch = self._table(batch, 1)
        self._rows = self._scalar(batch, 0, "<q")
        self._nodes = self._structs(batch, 1, "<qq")
        self._buffers = self._structs(batch, 2, "<qq")
        self._packed = bool(self._field(batch, 3))

    def check(self, body: bytes) -> int:
        """Hold the numbers against the body; what it unpacks to. Raises Damage."""
        total = 0
        for offset, length in self._buffers:
            if offset < 0 or length < 0 or offset + length > len(body):
                raise Damage("a buffer lies outside its message")
            if self._packed and length:
                if length < 8:
                    raise Damage("a compressed buffer is too short")
                (unpacked,) = struct.unpack_from("<q", body, offset)
                if unpacked < -1:
                    raise Damage(f"a compressed buffer claims {unpacked} bytes")
                length = length - 8 if unpacked == -1 else unpacked
            total += length
        size = len(body)
        if total > max(min(_UNPACKED_FREE + _UNPACKED_RATIO * size, _UNPACKED_MOST), _UNPACKED_DENSE * size):
            raise Damage(f"{size} bytes claim to unpack to {total}")
        most = max([self._rows, *(length for length, _ in self._nodes)])
        if self._rows < 0 or most > _ROWS_FREE + _ROWS_A_BYTE * total:
            raise Damage(f"{total} bytes claim to hold {most} values")
        return total


class Footer(Flatbuffer):
    """Where an IPC file has its messages: (offset, bytes of metadata, bytes of body) of each."""

    def __init__(self, footer: bytes) -> None:
        super().__init__(footer)
        try:
            table = self._number("<I", 0)
            self.dictionaries = self._structs(table, 2, "<qi4xq")
            self.batches = self._structs(table, 3, "<qi4xq")
        except struct.error:
            raise Damage("its footer is damaged") from None
