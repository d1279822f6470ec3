"""Rows and values for the tests of reading and writing."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hbtrace.trace import vocabulary as v
from hbtrace.trace.reader import Trace, open_trace
from hbtrace.trace.schema import SCHEMA
from hbtrace.trace.writer import open_writer

ROWS: list[dict[str, Any]] = [
    {"ev": "meta", "version": 1, "producer": "test", "command": ["a", "b"], "env": {"X": "1"}},
    {"ev": "backend", "id": 0, "name": "CUDA0", "type": "gpu", "async": True, "drains": ["set", "get"]},
    {"ev": "buffer", "id": 0, "name": "CUDA0", "size": 4096},
    {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "offset": 0, "size": 64, "ne": [16, 1, 1, 1], "flags": []},
    {"ev": "graph", "id": 0, "nodes": [
        {"op": "ADD", "tensor": 0, "reads": [{"tensor": 0}], "writes": [{"buffer": 0, "offset": 8, "size": 8}]},
        {"op": "VIEW", "mine": [1]}, None, 5,
    ]},
    {"ev": "compute", "backend": 0, "graph": 0, "time": 1_700_000_000_000_000_000, "label": "k"},
    {"ev": "copy_async", "backend": 0, "src": {"tensor": 0}, "dst": {"tensor": 0, "approx": True}, "after_dst": False},
    {"ev": "note", "what": "window", "attrs": {"deep": [{"a": None}, 1.5]}, "colour": "red", "split": None},
    {"ev": "kernel", "backend": "zero", "reads": [], "writes": [{"tensor": True, "offset": 2**63, "k": 1}, None, "x"]},
    {"ev": "synchronize", "backend": 0, "thread": 3, "ubatch": 8.0, "site": "a\u2028b\x00é"},
    {"ev": "meta", "modules": [{"path": "/lib/a.so", "build_id": "0f", "base": 2**47, "size": 9}, 5, None], "x_a": {}},
    {"ev": "backend", "id": 1, "name": "CUDA0/1", "registry": "CUDA", "queue_of": 0, "x_": [1.0, None]},
    {"ev": "graph", "id": 1, "nodes": [
        {"op": "SET_ROWS", "x_line": 7, "writes": [{"tensor": 0, "by": 3, "pitch": 8, "size": 8, "x_n": None}]},
        {"reads": [{"tensor": 0, "by": -1, "pitch": 0}, {"by": "x", "pitch": 8.0}, {"by": None}]},
    ]},
    {"ev": "compute", "backend": 0, "graph": 1, "duration": 2**40, "frames": ["a.cpp:7 f", 2**63, None], "picked": [
        {"tensor": 3, "runs": [{"first": 0}, {"first": -3, "count": 2, "repeat": 2**62, "step": -1}], "x_of": "k"},
        {"tensor": 3, "runs": []}, {"tensor": 3}, {}, None, 5, {"tensor": "x", "runs": "y", "run": 1},
        {"runs": [None, "x", {}, {"count": 2}, {"first": 1.0, "x_": 1, "cuont": 2}], "tensor": None},
    ]},
    {"ev": "kernel", "backend": 0, "picked": []},
    {"ev": "host_access", "picked": {"tensor": 3}, "frames": "f", "duration": "1"},
    {"ev": "note", "what": "blind", "sched": 2, "attrs": {"calls": ["cudaFreeAsync"], "why": "hidden"}},
    {"ev": "buffer_free", "buffer": 0, "backend": 1},
    {"ev": 7, "extra": "not mine", "size": -(2**70)},
    {},
]  # fmt: skip

SUFFIXES = (".jsonl", ".arrow", ".arrows")


def jsonl(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write(path: Path, rows: Sequence[dict[str, Any]], batch: int = 1000) -> Path:
    with open_writer(path) as writer:
        for start in range(0, len(rows), batch):
            writer.write_rows(rows[start : start + batch])
    return path


def read(source: Any) -> list[dict[str, Any]]:
    with open_trace(source) as trace:
        return list(trace)


def from_bytes(data: bytes) -> Trace:
    return open_trace(io.BytesIO(data))


def ipc_bytes(
    table: pa.Table, *, stream: bool = False, compression: str | None = None, chunk: int | None = None
) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=chunk)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def same(one: Any, other: Any) -> bool:
    """Equal with types: True is not 1, 1 is not 1.0, and 0.0 is not -0.0."""
    return repr(sorted_keys(one)) == repr(sorted_keys(other))


def sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(element) for element in value] if isinstance(value, list) else value


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LEAVES = st.one_of(
    st.none(), st.booleans(), TEXT, st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3),
    st.integers(-(2**80), 2**80), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
)  # fmt: skip
JSON = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)), max_leaves=6
)


def _mapping(kinds: dict[str, str]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the keys: mostly of the right type, sometimes of any, and unknown keys beside them."""
    known = st.fixed_dictionaries({}, optional={key: st.one_of(_good(kind), JSON) for key, kind in kinds.items()})
    unknown = st.dictionaries(st.one_of(TEXT, st.just("extra")), JSON, max_size=2)
    return st.tuples(unknown, known).map(lambda two: {**two[0], **two[1]})


def _good(kind: str) -> st.SearchStrategy[Any]:
    ranges = st.deferred(lambda: st.lists(st.one_of(RANGES, st.none(), LEAVES), max_size=3))
    return {
        v.INT: st.integers(-(2**63), 2**63 - 1), v.ID: st.integers(-1, 5), v.BOOL: st.booleans(), v.STR: TEXT,
        v.INTS: st.lists(st.one_of(st.integers(-5, 5), LEAVES), max_size=3),
        v.STRS: st.lists(st.one_of(TEXT, LEAVES), max_size=3),
        v.RANGE: st.deferred(lambda: RANGES), v.RANGES: ranges,
        v.NODES: st.deferred(lambda: st.lists(st.one_of(NODES, LEAVES), max_size=3)),
        v.PICKS: st.deferred(lambda: st.lists(st.one_of(PICKS, LEAVES), max_size=3)),
        v.RUNS: st.deferred(lambda: st.lists(st.one_of(RUNS, LEAVES), max_size=3)),
    }[kind]  # fmt: skip


RANGES = _mapping(v.RANGE_KEYS)
NODES = _mapping(v.NODE_KEYS)
PICKS = _mapping(v.PICK_KEYS)
RUNS = _mapping(v.RUN_KEYS)
_SOME_COLUMNS = {
    key: v.COLUMNS[key]
    for key in (
        "ev",
        "thread",
        "time",
        "label",
        "name",
        "async",
        "ne",
        "flags",
        "command",
        "src",
        "reads",
        "nodes",
        "picked",
        "duration",
        "registry",
        "queue_of",
    )
}
EVENT_ROWS = st.lists(_mapping(_SOME_COLUMNS), min_size=1, max_size=5)

assert SCHEMA.names[-1] == "extra"
