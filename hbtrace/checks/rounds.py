"""Rounds: what a scheduler does between two computes. Allocate or reuse, prepare, the inputs written, compute.

Told from the markers alone; a trace without markers has no rounds. Several rules ask in which round a row stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hbtrace.replay.tables import Tables
from hbtrace.trace.vocabulary import EventRow

Way = Literal["alloc", "reuse", "none"]


@dataclass(slots=True)
class Prepare:
    """One `sched_prepare`."""

    row: int
    slot: int
    rotated: bool


@dataclass(slots=True)
class Round:
    """One allocation or reuse and what followed it. -1 where the trace does not say."""

    sched: int
    way: Way
    row: int
    ubatch: int = -1
    phase: str | None = None
    slot: int = -1
    """The ring's slot, or the copy's, that this round uses."""
    realloc: bool | None = None
    inputs: list[int] = field(default_factory=list)
    prepares: list[Prepare] = field(default_factory=list)
    computed: int = -1
    """The row of its `sched_compute`, or of its first compute where there is no such marker."""


class Rounds:
    """The newest round of each scheduler, and what all of them come to."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.current: dict[int, Round] = {}
        self.settled: Round | None = None
        """The round whose compute begins with the present row: its slot and inputs are what they are."""
        self.inputs: set[int] = set()
        """Tensors that any allocation named as inputs."""
        self.reuses = 0
        self.prepares = self.told = 0
        """`told`: how many of them say whether they rotated, or show it by their slot."""
        self._marked = False
        """The trace has `sched_compute`: a compute ends no round, it may be another scheduler's."""
        self._early: dict[int, EventRow] = {}
        """Markers of ubatches that stand in front of their round."""

    def row(self, row: int, ev: str, event: EventRow) -> None:
        """The next row of the trace."""
        self.settled = None
        sched = event.get("sched", -1)
        if ev == "sched_alloc" and not event.get("reserve"):
            self._begin(sched, "alloc", row, event)
        elif ev == "sched_reuse":
            self.reuses += 1
            self._begin(sched, "reuse", row, event)
        elif ev == "sched_prepare":
            self.prepares += 1
            self._prepare(sched, row, event)
        elif ev == "ubatch":
            self._ubatch(sched, event)
        elif ev == "sched_compute":
            self._marked = True
            self._computed(row, self.current.get(sched))
        elif ev == "compute" and not self._marked and event.get("split", -1) <= 0:
            self._computed(row, self._of_backend(event.get("backend", -1)))

    def ring(self, sched: int) -> int | None:
        """The depth of a scheduler's ring: 0 and 1 are off, None where the trace does not say."""
        depth = self._tables.scheds.get(sched, {}).get("ring")
        return depth if isinstance(depth, int) else None

    def preparing(self, *tensors: int) -> Round | None:
        """The round for which tensors are written: begun, and not yet computed. Of several schedulers it is the one
        whose inputs they are, where that is told; else the newest."""
        rounds = [found for found in self.current.values() if not set(found.inputs).isdisjoint(tensors)]
        still = [found for found in rounds or self.current.values() if found.computed < 0]
        return max(still, key=lambda found: found.row, default=None)

    def _computed(self, row: int, found: Round | None) -> None:
        if found is not None and found.computed < 0:
            found.computed = row
            self.settled = found

    def _of_backend(self, backend: int) -> Round | None:
        """The round that a compute ends where the trace has no `sched_compute`."""
        for sched, found in self.current.items():
            backends = self._tables.scheds.get(sched, {}).get("backends")
            if found.computed < 0 and (not backends or backend in backends):
                return found
        return None

    def _begin(self, sched: int, way: Way, row: int, event: EventRow) -> None:
        before = self.current.get(sched)
        slot = event.get("slot", before.slot if before is not None and way == "reuse" else -1)
        inputs = event.get("inputs") or (before.inputs if before is not None and way == "reuse" else [])
        self.inputs.update(inputs)
        self.current[sched] = Round(
            sched, way, row, event.get("ubatch", -1), None, slot, event.get("realloc"), list(inputs)
        )
        early = self._early.pop(sched, None)
        if early is not None:
            self._ubatch(sched, early)

    def _prepare(self, sched: int, row: int, event: EventRow) -> None:
        found = self.current.get(sched)
        before = found.slot if found is not None else -1
        if found is None or found.computed >= 0:
            self._begin(sched, "none", row, event)
            found = self.current[sched]
        slot, rotated = event.get("slot", -1), event.get("rotated")
        if rotated is None and -1 not in (slot, before):
            rotated = slot != before
        self.told += rotated is not None
        found.prepares.append(Prepare(row, slot, bool(rotated)))
        if slot != -1:
            found.slot = slot

    def _ubatch(self, sched: int, event: EventRow) -> None:
        found = self.current.get(sched)
        if found is None or found.computed >= 0:
            self._early[sched] = event
            return
        found.ubatch = event.get("n", found.ubatch)
        found.phase = event.get("phase")
