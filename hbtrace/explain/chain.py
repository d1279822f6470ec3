"""The chain of edges that comes nearest to ordering a race, and where it breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Report

NEVER = -1


@dataclass(frozen=True, slots=True)
class Link:
    """In `row` (an event `event`) `who` learns of the earlier access from `source`; an event or object is a place."""

    row: int
    event: str
    who: str
    source: str


@dataclass(frozen=True, slots=True)
class Stale:
    """A wait between the two sides for an event that was recorded before the earlier one.

    wait, record: rows. queue: who recorded it. issued: the rows of its work after the record, to the earlier side.
    """

    wait: int
    record: int
    queue: str
    issued: list[int]


@dataclass(frozen=True, slots=True)
class Chain:
    """links: who learns of the earlier access before the current one happens, in order.

    stale: the last wait of the current side, or of who issued it, that came between and was for nothing, None if none.

    knows_since: the row in which the current actor learnt the newest that it knows of the earlier one, -1 for never.
    learns_at: the row after the current access in which it learns of the earlier one after all, -1 for never.
    knows, known_of: what each side knew of the other when it happened.
    """

    links: list[Link]
    knows_since: int
    learns_at: int
    current_clock: Clock
    earlier_clock: Clock
    stale: Stale | None = None


def chain_of(recording: Recording, report: Report) -> Chain:
    """Walk from the earlier access on and see who comes to know of it."""
    return _Walk(recording, report).run()


class _Walk:
    def __init__(self, recording: Recording, report: Report) -> None:
        self._recording = recording
        self._report = report
        self._first = recording.actors.index(report.earlier.actor)
        self._then = recording.actors.index(report.current.actor)
        self._slots: dict[int, int] = {}
        """What each slot knows of the earlier actor."""
        self._knowers: set[tuple[str, int]] = set()
        self._links: list[Link] = []
        self._since = NEVER
        self._learns = NEVER
        self._snapshots: dict[str, Clock] = {}
        self._records: dict[int, tuple[int, int]] = {}
        """By event: the row of its record, and the actor."""
        self._work: list[int] = []
        """Rows of the earlier actor's work."""
        self._stale: dict[int, tuple[int, int]] = {}
        """By who waits: the row of the last wait that was for nothing, and that of the record."""

    def run(self) -> Chain:
        needs, knew, mine = self._report.earlier.clock, 0, 0
        for op, actor, other, row, known in self._moments():
            self._snap(actor, row, known)
            if op in (RECORD, RELEASE):
                held = self._slots.get(other, 0) if op == RELEASE else 0
                self._slots[other] = max(held, known.get(self._first, 0))
            if "current" not in self._snapshots:
                self._note_events(op, actor, other, row)
            if actor == self._then:
                mine = known.get(self._first, 0)
            if "current" not in self._snapshots:
                if mine > knew:
                    knew, self._since = mine, row
                self._spread(op, actor, other, row, known)
            elif mine >= needs:
                self._learns = row
                break
        current, earlier = (self._snapshots.get(side, {}) for side in ("current", "earlier"))
        return Chain(self._links, self._since, self._learns, current, earlier, self._last_stale())

    def _note_events(self, op: int, actor: int, other: int, row: int) -> None:
        """Work of the earlier actor, records of events, and waits for what they hold too little of."""
        if op in (HOST, QUEUE) and actor == self._first and "earlier" not in self._snapshots:
            self._work.append(row)
        elif op == RECORD:
            self._records[other] = row, actor
        elif op == WAIT and "earlier" in self._snapshots and other in self._records:
            record, queue = self._records[other]
            if queue == self._first and self._slots.get(other, 0) < self._report.earlier.clock:
                self._stale[actor] = row, record

    def _last_stale(self) -> Stale | None:
        """Of the current side, or of the host thread that issued it."""
        thread = self._report.current.thread
        issuer = f"HOST#{thread}" if thread else "HOST"
        names = self._recording.actors
        found = [its for actor, its in self._stale.items() if actor == self._then or names[actor] in ("HOST", issuer)]
        if not found:
            return None
        wait, record = max(found)
        work = dict.fromkeys((*self._work, self._report.earlier.row))
        return Stale(wait, record, names[self._first], [row for row in work if record < row])

    def _moments(self) -> Iterator[tuple[int, int, int, int, Clock]]:
        """Each step with what its actor then knows, itself among it."""
        for program, order in zip(self._recording.programs, self._recording.orders, strict=True):
            for at, (op, actor, other, _, row) in enumerate(program.steps()):
                if op == DROP:
                    self._slots.pop(other, None)
                elif op != END:  # these two name a slot or a space, and no actor
                    yield op, actor, other, row, order.whole(at, actor)

    def _snap(self, actor: int, row: int, known: Clock) -> None:
        for name, side in (("earlier", self._report.earlier), ("current", self._report.current)):
            same = row == side.row and self._recording.actors[actor] == side.actor
            if name not in self._snapshots and same and known[actor] == side.clock:
                self._snapshots[name] = known

    def _spread(self, op: int, actor: int, other: int, row: int, known: Clock) -> None:
        """Who or what knows of the earlier access now that did not before."""
        if "earlier" not in self._snapshots or op not in (QUEUE, JOIN, WAIT, RECORD, RELEASE):
            return
        into = ("slot", other) if op in (RECORD, RELEASE) else ("actor", actor)
        knows = self._slots[other] if into[0] == "slot" else known.get(self._first, 0)
        if into in self._knowers or knows < self._report.earlier.clock:
            return
        self._knowers.add(into)
        if into == ("actor", self._first):
            return
        names = self._recording.actors
        left = "the event" if op == RECORD else "the object"
        who = left if into[0] == "slot" else names[actor]
        source = names[actor] if into[0] == "slot" else names[other] if op in (QUEUE, JOIN) else "what was left for it"
        self._links.append(Link(row, self._recording.events[row], who, source))
