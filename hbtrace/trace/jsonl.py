"""JSON Lines to canonical batches: an object a line, a line ends with a newline and with nothing else.

Works on blocks of many lines; only a block that something is wrong with is gone through line by line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa

from hbtrace.errors import TraceError
from hbtrace.trace.input import Input
from hbtrace.trace.jsontext import Unkept, has_long_number, loads
from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.wrong_files import UNDECODED

_BATCH_ROWS: Final = 1 << 14
_BATCH_BYTES: Final = 1 << 23
"""A batch ends here, too: a row can be a graph of thousands of nodes."""

_BLOCK: Final = 1 << 20
_LONGEST_LINE: Final = 1 << 27
"""More than a graph of half a million nodes. A line is parsed as a whole: memory is bounded by this."""

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r"
"""What is white in JSON; a line of form feeds is a wrong one."""
_HALVES: Final = re.compile("[\ud800-\udfff]")
_TOLD: Final = 200
"""Bytes of a line that cannot be decoded which its row keeps."""


class JsonLines:
    """Reads one file. After it ended, `dropped_bytes` is what a cut last line had."""

    def __init__(self, path: str, stream: Input) -> None:
        self._path = path
        self._input = stream
        self._lines = 0
        self._rows = 0
        self.dropped_bytes = 0
        self.warnings: list[str] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches in order. Raises TraceError at a line that is no object, when the rows before it were delivered."""
        rows: list[dict[str, Any]] = []
        size = 0
        for block, whole in self._blocks():
            found, error = self._parse(block, whole=whole)
            rows += found
            size += len(block)
            while len(rows) >= _BATCH_ROWS or (rows and (size >= _BATCH_BYTES or error)):
                yield self._batch(rows[:_BATCH_ROWS], len(rows))
                rows, size = rows[_BATCH_ROWS:], 0
            if error:
                raise error
        if rows:
            yield self._batch(rows, len(rows))

    def _batch(self, rows: list[dict[str, Any]], left: int) -> pa.RecordBatch:
        """The next rows. left: how many of all that were parsed are not delivered yet."""
        try:
            return batch_from_rows(rows)
        except Unkept:
            for row, value in enumerate(rows, self._rows - left):
                try:
                    batch_from_rows([value])
                except Unkept as error:
                    raise Unkept(f"row {row}: {error}") from None
            raise

    def _blocks(self) -> Iterator[tuple[bytes, bool]]:
        """Whole lines, many at a time and without the last newline; and at the end, False, a line that has none."""
        if self._input.peek(len(_BOM)) == _BOM:
            self._input.read(len(_BOM))
        parts: list[bytes] = []
        pending = 0
        while block := self._input.read(_BLOCK):
            end = block.rfind(b"\n")
            if end >= 0:
                lines = b"".join((*parts, block[:end]))
                parts, pending = [], 0
                yield lines, True
                del lines  # one of many megabytes is not held while the next is read
            parts.append(block[end + 1 :])
            pending += len(parts[-1])
            if pending > _LONGEST_LINE:
                raise TraceError(f"{self._path}: line {self._lines + 1} is longer than {_LONGEST_LINE >> 20} MiB")
        if last := b"".join(parts):
            yield last, False

    def _parse(self, block: bytes, *, whole: bool) -> tuple[list[dict[str, Any]], TraceError | None]:
        """The objects of a block up to the first line that is none, and what is wrong with that."""
        lines = block.split(b"\n")
        try:
            rows = list(map(orjson.loads, filter(None, lines)))
        except ValueError:
            return self._parse_slowly(lines, whole=whole)
        if set(map(type, rows)) - {dict} or has_long_number(block):
            return self._parse_slowly(lines, whole=whole)
        self._lines += len(lines)
        self._rows += len(rows)
        return rows, None

    def _parse_slowly(self, lines: list[bytes], *, whole: bool) -> tuple[list[dict[str, Any]], TraceError | None]:
        rows: list[dict[str, Any]] = []
        for line in lines:
            self._lines += 1
            if not line.strip(_BLANK):
                continue
            try:
                value = loads(line)
            except ValueError as error:
                if (value := _undecoded(line)) is not None:
                    rows.append(value)
                    self._rows += 1
                    continue
                if not whole:
                    self.dropped_bytes = len(line)
                    self.warnings.append(f"{self._path}: the last line is cut off: {len(line)} bytes dropped")
                    break
                return rows, self._wrong(f"is not JSON: {error}")
            if type(value) is not dict:
                return rows, self._wrong("is JSON but no object: a row is an object")
            rows.append(value)
            self._rows += 1
        return rows, None

    def _wrong(self, what: str) -> TraceError:
        return TraceError(f"{self._path}: line {self._lines} (row {self._rows}) {what}")


def _undecoded(line: bytes) -> dict[str, Any] | None:
    """A row in the place of an object whose strings are no text: half a surrogate pair, or bytes that are no UTF-8."""
    try:
        value = json.loads(line.decode("utf-8", "surrogateescape"))
        halved = _HALVES.search(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    if halved is None or type(value) is not dict:  # what is wrong with it is something else
        return None
    return {UNDECODED: line[:_TOLD].decode("utf-8", "backslashreplace")}
