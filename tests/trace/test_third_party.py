"""Arrow that others wrote, and others reading what hbtrace wrote."""

from __future__ import annotations

import datetime
import decimal
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

from hbtrace.errors import TraceError
from hbtrace.trace.reader import open_trace
from hbtrace.trace.schema import RANGE_TYPE, SCHEMA
from tests.trace.samples import ROWS, from_bytes, ipc_bytes, same, write

PLAIN: list[dict[str, Any]] = [
    {"ev": "backend", "id": 0, "name": "CUDA0", "type": "gpu"},
    {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "offset": 0, "size": 64, "ne": [16, 1], "flags": ["input"]},
    {"ev": "copy_async", "backend": 0, "src": {"tensor": 0, "size": 4}, "dst": {"buffer": 0}, "after_dst": True},
    {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}, {"buffer": 1, "offset": 2}], "writes": [], "mine": "red"},
    {
        "ev": "graph",
        "id": 0,
        "nodes": [{"op": "ADD", "reads": [{"tensor": 0}], "writes": [{"tensor": 1, "approx": True}]}],
    },
    {"ev": "note", "what": "window", "attrs": {"a": 1}},
]


def table_rows(table: pa.Table, **kinds: Any) -> list[dict[str, Any]]:
    return list(from_bytes(ipc_bytes(table, **kinds)))


def one_column(name: str, array: pa.Array) -> list[dict[str, Any]]:
    evs = pa.array(["tensor"] * len(array))
    return [{k: x for k, x in row.items() if k != "ev"} for row in table_rows(pa.table({"ev": evs, name: array}))]


@pytest.mark.parametrize("stream", [False, True])
def test_pylist(stream: bool) -> None:
    assert same(table_rows(pa.Table.from_pylist(PLAIN, _inferred()), stream=stream), PLAIN)


def _inferred() -> pa.Schema:
    """What Arrow makes of the rows by itself, over all keys."""
    names = dict.fromkeys(key for row in PLAIN for key in row)
    return pa.schema([(name, pa.array([row.get(name) for row in PLAIN]).type) for name in names])


def test_polars_writes(tmp_path: Path) -> None:
    import polars

    path = tmp_path / "p.arrow"
    for compat in ("newest", "oldest"):
        level = getattr(polars.CompatLevel, compat)()
        for compression in ("uncompressed", "lz4", "zstd"):
            polars.from_arrow(pa.Table.from_pylist(PLAIN, _inferred())).write_ipc(
                path, compression=compression, compat_level=level
            )
            trace = open_trace(path)
            assert same(list(trace), PLAIN)
            assert trace.warnings == []
    polars.from_arrow(pa.Table.from_pylist(PLAIN, _inferred())).write_ipc_stream(path)
    assert same(list(open_trace(path)), PLAIN)


def test_polars_rewrites_ours(tmp_path: Path) -> None:
    import polars

    source = write(tmp_path / "a.arrow", ROWS)
    polars.read_ipc(source).write_ipc(tmp_path / "b.arrow", compression="zstd")
    assert same(list(open_trace(tmp_path / "b.arrow")), ROWS)


