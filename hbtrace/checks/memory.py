"""`memory-reuse` and `use-after-free`: bytes given to somebody else, or to nobody."""

from __future__ import annotations

from collections.abc import Iterator

from hbtrace.checks.model import Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay import diagnostics
from hbtrace.replay.reports import Report
from hbtrace.replay.session import Replayed
from hbtrace.replay.tables import Tables
from hbtrace.trace.vocabulary import EVENT_WAITS, EVENTS, GRAPH, OWN, WHOLE, Access, EventRow
from hbtrace.words import count


class MemoryReuse(Rule):
    """The allocator gave bytes on before everybody was done with them."""

    id = "memory-reuse"
    severity = "error"
    title = "two root tensors race over the same bytes: the allocator reused memory in flight"
    needs = "`tensor` with `view_of`, and accesses by tensor"
    why = "The two tensors have nothing to do with each other but their place, so no edge of the graph can order them."
    about = """\
A race whose two sides are different *root* tensors (the view root owns the bytes and is what the allocator frees;
asking the accessed tensor misses every access through a view). One queue reads a tensor in place, the allocator
frees it behind its last consumer in graph order, and a later split of another backend writes what was put there.
The finding says how many bytes pinning until synchronized would have kept out of the allocator's reuse. Fix: keep
memory that another backend may still be reading out of the pool until that backend was synchronized."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._met = Tally()
        self._pinned: dict[str, int] = {}

    def race(self, report: Report, sort: Sort) -> None:
        if sort != "allocator":
            return
        earlier, current = report.earlier, report.current
        self._met.add((earlier.row, current.row), f"{earlier.root} / {current.root} in {report.buffer}")
        size = self.survey.tables.told_size(earlier.root_id) or report.bytes
        name = earlier.root or "-"
        self._pinned[name] = max(size, self._pinned.get(name, 0))

    def finish(self) -> None:
        if self._met:
            races = count(self._met.count, "race")
            self.find(
                "error",
                f"{races} between different root tensors over the same bytes: {self._met.names()};"
                f" pinning until synchronized would have kept {sum(self._pinned.values())} bytes",
                self._met,
            )

    def missing(self) -> str | None:
        return None if self.survey.tables.tensors else "`tensor` rows, and accesses by tensor"

    def seen(self) -> str:
        return "no race is between two root tensors"


class UseAfterFree(Rule):
    """Accesses to a buffer, or work for a queue, that was freed."""

    id = "use-after-free"
    severity = "error"
    title = "a buffer, a queue or an event is used after it was freed"
    needs = "`buffer_free`, `backend_free` or `event_free`"
    why = "The memory may be another tensor's by now, or gone."
    about = """\
`error` for each row that accesses a buffer after its `buffer_free` (freeing it again is one, zero bytes are none);
`warning` for rows that give work to a backend after its `backend_free`, the source of a copy among them, and for
those that wait for an event, or free it, after its `event_free` and before it is recorded again. None is a race:
order would not fix it."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._buffers, self._queues, self._events = Tally(), Tally(), Tally()
        self._freed_queues: set[int] = set()
        self._count = 0
        self._look = False

    def batch(self, replayed: Replayed) -> None:
        count = replayed.lowering.diagnostics.count(diagnostics.USE_AFTER_FREE)
        self._look, self._count = count > self._count, count

    @on("backend")
    def _begins(self, at: DoneRow) -> None:
        self._freed_queues.discard(at.event.get("id", -1))

    @on("backend_free")
    def _ends(self, at: DoneRow) -> None:
        self._freed_queues.add(at.backend)

    @on("event_free", *EVENT_WAITS)
    def _uses_event(self, at: DoneRow) -> None:
        if at.event["event"] in self.survey.tables.freed_events:
            self._events.add([at.row], f"event {at.event['event']}")

    def step(self, at: DoneRow) -> None:
        for queue in {at.backend, at.event.get("src_backend", -1)} & self._freed_queues:
            self._queues.add([at.row], self.survey.backend_name(queue))
        if not self._look:
            return
        tables = self.survey.tables
        dead = {ident for ident, size in _touched(at, tables) if ident in tables.freed and size}
        if dead:
            self._buffers.add([at.row], ", ".join(str(tables.buffers.get(b, {}).get("name", f"?{b}")) for b in dead))

    def finish(self) -> None:
        if self._buffers:
            self.find(
                "error",
                f"{_use(self._buffers.count)} a buffer after it was freed: {self._buffers.names()}",
                self._buffers,
            )
        for what, met in (("a queue", self._queues), ("an event", self._events)):
            if met:
                self.find("warning", f"{_use(met.count)} {what} after it was freed: {met.names()}", met)

    def missing(self) -> str | None:
        events = self.survey.events
        return None if any(events.get(f"{what}_free") for what in ("buffer", "backend", "event")) else self.needs

    def seen(self) -> str:
        return f"{self.survey.events.get('buffer_free', 0)} buffers freed"


def _use(rows: int) -> str:
    return "1 row uses" if rows == 1 else f"{rows:,} rows use"


def _touched(at: DoneRow, tables: Tables) -> Iterator[tuple[int, int]]:
    """(buffer, whether it has bytes) of everything that a row accesses, the addresses being those in force."""
    for access in EVENTS[at.ev].accesses if at.ev in EVENTS else ():
        for r in _ranges(at.event, access, tables):
            tensor = r.get("tensor", -1)
            buffer = tables.place(tensor)[0] if tensor != -1 else r.get("buffer", -1)
            yield buffer, r.get("size", tables.told_size(tensor) or 1)


def _ranges(event: EventRow, access: Access, tables: Tables) -> Iterator[EventRow]:
    """The ranges of one access."""
    if access.where == OWN:
        yield event
    elif access.where == WHOLE:
        yield {"buffer": event.get("buffer", -1)}
    elif access.where == GRAPH:
        for node in tables.nodes(event.get("graph", -1)):
            yield from node.get("writes" if access.write else "reads") or ()
    else:
        found = event.get(access.where) or ()
        yield from (found,) if isinstance(found, dict) else found
