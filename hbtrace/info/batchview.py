"""A batch as numpy columns, for what is counted column by column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hbtrace.trace import vocabulary as v
from hbtrace.trace.columns import Columns, Ranges

Ints = npt.NDArray[np.int64]

NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)


class BatchView:
    """A batch as numpy columns, each made once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.columns = Columns(batch)
        self._ints: dict[tuple[str, int], Ints] = {}
        self._kernels: tuple[Ranges, Ranges] | None = None

    def ints(self, key: str, default: int) -> Ints:
        """An integer column, nulls filled."""
        found = self._ints.get((key, default))
        if found is None:
            column = self.batch.column(key)
            if column.null_count == len(column):
                found = np.full(len(column), default, dtype=np.int64)
            else:
                found = column.fill_null(default).to_numpy(zero_copy_only=False)
            self._ints[key, default] = found
        return found

    def valid(self, key: str) -> Ints:
        """The values of an integer column that are there."""
        column = self.batch.column(key)
        if column.null_count == len(column):
            return NO_ROWS
        return column.drop_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def true(self, key: str, rows: Ints) -> int:
        """How many of the rows have a flag."""
        column = self.batch.column(key)
        if not rows.size or column.null_count == len(column):
            return 0
        return int(column.fill_null(False).to_numpy(zero_copy_only=False)[rows].sum())

    def present(self, key: str, rows: Ints) -> npt.NDArray[np.bool_]:
        """Which of the rows have a key; an id of -1 is none, and so is an integer that serves as one."""
        kind = v.COLUMNS[key]
        if kind == v.ID:
            there: npt.NDArray[np.bool_] = self.ints(key, -1) != -1
            return there[rows]
        there = self.batch.column(key).is_valid().to_numpy(zero_copy_only=False)
        return there[rows]

    def coded(self, key: str) -> tuple[list[str | None], Ints]:
        """A dictionary column as words, the last of them None, and an index into them for every row."""
        column = self.batch.column(key)
        words: list[str | None] = [*column.dictionary.to_pylist(), None]
        codes = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
        return words, codes

    def rows_by_event(self) -> Iterator[tuple[str | None, Ints]]:
        """Each event's name and its rows; a dictionary may hold a word twice or unused."""
        words, codes = self.coded("ev")
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(words) + 1))
        parts: dict[str | None, list[Ints]] = {}
        for word, (lo, hi) in zip(words, pairwise(bounds.tolist()), strict=True):
            if hi > lo:
                parts.setdefault(word, []).append(order[lo:hi])
        for word, found in parts.items():
            yield word, found[0] if len(found) == 1 else np.sort(np.concatenate(found))

    def kernel_ranges(self) -> tuple[Ranges, Ranges]:
        """`reads` and `writes` of the rows themselves."""
        if self._kernels is None:
            self._kernels = self.columns.ranges("reads"), self.columns.ranges("writes")
        return self._kernels
