"""A third party's Arrow batch to the canonical schema: other widths, missing and unknown columns, odd types.

Columns of known keys are cast where no value loses anything by it: pandas makes floats of ids as soon as one is null.
Where one would, the file is no trace (contract, section 10). Unknown columns go into `extra` as JSON, value by value. A
canonical batch passes untouched.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.errors import TraceError
from hbtrace.trace import vocabulary as v
from hbtrace.trace.build import ROW_TYPES, build, extra_column, keep, nulls
from hbtrace.trace.expand import check_expansion
from hbtrace.trace.jsontext import loads
from hbtrace.trace.problems import WANTED
from hbtrace.trace.rows import kept, kept_of_element
from hbtrace.trace.schema import SCHEMA, STRUCTS

Extras = dict[int, dict[str, Any]]

_FAILED: Final = (pa.ArrowException, ValueError, OverflowError, TypeError)
_JSON_KEYS: Final = {key for event in v.EVENTS.values() for key, kind in event.keys.items() if kind in v.KEPT}
_ELEMENT: Final = {v.INTS: v.INT, v.STRS: v.STR}
_LONGEST_TYPE: Final = 60


class WrongTypeError(TraceError):
    """A column of a known key with a value that its type cannot have. Whoever knows the trace's name puts it before."""

    def __init__(self, key: str, have: pa.DataType, why: str) -> None:
        super().__init__(f"column `{key}` is of type {_shortened(have)}, and {why}")
        self.key, self.have, self.why = key, have, why


def _shortened(have: pa.DataType) -> str:
    text = str(have)
    return text if len(text) <= _LONGEST_TYPE else f"{text[:_LONGEST_TYPE]}..."


def check_names(schema: pa.Schema) -> str | None:
    """Why a file with this schema cannot be a trace; None if it can."""
    names = schema.names
    if "ev" not in names or pa.types.is_null(schema.field(names.index("ev")).type):
        return "is sound Arrow but no trace: no column `ev`"
    for name in {*v.COLUMNS, "extra"}:
        if names.count(name) > 1:
            return f"is sound Arrow but no trace: it has more than one column `{name}`"
    return None


def conform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the canonical schema. Needs one that `check_names` lets pass; raises ValueError for a bomb, and
    WrongTypeError for a column of a known key whose values that key cannot have."""
    if batch.schema.equals(SCHEMA) and not any(_null_words(batch.column(key)) for key in v.DICTIONARY_COLUMNS):
        return batch
    check_expansion(batch.columns)
    arrays, texts = _fit_fields(list(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows, None)
    return pa.RecordBatch.from_arrays([*arrays, texts], schema=SCHEMA)


def _null_words(column: pa.DictionaryArray) -> bool:
    """Whether a dictionary holds a null: then rows can be null whose index is not."""
    return bool(column.dictionary.null_count)


def _fit_fields(
    fields: list[tuple[str, pa.Array]], count: int, struct: str | None, absent: npt.NDArray[np.bool_] | None = None
) -> tuple[list[pa.Array], pa.Array]:
    """The canonical columns and `extra` of a row (struct None) or of the structs of a kind."""
    keys, types = (v.COLUMNS, ROW_TYPES)
    if struct is not None:
        keys, type_ = STRUCTS[struct]
        types = {field.name: field.type for field in type_}
    fitted: dict[str, pa.Array] = {}
    extras: Extras = {}
    texts: list[Any] = []
    for name, column in fields:
        if name in keys and name not in fitted:
            fitted[name] = _fit_named(name, keys[name], column, types[name])
        elif name == "extra":
            texts = _python(column)
        else:
            keep(extras, _unknown(name, column), name)
    whole: dict[int, Any] = dict(extras)
    for place, text in enumerate(texts):
        if text is not None:
            whole[place] = _merged(extras.get(place, {}), text, is_row=struct is None)
    if absent is not None:
        whole = {place: extra for place, extra in whole.items() if not absent[place]}
    arrays = [fitted[key] if key in fitted else nulls(count, types[key]) for key in keys]
    return arrays, extra_column(whole, count)


def _merged(extra: dict[str, Any], text: Any, *, is_row: bool) -> Any:
    """What stands in a column `extra`, joined with what found no place in this batch's own columns."""
    if not isinstance(text, str):
        return extra | {"extra": _as_json(text)}
    value = kept(text) if is_row else kept_of_element(text)
    return extra | value if isinstance(value, dict) else value


def _unknown(name: str, column: pa.Array) -> Iterator[tuple[int, Any]]:
    if column.null_count == len(column):
        return
    for place, value in enumerate(_python(column)):
        if value is not None:
            yield place, _object(value) if name in _JSON_KEYS else _as_json(value)


def _object(value: Any) -> Any:
    """A value of `env` or `attrs`: an Arrow file may hold the object as JSON text."""
    if isinstance(value, str):
        try:
            parsed = loads(value.encode())
        except ValueError:
            return value
        return parsed if isinstance(parsed, dict) else value
    return _as_json(value)


def _fit_named(name: str, kind: str, column: pa.Array, target: pa.DataType) -> pa.Array:
    """As `_fit`, for the column of a key: errors name it, and those of a key of ranges or nodes the way there."""
    if name == "time" and pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    try:
        return _fit(kind, column, target)
    except WrongTypeError as error:
        path = f"{name}.{error.key}" if error.key else name
        raise WrongTypeError(path, error.have, error.why) from None


