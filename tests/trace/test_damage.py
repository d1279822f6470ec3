"""Damaged Arrow: what came before the damage is read and the rest is counted, or one sentence says why not."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hbtrace.errors import TraceError
from hbtrace.trace.rows import batch_from_rows, rows_from_batch
from tests.trace.samples import ROWS, from_bytes, ipc_bytes, same, write

EOS = b"\xff\xff\xff\xff\0\0\0\0"
NARROW = pa.schema([("ev", pa.string()), ("backend", pa.int64())])
EVENTS = [{"ev": "synchronize", "backend": k} for k in range(6)]


def narrow(*, stream: bool, compression: str | None = None) -> bytes:
    """Three batches of two rows in few columns, so that every byte of the file can be tried."""
    return ipc_bytes(pa.Table.from_pylist(EVENTS, NARROW), stream=stream, compression=compression, chunk=2)


def dictionaries(*, stream: bool) -> bytes:
    """As written by hbtrace: dictionary columns, and lists of structs."""
    batches = [batch_from_rows(ROWS[:4]).select(["ev", "name", "ne", "extra"]) for _ in range(2)]
    return ipc_bytes(pa.Table.from_batches(batches), stream=stream)


def read_prefix(data: bytes, whole: list[dict[str, Any]]) -> tuple[int, bool]:
    """How many rows were read and whether a warning tells of a loss. Fails unless they are a prefix of the whole."""
    rows: list[dict[str, Any]] = []
    try:
        trace = from_bytes(data)
        for batch in trace.batches():
            batch.validate(full=True)
            rows += rows_from_batch(batch)
    except TraceError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert not rows
        return 0, True
    assert same(rows, whole[: len(rows)])
    assert 0 <= trace.dropped_bytes <= len(data)
    return len(rows), bool(trace.warnings)


@pytest.mark.parametrize("stream", [False, True])
def test_cut_at_every_byte(stream: bool) -> None:
    data = narrow(stream=stream)
    before = 0
    for end in range(len(data)):
        rows, told = read_prefix(data[:end], EVENTS)
        assert told, end
        assert rows >= before
        before = rows
    assert read_prefix(data, EVENTS) == (6, False)


@pytest.mark.parametrize("stream", [False, True])
def test_cut_with_dictionaries(stream: bool) -> None:
    data = dictionaries(stream=stream)
    whole = list(from_bytes(data))
    assert [row["ev"] for row in whole] == ["meta", "backend", "buffer", "tensor"] * 2
    for end in range(0, len(data), 3):
        _, told = read_prefix(data[:end], whole)
        assert told


def test_a_cut_between_messages_is_told() -> None:
    data = narrow(stream=True)
    trace = from_bytes(data[: -len(EOS)])
    assert len(list(trace)) == 6
    assert trace.dropped_bytes == 0
    assert "no end-of-stream mark" in trace.warnings[0]


def test_dropped_bytes_are_exact() -> None:
    data = narrow(stream=True)
    starts = [at for at in range(len(data)) if data[at : at + 4] == EOS[:4]]  # schema, three batches, end mark
    cut = starts[3] + 40
    trace = from_bytes(data[:cut])
    assert len(list(trace)) == 4
    assert trace.dropped_bytes == 40
    assert "40 bytes dropped" in trace.warnings[0]


def test_a_file_without_footer() -> None:
    data = narrow(stream=False)
    at = data.rindex(EOS) + len(EOS)
    trace = from_bytes(data[: at + 30])
    assert len(list(trace)) == 6
    assert trace.dropped_bytes == 30
    assert "footer" in trace.warnings[0]
    trace = from_bytes(data[:-10] + b"\x01\0\0\0ARROW1")
    assert len(list(trace)) == 6
    assert "footer" in trace.warnings[0]


def test_a_file_whose_writer_set_no_end_mark() -> None:
    data = narrow(stream=False)
    at = data.rindex(EOS)
    assert read_prefix(data[:at] + data[at + len(EOS) :], EVENTS) == (6, False)


def test_something_after_the_end_of_a_stream_is_told() -> None:
    data = narrow(stream=True)
    trace = from_bytes(data + data)
    assert len(list(trace)) == 6
    assert trace.dropped_bytes == len(data)
    assert "more after byte" in trace.warnings[0]


def test_a_damaged_batch_in_the_middle() -> None:
    data = bytearray(narrow(stream=True))
    offsets = struct.pack("<iii", 0, 11, 22)  # of the strings of each batch
    second = data.index(offsets, data.index(offsets) + 1)
    data[second : second + 12] = struct.pack("<iii", 0, 2**30, 5)
    trace = from_bytes(bytes(data))
    assert len(list(trace)) == 2
    assert trace.dropped_bytes > 0
    assert "damaged" in trace.warnings[0]


def test_nothing_readable() -> None:
    data = narrow(stream=True)
    first = [at for at in range(len(data)) if data[at : at + 4] == EOS[:4]][1]
    with pytest.raises(TraceError, match=r"no event at all .*cut off"):
        list(from_bytes(data[: first + 60]))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_flipped_bytes(stream: bool, compression: str | None) -> None:
    """No crash and no foreign exception; values may change, which no format without checksums can tell."""
    data = narrow(stream=stream, compression=compression)
    dice = random.Random(f"{stream}{compression}")
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(dice.choice([1, 1, 2, 8])):
            broken[dice.randrange(len(broken))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        try:
            rows = list(from_bytes(bytes(broken)))
        except TraceError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert len(rows) <= 1000


def test_flipped_bytes_with_dictionaries() -> None:
    dice = random.Random(1)
    for stream in (False, True):
        data = dictionaries(stream=stream)
        for _ in range(300):
            broken = bytearray(data)
            broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
            try:
                list(from_bytes(bytes(broken)))
            except TraceError as error:
                assert "\n" not in str(error)  # noqa: PT017


def test_a_claim_of_more_rows_than_bytes() -> None:
    batch = pa.record_batch([pa.array([7] * 777, pa.int16()), pa.nulls(777)], names=["ev", "x"])
    data = ipc_bytes(pa.Table.from_batches([batch]), stream=True)
    count = struct.pack("<q", 777)
    assert data.count(count) >= 3  # the batch's length, and each column's
    with pytest.raises(TraceError, match="claim to hold"):
        list(from_bytes(data.replace(count, struct.pack("<q", 2**60))))


def test_a_buffer_that_unpacks_to_too_much() -> None:
    table = pa.Table.from_arrays([pa.array(["e"] * 4), pa.array([7] * 4)], names=["ev", "x"])
    data = bytearray(ipc_bytes(table, stream=True, compression="zstd"))
    size = struct.pack("<q", 32)
    assert size in data
    at = data.rindex(size)
    data[at : at + 8] = struct.pack("<q", 2**50)
    with pytest.raises(TraceError, match=r"claim to unpack|claims"):
        list(from_bytes(bytes(data)))


def test_a_real_bomb() -> None:
    """Zeros that pack into next to nothing, more of them than any trace has."""
    rows = 1 << 27
    ev = pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int8()), ["e"])
    batch = pa.record_batch([pa.nulls(rows, pa.int8()), ev], names=["x", "ev"])
    data = ipc_bytes(pa.Table.from_batches([batch]), stream=True, compression="zstd")
    assert len(data) < 1 << 17
    with pytest.raises(TraceError, match="claim to unpack"):
        list(from_bytes(data))


def test_a_dictionary_bomb() -> None:
    """A word of a megabyte, named by every row of a column that is no dictionary here."""
    rows = 60_000
    words = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * (1 << 20)]))
    batch = pa.record_batch([pa.array(["note"] * rows), words], names=["ev", "producer"])
    with pytest.raises(TraceError, match="share values"):
        list(from_bytes(ipc_bytes(pa.Table.from_batches([batch]))))


def test_views_of_one_text() -> None:
    count, text = 60_000, b"x" * (1 << 16)
    views = struct.pack("<i4sii", len(text), text[:4], 0, 0) * count
    array = pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(views), pa.py_buffer(text)])
    with pytest.raises(TraceError, match="share values"):
        list(from_bytes(ipc_bytes(pa.table({"ev": array}))))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PAR1" + b"\0" * 40, "Parquet"), (b"FEA1\0\0", "Feather version 1"), (b"\x1f\x8b\x08\0", "gzip"),
        (b"PK\x03\x04\0", "zip"), (b"\x89PNG\r\n", "PNG"), (b"[{}]", "JSON array"), (b"hello", "neither"),
        (b"\0" * 5000, "neither"), (b"ARROW1", "neither a schema nor"), (b"ARROW1\0\0", "neither a schema nor"),
        (b"\xff\xff\xff\xff", "cut off"), (b"\xff\xfe{\0", "neither"),
    ],
)  # fmt: skip
def test_other_files_in_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        list(from_bytes(data))
    assert "\n" not in str(caught.value)


def test_a_version_of_the_future() -> None:
    table = pa.Table.from_pylist(EVENTS, NARROW).replace_schema_metadata({"hbtrace.version": "2"})
    with pytest.raises(TraceError, match="version 2"):
        list(from_bytes(ipc_bytes(table)))
    table = table.replace_schema_metadata({"hbtrace.version": "new"})
    assert len(list(from_bytes(ipc_bytes(table)))) == 6


def test_arrow_that_is_no_trace() -> None:
    with pytest.raises(TraceError, match="sound Arrow but no trace: no column `ev`"):
        list(from_bytes(ipc_bytes(pa.table({"x": [1]}))))
    twice = pa.table([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["ev", "size", "size"])
    with pytest.raises(TraceError, match="more than one column `size`"):
        list(from_bytes(ipc_bytes(twice)))


def test_a_growing_file_is_read_up_to_its_last_batch(tmp_path: Path) -> None:
    from hbtrace.trace.reader import open_trace
    from hbtrace.trace.writer import open_writer

    with open_writer(tmp_path / "run.arrow") as writer:
        for count in (1, 2, 3):
            writer.write_rows(EVENTS[:2])
            trace = open_trace(next(tmp_path.glob("run.arrow.*.part")))
            assert len(list(trace)) == 2 * count
            assert "still written" in trace.warnings[0]
    assert len(list(open_trace(write(tmp_path / "x.arrow", EVENTS)))) == 6
