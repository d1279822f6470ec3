"""Rows whose values are what the format says: what is of the wrong type counts as absent, as it does for the replay.

The reader keeps such values, so that a round trip loses nothing; here they would be taken for ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hbtrace.trace import vocabulary as v
from hbtrace.trace.rows import rows_from_batch

_NESTED = frozenset(key for key, kind in v.COLUMNS.items() if kind in (v.RANGE, v.RANGES, v.NODES, v.INTS, v.STRS))


def sound_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a canonical batch. Keys that the format does not know are left out where a row has any."""
    extra = batch.column("extra").is_valid().to_pylist()
    return [
        _sound(row, {**v.COLUMNS, "env": v.JSON, "attrs": v.JSON}) if more or not _NESTED.isdisjoint(row) else row
        for row, more in zip(rows_from_batch(batch), extra, strict=True)
    ]


def _sound(row: dict[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    values = ((key, _value(value, kinds[key])) for key, value in row.items() if key in kinds)
    return {key: value for key, value in values if value is not None}


def _value(value: Any, kind: str) -> Any:
    """The value, with unsound elements of lists dropped; None if it is not of its kind."""
    if kind in (v.INT, v.ID):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if kind == v.BOOL:
        return value if isinstance(value, bool) else None
    if kind == v.STR:
        return value if isinstance(value, str) else None
    if kind in (v.RANGE, v.JSON):
        if not isinstance(value, dict):
            return None
        return value if kind == v.JSON else _sound(value, v.RANGE_KEYS)
    if not isinstance(value, list):
        return None
    element = {v.INTS: v.INT, v.STRS: v.STR, v.RANGES: v.RANGE}.get(kind)
    if element is not None:
        return [x for x in (_value(x, element) for x in value) if x is not None]
    return [_sound(x, v.NODE_KEYS) for x in value if isinstance(x, dict)]