def test_duckdb_writes(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "d.arrows"
    ours = open_trace(write(tmp_path / "a.arrow", ROWS)).table()  # noqa: F841 - DuckDB finds it by its name
    reader = duckdb.sql("select * from ours where ev = 'kernel' or ev = 'tensor'").to_arrow_reader()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    expected = [row for row in ROWS if row.get("ev") in ("tensor", "kernel")]
    assert same(list(open_trace(path)), expected)


def test_others_read_ours(tmp_path: Path) -> None:
    """The recipes of the documentation."""
    import duckdb
    import polars

    path = write(tmp_path / "a.arrow", ROWS, batch=3)  # several batches: one dictionary for all
    frame = polars.read_ipc(path)
    assert frame.columns == SCHEMA.names
    assert frame.filter(polars.col("ev") == "buffer")["name"].to_list() == ["CUDA0"]
    assert frame["ev"].to_list() == [row["ev"] if isinstance(row.get("ev"), str) else None for row in ROWS]
    table = open_trace(path).table()
    data = pyarrow.dataset.dataset(path, format="ipc")
    for source in (table, data):
        found = duckdb.sql("select name, size from source where ev = 'buffer'").fetchall()
        assert found == [("CUDA0", 4096)]
        assert source is not None


def test_pandas_reads_ours(tmp_path: Path) -> None:
    import pandas

    frame = pandas.read_feather(write(tmp_path / "a.arrow", ROWS))
    assert list(frame.columns) == SCHEMA.names


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64(),
             pa.dictionary(pa.int8(), pa.int32())],
    ids=str,
)  # fmt: skip
def test_integers(kind: pa.DataType) -> None:
    array = (
        pa.array([1, None, 5], pa.int32()).cast(kind)
        if not pa.types.is_dictionary(kind)
        else pa.array([1, None, 5], pa.int32()).dictionary_encode()
    )
    assert one_column("size", array) == [{"size": 1}, {}, {"size": 5}]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.large_string()),
             pa.dictionary(pa.int64(), pa.string())],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", ["name", "engine", "op"])
def test_strings(kind: pa.DataType, name: str) -> None:
    array = pa.array(["a", None, "é"], pa.string()).cast(kind)
    assert one_column(name, array) == [{name: "a"}, {}, {name: "é"}]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.large_list(pa.uint64()), pa.list_view(pa.int16()), pa.large_list_view(pa.int64()),
             pa.list_(pa.int8(), 2)],
    ids=str,
)  # fmt: skip
def test_lists(kind: pa.DataType) -> None:
    assert one_column("ne", pa.array([[1, 2], None, [3, 4]], kind)) == [{"ne": [1, 2]}, {}, {"ne": [3, 4]}]
    text = pa.large_list(pa.string_view())
    assert one_column("flags", pa.array([["a"], [], None], text)) == [{"flags": ["a"]}, {"flags": []}, {}]


def test_runs() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    assert one_column("name", runs) == [{"name": "a"}, {"name": "a"}, {"name": "b"}]


WHOLE: list[tuple[str, pa.Array, list[Any]]] = [
    ("size", pa.array([8.0, None, 2.0**53]), [8, None, 2**53]),
    ("size", pa.array([float("nan"), 1.0, -0.0]), [None, 1, 0]),
    ("size", pa.array([8.0, None, 1.0], pa.float32()), [8, None, 1]),
    ("size", pa.array([decimal.Decimal(7), None, decimal.Decimal(2**62)]), [7, None, 2**62]),
    ("size", pa.array([1, 2**63 - 1, None], pa.uint64()), [1, 2**63 - 1, None]),
    ("size", pa.array([1.0, None, 3.0]).dictionary_encode(), [1, None, 3]),
    ("size", pa.array([float("nan")] * 3), [None] * 3),
    ("size", pa.nulls(3, pa.string()), [None] * 3),
    ("name", pa.array([float("nan"), None, float("nan")]), [None] * 3),
    ("host", pa.array([0, 1, None]), [False, True, None]),
    ("host", pa.array([0.0, 1.0, float("nan")]), [False, True, None]),
    ("time", pa.array([1, None, 2], pa.timestamp("ns")), [1, None, 2]),
    ("time", pa.array([1, None, 2], pa.timestamp("us", tz="UTC")), [1000, None, 2000]),
    ("inputs", pa.array([[1.0, 2.0], None, []]), [[1, 2], None, []]),
    ("src", pa.array([{"tensor": 1.0, "size": float("nan")}, None, {"tensor": 2.0, "size": 4.0}]),
     [{"tensor": 1}, None, {"tensor": 2, "size": 4}]),
    ("reads", pa.array([[{"tensor": 3.0, "approx": 1}], None, []]), [[{"tensor": 3, "approx": True}], None, []]),
    ("nodes", pa.array([[{"op": "ADD", "reads": [{"buffer": 0.0}]}], None, None]),
     [[{"op": "ADD", "reads": [{"buffer": 0}]}], None, None]),
]  # fmt: skip
"""Columns of another type that lose nothing: what a row has then."""


