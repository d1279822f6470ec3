"""The bytes of a trace: from a file or a pipe, read once from front to back, counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 20
_TAIL: Final = 16


class Input:
    """A readable that lets its head be looked at, knows how far it is, and never allocates what is not there.

    The last is for damaged files: a length field of some petabytes must not become a buffer.
    """

    def __init__(self, stream: BinaryIO, size: int | None) -> None:
        self._stream = stream
        self._ahead = b""
        self.size = size
        """Bytes in all, None for a pipe."""
        self.position = 0
        self.tail = b""
        """The last bytes read: a footer is told by them."""

    def peek(self, count: int) -> bytes:
        """Up to `count` bytes without going on."""
        while len(self._ahead) < count and (more := self._stream.read(count - len(self._ahead))):
            self._ahead += more
        return self._ahead[:count]

    def read(self, count: int = -1) -> bytes:
        if self.size is not None and not 0 <= count <= self.size - self.position:
            count = max(0, self.size - self.position)
        if self.size is not None and not self._ahead:
            data = self._stream.read(count) or b""  # so much is there: one piece, no copy
            if len(data) == count:
                return self._note(data)
            parts = [data]
            count -= len(data)
        else:
            parts = []
        missing = count if count >= 0 else None
        while missing is None or missing > 0:
            part = self._some(_CHUNK if missing is None else min(missing, _CHUNK))
            if not part:
                break
            parts.append(part)
            missing = None if missing is None else missing - len(part)
        return self._note(parts[0] if len(parts) == 1 else b"".join(parts))

    def _note(self, data: bytes) -> bytes:
        self.position += len(data)
        if data:
            self.tail = (self.tail + data[-_TAIL:])[-_TAIL:]
        return data

    def _some(self, count: int) -> bytes:
        if self._ahead:
            part, self._ahead = self._ahead[:count], self._ahead[count:]
            return part
        return self._stream.read(count) or b""

    def rest(self) -> int:
        """How many bytes come after this point; then nothing more can be read, and `tail` is the end's."""
        start = self.position
        if self.size is not None and self.size - start > _CHUNK:
            skipped = self.size - start - _TAIL
            self._stream.seek(skipped - len(self._ahead), os.SEEK_CUR)
            self._ahead = b""
            self.position += skipped
        while self.read(_CHUNK):
            pass
        return self.position - start

    def lines(self) -> Iterator[bytes]:
        """What is left, cut behind each newline."""
        parts: list[bytes] = []
        while block := self.read(_CHUNK):
            *whole, last = block.split(b"\n")
            for line in whole:
                yield b"".join((*parts, line, b"\n")) if parts else line + b"\n"
                parts = []
            if last:
                parts.append(last)
        if parts:
            yield b"".join(parts)

    def window(self) -> tuple[BinaryIO, int, int] | None:
        """The stream, where the input starts in it, and its size: for reading anywhere. None for a pipe."""
        if self.size is None:
            return None
        return self._stream, self._stream.tell() - self.position - len(self._ahead), self.size

    def close(self) -> None:
        self._stream.close()


def size_of(stream: BinaryIO) -> int | None:
    """The size of what `stream` reads, None if it cannot be told."""
    try:
        if stream.seekable():
            here = stream.tell()
            end = stream.seek(0, os.SEEK_END)
            stream.seek(here)
            return end - here
    except (OSError, ValueError):
        pass
    return None
