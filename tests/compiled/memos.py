"""Lowerings on traces that repeat themselves: all that they tell, to be compared."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from hbtrace.errors import TraceError
from hbtrace.replay.session import Observer, Replayed, Session
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows


class Programs(Observer):
    """All that a lowering hands on."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def take(self, replayed: Replayed) -> None:
        for p in replayed.programs:
            flat = (p.code, p.footprints, p.bounds, p.pieces)
            self.told.append((*(array.tolist() for array in flat), p.forget_footprints, p.shapes))


def replay(batches: Iterable[pa.RecordBatch], **settings: Any) -> tuple[list[Any], dict[str, Any], int]:
    """Programs; everything else that is told, by name; rows that the memo knew."""
    seen = Programs()
    session = Session(batches, Settings(**settings), [seen])
    try:
        reports, error = list(session), None
    except TraceError as found:
        reports, error = [], str(found)
    lowering = session._lowering
    told = {
        "reports": reports, "error": error, "warnings": session.warnings, **asdict(lowering.exercise),
        "actors": lowering.names.actors, "rows": session.rows,
    }  # fmt: skip
    known = lowering._memo._library.hb_memo_hits(lowering._memo._memo) if lowering._memo is not None else 0
    return seen.told, told, known


def cut(events: list[dict[str, Any]], size: int) -> list[pa.RecordBatch]:
    """Batches of so many rows, some of them slices of larger ones."""
    whole = batch_from_rows(events)
    if size % 2:
        return [whole.slice(start, size) for start in range(0, whole.num_rows, size)]
    return [batch_from_rows(events[start : start + size]) for start in range(0, len(events), size)]


def shaken(events: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """The same rows again and again, a few of them changed: what repeats, and what comes back after it was another."""
    out = list(events)
    body = [row for row in events if row.get("ev") != "meta"]
    for _ in range(2):
        for row in body:
            if rng.random() < 0.03:
                out.append(rng.choice(body))
            if rng.random() < 0.97:
                out.append(row)
    return out
