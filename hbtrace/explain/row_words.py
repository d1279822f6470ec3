"""Single rows of a trace in words: fetched once more by their numbers, with the names in force there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.replay.tables import Tables
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import COPIES, EventRow

_NAMING: Final = frozenset({"tensor", "backend", "buffer"})
"""Definitions of what is told by its name."""


def rows_in_words(batches: Iterable[pa.RecordBatch], wanted: set[int]) -> dict[int, str]:
    """A short text for each wanted row. Only these and definitions are decoded."""
    tables, queues, words, first = Tables(), _Queues(), {}, 0
    naming = pa.array(sorted(_NAMING))
    for batch in batches:
        if first > max(wanted, default=-1):
            break
        numbers = np.arange(first, first + batch.num_rows)
        mask = pc.is_in(pc.cast(batch.column("ev"), pa.string()), value_set=naming).to_numpy(zero_copy_only=False)
        mask = mask | np.isin(numbers, list(wanted))
        events = rows_from_batch(batch.filter(pa.array(mask)), fitting=True)
        for row, event in zip(numbers[mask].tolist(), events, strict=True):
            if row in wanted:
                words[row] = in_words(event, tables, queues)
            queues.take(event)
            if (ev := str(event.get("ev"))) in _NAMING:
                tables.define(ev, event)
        first += batch.num_rows
    return words


class _Queues(dict[int, str]):
    """What the queue of each backend id is called, as reports print it: the n-th later one of a name is `name#n`."""

    def __init__(self) -> None:
        super().__init__()
        self._same: Counter[str] = Counter()

    def take(self, event: EventRow) -> None:
        """One row more."""
        if event.get("ev") == "backend" and "id" in event and "name" in event:
            name = str(event["name"])
            self[event["id"]] = f"{name}#{self._same[name]}" if self._same[name] else name
            self._same[name] += 1


def in_words(event: EventRow, tables: Tables, queues: Mapping[int, str]) -> str:
    """`tensor_set inp_tokens (ubatch 1)`"""
    ev = str(event.get("ev"))
    what = ""
    if "tensor" in event:
        ends = [tables.name(event["tensor"])] if event["tensor"] != -1 else []
        if event.get("host_range"):
            ends.insert(len(ends) if ev == "get_async" else 0, _range(event["host_range"], tables))
        what = " -> ".join(ends)
    elif ev in COPIES:
        what = " -> ".join(_range(event.get(key) or {}, tables) for key in ("src", "dst"))
    elif "graph" in event:
        what = f"graph {event['graph']}"
    elif "event" in event:
        what = f"event {event['event']}"
    elif "object" in event:
        what = str(event["object"])
    elif "buffer" in event:
        what = _buffer(event["buffer"], tables)
    elif ev == "synchronize":
        what = queues.get(event.get("backend", -1), f"?{event.get('backend', -1)}")
    label = f"{event['label']}: " if event.get("label") else ""
    ubatch = f" (ubatch {event['ubatch']})" if event.get("ubatch", -1) != -1 else ""
    return f"{label}{ev} {what}".rstrip() + ubatch


def _buffer(ident: int, tables: Tables) -> str:
    return str(tables.buffers.get(ident, {}).get("name", f"?{ident}"))


def _range(its: EventRow, tables: Tables) -> str:
    """The tensor of a range, by name; of bytes of no tensor which."""
    if its.get("tensor", -1) != -1:
        return tables.name(its["tensor"])
    if its.get("buffer", -1) == -1:
        return "-"
    offset, size = its.get("offset", 0), its.get("size")
    return _buffer(its["buffer"], tables) + (f"[{offset}, {offset + size})" if isinstance(size, int) else "")
