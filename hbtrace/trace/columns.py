"""A canonical record batch as plain Python lists, made column by column and only when asked for.

The bridge between Arrow and a loop over rows: `to_pylist` on a whole batch costs ten times as much. Ranges come as
tuples of seven integers, with the bytes of that tuple list as a cheap key: equal bytes, equal ranges.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.trace.vocabulary import EVENTS

ABSENT: Final = -(2**63)
"""Stands for an absent number where -1 is a value (`size`)."""

_DEFAULTS: Final = {"tensor": -1, "buffer": -1, "offset": 0, "size": ABSENT, "rows": 1, "stride": 0, "approx": 0}
_BY: Final = {"by": -1, "pitch": 0}
"""Looked at only where a range of the batch has them: hardly any does, and each costs in every key."""
_FEW: Final = 32
_LONGEST_STRETCH: Final = 4096
"""Rows."""


class Range(NamedTuple):
    """A range as the trace gives it; `size` is `ABSENT` where it has none."""

    tensor: int
    buffer: int
    offset: int
    size: int
    rows: int
    stride: int
    approx: int
    by: int = -1
    pitch: int = 0
    picked: tuple[Run, ...] | None = None
    """Rows that the index `by` named when the event was issued; None where the event does not say."""


Run = tuple[int, int, int, int]
"""(first, count, repeat, step): the rows first + j * step + i for i < count and j < repeat."""


class Ranges:
    """Lists of ranges, one list a row of some column."""

    __slots__ = ("_bounds", "_bytes", "_mark", "_matrix", "_places")

    def __init__(self, matrix: npt.NDArray[np.int64], bounds: list[int]) -> None:
        width = matrix.shape[1]
        self._bytes = matrix.tobytes()
        self._matrix = matrix
        self._bounds = bounds
        self._places = [bound * width * 8 for bound in bounds]
        self._mark = b"" if width == len(_DEFAULTS) else b"by"

    def key(self, row: int) -> bytes:
        """Bytes that are equal for equal lists, whatever other rows of the batch have."""
        if self._mark:
            ranges = self.matrix(row)
            if ((ranges[:, 7] == -1) & (ranges[:, 8] == 0)).all():
                return ranges[:, : len(_DEFAULTS)].tobytes()
        key = self._bytes[self._places[row] : self._places[row + 1]]
        return key + self._mark if self._mark else key

    def matrix(self, row: int) -> npt.NDArray[np.int64]:
        """The ranges of a row, a line each, in the order of `Range`."""
        return self._matrix[self._bounds[row] : self._bounds[row + 1]]

    def get(self, row: int) -> list[Range]:
        return [_sensible(Range(*values)) for values in self.matrix(row).tolist()]


def matrix_of(key: bytes) -> npt.NDArray[np.int64]:
    """The ranges of which `Ranges.key` is the key, a line of seven integers each."""
    width = len(_DEFAULTS) if len(key) % 8 == 0 else len(_DEFAULTS | _BY)
    return unchosen(np.frombuffer(key[: len(key) // 8 * 8], dtype=np.int64).reshape(-1, width))


def unchosen(matrix: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Ranges in seven integers each; one whose rows an index chooses is its whole tensor."""
    if matrix.shape[1] == len(_DEFAULTS):
        return matrix
    matrix, chosen = matrix.copy(), matrix[:, 7] != -1
    matrix[chosen, 2], matrix[chosen, 3] = 0, ABSENT
    return matrix[:, : len(_DEFAULTS)]


class Nodes(NamedTuple):
    """A graph's nodes: for each (operation, its tensor, reads, writes), and a key that is equal for equal nodes."""

    key: bytes
    nodes: list[tuple[str, int, list[Range], list[Range]]]


