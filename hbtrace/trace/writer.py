"""Write a trace: `.arrow` (IPC file), `.arrows` (IPC stream), `.jsonl`, or `-` (JSON Lines to standard output).

Crash-safe: everything goes to `NAME.part` first, flushed batch by batch, and gets its name when it is whole. A crash
leaves a `.part` that every verb reads up to the last whole batch, and what stood at NAME before stays as it was.

An IPC file needs each dictionary whole before its first batch (Polars and others read no deltas), and what strings
there are is known only at the end. So its `.part` is a stream, rewritten as a file on closing, batch by batch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.ipc

from hbtrace.errors import UsageError
from hbtrace.trace import vocabulary as v
from hbtrace.trace.rows import batch_from_rows, dumps, rows_from_batch
from hbtrace.trace.schema import SCHEMA

_IPC: Final = pa.ipc.IpcWriteOptions(compression="zstd")


class _Sink(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...
    def finish(self) -> None: ...


class Writer:
    """Takes canonical batches or rows; `rows` counts them. As a context manager it keeps nothing of a failed write."""

    def __init__(self, path: str, sink: _Sink, part: Path | None) -> None:
        self.path = path
        self.rows = 0
        self._sink = sink
        self._part = part

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch; it is on its way to the disk as a whole when this returns. Raises UsageError."""
        try:
            self._sink.write(batch)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self.rows += batch.num_rows

    def write_rows(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows given as JSON has them."""
        if rows:
            self.write_batch(batch_from_rows(rows))

    def close(self) -> None:
        """Finish the trace and give it its name."""
        try:
            self._sink.finish()
            if self._part is not None:
                self._part.replace(self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        elif self._part is not None:
            self._part.unlink(missing_ok=True)


def open_writer(path: str | os.PathLike[str], *, force: bool = False) -> Writer:
    """A writer for a path, by its suffix. Raises UsageError: unknown suffix, file exists (without force), unwritable."""
    path = os.fspath(path)
    if path == "-":
        return Writer(path, _JsonLines(sys.stdout.buffer), None)
    makers = {".arrow": _ArrowFile, ".arrows": _ArrowStream, ".jsonl": _JsonFile}
    make = makers.get(Path(path).suffix)
    if make is None:
        raise UsageError(f"{path}: name it .arrow (Arrow IPC file), .arrows (Arrow IPC stream) or .jsonl (JSON Lines)")
    if not force and os.path.lexists(path):
        raise UsageError(f"{path} exists; give -f to overwrite it")
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder")
    part = Path(path + ".part")
    try:
        return Writer(path, make(part), part)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: str, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written: {error.strerror or error}")


class _JsonLines:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.write(b"".join(_line(row) for row in rows_from_batch(batch)))
        self._stream.flush()

    def finish(self) -> None:
        self._stream.flush()


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer beyond 64 bits
        return dumps(row).encode() + b"\n"


class _JsonFile(_JsonLines):
    def __init__(self, part: Path) -> None:
        super().__init__(part.open("wb"))

    def finish(self) -> None:
        self._stream.close()


class _ArrowStream:
    def __init__(self, part: Path) -> None:
        self._file = part.open("wb")
        self._writer = pa.ipc.new_stream(self._file, SCHEMA, options=_IPC)
        self._file.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._file.flush()

    def finish(self) -> None:
        self._writer.close()
        self._file.close()


class _ArrowFile:
    """Spools a stream, then writes the file with one dictionary a column."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self._spool = _ArrowStream(part)
        self._codes: dict[str, dict[str | None, int]] = {key: {} for key in v.DICTIONARY_COLUMNS}

    def write(self, batch: pa.RecordBatch) -> None:
        for key, codes in self._codes.items():
            for word in batch.column(key).dictionary.to_pylist():
                codes.setdefault(word, len(codes))
        self._spool.write(batch)

    def finish(self) -> None:
        self._spool.finish()
        words = {key: pa.array(list(codes), pa.string()) for key, codes in self._codes.items()}
        finished = self._part.with_suffix(".finished")
        try:
            with pa.OSFile(str(self._part)) as source, finished.open("wb") as target:
                with pa.ipc.new_file(target, SCHEMA, options=_IPC) as writer:
                    for batch in pa.ipc.open_stream(source):
                        writer.write_batch(self._unified(batch, words))
            finished.replace(self._part)
        finally:
            finished.unlink(missing_ok=True)

    def _unified(self, batch: pa.RecordBatch, words: dict[str, pa.Array]) -> pa.RecordBatch:
        arrays = []
        for key, column in zip(SCHEMA.names, batch.columns, strict=True):
            if key in words:
                codes = self._codes[key]
                new = np.array([codes[word] for word in column.dictionary.to_pylist()], dtype=np.int32)
                indices = column.indices if not len(new) else pa.array(new).take(column.indices)
                column = pa.DictionaryArray.from_arrays(indices, words[key])
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
