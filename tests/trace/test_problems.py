"""Which values count as wrong, and what is said of them."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest

from hbtrace.trace.problems import unknown_keys, value_problems
from hbtrace.trace.rows import batch_from_rows, rows_from_batch
from tests.trace.samples import from_bytes, ipc_bytes

CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"ev": "tensor_set", "tensor": 0, "size": 8.0}, ["`size` of `tensor_set` is no integer"]),
    ({"ev": "tensor_set", "tensor": True}, ["`tensor` of `tensor_set` is no integer"]),
    ({"ev": "tensor_set", "tensor": 0, "size": 2**63}, ["`size` of `tensor_set` is no integer of 64 bits"]),
    ({"ev": "set_direct", "inferred": 1}, ["`inferred` of `set_direct` is no boolean"]),
    ({"ev": "kernel", "label": 5}, ["`label` of `kernel` is no string"]),
    ({"ev": "kernel", "reads": {}}, ["`reads` of `kernel` is no list of ranges"]),
    ({"ev": "kernel", "reads": [5, None, {"tensor": 0}]}, ["an element that is no range in `reads` of `kernel`"]),
    ({"ev": "kernel", "writes": [{"offset": "0", "mine": 0}]}, ["`offset` that is no integer in `writes` of `kernel`"]),
    ({"ev": "tensor_copy", "src": [{"tensor": 0}]}, ["`src` of `tensor_copy` is no range"]),
    ({"ev": "tensor_copy", "src": {"approx": 1}}, ["`approx` that is no boolean in `src` of `tensor_copy`"]),
    ({"ev": "tensor", "ne": [1, "2"]}, ["`ne` of `tensor` is no list of integers"]),
    ({"ev": "graph", "nodes": [7]}, ["an element that is no node in `nodes` of `graph`"]),
    ({"ev": "graph", "nodes": [{"op": 1}]}, ["`op` that is no string in `nodes` of `graph`"]),
    ({"ev": "graph", "nodes": [{"reads": [{"tensor": "a"}]}]},
     ["`tensor` that is no integer in `reads` in `nodes` of `graph`"]),
    ({"ev": "graph", "nodes": [{"reads": ["a"]}]}, ["an element that is no range in `reads` in `nodes` of `graph`"]),
    ({"ev": "note", "attrs": 5}, ["`attrs` of `note` is no object"]),
    ({"ev": "meta", "env": []}, ["`env` of `meta` is no object"]),
    ({"ev": "backend", "type": "tpu"}, ['`type` of `backend` knows no "tpu"']),
    ({"ev": "backend", "drains": ["set", "put", "let"]},
     ['`drains` of `backend` knows no "put"', '`drains` of `backend` knows no "let"']),
    ({"ev": "tensor", "flags": ["leaf", 5]},
     ["`flags` of `tensor` is no list of strings", '`flags` of `tensor` knows no "leaf"']),
    ({"ev": "meta", "threads": "many"}, ['`threads` of `meta` knows no "many"']),
    ({"ev": "copy_async", "runs_on": "x" * 99}, ['`runs_on` of `copy_async` knows no "' + "x" * 35 + '..."']),
    ({"ev": "kernel", "picked": {}}, ["`picked` of `kernel` is no list of picks"]),
    ({"ev": "compute", "picked": [5, {"tensor": "x"}]},
     ["an element that is no pick in `picked` of `compute`", "`tensor` that is no integer in `picked` of `compute`"]),
    ({"ev": "kernel", "picked": [{"runs": [{"first": 0, "count": 1.0}]}]},
     ["`count` that is no integer in `runs` in `picked` of `kernel`"]),
    ({"ev": "kernel", "picked": [{"runs": [{"first": 0}, {"count": 2}]}]},
     ["a run without `first` in `runs` in `picked` of `kernel`"]),
    ({"ev": "kernel", "reads": [{"by": 1, "pitch": 4, "size": 4, "rows": 2}]},
     ["`by` with `rows` or `stride` in `reads` of `kernel`"]),
    ({"ev": "kernel", "reads": [{"by": 1, "pitch": 4, "size": 4, "buffer": 2}]},
     ["`by` with `buffer` in `reads` of `kernel`"]),
    ({"ev": "tensor_copy", "src": {"by": 1, "pitch": 4}}, ["`by` without `size` in `src` of `tensor_copy`"]),
    ({"ev": "graph", "nodes": [{"writes": [{"by": 1, "size": 4, "pitch": 0}]}]},
     ["`by` without a `pitch` of 1 or more in `writes` in `nodes` of `graph`"]),
    ({"ev": "kernel", "frames": "f"}, ["`frames` of `kernel` is no list"]),
    ({"ev": "meta", "modules": {}}, ["`modules` of `meta` is no list"]),
    # no problems
    ({"ev": "kernel", "reads": [{"by": -1, "pitch": 0}, {"pitch": -3}, {"by": None}], "frames": [1, "f", {}]}, []),
    ({"ev": "kernel", "picked": [None, {"tensor": 1}, {"runs": [None, {"first": 0, "count": None}]}]}, []),
    ({"ev": "tensor", "type": "f16", "flags": ["input"], "ne": [1, None]}, []),
    ({"ev": "note", "size": "large", "what": "w", "attrs": {"size": "x"}, "type": "tpu", "reads": [5]}, []),
    ({"ev": "unknown", "size": "large", "thread": "x"}, []),
    ({"ev": 5, "size": "large"}, []),
    ({"ev": "kernel", "label": None, "reads": [None], "colour": 8.0, "split": None}, []),
    ({"ev": "buffer", "usage": "any", "drains": ["put"]}, []),
    ({"ev": "meta", "env": {"A": 1}, "threads": "ordered"}, []),
    ({}, []),
]  # fmt: skip


@pytest.mark.parametrize(("row", "expected"), CASES, ids=lambda value: json.dumps(value)[:40])
def test_one_row(row: dict[str, Any], expected: list[str]) -> None:
    assert value_problems(batch_from_rows([row])) == [(0, problem) for problem in expected]


def test_rows_are_told() -> None:
    rows = [row for row, _ in CASES]
    found = value_problems(batch_from_rows(rows))
    assert found == [(number, problem) for number, (_, problems) in enumerate(CASES) for problem in problems]
    batch = batch_from_rows(rows)
    half = value_problems(batch.slice(10))
    assert half == [(row - 10, problem) for row, problem in found if row >= 10]


def test_whole_floats_from_arrow_are_integers() -> None:
    """Of a column the values decide; a wrong one makes no trace, so it is no problem of a row (`test_third_party`)."""
    table = pa.table({"ev": ["tensor_set", "note", None], "size": [8.0, 1.0, 2.0], "extra": ["{", "7", None]})
    (batch,) = from_bytes(ipc_bytes(table)).batches()
    assert value_problems(batch) == []
    assert rows_from_batch(batch)[0] == {"ev": "tensor_set", "size": 8, "extra": "{"}


def test_nothing_wrong_costs_nothing() -> None:
    rows = [{"ev": "set_async", "backend": 0, "tensor": k % 9, "host_range": {"buffer": 1}} for k in range(50_000)]
    batch = batch_from_rows(rows)
    start = time.process_time()
    assert value_problems(batch) == []
    assert time.process_time() - start < 0.1


UNKNOWN: list[tuple[dict[str, Any], list[str]]] = [
    ({"ev": "kernel", "write": []}, ["`kernel` has no key `write` (did you mean `writes`?)"]),
    ({"ev": "kernel", "colour": []}, ["`kernel` has no key `colour`"]),
    ({"ev": "synchronize", "tensor": 1}, ["`synchronize` has no key `tensor`"]),
    ({"ev": "tensor_get", "by": 1, "graph": 2}, ["`tensor_get` has no key `by`", "`tensor_get` has no key `graph`"]),
    ({"ev": "buffer", "extra": 1}, ["`buffer` has no key `extra`"]),
    ({"ev": "graph", "nodes": [{"op": "ADD", "read": []}]},
     ["a node has no key `read` (did you mean `reads`?) in `nodes` of `graph`"]),
    ({"ev": "graph", "nodes": [{"reads": [{"tensors": 1}]}]},
     ["a range has no key `tensors` (did you mean `tensor`?) in `nodes` of `graph`"]),
    ({"ev": "copy_async", "src": {"bufer": 1}},
     ["a range has no key `bufer` (did you mean `buffer`?) in `src` of `copy_async`"]),
    ({"ev": "kernel", "picked": [{"run": []}]},
     ["a pick has no key `run` (did you mean `runs`?) in `picked` of `kernel`"]),
    ({"ev": "kernel", "picked": [{"runs": [{"cuont": 2}]}]},
     ["a run has no key `cuont` (did you mean `count`?) in `picked` of `kernel`"]),
    # none
    ({"ev": "kernel", "x_": 1, "x_a": [], "reads": [{"x_b": 1}], "picked": [{"x_c": 1, "runs": [{"x_d": 1}]}]}, []),
    ({"ev": "kernel", "colour": None, "reads": [{"colour": None}, 5, None]}, []),
    ({"ev": "note", "attrs": {"k": 1}, "sched": 1, "duration": 1, "frames": [{"k": 1}]}, []),
    ({"ev": "meta", "env": {"k": "1"}, "modules": [{"k": 1}]}, []),
    ({"ev": "launch", "colour": 1}, []),
    ({"colour": 1}, []),
]  # fmt: skip


@pytest.mark.parametrize(("row", "expected"), UNKNOWN, ids=lambda value: json.dumps(value)[:40])
def test_keys_that_nobody_reads(row: dict[str, Any], expected: list[str]) -> None:
    """Alone, and beside rows of other events that have all columns."""
    for before in ([], [{"ev": "kernel", "label": "k"}, {"ev": "note"}]):
        batch = batch_from_rows([*before, row])
        assert sorted(unknown_keys(batch)) == [(len(before), problem) for problem in sorted(expected)]
