"""JSON values to canonical Arrow columns, many at a time.

Objects are sorted by their keys first: those with the same keys are turned into columns by `zip`, with no Python code
for the single value. What does not fit its column is handed back, by position; it belongs into `extra`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hbtrace.trace import vocabulary as v
from hbtrace.trace.jsontext import dumps
from hbtrace.trace.schema import SCHEMA, STRUCTS

Unfit = dict[int, Any]
"""What did not fit, by position; None is an explicit null."""

_INT64: Final = range(-(2**63), 2**63)
_WORDS: Final = pa.dictionary(pa.int32(), pa.string())
_NULLS_KEPT: Final = 1 << 16

ROW_TYPES: Final[dict[str, pa.DataType]] = {key: SCHEMA.field(key).type for key in v.COLUMNS}
_FIELD_TYPES: Final = {kind: {field.name: field.type for field in type_} for kind, (_, type_) in STRUCTS.items()}


def build(kind: str, values: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, Unfit]:
    """One column of a vocabulary kind from JSON values; where one does not fit, or is null, the column has null."""
    if kind in (v.INT, v.ID):
        return _integers(values)
    if kind == v.BOOL:
        return _simple(values, bool, type_)
    if kind == v.STR:
        return _strings(values, type_)
    if kind in (v.INTS, v.STRS):
        return _lists(kind, values, type_)
    if kind == v.RANGE:
        unfit = {row: value for row, value in enumerate(values) if not isinstance(value, dict)}
        return _structs(_without(values, unfit), kind), unfit
    return _struct_lists(kind, values)


def build_columns(
    objects: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], types: Mapping[str, pa.DataType]
) -> tuple[dict[str, pa.Array], dict[int, dict[str, Any]]]:
    """The columns that objects have of `kinds`, and by position what must stand in `extra`."""
    count = len(objects)
    shapes: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, keys in enumerate(map(tuple, objects)):
        shapes[keys].append(position)
    given: dict[str, tuple[list[int], list[Any]]] = {}
    extras: dict[int, dict[str, Any]] = {}
    for keys, positions in shapes.items():
        alike = objects if len(shapes) == 1 else [objects[position] for position in positions]
        for key, values in zip(keys, zip(*[one.values() for one in alike], strict=True), strict=True):
            if key in kinds:
                where, have = given.setdefault(key, ([], []))
                where += positions
                have += values
            else:
                keep(extras, zip(positions, values, strict=True), key)
    columns = {}
    for key, (where, have) in given.items():
        array, unfit = build(kinds[key], have, types[key])
        if unfit:
            keep(extras, ((where[place], value) for place, value in unfit.items()), key)
        columns[key] = _spread(array, where, count)
    return columns, extras


def extra_column(extras: Mapping[int, Any], count: int) -> pa.Array:
    """The `extra` column: JSON text where there is anything to keep."""
    if not extras:
        return nulls(count, pa.string())
    return _spread(pa.array(map(dumps, extras.values()), pa.string()), list(extras), count)


def nulls(count: int, type_: pa.DataType) -> pa.Array:
    return _many_nulls(type_).slice(0, count) if count <= _NULLS_KEPT else _new_nulls(count, type_)


@cache
def _many_nulls(type_: pa.DataType) -> pa.Array:
    """Most columns of most batches are null throughout: they share these."""
    return _new_nulls(_NULLS_KEPT, type_)


def _new_nulls(count: int, type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return pa.DictionaryArray.from_arrays(pa.nulls(count, type_.index_type), pa.array([], type_.value_type))
    return pa.nulls(count, type_)


def keep(extras: dict[int, dict[str, Any]], found: Iterable[tuple[int, Any]], key: str) -> None:
    """Values that have no place in a column are noted under their key, by position."""
    for position, value in found:
        extras.setdefault(position, {})[key] = value


def _spread(array: pa.Array, where: list[int], count: int) -> pa.Array:
    """`array` brought to `count` rows: its elements stand at `where`, the others are null."""
    places = np.array(where, dtype=np.int64)
    order = np.arange(len(array), dtype=np.int64)
    if len(array) == count and np.array_equal(places, order):
        return array
    source = np.zeros(count, dtype=np.int64)
    absent = np.ones(count, dtype=np.bool_)
    source[places], absent[places] = order, False
    return array.take(pa.array(source, mask=absent))


def _without(values: Sequence[Any], unfit: Unfit) -> Sequence[Any]:
    if not unfit:
        return values
    fitting = list(values)
    for position in unfit:
        fitting[position] = None
    return fitting


def _integers(values: Sequence[Any]) -> tuple[pa.Array, Unfit]:
    if set(map(type, values)) == {int}:  # True is not 1, and 8.0 is no integer
        try:
            return pa.array(values, pa.int64()), {}
        except OverflowError:
            pass
    unfit = {place: value for place, value in enumerate(values) if not _is_integer(value)}
    return pa.array(_without(values, unfit), pa.int64()), unfit


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) in _INT64


def _simple(values: Sequence[Any], wanted: type, type_: pa.DataType) -> tuple[pa.Array, Unfit]:
    unfit = {}
    if set(map(type, values)) != {wanted}:
        unfit = {place: value for place, value in enumerate(values) if not isinstance(value, wanted)}
    return pa.array(_without(values, unfit), type_), unfit


def _strings(values: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, Unfit]:
    try:
        array, unfit = _simple(values, str, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair: no JSON text has one, a Python program's file name may
        values = [one.encode("utf-8", "replace").decode() if isinstance(one, str) else one for one in values]
        array, unfit = _simple(values, str, pa.string())
    return (array.dictionary_encode() if type_ == _WORDS else array), unfit


def _offsets(lists: Sequence[Any]) -> pa.Array:
    """Offsets of a list array; None is a null list."""
    lengths = np.fromiter((0 if one is None else len(one) for one in lists), dtype=np.int64, count=len(lists))
    bounds: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(lengths)))
    absent = np.fromiter((one is None for one in lists), dtype=np.bool_, count=len(lists))
    return pa.array(bounds.astype(np.int32), mask=np.append(absent, False) if absent.any() else None)


def _lists(kind: str, values: Sequence[Any], type_: pa.DataType) -> tuple[pa.Array, Unfit]:
    """Lists of simple values. Of a list with elements that do not fit, the column keeps those that do."""
    wanted = int if kind == v.INTS else str
    unfit: Unfit = {}
    fitting: list[list[Any] | None] = []
    for place, value in enumerate(values):
        good = None
        if isinstance(value, (list, tuple)):
            good = [element for element in value if type(element) is wanted and (wanted is str or element in _INT64)]
        if good is None or len(good) != len(value):
            unfit[place] = value
        fitting.append(good)
    elements = pa.array(chain.from_iterable(filter(None, fitting)), type_.value_type)
    return pa.ListArray.from_arrays(_offsets(fitting), elements).cast(type_), unfit


def _struct_lists(kind: str, values: Sequence[Any]) -> tuple[pa.Array, Unfit]:
    """Lists of objects. Every element has its place: null stays null, what is no object is kept raw."""
    unfit = {}
    if set(map(type, values)) != {list}:
        unfit = {place: value for place, value in enumerate(values) if not isinstance(value, (list, tuple))}
        values = _without(values, unfit)
    elements = list(chain.from_iterable(filter(None, values)))
    return pa.ListArray.from_arrays(_offsets(values), _structs(elements, kind)), unfit


def _structs(elements: Sequence[Any], kind: str) -> pa.StructArray:
    count, (keys, type_), types = len(elements), STRUCTS[kind], _FIELD_TYPES[kind]
    raw: dict[int, Any] = {}
    absent = None
    objects = elements
    if set(map(type, elements)) - {dict}:
        raw = {p: one for p, one in enumerate(elements) if one is not None and not isinstance(one, dict)}
        objects = [one if isinstance(one, dict) else {} for one in elements]
        absent = pa.array([one is None for one in elements], pa.bool_())
    columns, extras = build_columns(objects, keys, types)
    children = [columns[key] if key in columns else nulls(count, types[key]) for key in keys]
    extra = extra_column({**extras, **raw}, count)
    return pa.StructArray.from_arrays([*children, extra], fields=list(type_), mask=absent)
