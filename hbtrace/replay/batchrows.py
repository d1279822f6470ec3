"""The rows of the batch being lowered, key by key, with the contract's defaults; what is wrong with them is counted.

The lowest of the lowering's three layers: it reads, `definitions.py` keeps what definitions say, `lower.py` emits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hbtrace.replay import diagnostics
from hbtrace.replay.diagnostics import Diagnostics
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.settings import Settings
from hbtrace.trace.columns import ABSENT, Columns, Ranges
from hbtrace.trace.problems import unknown_keys, value_problems
from hbtrace.trace.vocabulary import COLUMNS, EVENTS, INT, OWN, RANGE, SETS, STR


class BatchRows:
    """One batch at a time. `rows` counts those of all batches before it, which is the number of its first row."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.diagnostics = Diagnostics(strict=settings.strict)
        self.exercise = Exercise()
        self.rows = 0
        self._first = 0

    @property
    def first_row(self) -> int:
        """The first row of the newest batch."""
        return self._first

    def _load(self, batch: pa.RecordBatch) -> None:
        """Take the next batch. What every kind of event needs is decoded now, other columns on first use."""
        self._batch_first = self.rows
        self._look_at(columns := Columns(batch), self.rows)
        self._breach: tuple[int, str] | None
        self._value_findings(batch)
        self.exercise.label(columns.pairs("ev", "label"))
        self.exercise.splits.update(columns.distinct("split"))
        self.exercise.ubatch_numbers.update(columns.distinct("ubatch"))

    def _look_at(self, columns: Columns, first: int) -> None:
        """The rows that are lowered next, by the number of the first of them."""
        self._columns = columns
        self._first = first
        self._thread = columns.ints("thread", 0)
        self._backend_id = columns.ints("backend", -1)
        self._buffer_id = columns.ints("buffer", -1)
        self._lists = _Lists(columns)

    def _value_findings(self, batch: pa.RecordBatch) -> None:
        for row, problem in value_problems(batch):
            if self._counts(row):
                self.diagnostics.add(diagnostics.VALUE, self._first + row, problem)
        self._breach = None
        for row, problem in unknown_keys(batch):
            if not self._counts(row):
                continue
            if self.settings.strict:
                self._breach = row, problem  # the rows before it may have errors of their own
                break
            self.diagnostics.add(diagnostics.KEY, self._first + row, problem)

    def _counts(self, row: int) -> bool:
        """Not so a `meta` that is not the first event, and nor do its keys and values."""
        return not self._first + row or self._columns.strings("ev")[row] != "meta"

    def _lacking(self) -> dict[int, str]:
        """Rows that lack a key which their event cannot do without, each with the first such key."""
        found: dict[int, str] = {}
        for ev, rows in self._columns.rows_by_event().items():
            for key in EVENTS[ev].needs if ev in EVENTS else ():
                for row in rows[self._absent(key, rows)].tolist():
                    found.setdefault(row, key)
        return found

    def _absent(self, key: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these rows have no value of a key; of an id, -1 is none."""
        kind, columns = COLUMNS[key], self._columns
        found: npt.NDArray[np.bool_]
        if kind == STR:
            words = columns.strings(key)
            found = np.array([words[row] is None for row in rows.tolist()])
        elif kind == RANGE:
            found = ~columns.has_range(key)[rows]
        else:
            absent = ABSENT if kind == INT else -1
            found = columns.numbers(key, absent)[rows] == absent
        return found

    def _known(self, ev: str, key: str, row: int) -> str | None:
        """A value of a named set; an unknown one is as absent."""
        value = self._columns.strings(key)[row]
        return value if value in SETS[ev, key] else None


class _Lists(dict[str, Ranges]):
    """The ranges that rows of a batch list, by where (`Event.reads`, `Event.writes`); made on first use."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self._columns = columns

    def __missing__(self, name: str) -> Ranges:
        columns = self._columns
        if name == OWN:
            found = columns.own()
        else:
            found = columns.single(name) if COLUMNS[name] == RANGE else columns.ranges(name)
        self[name] = found
        return found
