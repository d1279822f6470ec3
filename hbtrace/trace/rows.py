"""Rows as dicts to canonical batches and back, losing nothing.

What fits its column goes there; everything else stands as JSON text in `extra`, of the row or of the range or node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from hbtrace.trace import vocabulary as v
from hbtrace.trace.schema import NODE_TYPE, RANGE_TYPE, SCHEMA

_INT64: Final = range(-(2**63), 2**63)
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_MISSING: Final = object()


def loads(text: bytes) -> Any:
    """Parse JSON without losing digits: orjson makes floats of integers beyond 64 bits. Raises ValueError."""
    if _LONG_NUMBER.search(text) is None:
        return orjson.loads(text)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def dumps(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_int(value: Any) -> bool:
    return type(value) is int and value in _INT64


def _is_bool(value: Any) -> bool:
    return value is True or value is False


def _is_str(value: Any) -> bool:
    return type(value) is str


_SCALARS: Final[dict[str, Callable[[Any], bool]]] = {v.INT: _is_int, v.ID: _is_int, v.BOOL: _is_bool, v.STR: _is_str}
_ELEMENTS: Final[dict[str, Callable[[Any], bool]]] = {v.INTS: _is_int, v.STRS: _is_str}


class _Structs:
    """Builds a struct array key by key: much faster than handing pyarrow dicts."""

    def __init__(self, kind: pa.StructType, keys: dict[str, str]) -> None:
        self._kind = kind
        self._keys = keys
        self._columns: dict[str, Any] = {key: _builder(kind.field(key).type, k) for key, k in keys.items()}
        self._extras: list[str | None] = []
        self._nulls: list[bool] = []

    def add(self, value: Any) -> None:
        """One element; null stays null, what is no object is kept raw."""
        self._nulls.append(value is None)
        if type(value) is not dict:
            for column in self._columns.values():
                column.add(None)
            self._extras.append(None if value is None else dumps(value))
            return
        columns, extras = self._columns, {}
        for key, column in columns.items():
            given = value.get(key, _MISSING)
            if given is _MISSING:
                column.add(None)
            elif given is None or not column.add(given):
                extras[key] = given
                if given is None:
                    column.add(None)
        if len(value) > len(columns) or any(key not in columns for key in value):
            extras.update((key, given) for key, given in value.items() if key not in columns)
        self._extras.append(dumps(extras) if extras else None)

    def finish(self) -> pa.StructArray:
        children = [self._columns[key].finish() for key in self._keys]
        fields = [self._kind.field(k) for k in range(self._kind.num_fields)]
        mask = pa.array(self._nulls, pa.bool_())
        return pa.StructArray.from_arrays([*children, pa.array(self._extras, pa.string())], fields=fields, mask=mask)


class _Values:
    """Builds a column of numbers, flags or strings."""

    def __init__(self, kind: pa.DataType, fits: Callable[[Any], bool]) -> None:
        self._kind = kind
        self._fits = fits
        self._values: list[Any] = []

    def add(self, value: Any) -> bool:
        """Whether the value fits; null is put where it does not."""
        fits = value is not None and self._fits(value)
        self._values.append(value if fits else None)
        return fits

    def finish(self) -> pa.Array:
        return pa.array(self._values, self._kind)


class _Lists:
    """Builds a column of lists of simple values: what fits of a list is kept, the list itself does not fit then."""

    def __init__(self, kind: pa.DataType, fits: Callable[[Any], bool]) -> None:
        self._kind = kind
        self._fits = fits
        self._values: list[list[Any] | None] = []

    def add(self, value: Any) -> bool:
        if type(value) is not list:
            self._values.append(None)
            return False
        good = [element for element in value if self._fits(element)]
        self._values.append(good)
        return len(good) == len(value)

    def finish(self) -> pa.Array:
        return pa.array(self._values, self._kind)


class _StructLists:
    """Builds a column of lists of ranges or nodes."""

    def __init__(self, kind: pa.StructType, keys: dict[str, str]) -> None:
        self._elements = _Structs(kind, keys)
        self._offsets: list[int | None] = []
        self._count = 0

    def add(self, value: Any) -> bool:
        if type(value) is not list:
            self._offsets.append(None)
            return False
        self._offsets.append(self._count)
        for element in value:
            self._elements.add(element)
        self._count += len(value)
        return True

    def finish(self) -> pa.Array:
        offsets = pa.array([*self._offsets, self._count], pa.int32())
        return pa.ListArray.from_arrays(offsets, self._elements.finish())


class _Single:
    """Builds a column of single ranges."""

    def __init__(self) -> None:
        self._elements = _Structs(RANGE_TYPE, v.RANGE_KEYS)

    def add(self, value: Any) -> bool:
        fits = type(value) is dict
        self._elements.add(value if fits else None)
        return fits

    def finish(self) -> pa.Array:
        return self._elements.finish()


def _builder(kind: pa.DataType, key_kind: str) -> Any:
    if key_kind in _SCALARS:
        return _Values(kind, _SCALARS[key_kind])
    if key_kind in _ELEMENTS:
        return _Lists(kind, _ELEMENTS[key_kind])
    if key_kind == v.RANGE:
        return _Single()
    return _StructLists(*((RANGE_TYPE, v.RANGE_KEYS) if key_kind == v.RANGES else (NODE_TYPE, v.NODE_KEYS)))


def column_from_values(key: str, values: Sequence[Any]) -> tuple[pa.Array, dict[int, Any]]:
    """One canonical column of JSON values (None is absent), and what did not fit, by row."""
    kind = SCHEMA.field(key).type
    builder = _builder(pa.string() if pa.types.is_dictionary(kind) else kind, v.COLUMNS[key])
    unfit = {row: value for row, value in enumerate(values) if not builder.add(value) and value is not None}
    column = builder.finish()
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column, unfit


def batch_from_rows(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """A canonical batch of rows as JSON has them."""
    count = len(rows)
    given: dict[str, list[Any]] = {}
    extras: dict[int, dict[str, Any]] = {}
    columns = v.COLUMNS
    for row, event in enumerate(rows):
        for key, value in event.items():
            if value is None or key not in columns:
                extras.setdefault(row, {})[key] = value
                continue
            values = given.get(key)
            if values is None:
                values = given[key] = [None] * count
            values[row] = value
    arrays = []
    for key in columns:
        if key in given:
            array, unfit = column_from_values(key, given[key])
            for row, value in unfit.items():
                extras.setdefault(row, {})[key] = value
        else:
            array = nulls(count, SCHEMA.field(key).type)
        arrays.append(array)
    texts = [dumps(extras[row]) if row in extras else None for row in range(count)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(texts, pa.string())], schema=SCHEMA)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()), pa.array([], pa.string()))
    return pa.nulls(count, kind)


def rows_from_batch(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a canonical batch as JSON has them: `ev` first, absent keys absent."""
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for key, kind in v.COLUMNS.items():
        column = batch.column(key)
        if column.null_count == len(column):
            continue
        for row, value in zip(rows, column.to_pylist(), strict=True):
            if value is not None:
                row[key] = _as_json(value, kind)
    for row, text in zip(rows, batch.column("extra").to_pylist(), strict=True):
        if text is not None:
            row.update(loads(text.encode()))
    return rows


def _as_json(value: Any, kind: str) -> Any:
    if kind == v.RANGE:
        return _struct_as_json(value, v.RANGE_KEYS)
    if kind == v.RANGES:
        return [_struct_as_json(element, v.RANGE_KEYS) for element in value]
    if kind == v.NODES:
        return [_struct_as_json(element, v.NODE_KEYS) for element in value]
    return value


def _struct_as_json(struct: dict[str, Any] | None, keys: dict[str, str]) -> Any:
    if struct is None:
        return None
    extra = struct["extra"]
    rest = {} if extra is None else loads(extra.encode())
    if type(rest) is not dict:
        return rest
    return {key: _as_json(struct[key], kind) for key, kind in keys.items() if struct[key] is not None} | rest