class Columns:
    """One batch. `ev`, `strings`, `ints`, `flags` give a list with one entry a row, defaults filled in."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.length: int = batch.num_rows
        self._lists: dict[str, list[Any]] = {}
        self._ranges: dict[str, Ranges] = {}
        self._definitions = 0

    def strings(self, name: str) -> list[str | None]:
        """Values of a string column, None where absent."""
        if name not in self._lists:
            column = self.batch.column(name)
            if column.null_count == self.length:
                values: list[Any] = [None] * self.length
            elif pa.types.is_dictionary(column.type):
                words = [*column.dictionary.to_pylist(), None]
                values = list(map(words.__getitem__, _integers(column.indices, -1).tolist()))
            else:
                values = column.to_pylist()
            self._lists[name] = values
        return self._lists[name]

    def ints(self, name: str, default: int) -> list[int]:
        """Values of an integer column, `default` where absent."""
        if name not in self._lists:
            column = self.batch.column(name)
            if column.null_count == self.length:
                self._lists[name] = [default] * self.length
            else:
                self._lists[name] = _integers(column, default).tolist()
        return self._lists[name]

    def numbers(self, name: str, default: int) -> npt.NDArray[np.int64]:
        """The same of an integer or boolean column, as an array."""
        return _integers(self.batch.column(name), default)

    def flags(self, name: str, default: bool) -> list[bool]:
        if name not in self._lists:
            column = self.batch.column(name)
            if column.null_count == self.length:
                self._lists[name] = [default] * self.length
            else:
                self._lists[name] = column.fill_null(default).to_numpy(zero_copy_only=False).tolist()
        return self._lists[name]

    def pairs(self, one: str, other: str) -> set[tuple[str | None, str | None]]:
        """The pairs of words that rows have in two dictionary columns."""
        columns = self.batch.column(one), self.batch.column(other)
        words = [[None, *column.dictionary.to_pylist()] for column in columns]
        numbers = [_integers(column.indices, -1) + 1 for column in columns]
        found = pc.unique(pa.array(numbers[0] * len(words[1]) + numbers[1])).to_pylist()
        return {(words[0][pair // len(words[1])], words[1][pair % len(words[1])]) for pair in found}

    def distinct(self, name: str) -> set[int]:
        """The values that an integer column has, -1 for absent ones."""
        return set(pc.unique(pa.array(self.numbers(name, -1))).to_pylist())  # numpy's own sorts

    def words_of(self, name: str) -> tuple[list[str | None], npt.NDArray[np.int64]]:
        """The words of a dictionary column, None for absent among them, and of each row which of them it has."""
        column = self.batch.column(name)
        return [None, *column.dictionary.to_pylist()], _integers(column.indices, -1) + 1

    def rows_by_event(self) -> dict[str | None, npt.NDArray[np.int64]]:
        """The rows of each event, in order. A dictionary may hold a word twice, or one that no row has."""
        column = self.batch.column("ev")
        words = [None, *column.dictionary.to_pylist()]
        numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
        codes = np.array([numbers[word] for word in words])[_integers(column.indices, -1) + 1]
        order = np.argsort(codes.astype(np.int16) if len(numbers) < 1 << 15 else codes, kind="stable")  # by radix
        parts = np.split(order, np.searchsorted(codes[order], np.arange(1, len(numbers))))
        return {word: rows for word, rows in zip(numbers, parts, strict=True) if rows.size}

    def attributes(self, ev: str, row: int) -> tuple[tuple[str, str], ...]:
        """What a definition says beside its id, as sorted pairs of words; absent keys are left out.

        A flag is `yes` or `no`, a list its elements with commas between, an empty one `nothing`.
        """
        self._definitions += 1
        few = self._definitions <= _FEW  # decoding whole columns pays only where there are many definitions
        values = (
            (key, self.batch.column(key)[row].as_py() if few else self._values(key)[row])
            for key in EVENTS[ev].keys
            if key != "id"
        )
        return tuple(sorted((key, _words(value)) for key, value in values if value is not None))

    def _values(self, name: str) -> list[Any]:
        """Any column as Python has it, None where absent; for the few columns of definitions."""
        key = f"{name}, as it is"
        if key not in self._lists:
            self._lists[key] = self.batch.column(name).to_pylist()
        return self._lists[key]

    def words(self, name: str, row: int) -> list[str]:
        """One row of a list-of-strings column; absent is empty."""
        few = self._definitions <= _FEW
        words = self.batch.column(name)[row].as_py() if few else self._values(name)[row]
        return [word for word in words or () if word is not None]

    def own(self) -> Ranges:
        """The range that an event's own keys are: its tensor, never its buffer."""
        shape = [_integers(self.batch.column(name), default) for name, default in _DEFAULTS.items()]
        shape[1] = np.full(self.length, -1, dtype=np.int64)
        return Ranges(_matrix(shape), list(range(self.length + 1)))

    def single(self, name: str) -> Ranges:
        """A column with at most one range a row (`src`, `dst`, `host_range`)."""
        column = self.batch.column(name)
        matrix, whole = _range_matrix(column)
        bounds = np.concatenate(([0], np.cumsum(whole)))
        return Ranges(matrix[whole], bounds.tolist())

    def has_range(self, name: str) -> npt.NDArray[np.bool_]:
        """Which rows have a range in a column with at most one a row."""
        return _whole(self.batch.column(name))

    def ranges(self, name: str) -> Ranges:
        """A column with a list of ranges a row (`reads`, `writes`)."""
        if name not in self._ranges:
            self._ranges[name] = _range_lists(self.batch.column(name))
        return self._ranges[name]

    def graph_ranges(self, row: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All reads and all writes of the graph defined at `row`, whatever node they belong to."""
        nodes = self.batch.column("nodes").slice(row, 1).flatten().drop_null()
        (reads, listed), (writes, too) = (_range_matrix(nodes.field(key).flatten()) for key in ("reads", "writes"))
        return unchosen(reads[listed]), unchosen(writes[too])

    def picked(self, row: int) -> dict[int, tuple[Run, ...]]:
        """What an event says of index tensors' content: by tensor. One with a run without `first` is left out."""
        column = self.batch.column("picked")
        if column.null_count == self.length or not column[row].is_valid:
            return {}
        found: dict[int, tuple[Run, ...]] = {}
        for pick in column[row].as_py():
            runs = None if pick is None else [run for run in pick["runs"] or () if run is not None]
            if runs is None or pick["tensor"] is None:
                continue
            if any(run["first"] is None for run in runs):
                continue
            found[pick["tensor"]] = tuple(
                (run["first"], *(_or(run[key], default) for key, default in _RUN_DEFAULTS.items())) for run in runs
            )
        return found

    def nodes(self, row: int) -> Nodes:
        """The nodes of the graph defined at `row`."""
        column = self.batch.column("nodes")
        if column.null_count == self.length or not column[row].is_valid:
            return Nodes(b"", [])
        nodes = column.slice(row, 1).flatten()
        reads, writes = _range_lists(nodes.field("reads")), _range_lists(nodes.field("writes"))
        ops, outs = nodes.field("op").to_pylist(), _integers(nodes.field("tensor"), -1).tolist()
        known = nodes.is_valid().to_pylist()
        listed = [(ops[k] or "", outs[k], reads.get(k), writes.get(k)) for k in range(len(nodes)) if known[k]]
        marks = b"".join(
            b"%b|%d|%b|%b;" % ((ops[k] or "").encode(), outs[k], reads.key(k), writes.key(k))
            for k in range(len(nodes))
            if known[k]
        )
        return Nodes(marks, listed)


class Stretches:
    """A batch of which few rows are looked at, and those in order: it is decoded a stretch at a time, where they are
    many a longer one."""

    def __init__(self, whole: Columns) -> None:
        self._batch = whole.batch
        self._columns = whole
        self._start = self._end = 0
        self._width = _FEW

    def around(self, row: int) -> tuple[Columns, int]:
        """The stretch with a row, and its first row."""
        if not self._start <= row < self._end:
            self._start, self._end = row, min(row + self._width, self._batch.num_rows)
            self._width = min(2 * self._width, _LONGEST_STRETCH)
            self._columns = Columns(self._batch.slice(row, self._end - row))
        return self._columns, self._start


_RUN_DEFAULTS: Final = {"count": 1, "repeat": 1, "step": 0}


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _sensible(asked: Range) -> Range:
    """Without a `by` that means nothing (`problems.by_nothing` says why, and counts it)."""
    if asked.by == -1:
        return asked if not asked.pitch else asked._replace(pitch=0)
    whole = asked.rows == 1 and asked.stride == 0 and asked.buffer == -1
    return asked if whole and asked.size != ABSENT and asked.pitch >= 1 else asked._replace(by=-1, pitch=0)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(word) for word in value if word is not None) or "nothing"
    return str(value)


