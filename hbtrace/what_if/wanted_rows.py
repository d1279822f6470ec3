"""The events of a trace as rules see them, batch by batch: only the rows that they ask for, with the keys they look at.

Decoding every row of a large trace costs more than replaying it. What a compute or a kernel reads and writes is taken
from the lowering, which knows it already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hbtrace.replay.accesses import Template
from hbtrace.trace.rows import nulls, rows_from_batch
from hbtrace.trace.vocabulary import HOST_SETS, HOST_WRITES, QUEUED
from hbtrace.what_if.rewriting import Entry, Wants
from hbtrace.what_if.state import RAW, USES, Event, Raw, Uses, raw_written, tensors_used

BATCH_END: Final = -2
"""The row of an entry that stands behind the last of each batch. Rules pass it on, as all they do not know."""

_HEAVY: Final = ("nodes", "reads", "writes", "src", "dst", "host_range")
_UNUSED: Final = (
    *_HEAVY, "rows", "stride", "site", "label", "time", "split", "extra", "inferred", "ne", "nb", "inputs", "accepts",
    "command", "env", "attrs",
)  # fmt: skip
_USING: Final = QUEUED | HOST_WRITES - HOST_SETS


@dataclass
class Feed:
    """A stream that is given one batch at a time. row, event: the entry taken last. rows: those of the batch."""

    wants: Wants
    row: int = BATCH_END
    event: Event = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    _batch: list[Entry] = field(default_factory=list)
    _ended: bool = False
    _ubatch: int = -1
    _uses: dict[int, tuple[Template, Uses, list[Raw]]] = field(default_factory=dict)

    def give(self, batch: pa.RecordBatch, first: int, template_of: Callable[[int], Template | None]) -> None:
        """The next batch, whose first row is `first`, when it was lowered. template_of: what a row of it accesses."""
        self._uses.clear()  # templates are large: none is kept for longer than its batch
        numbers = np.flatnonzero(self._mask(batch, first))
        slim = _slim(batch.take(pa.array(numbers)), nodes=self.wants.nodes)
        events = rows_from_batch(slim, fitting=True)
        self.rows = rows = (numbers + first).tolist()
        for row, event in zip(rows, events, strict=True):
            if event.get("ev") in _USING and (template := template_of(row)) is not None:
                event[USES], event[RAW] = self._used(template)
                if event["ev"] == "copy_async":
                    source = template.accesses[0][1]
                    event["src"] = {"tensor": source.tensor, "buffer": source.buffer}
        self._batch = list(zip(rows, events, strict=True))

    def end(self) -> None:
        """There is no batch more."""
        self._batch, self._ended = [], True

    def __iter__(self) -> Iterator[Entry]:
        while not self._ended:
            for entry in self._batch:
                self.row, self.event = entry
                yield entry
            self.row = BATCH_END
            yield BATCH_END, _END

    def _mask(self, batch: pa.RecordBatch, first: int) -> npt.NDArray[np.bool_]:
        column = batch.column("ev")
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        words = column.dictionary.to_pylist()
        wanted = np.array([word in self.wants.events for word in words] + [False])
        mask: npt.NDArray[np.bool_] = wanted[
            column.indices.fill_null(len(words)).to_numpy(zero_copy_only=False).astype(np.int64)
        ]
        for row in self.wants.rows:
            if first <= row < first + len(mask):
                mask[row - first] = True
        if self.wants.ubatches:
            mask |= self._other_ubatch(batch)
        return mask

    def _other_ubatch(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Rows whose ubatch is not that of the row before that has one."""
        numbers = batch.column("ubatch").fill_null(-1).to_numpy(zero_copy_only=False)
        places = np.flatnonzero(numbers != -1)
        mask = np.zeros(len(numbers), dtype=bool)
        if len(places):
            there = numbers[places]
            mask[places[there != np.concatenate(([self._ubatch], there[:-1]))]] = True
            self._ubatch = int(there[-1])
        return mask

    def _used(self, template: Template) -> tuple[Uses, list[Raw]]:
        found = self._uses.get(id(template))
        if found is None:
            accesses = template.accesses
            found = self._uses[id(template)] = template, tensors_used(accesses), raw_written(accesses)
        return found[1:]


_END: Final[Event] = {"ev": ""}


def _slim(batch: pa.RecordBatch, *, nodes: bool) -> pa.RecordBatch:
    """Without the columns that no rule looks at where the lowering knows better."""
    arrays: Iterable[pa.Array] = (
        nulls(batch.num_rows, column.type) if name in _UNUSED and not (nodes and name == "nodes") else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    )
    return pa.RecordBatch.from_arrays(list(arrays), schema=batch.schema)
