"""The edge that a cause lacks, put in at each of its races and nowhere else.

As an event it is exact: recorded right behind the earlier side, waited for right before the current one. Nothing that
the two queues did side by side is ordered by it but the racing pair and what these two are ordered with already. As a
stall it is the plain `synchronize`, which needs fewer waits and costs more of what runs side by side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hbtrace.explain.causes import Cause
from hbtrace.races.natures import is_host
from hbtrace.replay.program import QUEUE
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Access
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
    drained: bool

    @property
    def mark(self) -> tuple[int, str]:
        """Behind which row something is left for the wait, and by whom."""
        return self.earlier_row, self.earlier


@dataclass
class Edges(Ruling):
    """Waits at points. stall: the host waits, also where a queue could."""

    name: str
    points: list[Point]
    queues: dict[str, int]
    """Backend ids by actor."""
    stall: bool

    def __str__(self) -> str:
        return self.name

    @property
    def wants(self) -> Wants:
        return Wants(rows=frozenset(row for point in self.points for row in (point.row, point.earlier_row)))

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Before each point's row the wait, and behind the earlier row what it waits for."""
        before: dict[int, list[Point]] = {}
        behind: dict[int, dict[tuple[int, str], Point]] = {}
        for point in self.points:
            before.setdefault(point.row, []).append(point)
            if not point.drained:
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
        if is_host(point.earlier):
            return inserted(event | {"thread": point.earlier_thread}, "release", object=f"whatif {ident}")
        return inserted(event, "event_record", backend=self.queues[point.earlier], event=ident)

    def _wait(self, point: Point, event: Event, marks: dict[tuple[int, str], int]) -> Iterator[Event]:
        ident = marks.get(point.mark)
        if ident is None and not point.drained:
            return  # another rule took the earlier side away
        like = event | {"thread": point.thread}
        to_host = is_host(point.current) or (self.stall and not is_host(point.earlier))
        if to_host:
            self.price.waits += 1
        else:
            self.price.queue_waits += 1
        if point.drained:
            yield inserted(like, "synchronize", backend=self.queues[point.earlier])
        elif is_host(point.earlier):
            queue = {} if to_host else {"backend": self.queues[point.current]}
            yield inserted(like, "acquire", object=f"whatif {ident}", **queue)
        elif to_host:
            yield inserted(like, "event_synchronize", event=ident)
        else:
            yield inserted(like, "event_wait", backend=self.queues[point.current], event=ident)


def edges_for(cause: Cause, recording: Recording, *, stall: bool) -> Edges:
    """The fewest waits of this kind that order all races of a cause: one covers what comes after it, too."""
    ticks = _ticks(recording) if stall else {}
    covered: dict[tuple[str, str], int] = {}
    points: list[Point] = []
    for report in sorted(cause.reports, key=lambda r: (r.current.row, -r.earlier.clock)):
        earlier, current = report.earlier, report.current
        pair = earlier.actor, current.actor
        if earlier.clock <= covered.get(pair, 0):
            continue
        # A queue that is gone by then can be named no more: only an event from before still tells.
        named = current.row <= recording.renamed.get(earlier.actor, current.row)
        drained = stall and named and not is_host(earlier.actor)
        points.append(_point(earlier, current, drained=drained))
        covered[pair] = earlier.clock
        if drained:
            covered[pair] = max(earlier.clock, bisect_right(ticks.get(earlier.actor, []), current.row - 1))
    itself = is_host(cause.current) or not stall
    who = cause.current if itself else f"the host, before it gives work to {cause.current},"
    what = "last user of " + ", ".join(cause.tensors[:3]) + (", ..." if len(cause.tensors) > 3 else "")
    name = f"{cause.ident}: {who} waits for {cause.earlier}, the {what}"
    queues = {name: int(its.get("id", -1)) for name, its in recording.queues.items()}
    for actor in {actor for point in points for actor in (point.earlier, point.current)}:
        if actor.startswith("?") and actor not in queues:
            queues[actor] = int(actor[1:])
    return Edges(name, points, queues, stall)


def _point(earlier: Access, current: Access, *, drained: bool) -> Point:
    return Point(
        current.row, earlier.row, earlier.actor, current.actor, current.thread, earlier.thread, drained
    )  # fmt: skip


def _ticks(recording: Recording) -> dict[str, list[int]]:
    """The rows in which each queue was given work."""
    rows: dict[int, list[int]] = {}
    for op, actor, _, _, row in recording.steps():
        if op == QUEUE:
            rows.setdefault(actor, []).append(row)
    return {recording.actors[actor]: its for actor, its in rows.items()}