def _integers(column: pa.Array, default: int) -> npt.NDArray[np.int64]:
    """Any integer or boolean column as int64, nulls filled."""
    if column.null_count == len(column):
        return np.full(len(column), default, dtype=np.int64)
    if pa.types.is_boolean(column.type):
        return column.fill_null(bool(default)).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
    if column.null_count:
        column = column.fill_null(default)
    return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _matrix(columns: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    if not columns[0].size:
        return np.empty((0, len(columns)), dtype=np.int64)
    return np.ascontiguousarray(np.column_stack(columns))


def _range_matrix(structs: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(n, 7 or 9) integers, and which of the n are ranges at all: neither null nor a value that is no object."""
    whole = _whole(structs)
    fields = _DEFAULTS if structs.field("by").null_count == len(structs) else _DEFAULTS | _BY
    return _matrix([_integers(structs.field(name), default) for name, default in fields.items()]), whole


def _whole(structs: pa.Array) -> npt.NDArray[np.bool_]:
    whole = np.ones(len(structs), dtype=bool)
    if structs.null_count:
        whole = structs.is_valid().to_numpy(zero_copy_only=False)
    extra = structs.field("extra")
    if extra.null_count < len(extra):
        # The reader keeps an element that is no object as its raw JSON text: it is no listed range.
        objects = [text is None or text.lstrip().startswith("{") for text in extra.to_pylist()]
        whole = whole & np.array(objects, dtype=bool)
    return whole


def _range_lists(column: pa.Array) -> Ranges:
    if column.null_count == len(column):
        return Ranges(np.empty((0, len(_DEFAULTS)), dtype=np.int64), [0] * (len(column) + 1))
    matrix, whole = _range_matrix(column.flatten())  # flatten leaves out what stands under null lists
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    if not whole.all():
        bounds = np.concatenate(([0], np.cumsum(whole)))[bounds]
        matrix = matrix[whole]
    return Ranges(np.ascontiguousarray(matrix), bounds.tolist())
