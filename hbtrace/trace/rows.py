"""Rows as dicts to canonical batches and back, losing nothing.

What fits its column goes there; everything else stands as JSON text in `extra`, of the row or of the range or node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.trace import vocabulary as v
from hbtrace.trace.build import ROW_TYPES, build_columns, extra_column, nulls
from hbtrace.trace.jsontext import loads
from hbtrace.trace.schema import SCHEMA, STRUCTS

__all__ = ["batch_from_rows", "kept", "kept_of_element", "nulls", "present", "rows_from_batch", "rows_not_fitting"]

_TYPES: Final = {
    key: dict if kind == v.JSON else list
    for keys in (v.COMMON, *(event.keys for event in v.EVENTS.values()))
    for key, kind in keys.items()
    if kind in v.KEPT
}
"""Of keys that have no column and a type all the same."""
_BITS: Final = 40
"""So many columns are added to a code of at most 16 bits before it is made small again."""


def batch_from_rows(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """A canonical batch of rows as JSON has them."""
    count = len(rows)
    columns, extras = build_columns(rows, v.COLUMNS, ROW_TYPES)
    arrays = [columns[key] if key in columns else nulls(count, type_) for key, type_ in ROW_TYPES.items()]
    return pa.RecordBatch.from_arrays([*arrays, extra_column(extras, count)], schema=SCHEMA)


def rows_from_batch(batch: pa.RecordBatch, *, fitting: bool = False) -> list[dict[str, Any]]:
    """The rows of a canonical batch as JSON has them: `ev` first, absent keys absent.

    fitting: as the replay reads them. A value of the wrong type is absent, in a range or node as well, and so is an
    element of a list that is none of what the list holds.
    """
    columns = {key: batch.column(key) for key in v.COLUMNS}
    rows = _objects(columns, v.COLUMNS, batch.num_rows, fitting)
    for row, text in present(batch.column("extra")):
        rows[row].update(_others(kept(text), v.COLUMNS) if fitting else kept(text))
    return rows


def rows_not_fitting(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The rows that may be others when they are read as fitting: all such are among them."""
    found = batch.column("extra").is_valid()
    for key, kind in v.COLUMNS.items():
        if kind in (*STRUCTS, v.INTS, v.STRS) and _holds_unfit(batch.column(key)):
            found = pc.or_(found, batch.column(key).is_valid())
    numbers: npt.NDArray[np.int64] = np.flatnonzero(found.to_numpy(zero_copy_only=False))
    return numbers


def _holds_unfit(column: pa.Array) -> bool:
    """Whether a range, a node or an element of a list has an `extra` or is null."""
    if pa.types.is_list(column.type):
        column = column.flatten()
        if column.null_count:
            return True
    if not pa.types.is_struct(column.type):
        return False
    if column.field("extra").null_count < len(column):
        return True
    return any(_holds_unfit(column.field(index)) for index in range(column.type.num_fields))


def _others(extra: dict[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Without the values that have no place in their columns, and what is no object or list where one belongs."""
    return {
        key: value
        for key, value in extra.items()
        if key not in kinds and isinstance(value, _TYPES.get(key, object))
    }


def kept(text: str) -> dict[str, Any]:
    """What a row's `extra` holds. A third party may have a column of that name with anything in it."""
    try:
        value = loads(text.encode())
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"extra": text}


def kept_of_element(text: str) -> Any:
    """What the `extra` of a range or node holds: an object of other keys, or the raw value of what is no object."""
    try:
        return loads(text.encode())
    except ValueError:
        return {"extra": text}


def _objects(
    columns: Mapping[str, pa.Array], kinds: Mapping[str, str], count: int, fitting: bool
) -> list[dict[str, Any]]:
    """Dicts of what is present. Rows with the same keys present are made together, by `zip`."""
    used = {key: column for key, column in columns.items() if column.null_count < count}
    valid = {key: column.is_valid().to_numpy(zero_copy_only=False) for key, column in used.items()}
    values = {key: _values(column.drop_null(), kinds[key], fitting) for key, column in used.items()}
    place = {key: np.cumsum(present) - 1 for key, present in valid.items()}
    objects: list[dict[str, Any]] = [{} for _ in range(count)]
    for rows in _alike(list(valid.values()), count):
        keys = [key for key, present in valid.items() if present[rows[0]]]
        picked = [map(values[key].__getitem__, place[key][rows].tolist()) for key in keys]
        for row, one in zip(rows.tolist(), zip(*picked, strict=True), strict=False):  # no keys at all: nothing to do
            objects[row] = dict(zip(keys, one, strict=True))
    for key in used if fitting else ():
        if kinds[key] == v.RANGE and None in values[key]:
            objects = [_without_none(one, key) for one in objects]
    return objects


def _without_none(one: dict[str, Any], key: str) -> dict[str, Any]:
    return one if one.get(key, key) is not None else {name: value for name, value in one.items() if name != key}


def _alike(present: list[npt.NDArray[np.bool_]], count: int) -> list[npt.NDArray[np.int64]]:
    """Row numbers, grouped by which columns are present."""
    code = np.zeros(count, dtype=np.int64)
    for index, column in enumerate(present):
        if index % _BITS == _BITS - 1:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)  # small numbers again: room for more bits
        code = code * 2 + column
    order = np.argsort(code, kind="stable")
    borders = np.flatnonzero(np.diff(code[order])) + 1
    return [group for group in np.split(order, borders) if len(group)]


def _values(column: pa.Array, kind: str, fitting: bool) -> list[Any]:
    """A column without nulls as Python values."""
    if kind in (v.INT, v.ID):
        integers: list[Any] = column.to_numpy().tolist()
        return integers
    if pa.types.is_dictionary(column.type):
        words = column.dictionary.to_pylist()
        return list(map(words.__getitem__, column.indices.to_numpy().tolist()))
    if kind == v.RANGE:
        return _elements(column, STRUCTS[kind][0], fitting)
    if kind not in (*STRUCTS, v.INTS, v.STRS):
        plain: list[Any] = column.to_pylist()
        return plain
    bounds = [0, *np.cumsum(column.value_lengths().to_numpy()).tolist()]
    inner = column.flatten()
    flat = _elements(inner, STRUCTS[kind][0], fitting) if kind in STRUCTS else inner.to_pylist()
    lists = [flat[low:high] for low, high in pairwise(bounds)]
    if fitting and (inner.null_count or None in flat):
        return [[element for element in one if element is not None] for one in lists]
    return lists


def _elements(structs: pa.StructArray, keys: Mapping[str, str], fitting: bool) -> list[Any]:
    """Ranges or nodes. Null elements, and what is no object, are as JSON had it; fitting: None."""
    objects: list[Any] = list(_objects({key: structs.field(key) for key in keys}, keys, len(structs), fitting))
    for place, text in present(structs.field("extra")):
        extra = kept_of_element(text)
        if isinstance(extra, dict):
            objects[place] |= _others(extra, keys) if fitting else extra
        else:
            objects[place] = None if fitting else extra
    if structs.null_count:
        for place in np.flatnonzero(structs.is_null().to_numpy(zero_copy_only=False)).tolist():
            objects[place] = None
    return objects


def present(column: pa.Array) -> list[tuple[int, Any]]:
    """(place, value) of what is not null."""
    if column.null_count == len(column):
        return []
    places = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist()
    return list(zip(places, column.drop_null().to_pylist(), strict=True))