@pytest.mark.parametrize(("name", "array", "values"), WHOLE, ids=lambda one: one if isinstance(one, str) else "")
def test_what_converts_without_loss(name: str, array: pa.Array, values: list[Any]) -> None:
    """The contract's section 10: the values decide."""
    assert same([row.get(name) for row in one_column(name, array)], values)


LOSSY: list[tuple[str, pa.Array, str, str]] = [
    ("id", pa.array(["1", "x", None]), "id", "string"),
    ("size", pa.array([8.0, None, 1.5]), "size", "double"),
    ("size", pa.array([float("inf"), 1.0]), "size", "double"),
    ("size", pa.array([2.0**63, 1.0]), "size", "double"),
    ("size", pa.array([1, 2**63], pa.uint64()), "size", "uint64"),
    ("size", pa.array([True, None]), "size", "bool"),
    ("size", pa.array([b"\xff", None]), "size", "binary"),
    ("size", pa.array([[1], [], None]), "size", "list<item: int64>"),
    ("size", pa.array([{"a": 1}, None]), "size", "struct<a: int64>"),
    ("size", pa.array([decimal.Decimal("1.50"), None]), "size", "decimal128(3, 2)"),
    ("size", pa.array([datetime.date(2026, 1, 2), None]), "size", "date32[day]"),
    ("size", pa.array([1, None], pa.timestamp("ns")), "size", "timestamp[ns]"),
    ("host", pa.array([0, 2]), "host", "int64"),
    ("host", pa.array(["true", None]), "host", "string"),
    ("name", pa.array([1, None]), "name", "int64"),
    ("nodes", pa.array(['[{"op":"ADD"}]', None]), "nodes", "string"),
    ("reads", pa.array([[1], None]), "reads", "list<item: int64>"),
    ("inputs", pa.array([["x"], None]), "inputs", "string"),
    ("flags", pa.array([[1], None]), "flags", "int64"),
    ("src", pa.array([[{"tensor": 1}], [{"tensor": 2}, {"tensor": 3}]]), "src", "list<item: struct<tensor: int64>>"),
    ("host_range", pa.array([{"buffer": 0.5}, None]), "host_range.buffer", "double"),
    ("nodes", pa.array([[{"reads": [{"tensor": "x"}]}], None]), "nodes.reads.tensor", "string"),
]  # fmt: skip
"""Columns of which a value would be lost: the column and the type that the sentence names."""


@pytest.mark.parametrize(("name", "array", "where", "kind"), LOSSY, ids=lambda one: one if isinstance(one, str) else "")
def test_what_would_be_lost_cannot_be_read(name: str, array: pa.Array, where: str, kind: str) -> None:
    """No row is skipped for it, no default counts: exit code 3, with the column and its type."""
    trace = from_bytes(ipc_bytes(pa.table({"ev": ["buffer"] * len(array), name: array})))
    with pytest.raises(TraceError) as caught:
        list(trace.batches())
    assert f"column `{where}` is of type {kind}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_later_batch_decides_too() -> None:
    """A file of two batches, the second of which has half a tensor."""
    tables = [pa.table({"ev": ["tensor_get"], "tensor": [value]}) for value in (1.0, 1.5)]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    with pytest.raises(TraceError, match=r"column `tensor` is of type double, and for 1\.5 there is no integer"):
        list(from_bytes(sink.getvalue()))


@pytest.mark.parametrize("name", SCHEMA.names)
def test_every_column_meets_every_type(name: str) -> None:
    """Read, or refused in a sentence that names the column."""
    arrays = [
        pa.array([1, None]), pa.array([1.5, None]), pa.array(["x", None]), pa.array([True, None]),
        pa.array([b"\xff", None]), pa.array([[1, None], None]), pa.array([["x"], None]),
        pa.array([{"tensor": 1, "y": [2]}, None]),
        pa.array([[{"tensor": "x", "reads": [{"tensor": 1.5}]}, None], None]), pa.nulls(2), pa.array([[], None]),
        pa.array([[{"tensor": 1}], None]), pa.array([[{"tensor": 1}, {"tensor": 2}], None]), pa.array([{}, None]),
        pa.array([datetime.datetime(2026, 1, 1), None]), pa.array([[[1]], None]), pa.array([[None], None]),
    ]  # fmt: skip
    read, refused = 0, []
    for array in arrays:
        columns = {"ev": pa.array(["tensor"] * 2), name: array}
        if name == "ev" and pa.types.is_null(array.type):
            continue
        try:
            (batch,) = from_bytes(ipc_bytes(pa.table(columns))).batches()
        except TraceError as error:
            refused.append(str(error))
            continue
        read += 1
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA)
        row = list(from_bytes(ipc_bytes(pa.table(columns))))[1]
        assert row == ({} if name == "ev" else {"ev": "tensor"})
    assert read
    assert all(f"column `{name}" in sentence for sentence in refused)


