"""An Arrow IPC file read by its footer, block by block.

Needed only where the file is no stream between magic and footer: Polars writes none of its schema but in the footer.
What the footer says is held against the file before pyarrow follows it, as `messages.py` does for streams.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.ipc

from hbtrace.trace.input import Input
from hbtrace.trace.messages import CONTINUATION, FOOTER_END, MAGIC, Damage, Footer, Sizes

_COPY: Final = 1 << 20


class Window(io.RawIOBase):
    """A part of a seekable stream, as a file of its own; closing it leaves the stream open."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        self._stream = stream
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        self._stream.seek(self._start + self._at)
        data = self._stream.read(left if count < 0 else min(count, left)) or b""
        self._at += len(data)
        return data

    def piece(self, offset: int, count: int) -> bytes:
        """Exactly these bytes. Raises Damage where there are none."""
        if offset < 0 or count < 0 or offset + count > self._size:
            raise Damage("its footer points outside the file")
        self.seek(offset)
        data = self.read(count)
        if len(data) < count:
            raise Damage("it is cut off")
        return data


class Blocks:
    """The batches of a file with a footer. Raises Damage or what pyarrow raises.

    `sound` is where the last batch that was read ends.
    """

    def __init__(self, stream: Input) -> None:
        self.sound = self.unpacked = 0
        self._window, self.size = _window(stream)
        tail = self._window.piece(self.size - FOOTER_END, FOOTER_END) if self.size > FOOTER_END else b""
        length = int.from_bytes(tail[:4], "little", signed=True)
        if not tail.endswith(MAGIC) or length <= 0:
            raise Damage("it has neither a schema nor a footer")
        self._footer = Footer(self._window.piece(self.size - FOOTER_END - length, length))
        self._reader: pa.ipc.RecordBatchFileReader = pa.ipc.open_file(pa.PythonFile(self._window, mode="r"))
        self.schema: pa.Schema = self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        for block in self._footer.dictionaries:
            self._check(block)
        for index, block in enumerate(self._footer.batches):
            self._check(block)
            yield self._reader.get_batch(index)
            self.sound = max(self.sound, block[0] + block[1] + block[2])

    def _check(self, block: tuple[int, ...]) -> None:
        offset, metadata_size, body_size = block
        metadata = self._window.piece(offset, metadata_size)
        sizes = Sizes(metadata[8 if metadata.startswith(CONTINUATION) else 4 :])
        if sizes.body != body_size:
            raise Damage("its footer and its messages do not agree")
        self.unpacked += sizes.check(self._window.piece(offset + metadata_size, body_size))


def _window(stream: Input) -> tuple[Window, int]:
    """The whole input as something that can be sought in; a pipe goes through a temporary file."""
    if (found := stream.window()) is not None:
        return Window(*found), found[2]
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the window
    while part := stream.read(_COPY):
        copy.write(part)
    return Window(copy, 0, copy.tell()), copy.tell()
