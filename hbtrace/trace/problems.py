"""Values of the wrong type, and values that a named set does not know: found in a batch, counted by the replay.

They are no errors: the first count as absent, the second as the default. Only keys that belong to the row's event
count; any other key is somebody else's and survives untouched. Costs next to nothing where there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.trace import vocabulary as v
from hbtrace.trace.jsontext import dumps
from hbtrace.trace.rows import kept, kept_of_element, present

Problem = tuple[int, str]
"""(row in the batch, what is wrong)"""

_WANTED: Final = {
    v.INT: "integer", v.ID: "integer", v.BOOL: "boolean", v.STR: "string", v.INTS: "list of integers",
    v.STRS: "list of strings", v.RANGE: "range", v.RANGES: "list of ranges", v.NODES: "list of nodes", v.JSON: "object",
}  # fmt: skip
_LONGEST: Final = 40


def value_problems(batch: pa.RecordBatch) -> list[Problem]:
    """All problems of a canonical batch, by row."""
    events = _Events(batch)
    found = [*_wrong_types(batch, events), *_unknown_set_values(batch, events), *_inside_structs(batch, events)]
    found.sort(key=lambda problem: problem[0])
    return found


class _Events:
    """What event each row is, looked up only if somebody asks."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._column = batch.column("ev")
        self._words: list[str | None] = self._column.dictionary.to_pylist()

    @cached_property
    def of(self) -> list[str | None]:
        words = [*self._words, None]
        return list(map(words.__getitem__, self._column.indices.fill_null(-1).to_numpy(zero_copy_only=False).tolist()))

    def rows(self, ev: str) -> list[int] | None:
        """The rows of one event; None where the batch has none. A foreign dictionary may hold a word twice."""
        codes = [code for code, word in enumerate(self._words) if word == ev]
        if not codes:
            return None
        indices = self._column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        found: list[int] = np.flatnonzero(np.isin(indices, codes)).tolist()
        return found

    def keys(self, row: int) -> Mapping[str, str]:
        """The keys that belong to a row's event; none for an unknown one, whose row is skipped."""
        ev = self.of[row]
        return v.COMMON | v.EVENTS[ev].keys if ev in v.EVENTS else {}


def _wrong_types(batch: pa.RecordBatch, events: _Events) -> Iterator[Problem]:
    """The reader put what does not fit its column into `extra`."""
    for row, text in present(batch.column("extra")):
        keys = events.keys(row)
        for key, value in kept(text).items():
            if key in keys and not _fits(keys[key], value):
                yield row, f"`{key}` of `{events.of[row]}` is no {_wanted(keys[key], value)}"


def _fits(kind: str, value: Any) -> bool:
    """Whether a value is in `extra` for another reason than its type: null, and null elements, count as absent."""
    if kind == v.JSON:
        return value is None or isinstance(value, dict)
    if kind in (v.INTS, v.STRS) and isinstance(value, list):
        return all(one is None or _fits_element(kind, one) for one in value)
    return value is None


def _fits_element(kind: str, value: Any) -> bool:
    return type(value) is str if kind == v.STRS else type(value) is int and -(2**63) <= value < 2**63


def _wanted(kind: str, value: Any) -> str:
    long = type(value) is int and kind in (v.INT, v.ID)
    return _WANTED[kind] + (" of 64 bits" if long else "")


def _unknown_set_values(batch: pa.RecordBatch, events: _Events) -> Iterator[Problem]:
    for (ev, key), allowed in v.SETS.items():
        column = batch.column(key)
        if column.null_count == len(column) or (rows := events.rows(ev)) is None:
            continue
        chosen = column.take(pa.array(rows, pa.int64()))
        is_list = v.COLUMNS[key] == v.STRS
        words = pc.unique(chosen.flatten() if is_list else chosen).to_pylist()
        if set(words) - {None} <= allowed:
            continue
        for place, value in present(chosen):
            for word in value if is_list else [value]:
                if word is not None and word not in allowed:
                    yield rows[place], f"`{key}` of `{ev}` knows no {_quoted(word)}"


def _quoted(word: str) -> str:
    text = dumps(word)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + '..."'


def _inside_structs(batch: pa.RecordBatch, events: _Events) -> Iterator[Problem]:
    """Ranges and nodes have an `extra` of their own."""
    for key, kind in v.COLUMNS.items():
        if kind not in (v.RANGE, v.RANGES, v.NODES):
            continue
        column = batch.column(key)
        if column.null_count == len(column) or not _has_extra(column, kind):
            continue
        for row, value in present(column):
            if key in events.keys(row):
                structs = [value] if kind == v.RANGE else value
                node = kind == v.NODES
                for problem in _of_structs(structs, node=node):
                    yield row, f"{problem} `{key}` of `{events.of[row]}`"


def _has_extra(column: pa.Array, kind: str) -> bool:
    structs = column if kind == v.RANGE else column.flatten()
    extra = structs.field("extra")
    if extra.null_count < len(extra):
        return True
    return kind == v.NODES and any(_has_extra(structs.field(name), v.RANGES) for name in ("reads", "writes"))


def _of_structs(structs: list[Any], *, node: bool) -> Iterator[str]:
    keys = v.NODE_KEYS if node else v.RANGE_KEYS
    for struct in structs:
        if struct is None:
            continue
        extra = {} if struct["extra"] is None else kept_of_element(struct["extra"])
        if not isinstance(extra, dict):
            yield f"an element that is no {'node' if node else 'range'} in"
            continue
        for key, value in extra.items():
            if key in keys and not _fits(keys[key], value):
                yield f"`{key}` that is no {_wanted(keys[key], value)} in"
        for key, kind in keys.items():
            if kind == v.RANGES and struct[key]:
                for problem in _of_structs(struct[key], node=False):
                    yield f"{problem} `{key}` in"