def _fit(kind: str, column: pa.Array, target: pa.DataType) -> pa.Array:
    """A column in its canonical type. Raises WrongTypeError where a value would be another one in it, or none."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type) and (not column.type.equals(target) or column.dictionary.null_count):
        column = _decoded(column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if column.null_count == len(column):
        return nulls(len(column), target)
    try:
        fitted = _fit_whole(kind, column, target)
    except _FAILED:
        fitted = None
    return fitted if fitted is not None else _fit_values(kind, column, target)


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    try:
        return column.dictionary_decode()
    except _FAILED:  # Arrow 26 cannot take words out of a string view
        return pa.array(_python(column))


def _fit_values(kind: str, column: pa.Array, target: pa.DataType) -> pa.Array:
    """As `_fit`, value by value: of types that hold several kinds, or that are not cast."""
    values = [None if value != value else _as_json(value) for value in _python(column)]  # NaN
    if kind in (v.INT, v.ID, v.BOOL):
        values = [_as_whole(value, flag=kind == v.BOOL) for value in values]
    array, unfit = build(kind, values, target)
    wrong = next((value for value in unfit.values() if value is not None), None)
    if wrong is None and kind in STRUCTS and not pa.types.is_union(column.type):
        wrong = next(value for value in values if value is not None)
    if wrong is None:
        return array
    raise WrongTypeError("", column.type, f"for {_told(wrong)} there is no {WANTED[kind]}")


def _as_whole(value: Any, *, flag: bool) -> Any:
    """A number as JSON would have had it; what is none stays what it is."""
    if flag and type(value) in (int, float) and value in (0, 1):
        return bool(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _told(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_TYPE else f"{text[:_LONGEST_TYPE]}..."


def _fit_whole(kind: str, column: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The column cast as a whole; None, or one of `_FAILED`, where that cannot be done."""
    types, have = pa.types, column.type
    if have.equals(target) and kind not in STRUCTS:
        return column
    if kind in (v.INT, v.ID):
        return _integers(column)
    if kind == v.BOOL:
        return column if types.is_boolean(have) else _flags(column)
    if kind == v.STR:
        if not (types.is_string(have) or types.is_large_string(have) or types.is_string_view(have)):
            return None
        column = column.cast(pa.string())
        return column.dictionary_encode() if types.is_dictionary(target) else column
    if kind == v.RANGE:
        if not types.is_struct(have):
            return _one_of_list(column) if is_list(have) else None
        return _structs(kind, column)
    if not is_list(have):
        return None
    return _lists(kind, column, target)


def _integers(column: pa.Array) -> pa.Array | None:
    """Whole numbers of another width or kind; a flag is none, and a fraction fails."""
    types, have = pa.types, column.type
    if types.is_floating(have) or types.is_integer(have) or (types.is_decimal(have) and have.scale == 0):
        return column.cast(pa.int64())
    return None


def _flags(column: pa.Array) -> pa.Array | None:
    """Zeros and ones as flags."""
    numbers = _integers(column)
    if numbers is None or not set(pc.unique(numbers).to_pylist()) <= {0, 1, None}:
        return None
    return numbers.cast(pa.bool_())


def is_list(type_: pa.DataType) -> bool:
    """Of any kind of list."""
    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(test(type_) for test in tests)


def _parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], pa.Array]:
    """Of a column of lists: the length of each (0 if null), which are null, and all elements in a row."""
    absent: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(column.type):
        lengths = np.where(absent, 0, column.type.list_size).astype(np.int64)
    elif pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        # not by a cast to lists: that of Arrow 26 forgets what stands behind a null
        lengths = np.where(absent, 0, np.asarray(column.sizes)).astype(np.int64)
    else:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = column.flatten()
    if len(flat) != lengths.sum():
        raise ValueError("lists do not add up")
    return lengths, absent, flat


def _lists(kind: str, column: pa.Array, target: pa.DataType) -> pa.Array | None:
    lengths, absent, flat = _parts(column)
    if kind in _ELEMENT:
        elements = _fit(_ELEMENT[kind], flat, target.value_type)
    else:
        if pa.types.is_null(flat.type):
            elements = nulls(len(flat), target.value_type)
        elif pa.types.is_struct(flat.type):
            elements = _structs(kind, flat)
        else:
            return None
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    mask = np.append(absent, False) if absent.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32), mask=mask), elements).cast(target)


def _one_of_list(column: pa.Array) -> pa.Array | None:
    """Lists of at most one range as ranges."""
    lengths, _, flat = _parts(column)
    if lengths.max(initial=0) > 1 or not pa.types.is_struct(flat.type):
        return None
    source = np.cumsum(lengths) - lengths
    places = pa.array(source, mask=lengths == 0)
    return _structs(v.RANGE, flat).take(places)


def _structs(kind: str, column: pa.StructArray) -> pa.StructArray:
    type_ = STRUCTS[kind][1]
    if column.type.equals(type_):
        return column
    fields = [(column.type.field(index).name, column.field(index)) for index in range(column.type.num_fields)]
    absent = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    arrays, texts = _fit_fields(fields, len(column), kind, absent)
    mask = None if absent is None else pa.array(absent)
    return pa.StructArray.from_arrays([*arrays, texts], fields=list(type_), mask=mask)


def _python(column: pa.Array) -> list[Any]:
    """Python values; text where Python has no such value, as for nanoseconds."""
    try:
        values: list[Any] = column.to_pylist()
    except _FAILED:
        try:
            values = column.cast(pa.string()).to_pylist()
        except _FAILED:
            values = [f"a value of type {column.type}" if valid else None for valid in column.is_valid().to_pylist()]
    return values


def _as_json(value: Any) -> Any:
    """What JSON would have said. A null field of a struct is an absent key: Arrow has no other way to say that."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _as_json(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_as_json(element) for element in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)
