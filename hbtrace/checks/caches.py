"""`stale-uid` and `alias-moved`: what a graph cache and the allocator take for granted about a graph."""

from __future__ import annotations

from typing import Final

from hbtrace.checks.model import Tally
from hbtrace.checks.rounds import Round
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.program import Piece
from hbtrace.words import count

InputSizes = tuple[tuple[str, int], ...]
"""(name, size) of each input of a graph."""

_MOST_UIDS: Final = 1 << 12
"""Graphs remembered by uid; a uid that comes again after so many others is taken for new."""


class StaleUid(Rule):
    """An unchanged uid is a promise that no address has moved."""

    id = "stale-uid"
    severity = "error"
    title = "a compute with an unchanged graph uid whose addresses have moved"
    needs = "`graph` with `uid`"
    why = (
        "A backend that caches a graph by its uid (CUDA graphs, RPC, the meta backend) goes on using the old addresses."
    )
    about = """\
For each queue and uid other than 0, the bytes that the compute touches are compared with those of the last
compute of that uid. `error` if they differ: the scheduler re-pointed tensors and did not stamp the split anew. uid
0 is "unset" and bypasses caches. Fix: stamp new uids whenever inputs are re-pointed."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._last: dict[tuple[int, int], tuple[int, list[Piece]]] = {}
        self._met = Tally()
        self._bypassed = self._stamped = 0

    @on("compute")
    def _compute(self, at: DoneRow) -> None:
        uid = self.survey.tables.graphs.get(at.event.get("graph", -1), {}).get("uid")
        if not isinstance(uid, int) or at.work is None:
            return
        if uid == 0:
            self._bypassed += 1
            return
        self._stamped += 1
        key = at.work.actor, uid  # a new backend of the same id has cached nothing
        before, pieces = self._last.pop(key, None), self.survey.pieces(at.work.footprint)
        if before is not None and before[1] is not pieces:
            moved = set(pieces) - set(before[1])  # what is gone was freed, and is another rule's
            if moved:
                self._met.add((before[0], at.row))
                for name in self._moved(at.row, moved):
                    self._met.words[name] = self._met.words.get(name, 0) + 1
        self._last[key] = at.row, pieces
        if len(self._last) > _MOST_UIDS:
            del self._last[next(iter(self._last))]

    def _moved(self, row: int, pieces: set[Piece]) -> set[str]:
        lowering = self.survey.lowering
        template = lowering.call(row).template if lowering is not None else None
        accesses = template.accesses if template is not None else []
        tensors = {accesses[number][1].tensor for _, _, _, number, _ in pieces if number < len(accesses)}
        return {self.survey.tables.name(tensor) for tensor in tensors if tensor != -1}

    def finish(self) -> None:
        if self._met:
            names = self._met.names()
            computes = count(self._met.count, "compute")
            self.find(
                "error",
                f"{computes} with an unchanged uid at other addresses than the last one: {names}",
                self._met,
            )

    def missing(self) -> str | None:
        return None if self._stamped or self._bypassed else self.needs

    def seen(self) -> str:
        return f"{self._stamped} computes with a uid, {self._bypassed} with uid 0, which bypasses caches"


class AliasMoved(Rule):
    """Between two allocations that do not reallocate, an input stays the same tensor, slot by slot at its place."""

    id = "alias-moved"
    severity = "error"
    title = "a tensor's identity changed over an allocation that did not reallocate"
    needs = "`sched` with `ring` above 1, `sched_alloc` with `inputs` and `realloc`"
    why = (
        "The allocator takes two graphs for equivalent by their tensors; one that it never placed has no buffer at all."
    )
    about = """\
Slot 0 of the ring must stay the alias of the graph's own input, so that the tensors of the graph are the same ones
whichever slot is in use. `error` if an input of the same name and size is another tensor than at the allocation
before, or lies elsewhere than when its slot was last in use, with no reallocation between them. Fix: pin the alias
to slot 0 and re-point its address, not its identity."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._known: dict[tuple[int, InputSizes], tuple[int, list[int]]] = {}
        self._places: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._identity, self._moved = Tally(), Tally()
        self._silent: set[int] = set()
        """Schedulers whose newest allocation does not say whether it reallocated."""
        self._checked = 0

    @on("sched_alloc")
    def _alloc(self, at: DoneRow) -> None:
        """A reserve begins no round, and what it reallocates lies elsewhere afterwards all the same."""
        if at.event.get("reserve") and at.event.get("realloc") is not False:
            self._forget(at.event.get("sched", -1))

    @on("sched_compute", "compute")
    def _settled(self, at: DoneRow) -> None:
        found = self.survey.rounds.settled
        if found is None or not found.inputs or (self.survey.rounds.ring(found.sched) or 0) < 2:
            return
        if found.way == "alloc" and found.realloc is not False:
            self._forget(found.sched)
        if found.way == "alloc":
            (self._silent.discard if found.realloc is not None else self._silent.add)(found.sched)
        if found.sched in self._silent:
            return
        self._checked += 1
        self._identities(found)
        if found.slot >= 0:
            for tensor in found.inputs:
                self._place(found, tensor)

    def _identities(self, found: Round) -> None:
        """The allocator takes two graphs for equivalent if their inputs have the same names and sizes, in order."""
        tables = self.survey.tables
        names = [without_slot(tables.name(tensor)) for tensor in found.inputs]
        key = found.sched, tuple(zip(names, map(tables.told_size, found.inputs), strict=True))
        row, before = self._known.get(key, (-1, found.inputs))
        for name, old, new in zip(names, before, found.inputs, strict=True):
            if old != new:
                self._identity.add((row, found.row), name)
        self._known[key] = found.row, found.inputs

    def _place(self, found: Round, tensor: int) -> None:
        place, slot = self.survey.tables.place(tensor), (found.sched, tensor, found.slot)
        if self._places.setdefault(slot, place) != place:
            name = without_slot(self.survey.tables.name(tensor))
            self._moved.add([found.row], f"{name} in slot {found.slot}")
            self._places[slot] = place

    def _forget(self, sched: int) -> None:
        self._known = {key: value for key, value in self._known.items() if key[0] != sched}
        self._places = {key: value for key, value in self._places.items() if key[0] != sched}

    def finish(self) -> None:
        if self._identity:
            self.find(
                "error",
                f"{self._identity.count} inputs are another tensor after an allocation that did not reallocate:"
                f" {self._identity.names()}",
                self._identity,
            )
        if self._moved:
            self.find(
                "error",
                f"{self._moved.count} inputs lie elsewhere than when their slot was last in use, without a"
                f" reallocation: {self._moved.names()}",
                self._moved,
            )

    def missing(self) -> str | None:
        return None if self._checked else self.needs

    def seen(self) -> str:
        return f"{self._checked} rounds"
