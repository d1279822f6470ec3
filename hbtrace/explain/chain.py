"""The chain of edges that comes nearest to ordering a race, and where it breaks."""

from __future__ import annotations

from dataclasses import dataclass

from hbtrace.explain.recording import Recording
from hbtrace.replay.kernel import Clock
from hbtrace.replay.order import Clocks
from hbtrace.replay.program import DROP, END, JOIN, QUEUE, RECORD, RELEASE, WAIT
from hbtrace.replay.races import Report

NEVER = -1


@dataclass(frozen=True, slots=True)
class Link:
    """In `row` (an event `event`) `who` learns of the earlier access from `source`; an event or object is a place."""

    row: int
    event: str
    who: str
    source: str


@dataclass(frozen=True, slots=True)
class Chain:
    """links: who learns of the earlier access before the current one happens, in order.

    knows_since: the row in which the current actor learnt the newest that it knows of the earlier one, -1 for never.
    learns_at: the row after the current access in which it learns of the earlier one after all, -1 for never.
    knows, known_of: what each side knew of the other when it happened.
    """

    links: list[Link]
    knows_since: int
    knows_event: str
    learns_at: int
    learns_event: str
    current_clock: Clock
    earlier_clock: Clock


def chain_of(recording: Recording, report: Report) -> Chain:
    """Walk from the earlier access on and see who comes to know of it."""
    return _Walk(recording, report).run()


class _Walk:
    def __init__(self, recording: Recording, report: Report) -> None:
        self._recording = recording
        self._report = report
        self._first = recording.actors.index(report.earlier.actor)
        self._then = recording.actors.index(report.current.actor)
        self._clocks = Clocks()
        self._knowers: set[tuple[str, int]] = set()
        self._links: list[Link] = []
        self._since = (NEVER, "")
        self._learns = (NEVER, "")
        self._snapshots: dict[str, Clock] = {}

    def run(self) -> Chain:
        needs, knew = self._report.earlier.clock, 0
        for op, actor, other, _, row in self._recording.steps():
            self._clocks.step(op, actor, other)
            self._snap(op, actor, row)
            mine = self._clocks.of(self._then).get(self._first, 0)
            if "current" not in self._snapshots:
                if mine > knew:
                    knew, self._since = mine, (row, self._recording.events[row])
                self._spread(op, actor, other, row)
            elif mine >= needs:
                self._learns = (row, self._recording.events[row])
                break
        return Chain(
            self._links, *self._since, *self._learns, self._snapshots.get("current", {}),
            self._snapshots.get("earlier", {}),
        )  # fmt: skip

    def _snap(self, op: int, actor: int, row: int) -> None:
        if op in (DROP, END):  # these name a slot or a space, and no actor
            return
        for name, side in (("earlier", self._report.earlier), ("current", self._report.current)):
            known = self._clocks.actors.get(actor, {})
            same = row == side.row and self._recording.actors[actor] == side.actor
            if name not in self._snapshots and same and known.get(actor, 0) == side.clock:
                self._snapshots[name] = dict(known)

    def _spread(self, op: int, actor: int, other: int, row: int) -> None:
        """Who or what knows of the earlier access now that did not before."""
        if "earlier" not in self._snapshots or op not in (QUEUE, JOIN, WAIT, RECORD, RELEASE):
            return
        into = ("slot", other) if op in (RECORD, RELEASE) else ("actor", actor)
        known = self._clocks.slots.get(other, {}) if into[0] == "slot" else self._clocks.of(actor)
        if into in self._knowers or known.get(self._first, 0) < self._report.earlier.clock:
            return
        self._knowers.add(into)
        if into == ("actor", self._first):
            return
        names = self._recording.actors
        left = "the event" if op == RECORD else "the object"
        who = left if into[0] == "slot" else names[actor]
        source = names[actor] if into[0] == "slot" else names[other] if op in (QUEUE, JOIN) else "what was left for it"
        self._links.append(Link(row, self._recording.events[row], who, source))