def test_structs_in_another_order_with_other_fields() -> None:
    kind = pa.struct([("size", pa.uint32()), ("colour", pa.string()), ("tensor", pa.int8()), ("approx", pa.int8())])
    value = [{"size": 4, "colour": "red", "tensor": 1, "approx": 1}, None]
    assert one_column("src", pa.array(value, kind)) == [{"src": {**value[0], "approx": True}}, {}]  # type: ignore[dict-item]
    reads = [{**value[0], "approx": True}, None]  # type: ignore[dict-item]
    assert one_column("reads", pa.array([[value[0], None]], pa.large_list(kind))) == [{"reads": reads}]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 1)])
def test_a_range_as_a_list_of_one(make: Any) -> None:
    array = pa.array([[{"tensor": 1}], None, [{"tensor": 2}]], make(pa.struct([("tensor", pa.int32())])))
    assert one_column("src", array) == [{"src": {"tensor": 1}}, {}, {"src": {"tensor": 2}}]


def test_canonical_ranges_with_a_mask_and_an_offset() -> None:
    structs = pa.array([None, {"tensor": 1}, None, {"tensor": 2}], RANGE_TYPE).slice(1)
    assert one_column("src", structs) == [{"src": {"tensor": 1}}, {}, {"src": {"tensor": 2}}]


def test_foreign_extra() -> None:
    texts = ['{"a":1}', "free text", "5", "[1]", None, '{"size":8.0}', "{"]
    rows = one_column("extra", pa.array(texts))
    assert rows == [
        {"a": 1},
        {"extra": "free text"},
        {"extra": "5"},
        {"extra": "[1]"},
        {},
        {"size": 8.0},
        {"extra": "{"},
    ]
    assert one_column("extra", pa.array([5, None])) == [{"extra": 5}, {}]


def test_null_words_in_a_dictionary() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), pa.array(["a", None]))
    assert one_column("name", words) == [{"name": "a"}, {}, {}]
    batch = pa.record_batch(
        [words if key == "name" else column for key, column in zip(
            SCHEMA.names, pa.Table.from_pylist([{"ev": "tensor"}] * 3, SCHEMA).to_batches()[0].columns, strict=True)],
        schema=SCHEMA,
    )  # fmt: skip
    assert table_rows(pa.Table.from_batches([batch])) == [
        {"ev": "tensor", "name": "a"},
        {"ev": "tensor"},
        {"ev": "tensor"},
    ]


def test_attrs_as_struct_or_text() -> None:
    as_struct = pa.table({"ev": ["note"] * 2, "attrs": [{"a": 1, "b": None}, {"a": None, "b": [2]}]})
    assert [row["attrs"] for row in table_rows(as_struct)] == [{"a": 1}, {"b": [2]}]
    as_text = pa.table({"ev": ["note"] * 3, "attrs": ['{"a":1}', "text", "[1]"]})
    assert [row["attrs"] for row in table_rows(as_text)] == [{"a": 1}, "text", "[1]"]


def test_batches_are_cut_to_size_and_empty_ones_left_out() -> None:
    table = pa.table({"ev": ["compute"] * 150_000})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], table.schema))
        writer.write_table(table, max_chunksize=1 << 30)
        writer.write_batch(pa.RecordBatch.from_pylist([], table.schema))
    assert [batch.num_rows for batch in from_bytes(sink.getvalue()).batches()] == [65536, 65536, 18928]
