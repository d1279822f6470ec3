"""A third party's Arrow batch to the canonical schema: other widths, missing and unknown columns, odd types.

What has no place goes into `extra` as JSON, value by value, so that it counts as what it is: an unknown key, or a
value of the wrong type. A canonical batch passes untouched.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hbtrace.trace import vocabulary as v
from hbtrace.trace.rows import column_from_values, dumps, loads, nulls
from hbtrace.trace.schema import SCHEMA

_ERRORS = (pa.ArrowException, ValueError, OverflowError)


def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the canonical schema. Needs a column `ev`."""
    if batch.schema.equals(SCHEMA):
        return batch
    extras: dict[int, dict[str, Any]] = {}
    names = batch.schema.names
    arrays = []
    for key in v.COLUMNS:
        if key in names:
            arrays.append(_column(key, batch.column(names.index(key)), extras))
        else:
            arrays.append(nulls(batch.num_rows, SCHEMA.field(key).type))
    for index, name in enumerate(names):
        if name not in v.COLUMNS and name != "extra":
            _unknown(name, batch.column(index), extras)
    if "extra" in names:
        _merge_extra(batch.column(names.index("extra")), extras)
    texts = [dumps(extras[row]) if row in extras else None for row in range(batch.num_rows)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(texts, pa.string())], schema=SCHEMA)


def _column(key: str, column: pa.Array, extras: dict[int, dict[str, Any]]) -> pa.Array:
    target = SCHEMA.field(key).type
    if column.type.equals(target):
        return column
    fast = _cast(column, target)
    if fast is not None:
        return fast
    values = [_as_json(value) for value in column.to_pylist()]
    if v.COLUMNS[key] == v.RANGE:  # a list of one range is a range, too
        values = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in values]
    array, unfit = column_from_values(key, values)
    for row, value in unfit.items():
        extras.setdefault(row, {})[key] = value
    return array


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The column cast, where types are of one kind and every value fits; None otherwise."""
    types, have = pa.types, column.type
    if types.is_dictionary(have):
        column, have = column.dictionary_decode(), have.value_type
    wants_string = types.is_string(target) or types.is_dictionary(target)
    same_kind = (
        types.is_null(have)
        or (types.is_integer(have) and types.is_integer(target))
        or (types.is_boolean(have) and types.is_boolean(target))
        or (wants_string and (types.is_string(have) or types.is_large_string(have) or types.is_string_view(have)))
    )
    if not same_kind:
        return None
    try:
        if not types.is_dictionary(target):
            return column.cast(target)
        return column.cast(pa.string()).dictionary_encode()
    except _ERRORS:
        return None


def _unknown(name: str, column: pa.Array, extras: dict[int, dict[str, Any]]) -> None:
    for row, value in enumerate(column.to_pylist()):
        if value is not None:
            extras.setdefault(row, {})[name] = _as_json(value)


def _merge_extra(column: pa.Array, extras: dict[int, dict[str, Any]]) -> None:
    for row, text in enumerate(column.to_pylist()):
        if text is None:
            continue
        try:
            value = loads(text.encode())
        except (AttributeError, ValueError):
            value = None
        given = value if isinstance(value, dict) else {"extra": _as_json(text)}
        extras[row] = extras.get(row, {}) | given


def _as_json(value: Any) -> Any:
    """What JSON would have said. A null field of a struct is an absent key: Arrow has no other way to say that."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _as_json(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_as_json(element) for element in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
