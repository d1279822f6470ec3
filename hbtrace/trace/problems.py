"""Values of the wrong type, values that a named set does not know, keys that nobody reads: found in a batch, counted by
the replay.

Values are no errors: the first count as absent, the second as the default. An unknown key is one in strict mode; it
survives untouched. Costs next to nothing where there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.trace import vocabulary as v
from hbtrace.trace.jsontext import dumps
from hbtrace.trace.rows import kept, kept_of_element, present
from hbtrace.trace.schema import STRUCTS

Problem = tuple[int, str]
"""(row in the batch, what is wrong)"""

WANTED: Final = {
    v.INT: "integer", v.ID: "integer", v.BOOL: "boolean", v.STR: "string", v.INTS: "list of integers",
    v.STRS: "list of strings", v.RANGE: "range", v.RANGES: "list of ranges", v.NODES: "list of nodes", v.JSON: "object",
    v.PICKS: "list of picks", v.RUNS: "list of runs", v.LIST: "list",
}  # fmt: skip
"""What the value of a key is, by its kind."""
_LONGEST: Final = 40
_ALIKE: Final = 0.6
_ELEMENT: Final = {v.RANGE: "range", v.RANGES: "range", v.NODES: "node", v.PICKS: "pick", v.RUNS: "run"}


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

    @property
    def words(self) -> set[str | None]:
        """The words of the dictionary; some may be unused."""
        return set(self._words)

    @cached_property
    def _codes(self) -> npt.NDArray[np.int64]:
        """Of each row, where its word stands in the dictionary; -1 for none."""
        indices = self._column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return indices.astype(np.int64)  # type: ignore[no-any-return]

    def are(self, *evs: str | None) -> npt.NDArray[np.bool_] | None:
        """By row, whether it is one of these events; None where the batch has none. A foreign dictionary may hold a
        word twice."""
        wanted = [word is not None and word in evs for word in self._words]
        return np.array([*wanted, False])[self._codes] if any(wanted) else None

    def rows(self, *evs: str) -> list[int] | None:
        """The rows of these events; None where the batch has none."""
        found = self.are(*evs)
        return None if found is None else np.flatnonzero(found).tolist()

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
    if kind in v.KEPT:
        return value is None or isinstance(value, dict if kind == v.JSON else list)
    if kind in (v.INTS, v.STRS) and isinstance(value, list):
        return all(one is None or _fits_element(kind, one) for one in value)
    return value is None


def _fits_element(kind: str, value: Any) -> bool:
    return type(value) is str if kind == v.STRS else type(value) is int and -(2**63) <= value < 2**63


def _wanted(kind: str, value: Any) -> str:
    long = type(value) is int and kind in (v.INT, v.ID)
    return WANTED[kind] + (" of 64 bits" if long else "")


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
    """Ranges, nodes and picks have an `extra` of their own; and of some the values together make no sense."""
    for key, kind in v.COLUMNS.items():
        if kind not in STRUCTS:
            continue
        column = batch.column(key)
        if column.null_count == len(column) or not _worth_a_look(column, kind):
            continue
        for row, value in present(column):
            if key in events.keys(row):
                for problem in _of_structs([value] if kind == v.RANGE else value, kind):
                    yield row, f"{problem} `{key}` of `{events.of[row]}`"


def _worth_a_look(column: pa.Array, kind: str) -> bool:
    """Whether anything in a column of objects can be wrong."""
    structs = column if kind == v.RANGE else column.flatten()
    extra = structs.field("extra")
    if extra.null_count < len(extra) or kind == v.RUNS:
        return True
    if kind in (v.RANGE, v.RANGES):
        return bool(structs.field("by").null_count < len(structs))
    inner = ((name, of) for name, of in STRUCTS[kind][0].items() if of in STRUCTS)
    return any(_worth_a_look(structs.field(name), of) for name, of in inner)


def _of_structs(structs: list[Any], kind: str) -> Iterator[str]:
    keys, _ = STRUCTS[kind]
    for struct in structs:
        if struct is None:
            continue
        extra = {} if struct["extra"] is None else kept_of_element(struct["extra"])
        if not isinstance(extra, dict):
            yield f"an element that is no {_ELEMENT[kind]} in"
            continue
        for key, value in extra.items():
            if key in keys and not _fits(keys[key], value):
                yield f"`{key}` that is no {_wanted(keys[key], value)} in"
        if kind in (v.RANGE, v.RANGES) and (why := by_nothing(struct)):
            yield f"`by` {why} in"
        elif kind == v.RUNS and struct["first"] is None:
            yield "a run without `first` in"
        for key, inner in keys.items():
            if inner in STRUCTS and struct[key]:
                for problem in _of_structs(struct[key], inner):
                    yield f"{problem} `{key}` in"


def by_nothing(asked: Mapping[str, Any]) -> str:
    """Why the `by` of a range counts as absent (contract, section 10); empty where it counts, or there is none."""
    if asked["by"] in (None, -1):
        return ""
    if asked["rows"] not in (None, 1) or asked["stride"] not in (None, 0):
        return "with `rows` or `stride`"
    if asked["buffer"] not in (None, -1):
        return "with `buffer`"
    if asked["size"] is None:
        return "without `size`"
    return "" if (asked["pitch"] or 0) >= 1 else "without a `pitch` of 1 or more"


def unknown_keys(batch: pa.RecordBatch) -> list[Problem]:
    """Keys that are not known on their event, range, node or pick, each with the nearest that is."""
    events = _Events(batch)
    found = [*_misplaced(batch, events), *_unknown_in_extra(batch, events), *_unknown_in_structs(batch, events)]
    found.sort(key=lambda problem: problem[0])
    return found


def _misplaced(batch: pa.RecordBatch, events: _Events) -> Iterator[Problem]:
    """Columns of one event that a row of another one fills."""
    for key in v.COLUMNS:
        column = batch.column(key)
        if key == "ev" or key in v.COMMON or column.null_count == len(column):
            continue
        words = {ev for ev in events.words if ev in v.EVENTS and key not in v.EVENTS[ev].keys}
        foreign = events.are(*words) if words else None
        if foreign is None:
            continue
        there = column.is_valid().to_numpy(zero_copy_only=False)
        yield from ((row, _unknown(key, str(events.of[row]))) for row in np.flatnonzero(foreign & there).tolist())


def _unknown_in_extra(batch: pa.RecordBatch, events: _Events) -> Iterator[Problem]:
    for row, text in present(batch.column("extra")):
        ev = events.of[row]
        if ev not in v.EVENTS:
            continue
        known = events.keys(row)
        for key, value in kept(text).items():
            # A null is absent; what stands in a column as well was told there already.
            if key not in known and value is not None and not key.startswith(v.OWN_KEYS):
                yield row, _unknown(key, ev)


def _unknown(key: str, ev: str) -> str:
    return f"`{ev}` has no key `{key}`{_nearest(key, {**v.EVENTS[ev].keys, **v.COMMON})}"


def _nearest(key: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(key, known, 1, _ALIKE)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _unknown_in_structs(batch: pa.RecordBatch, events: _Events) -> Iterator[Problem]:
    for key, kind in v.COLUMNS.items():
        if kind not in STRUCTS:
            continue
        column = batch.column(key)
        if column.null_count == len(column) or not _has_extra(column, kind):
            continue
        for row, value in present(column):
            if key in events.keys(row):
                for what in _unknown_of([value] if kind == v.RANGE else value, kind):
                    yield row, f"{what} in `{key}` of `{events.of[row]}`"


def _has_extra(column: pa.Array, kind: str) -> bool:
    structs = column if kind == v.RANGE else column.flatten()
    extra = structs.field("extra")
    inner = ((name, of) for name, of in STRUCTS[kind][0].items() if of in STRUCTS)
    return extra.null_count < len(extra) or any(_has_extra(structs.field(name), of) for name, of in inner)


def _unknown_of(structs: list[Any], kind: str) -> Iterator[str]:
    keys, _ = STRUCTS[kind]
    for struct in structs:
        if struct is None:
            continue
        extra = {} if struct["extra"] is None else kept_of_element(struct["extra"])
        for key, value in extra.items() if isinstance(extra, dict) else ():
            if key not in keys and value is not None and not key.startswith(v.OWN_KEYS):
                yield f"a {_ELEMENT[kind]} has no key `{key}`{_nearest(key, keys)}"
        for key, inner in keys.items():
            if inner in STRUCTS and struct[key]:
                yield from _unknown_of(struct[key], inner)
