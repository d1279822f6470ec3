"""Write a trace: `.arrow` (IPC file), `.arrows` (IPC stream), `.jsonl`, or `-` (JSON Lines to standard output).

Everything goes to a part beside the target first (`outfile.py`), flushed batch by batch, and gets its name when it is
whole: what stood there before stays as it was until then. A pipe is written as it comes.

An IPC file needs each dictionary whole before its first batch (Polars and others read no deltas), and what strings
there are is known only at the end. So it is spooled as a stream, and rewritten as a file on closing, batch by batch.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, Self

import orjson
import pyarrow as pa
import pyarrow.ipc

from hbtrace.errors import UsageError
from hbtrace.escape import in_json
from hbtrace.outfile import OutFile, check_free, is_straight
from hbtrace.trace import vocabulary as v
from hbtrace.trace.conform import check_names, conform
from hbtrace.trace.jsontext import dumps_bytes
from hbtrace.trace.rows import batch_from_rows, rows_from_batch
from hbtrace.trace.schema import SCHEMA

_IPC: Final = pa.ipc.IpcWriteOptions(compression="zstd")
"""A trace of 300,000 rows: zstd 1.4 MB, lz4 3.2 MB, at nearly the same speed."""

_BATCH_ROWS: Final = 1 << 16
_MOST_WORDS: Final = 1 << 20
"""A column with more distinct strings is no dictionary in a finished file: its readers hold a dictionary in memory."""


class _Sink(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...
    def finish(self) -> None: ...
    def abandon(self) -> None: ...


class Writer:
    """Takes canonical batches or rows; `rows` counts them.

    As a context manager it finishes the trace, unless the block failed: then nothing is left of it.
    """

    def __init__(self, path: str, sink: _Sink) -> None:
        self.path = path
        self.rows = 0
        self._sink = sink
        self._open = True

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch; it is on its way to the disk as a whole when this returns. Raises UsageError."""
        if not batch.schema.equals(SCHEMA):
            if (wrong := check_names(batch.schema)) is not None:
                raise UsageError(f"{self.path}: a batch to be written {wrong}")
            batch = conform(batch)
        try:
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                self._sink.write(batch.slice(start, _BATCH_ROWS))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self.rows += batch.num_rows

    def write_rows(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows given as JSON has them."""
        if rows:
            self.write_batch(batch_from_rows(rows))

    def close(self) -> None:
        """Finish the trace and give it its name. Raises UsageError; nothing is left of it then."""
        if not self._open:
            return
        self._open = False
        try:
            self._sink.finish()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(self.path, error) from None
        finally:
            self._sink.abandon()

    def discard(self) -> None:
        """Give up: nothing is left of what was written."""
        self._open = False
        self._sink.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def open_writer(path: str | os.PathLike[str], *, force: bool = False) -> Writer:
    """A writer for a path, by its suffix. Raises UsageError: unknown suffix, unwritable, or exists (without force)."""
    path = os.fspath(path)
    check_target(path, force=force)
    makers: dict[str, Callable[[OutFile], _Sink]] = {".arrow": _ArrowFile, ".arrows": _ArrowStream}
    try:
        out = OutFile(path, force=force)
        return Writer(path, makers.get(Path(path).suffix, _JsonLines)(out))
    except OSError as error:
        raise _unwritable(path, error) from None


def check_target(path: str, *, force: bool) -> None:
    """Raises UsageError where `open_writer` would, but for what only writing shows.

    What is written as it comes needs no suffix: without one it is JSON Lines.
    """
    if Path(path).suffix not in v.SUFFIXES and not is_straight(path):
        raise UsageError(f"{path}: name it .arrow (Arrow IPC file), .arrows (Arrow IPC stream) or .jsonl (JSON Lines)")
    check_free(path, force=force)


def write_batches(path: str | os.PathLike[str], batches: Iterable[pa.RecordBatch], *, force: bool = False) -> int:
    """A trace of batches of the canonical schema, whole or not at all; its rows. Raises what `open_writer` does."""
    writer = open_writer(path, force=force)
    try:
        for batch in batches:
            writer.write_batch(batch)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return writer.rows


def _unwritable(path: str, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written: {error.strerror or error}")


class _JsonLines:
    def __init__(self, out: OutFile) -> None:
        self._out = out
        self._stream = out.stream

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.write(in_json(b"".join(_line(row) for row in rows_from_batch(batch))))
        self._stream.flush()

    def finish(self) -> None:
        self._out.keep()

    def abandon(self) -> None:
        self._out.drop()


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer beyond 64 bits
        return dumps_bytes(row) + b"\n"


class _ArrowStream:
    def __init__(self, out: OutFile, spool: BinaryIO | None = None) -> None:
        self._out = out
        self._stream = spool or out.stream
        self._writer = pa.ipc.new_stream(self._stream, SCHEMA, options=_IPC)
        self._stream.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._stream.flush()

    def finish(self) -> None:
        self._writer.close()
        self._out.keep()

    def abandon(self) -> None:
        self._out.drop()  # and not the writer: an end mark would say that the trace is whole


class _ArrowFile(_ArrowStream):
    """Spools a stream, then writes the file with one dictionary a column."""

    def __init__(self, out: OutFile) -> None:
        super().__init__(out, tempfile.TemporaryFile() if out.straight else None)  # noqa: SIM115 - gone with this
        self._codes: dict[str, dict[str, int]] = {key: {} for key in SCHEMA.names if key in v.DICTIONARY_COLUMNS}

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(batch)
        for key, codes in list(self._codes.items()):
            for word in batch.column(key).dictionary.to_pylist():
                codes.setdefault(word, len(codes))
            if len(codes) > _MOST_WORDS:
                del self._codes[key]

    def finish(self) -> None:
        self._writer.close()
        words = {key: pa.array(codes, pa.string()) for key, codes in self._codes.items()}
        schema = SCHEMA
        for index, key in enumerate(SCHEMA.names):
            if key in v.DICTIONARY_COLUMNS and key not in words:
                schema = schema.set(index, pa.field(key, pa.string()))
        finished = self._out if self._out.straight else self._out.another()
        try:
            self._stream.seek(0)
            with pa.ipc.new_file(finished.stream, schema, options=_IPC) as writer:
                for batch in pa.ipc.open_stream(self._stream):
                    writer.write_batch(self._unified(batch, words, schema))
            finished.keep()
        finally:
            finished.drop()

    def _unified(self, batch: pa.RecordBatch, words: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
        arrays = []
        for key, column in zip(schema.names, batch.columns, strict=True):
            if key in words:
                codes = self._codes[key]
                new = pa.array([codes[word] for word in column.dictionary.to_pylist()], pa.int32())
                column = pa.DictionaryArray.from_arrays(new.take(column.indices), words[key])
            elif key in v.DICTIONARY_COLUMNS:
                column = column.dictionary_decode()
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
