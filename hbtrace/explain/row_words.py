"""Single rows of a trace in words: fetched once more by their numbers, with the names in force there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.trace.rows import rows_from_batch
from hbtrace.what_if.state import Event, State

_DEFINING = pa.array(["tensor", "backend", "buffer"])


def rows_in_words(batches: Iterable[pa.RecordBatch], wanted: set[int]) -> dict[int, str]:
    """A short text for each wanted row. Only these and definitions are decoded."""
    state, words, first = State(), {}, 0
    for batch in batches:
        if first > max(wanted, default=-1):
            break
        numbers = np.arange(first, first + batch.num_rows)
        mask = pc.is_in(pc.cast(batch.column("ev"), pa.string()), value_set=_DEFINING).to_numpy(zero_copy_only=False)
        mask = mask | np.isin(numbers, list(wanted))
        events = rows_from_batch(batch.filter(pa.array(mask)), fitting=True)
        for row, event in zip(numbers[mask].tolist(), events, strict=True):
            if row in wanted:
                words[row] = in_words(event, state)
            state.take(event)
        first += batch.num_rows
    return words


def in_words(event: Event, state: State) -> str:
    """`tensor_set inp_tokens (ubatch 1)`"""
    ev = str(event.get("ev"))
    what = ""
    if "tensor" in event:
        what = _name(event["tensor"], state)
    elif ev in ("copy_async", "tensor_copy"):
        what = " -> ".join(_name((event.get(key) or {}).get("tensor", -1), state) for key in ("src", "dst"))
    elif "graph" in event:
        what = f"graph {event['graph']}"
    elif "event" in event:
        what = f"event {event['event']}"
    elif "object" in event:
        what = str(event["object"])
    elif "buffer" in event:
        what = str(state.buffers.get(event["buffer"], {}).get("name", f"?{event['buffer']}"))
    elif ev == "synchronize":
        what = str(state.backends.get(event.get("backend", -1), {}).get("name", ""))
    label = f"{event['label']}: " if event.get("label") else ""
    ubatch = f" (ubatch {event['ubatch']})" if event.get("ubatch", -1) != -1 else ""
    return f"{label}{ev} {what}".rstrip() + ubatch


def _name(tensor: int, state: State) -> str:
    return str(state.tensors.get(tensor, {}).get("name", f"?{tensor}")) if tensor != -1 else "-"
