"""The edge that a cause lacks, put in at each of its races and nowhere else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hbtrace.explain.causes import Cause, is_host
from hbtrace.explain.draft import INSERTED, Entry, Event, Price, State, Wants, inserted
from hbtrace.explain.recording import Recording
from hbtrace.replay.program import QUEUE
from hbtrace.replay.races import Access


@dataclass(frozen=True, slots=True)
class Point:
    """Before `row`, `current` waits for `earlier`: for all that it was given so far, or, if it can be named no more,
    for what it had when `earlier_row` was issued."""

    row: int
    earlier_row: int
    earlier: str
    current: str
    thread: int
    earlier_thread: int
    late: bool


@dataclass
class Edges:
    """Waits at points. stall: the host waits (a `synchronize`), where it can; else an event record and wait."""

    name: str
    points: list[Point]
    queues: dict[str, int]
    """Backend ids by actor."""
    stall: bool
    price: Price = field(default_factory=Price)
    lane: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def wants(self) -> Wants:
        return Wants(rows=frozenset(row for point in self.points for row in (point.row, point.earlier_row)))

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Before each point's row the wait, and where it must be, behind the earlier row the record."""
        before: dict[int, list[Point]] = {}
        behind: dict[int, list[Point]] = {}
        for point in self.points:
            before.setdefault(point.row, []).append(point)
            if point.late or is_host(point.earlier):
                behind.setdefault(point.earlier_row, []).append(point)
        state = State(lane=self.lane)
        marks: dict[Point, int] = {}
        for row, event in entries:
            if row != INSERTED:
                for point in before.get(row, ()):
                    yield from ((INSERTED, new) for new in self._wait(point, event, state, marks))
            yield row, event
            if row != INSERTED:
                for point in behind.get(row, ()):
                    marks[point] = state.fresh()
                    yield INSERTED, self._mark(point, event, marks[point])

    def _mark(self, point: Point, event: Event, ident: int) -> Event:
        if is_host(point.earlier):
            return inserted(event | {"thread": point.earlier_thread}, "release", object=f"whatif {ident}")
        return inserted(event, "event_record", backend=self.queues[point.earlier], event=ident)

    def _wait(self, point: Point, event: Event, state: State, marks: dict[Point, int]) -> Iterator[Event]:
        like = event | {"thread": point.thread}
        to_host = is_host(point.current)
        if to_host or self.stall:
            self.price.waits += 1
        else:
            self.price.queue_waits += 1
        if is_host(point.earlier):
            queue = {} if to_host else {"backend": self.queues[point.current]}
            yield inserted(like, "acquire", object=f"whatif {marks[point]}", **queue)
            return
        if self.stall and not point.late:
            yield inserted(like, "synchronize", backend=self.queues[point.earlier])
            return
        ident = marks.get(point)
        if ident is None:
            ident = state.fresh()
            yield inserted(like, "event_record", backend=self.queues[point.earlier], event=ident)
        if to_host or self.stall:
            yield inserted(like, "event_synchronize", event=ident)
        else:
            yield inserted(like, "event_wait", backend=self.queues[point.current], event=ident)


def edges_for(cause: Cause, recording: Recording, *, stall: bool) -> Edges:
    """The fewest waits that order all races of a cause: one covers what comes after it, too."""
    ticks = _ticks(recording)
    covered = -1
    points: list[Point] = []
    for report in sorted(cause.reports, key=lambda r: (r.current.row, -r.earlier.clock)):
        earlier, current = report.earlier, report.current
        if earlier.clock <= covered:
            continue
        late = current.row > recording.renamed.get(cause.earlier, current.row)
        points.append(_point(earlier, current, late=late))
        covered = earlier.clock
        if not late and not is_host(cause.earlier):
            covered = max(covered, bisect_right(ticks.get(cause.earlier, []), current.row - 1))
    itself = is_host(cause.current) or not stall
    who = cause.current if itself else f"the host, before it gives work to {cause.current},"
    what = "last user of " + ", ".join(cause.tensors[:3]) + (", ..." if len(cause.tensors) > 3 else "")
    name = f"{cause.ident}: {who} waits for {cause.earlier}, the {what}"
    queues = {name: int(its.get("id", -1)) for name, its in recording.queues.items()}
    for actor in (cause.earlier, cause.current):
        if actor.startswith("?") and actor not in queues:
            queues[actor] = int(actor[1:])
    return Edges(name, points, queues, stall)


def _point(earlier: Access, current: Access, *, late: bool) -> Point:
    return Point(
        current.row, earlier.row, earlier.actor, current.actor, current.thread, earlier.thread, late
    )  # fmt: skip


def _ticks(recording: Recording) -> dict[str, list[int]]:
    """The rows in which each queue was given work."""
    rows: dict[int, list[int]] = {}
    for op, actor, _, _, row in recording.steps():
        if op == QUEUE:
            rows.setdefault(actor, []).append(row)
    return {recording.actors[actor]: its for actor, its in rows.items()}

