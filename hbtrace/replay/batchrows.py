"""The rows of the batch being lowered, key by key, with the contract's defaults; what is wrong with them is counted.

The lowest of the lowering's three layers: it reads, `define.py` keeps what definitions say, `lower.py` emits.
"""

from __future__ import annotations

import pyarrow as pa

from hbtrace.replay import findings
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.findings import Findings
from hbtrace.trace.columns import ABSENT, Columns, Ranges
from hbtrace.trace.problems import value_problems
from hbtrace.trace.vocabulary import SETS


class BatchRows:
    """One batch at a time. `rows` counts those of all batches before it, which is the number of its first row."""

    def __init__(self, *, strict: bool) -> None:
        self.findings = Findings(strict=strict)
        self.exercise = Exercise()
        self.rows = 0
        self._first = 0

    @property
    def first_row(self) -> int:
        """The first row of the newest batch."""
        return self._first

    def _load(self, batch: pa.RecordBatch) -> None:
        """Take the next batch. What every kind of event needs is decoded now, other columns on first use."""
        self._columns = columns = Columns(batch)
        self._first = self.rows
        self._thread = columns.ints("thread", 0)
        self._backend_id = columns.ints("backend", -1)
        self._buffer_id = columns.ints("buffer", -1)
        self._tensor_id = columns.ints("tensor", -1)
        self._ranges: dict[str, Ranges] = {}
        self._value_findings(batch)
        self.exercise.label(columns.pairs("ev", "label"))
        self.exercise.splits.update(columns.distinct("split"))
        self.exercise.ubatch_numbers.update(columns.distinct("ubatch"))

    def _list(self, name: str) -> Ranges:
        found = self._ranges.get(name)
        if found is None:
            columns = self._columns
            found = self._ranges[name] = (
                columns.own()
                if name == "own"
                else columns.ranges(name)
                if name in ("reads", "writes")
                else columns.single(name)
            )
        return found

    def _value_findings(self, batch: pa.RecordBatch) -> None:
        events = self._columns.strings("ev")
        for row, problem in value_problems(batch):
            if events[row] == "meta" and self._first + row:
                continue  # it counts for nothing, and so do its values
            self.findings.add(findings.VALUE, self._first + row, problem)

    def _lacks(self, row: int, *keys: str) -> bool:
        """Whether the row is skipped for want of a key; integers are ids here, of which -1 is none."""
        for key in keys:
            if key in ("name", "object"):
                absent = self._columns.strings(key)[row] is None
            elif key in ("src", "dst"):
                present = self._list(key).present
                absent = present is not None and not present[row]
            elif key == "size":
                absent = self._columns.ints("size", ABSENT)[row] == ABSENT
            else:
                absent = self._columns.ints(key, -1)[row] == -1
            if absent:
                ev = self._columns.strings("ev")[row]
                self.findings.add(findings.SKIPPED, self._first + row, f"`{ev}` lacks `{key}`")
                return True
        return False

    def _known(self, ev: str, key: str, row: int) -> str | None:
        """A value of a named set; an unknown one is as absent."""
        value = self._columns.strings(key)[row]
        return value if value in SETS[ev, key] else None
