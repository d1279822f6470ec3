"""Values of the wrong type, and values that a named set does not know: found in a batch, counted by the replay.

They are no errors: the first count as absent, the second as the default. Only keys that belong to the row's event
count; any other key is somebody else's and survives untouched. Costs next to nothing where there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute

from hbtrace.trace import vocabulary as v
from hbtrace.trace.rows import loads

Problem = tuple[int, str]
"""(row in the batch, what is wrong)"""


def value_problems(batch: pa.RecordBatch) -> list[Problem]:
    """All problems of a canonical batch, by row."""
    found = [*_wrong_types(batch), *_unknown_set_values(batch), *_inside_structs(batch)]
    found.sort(key=lambda problem: problem[0])
    return found


def _keys(ev: str | None) -> dict[str, str]:
    return v.COMMON | v.EVENTS[ev] if ev in v.EVENTS else {}


def _present(column: pa.Array) -> Iterator[tuple[int, Any]]:
    """(row, value) of the rows that are not null."""
    if column.null_count < len(column):
        rows = pa.compute.indices_nonzero(column.is_valid())
        yield from zip(rows.to_pylist(), column.take(rows).to_pylist(), strict=True)


def _ev(batch: pa.RecordBatch, row: int) -> str | None:
    ev: str | None = batch.column("ev")[row].as_py()
    return ev


def _wrong_types(batch: pa.RecordBatch) -> Iterator[Problem]:
    """The reader put what does not fit its column into `extra`."""
    for row, text in _present(batch.column("extra")):
        keys = _keys(ev := _ev(batch, row))
        for key, value in loads(text.encode()).items():
            if value is None or key not in keys or (keys[key] == v.JSON and type(value) is dict):
                continue
            if type(value) is list and keys[key] in (v.INTS, v.STRS) and _only_nulls_do_not_fit(batch, row, key, value):
                continue
            yield row, f"`{key}` of `{ev}` has a value of the wrong type"


def _only_nulls_do_not_fit(batch: pa.RecordBatch, row: int, key: str, value: list[Any]) -> bool:
    """A null element is absent, as a null key is."""
    return len(batch.column(key)[row].as_py() or ()) == sum(element is not None for element in value)


def _unknown_set_values(batch: pa.RecordBatch) -> Iterator[Problem]:
    for ev, key in v.SETS:
        column, allowed = batch.column(key), v.SETS[ev, key]
        if column.null_count == len(column):
            continue
        if v.COLUMNS[key] == v.STR:
            words = column.dictionary if pa.types.is_dictionary(column.type) else column.unique()
            if set(words.to_pylist()) - {None} <= allowed:
                continue
        for row, value in _present(column):
            values = value if isinstance(value, list) else [value]
            if any(word not in allowed for word in values if word is not None) and _ev(batch, row) == ev:
                yield row, f"`{key}` of `{ev}` knows no {value!r}"


def _inside_structs(batch: pa.RecordBatch) -> Iterator[Problem]:
    """Ranges and nodes have an `extra` of their own."""
    for key, kind in v.COLUMNS.items():
        if kind not in (v.RANGE, v.RANGES, v.NODES):
            continue
        column = batch.column(key)
        if column.null_count == len(column) or not _has_extra(column, kind):
            continue
        for row, value in _present(column):
            if key in _keys(ev := _ev(batch, row)):
                structs = [value] if kind == v.RANGE else value
                keys = v.NODE_KEYS if kind == v.NODES else v.RANGE_KEYS
                for problem in _of_structs(structs, keys):
                    yield row, f"`{key}` of `{ev}` has {problem}"


def _has_extra(column: pa.Array, kind: str) -> bool:
    structs = column if kind == v.RANGE else column.flatten()
    extra = structs.field("extra")
    if extra.null_count < len(extra):
        return True
    return kind == v.NODES and any(_has_extra(structs.field(name), v.RANGES) for name in ("reads", "writes"))


def _of_structs(structs: list[Any], keys: dict[str, str]) -> Iterator[str]:
    for struct in structs:
        if struct is None:
            continue
        extra = {} if struct["extra"] is None else loads(struct["extra"].encode())
        if type(extra) is not dict:
            yield "an element that is no object"
            continue
        for key, value in extra.items():
            if value is not None and key in keys:
                yield f"a `{key}` of the wrong type"
        for key, kind in keys.items():
            if kind == v.RANGES and struct[key]:
                yield from _of_structs(struct[key], v.RANGE_KEYS)
