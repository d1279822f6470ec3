"""Single rows of a trace in words: fetched once more by their numbers, with the names in force there."""

from __future__ import annotations

from collections.abc import Iterable
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
    tables, words, first = Tables(), {}, 0
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
                words[row] = in_words(event, tables)
            if (ev := str(event.get("ev"))) in _NAMING:
                tables.define(ev, event)
        first += batch.num_rows
    return words


def in_words(event: EventRow, tables: Tables) -> str:
    """`tensor_set inp_tokens (ubatch 1)`"""
    ev = str(event.get("ev"))
    what = ""
    if "tensor" in event:
        what = _name(event["tensor"], tables)
    elif ev in COPIES:
        what = " -> ".join(_name((event.get(key) or {}).get("tensor", -1), tables) for key in ("src", "dst"))
    elif "graph" in event:
        what = f"graph {event['graph']}"
    elif "event" in event:
        what = f"event {event['event']}"
    elif "object" in event:
        what = str(event["object"])
    elif "buffer" in event:
        what = str(tables.buffers.get(event["buffer"], {}).get("name", f"?{event['buffer']}"))
    elif ev == "synchronize":
        what = str(tables.backends.get(event.get("backend", -1), {}).get("name", ""))
    label = f"{event['label']}: " if event.get("label") else ""
    ubatch = f" (ubatch {event['ubatch']})" if event.get("ubatch", -1) != -1 else ""
    return f"{label}{ev} {what}".rstrip() + ubatch


def _name(tensor: int, tables: Tables) -> str:
    return tables.name(tensor) if tensor != -1 else "-"
