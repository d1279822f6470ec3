"""Files that were compressed as a whole, read as what they hold: gzip, xz, Zstandard, told by their first bytes.

What it is: a stream of the bytes inside, of bounded memory and of bounded length. What it is not: Arrow's own
compression, which works inside a file.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Final

from hbtrace.errors import TraceError
from hbtrace.trace.input import Input


def _zstd(stream: io.RawIOBase) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")


_OPENERS: Final[dict[bytes, tuple[str, Callable[[Any], Any]]]] = {
    b"\x1f\x8b": ("gzip", lambda stream: gzip.GzipFile(fileobj=stream)),
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
}
_LONGEST_MAGIC: Final = max(map(len, _OPENERS))

FREE_BYTES: Final = 16 << 20
MOST_RATIO: Final = 100
"""A file may unpack to `FREE_BYTES` and this many times what it has: most logs are packed to a twentieth."""


def is_compressed(head: bytes) -> bool:
    """Whether a file that begins so is one of these."""
    return head.startswith(tuple(_OPENERS))


def unpacked(packed: Input, path: str) -> Input:
    """The bytes inside a compressed input; any other input as it is. path: for what goes wrong."""
    head = packed.peek(_LONGEST_MAGIC)
    for magic, (name, opener) in _OPENERS.items():
        if head.startswith(magic):
            return Input(io.BufferedReader(_Unpacked(packed, path, name, opener), 1 << 16), None)
    return packed


class _Packed(io.RawIOBase):
    """An input as the decompressors want it; counts what they took."""

    def __init__(self, stream: Input) -> None:
        self._stream = stream
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._stream.read(len(target))
        target[: len(data)] = data
        self.taken += len(data)
        return len(data)


class _Unpacked(io.RawIOBase):
    """What is inside. Raises TraceError for what is damaged, cut off, or far larger than any log inside."""

    def __init__(self, packed: Input, path: str, name: str, opener: Callable[[Any], Any]) -> None:
        self._owner = packed
        self._packed = _Packed(packed)
        self._inside: BinaryIO = opener(self._packed)
        self._path, self._name = path, name
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            data = self._inside.read(len(target))
        except EOFError:
            raise TraceError(f"{self._path}: its {self._name} data is cut off") from None
        except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
            raise TraceError(f"{self._path}: its {self._name} data is damaged: {error}") from None
        target[: len(data)] = data
        self._given += len(data)
        if self._given > FREE_BYTES + MOST_RATIO * self._packed.taken:
            raise TraceError(
                f"{self._path}: its {self._name} data unpacks to more than {MOST_RATIO} times its size: unpack it to a"
                " file first if it is meant to"
            )
        return len(data)

    def close(self) -> None:
        self._owner.close()
        super().close()
