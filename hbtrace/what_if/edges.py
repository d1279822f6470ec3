"""The edge that a cause lacks, put in at each of its races and nowhere else.

As an event it is exact: recorded right behind the earlier side, waited for right before the current one. Nothing that
the two queues did side by side is ordered by it but the racing pair and what these two are ordered with already. Where
the current side's queue cannot wait for it the host does, before it gives the work out; where there are no events, and
as a stall, the host waits for all of the earlier queue: fewer waits, which cost more of what runs side by side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hbtrace.explain.causes import Cause
from hbtrace.explain.ways import WAYS, Way, way_between
from hbtrace.races.natures import is_host
from hbtrace.replay.program import QUEUE
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Report
from hbtrace.what_if.rewriting import Entry, Ruling, Wants, inserted
from hbtrace.what_if.state import INSERTED, Event


@dataclass(frozen=True, slots=True)
class Point:
    """Before `row`, `current` waits for what `earlier` had when `earlier_row` was issued, or, if it is drained, for
    all that it was given so far."""

    row: int
    earlier_row: int
    earlier: str
    current: str
    thread: int
    earlier_thread: int
    way: Way

    @property
    def mark(self) -> tuple[int, str]:
        """Behind which row something is left for the wait, and by whom."""
        return self.earlier_row, self.earlier


@dataclass
class Edges(Ruling):
    """Waits at points."""

    name: str
    points: list[Point]
    queues: dict[str, int]
    """Backend ids by actor."""

    def __str__(self) -> str:
        return self.name

    @property
    def way(self) -> Way:
        """The heaviest of its waits."""
        return max((point.way for point in self.points), key=WAYS.index)

    @property
    def wants(self) -> Wants:
        return Wants(rows=frozenset(row for point in self.points for row in (point.row, point.earlier_row)))

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Before each point's row the wait, and behind the earlier row what it waits for."""
        before: dict[int, list[Point]] = {}
        behind: dict[int, dict[tuple[int, str], Point]] = {}
        for point in self.points:
            before.setdefault(point.row, []).append(point)
            if point.way != "drain":
                behind.setdefault(point.earlier_row, {})[point.mark] = point
        state = self.state()
        marks: dict[tuple[int, str], int] = {}
        for row, event in entries:
            if row != INSERTED:
                for point in before.get(row, ()):
                    yield from ((INSERTED, new) for new in self._wait(point, event, marks))
            yield row, event
            if row != INSERTED:
                for mark, point in behind.get(row, {}).items():
                    marks[mark] = state.fresh()
                    yield INSERTED, self._mark(point, event, marks[mark])

    def _mark(self, point: Point, event: Event, ident: int) -> Event:
        if point.way == "hand-over":
            return inserted(event | {"thread": point.earlier_thread}, "release", object=f"whatif {ident}")
        return inserted(event, "event_record", backend=self.queues[point.earlier], event=ident)

    def _wait(self, point: Point, event: Event, marks: dict[tuple[int, str], int]) -> Iterator[Event]:
        ident = marks.get(point.mark)
        if ident is None and point.way != "drain":
            return  # another rule took the earlier side away
        like = event | {"thread": point.thread}
        if point.way == "event":
            self.price.queue_waits += 1
            yield inserted(like, "event_wait", backend=self.queues[point.current], event=ident)
            return
        self.price.waits += 1
        if point.way == "drain":
            yield inserted(like, "synchronize", backend=self.queues[point.earlier])
        elif point.way == "hand-over":
            yield inserted(like, "acquire", object=f"whatif {ident}")
        else:
            yield inserted(like, "event_synchronize", event=ident)


def edges_for(cause: Cause, recording: Recording, *, stall: bool) -> Edges:
    """The fewest waits of this kind that order all races of a cause: one covers what comes after it, too.

    stall: the host waits for the whole queue, also where an event could tell.
    """
    ticks = _ticks(recording)
    covered: dict[tuple[str, str], int] = {}
    points: list[Point] = []
    for report in sorted(cause.reports, key=lambda r: (r.current.row, -r.earlier.clock)):
        pair = report.earlier.actor, report.current.actor
        if report.earlier.clock <= covered.get(pair, 0):
            continue
        point = _point(report, recording, stall=stall)
        points.append(point)
        covered[pair] = report.earlier.clock
        if point.way == "drain":
            issued = bisect_right(ticks.get(report.earlier.actor, []), point.row - 1)
            covered[pair] = max(report.earlier.clock, issued)
    queues = {name: int(its.get("id", -1)) for name, its in recording.queues.items()}
    for actor in {actor for point in points for actor in (point.earlier, point.current)}:
        if actor.startswith("?") and actor not in queues:
            queues[actor] = int(actor[1:])
    edges = Edges("", points, queues)
    itself = is_host(cause.current) or edges.way == "event"
    who = cause.current if itself else f"the host, before it gives work to {cause.current},"
    what = "last user of " + ", ".join(cause.touched[:3]) + (", ..." if len(cause.touched) > 3 else "")
    edges.name = f"{cause.ident}: {who} waits for {cause.earlier}{cause.also}, the {what}"
    return edges


def _point(report: Report, recording: Recording, *, stall: bool) -> Point:
    earlier, current = report.earlier, report.current
    way = way_between(recording.queues, earlier.actor, current.actor)
    if stall and way != "hand-over":
        way = "drain"
    # A queue that is gone by then can be named no more: it is waited for before it goes.
    named = min(current.row, recording.renamed.get(earlier.actor, current.row)) if way == "drain" else current.row
    return Point(named, earlier.row, earlier.actor, current.actor, current.thread, earlier.thread, way)


def _ticks(recording: Recording) -> dict[str, list[int]]:
    """The rows in which each queue was given work."""
    rows: dict[int, list[int]] = {}
    for op, actor, _, _, row in recording.steps():
        if op == QUEUE:
            rows.setdefault(actor, []).append(row)
    return {recording.actors[actor]: its for actor, its in rows.items()}
