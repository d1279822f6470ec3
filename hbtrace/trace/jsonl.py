"""JSON Lines to canonical batches: an object a line, a line ends with a newline and with nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from hbtrace.errors import TraceError
from hbtrace.trace.input import Input
from hbtrace.trace.rows import batch_from_rows, loads

_BATCH_ROWS: Final = 1 << 14
_BATCH_BYTES: Final = 1 << 23
"""A batch ends here, too: a row can be a graph of thousands of nodes."""

_BLOCK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


class JsonLines:
    """Reads one file. After it ended, `dropped_bytes` is what a cut last line had."""

    def __init__(self, path: str, stream: Input) -> None:
        self._path = path
        self._input = stream
        self.dropped_bytes = 0
        self.warnings: list[str] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in order. Raises TraceError at a line that is no object; rows before it were delivered."""
        rows: list[dict[str, Any]] = []
        size = count = 0
        for number, line, whole in self._lines():
            if not line.strip(b" \t\r"):
                continue
            row = self._parse(number, count, line, whole=whole)
            if row is None:
                break
            rows.append(row)
            count += 1
            size += len(line)
            if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield batch_from_rows(rows)
                rows, size = [], 0
        if rows:
            yield batch_from_rows(rows)

    def _lines(self) -> Iterator[tuple[int, bytes, bool]]:
        """(line number from 1, line without its newline, whether it had one)."""
        if self._input.peek(len(_BOM)) == _BOM:
            self._input.read(len(_BOM))
        number, parts = 0, [b""]
        while block := self._input.read(_BLOCK):
            lines = block.split(b"\n")
            if len(lines) == 1:
                parts.append(block)
                continue
            parts.append(lines[0])
            lines[0] = b"".join(parts)
            parts = [lines.pop()]
            for line in lines:
                number += 1
                yield number, line, True
        if last := b"".join(parts):
            yield number + 1, last, False

    def _parse(self, number: int, row: int, line: bytes, *, whole: bool) -> dict[str, Any] | None:
        """The object on a line; None for a last line that was cut off."""
        try:
            value = loads(line)
        except ValueError as error:
            if not whole:
                self.dropped_bytes = len(line)
                self.warnings.append(f"{self._path}: the last line is cut off: {len(line)} bytes dropped")
                return None
            raise TraceError(f"{self._path}: line {number} (row {row}) is not JSON: {error}") from None
        if type(value) is not dict:
            raise TraceError(f"{self._path}: line {number} (row {row}) is JSON but no object: a row is an object")
        return value
