"""Nothing is lost between the encodings."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from hbtrace.errors import TraceError
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import batch_from_rows, rows_from_batch
from hbtrace.trace.schema import SCHEMA
from hbtrace.trace.writer import open_writer
from tests.material import CASES, RECORDINGS, recording
from tests.trace.samples import EVENT_ROWS, ROWS, SUFFIXES, from_bytes, ipc_bytes, read, same, write


def unmarked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without the note of what trace it was read from, which the replay's budget asks for."""
    said = dict(batch.schema.metadata)
    assert said.pop(b"hbtrace.read", None)
    return batch.replace_schema_metadata(said)


def convert(source: Path, target: Path) -> Path:
    trace = open_trace(source)
    with open_writer(target) as writer:
        for batch in trace.batches():
            assert unmarked(batch).schema.equals(SCHEMA, check_metadata=True)
            batch.validate(full=True)
            writer.write_batch(batch)
    assert (trace.warnings, trace.dropped_bytes) == ([], 0)
    return target


def around(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    path = write(folder / "a.jsonl", rows, batch=2)
    path = convert(path, folder / "b.arrow")
    path = convert(path, folder / "c.jsonl")
    path = convert(path, folder / "d.arrows")
    return read(convert(path, folder / "e.jsonl"))


def test_every_oddity_survives(tmp_path: Path) -> None:
    assert same(around(tmp_path, ROWS), ROWS)


def test_what_section_10_added_has_its_columns() -> None:
    """And what has none is kept beside them: lists of anything, and the producer's own keys."""
    columns = {key: str(SCHEMA.field(key).type) for key in ("picked", "duration", "queue_of", "reads", "sched")}
    runs = "list<item: struct<first: int64, count: int64, repeat: int64, step: int64, extra: string>>"
    assert columns.pop("picked") == f"list<item: struct<tensor: int64, runs: {runs}, extra: string>>"
    assert "by: int64, pitch: int64" in columns.pop("reads")
    assert columns == dict.fromkeys(columns, "int64")
    assert not {"frames", "modules", "env", "attrs"} & set(SCHEMA.names)


def test_what_section_10_added_survives_one_key_at_a_time(tmp_path: Path) -> None:
    """Each alone, in a batch of its own, and beside rows without it."""
    keys = {
        "picked": [{"tensor": 1, "runs": [{"first": 4, "count": 2, "repeat": 3, "step": -2}]}], "duration": 5,
        "frames": ["a.cpp:7 f", 4096], "registry": "CUDA", "queue_of": 3, "modules": [{"path": "a", "base": 1}],
        "sched": 2, "x_own": {"a": [None, 1.5]}, "by": 1, "pitch": 2,
        "reads": [{"tensor": 0, "by": 1, "pitch": 4, "size": 4}], "src": {"tensor": 0, "by": 1, "pitch": 4, "x_a": 1},
    }  # fmt: skip
    rows = [
        {"ev": ev, **given} for key in keys for given in ({}, {key: keys[key]}) for ev in ("note", "kernel", "meta")
    ]
    assert same(around(tmp_path, rows), rows)
    assert all(same(rows_from_batch(batch_from_rows([row])), [row]) for row in rows)


@given(rows=EVENT_ROWS)
@settings(max_examples=150)
def test_rows_survive_a_batch(rows: list[dict[str, Any]]) -> None:
    batch = batch_from_rows(rows)
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert same(rows_from_batch(batch), rows)


@given(rows=EVENT_ROWS)
@settings(max_examples=30)
def test_rows_survive_all_encodings(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert same(around(Path(folder), rows), rows)


def test_keys_come_in_column_order() -> None:
    (row,) = rows_from_batch(batch_from_rows([{"zz": 1, "size": 5, "tensor": 0, "label": "l", "ev": "tensor_set"}]))
    assert list(row) == ["ev", "label", "size", "tensor", "zz"]


def test_what_does_not_fit_is_null_and_kept_raw() -> None:
    batch = batch_from_rows(
        [{"ev": "tensor", "size": 8.0, "id": True, "ne": [1, "x", None], "flags": ["a"], "offset": None}]
    )
    row = {key: batch.column(key)[0].as_py() for key in ("size", "id", "ne", "flags", "offset")}
    assert row == {"size": None, "id": None, "ne": [1], "flags": ["a"], "offset": None}
    assert json.loads(batch.column("extra")[0].as_py()) == {
        "size": 8.0, "id": True, "ne": [1, "x", None], "offset": None,
    }  # fmt: skip


def test_an_element_that_is_no_range_keeps_its_place() -> None:
    batch = batch_from_rows([{"ev": "kernel", "reads": [{"tensor": 1, "x": 2}, None, 5, "s"]}])
    elements = batch.column("reads")[0].as_py()
    assert [element and (element["tensor"], element["extra"]) for element in elements] == [
        (1, '{"x":2}'), None, (None, "5"), (None, '"s"'),
    ]  # fmt: skip


def test_more_columns_than_bits() -> None:
    everything = {key: 1 for key in SCHEMA.names if SCHEMA.field(key).type == pa.int64()}
    everything |= {key: "s" for key in SCHEMA.names if pa.types.is_dictionary(SCHEMA.field(key).type)}
    everything |= {key: True for key in SCHEMA.names if pa.types.is_boolean(SCHEMA.field(key).type)}
    rows = [{key: value for key, value in everything.items() if key != left_out} for left_out in everything]
    assert same(rows_from_batch(batch_from_rows(rows)), rows)


def test_no_rows_make_an_empty_batch() -> None:
    assert batch_from_rows([]).num_rows == 0
    assert rows_from_batch(batch_from_rows([])) == []


def test_a_slice_is_read_as_a_slice() -> None:
    batch = batch_from_rows(ROWS)
    for start in range(len(ROWS)):
        assert same(rows_from_batch(batch.slice(start, 3)), ROWS[start : start + 3])


def test_half_a_surrogate_from_a_program_becomes_a_question_mark() -> None:
    (row,) = rows_from_batch(batch_from_rows([{"ev": "note", "site": "a\udc80", "x": "b\udc80"}]))
    assert row == {"ev": "note", "site": "a?", "x": "b?"}


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("stream", [False, True])
def test_every_compression(compression: str | None, stream: bool) -> None:
    table = pa.Table.from_batches([batch_from_rows(ROWS)] * 3)
    trace = from_bytes(ipc_bytes(table, stream=stream, compression=compression))
    assert same(list(trace), ROWS * 3)
    assert (trace.format, trace.rows) == ("arrow stream" if stream else "arrow file", 3 * len(ROWS))
    assert trace.meta["env"] == {"X": "1"}
    assert trace.warnings == []


@pytest.mark.parametrize("path", [*map(recording, RECORDINGS), *CASES], ids=lambda p: p.stem)
def test_recordings_and_cases(path: Path, tmp_path: Path) -> None:
    trace = open_trace(path)
    try:
        rows = list(trace)
    except TraceError:
        assert path.stem[:2] in ("70", "72")
        return
    parsed = []
    for line in path.read_bytes().split(b"\n"):
        try:
            parsed += [json.loads(line)] if line.strip() else []
        except ValueError:
            assert trace.dropped_bytes == len(line)
    assert same(rows, parsed)
    if not trace.dropped_bytes:
        for suffix in SUFFIXES:
            assert same(read(convert(path, tmp_path / f"x{suffix}")), parsed)
