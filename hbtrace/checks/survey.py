"""What rules may ask: a trace row by row, with the order and the tables as they stand after each row.

It knows no rule and decides nothing. The clocks are the contract's (`replay.clocks`), the bytes are the lowering's;
what ids mean at a row is kept here (`replay.tables`), because the lowering stands at the end of its batch already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hbtrace import backends, engines
from hbtrace.checks.race_sorts import RaceSide, Sort, sort_of
from hbtrace.checks.rounds import Rounds
from hbtrace.engines import Engine
from hbtrace.replay.clocks import NOTHING, Step
from hbtrace.replay.kernel import Clock
from hbtrace.replay.lower import Lowering
from hbtrace.replay.names import HOST_NAME
from hbtrace.replay.program import DROP, END, QUEUE, Piece, Program
from hbtrace.replay.reports import Access, Report
from hbtrace.replay.session import Replayed
from hbtrace.replay.tables import Tables
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import EVENTS, TABLED, EventRow


@dataclass(slots=True)
class DoneRow:
    """One row, done: its event, its steps, and the races that it closed."""

    row: int
    ev: str
    event: EventRow
    backend: int
    steps: list[Step] = field(default_factory=list)
    races: list[Report] = field(default_factory=list)

    @property
    def work(self) -> Step | None:
        """The step that queues work, the last of them if there are two."""
        return next((step for step in reversed(self.steps) if step.op == QUEUE), None)


class Present:
    """What actors know at the present row."""

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}
        self._known: dict[int, Clock] = {}

    def do(self, step: Step, tick: int, known: Clock) -> Step:
        """The next step; what its actor knows after it."""
        if step.op not in (DROP, END):
            self._ticks[step.actor], self._known[step.actor] = tick, known
        return step

    def tick(self, actor: int) -> int:
        """An actor's own clock."""
        return self._ticks.get(actor, 0)

    def knows(self, actor: int, other: int) -> int:
        """Up to which step of another an actor knows."""
        return self.tick(actor) if actor == other else self._known.get(actor, NOTHING).get(other, 0)


_NEEDS: Final = {ev: its.needs for ev, its in EVENTS.items()}


def _lacks(ev: str, event: EventRow) -> bool:
    """Whether a row lacks what it cannot do without: the replay skips it, too."""
    for key in _NEEDS.get(ev, ()):  # noqa: SIM110 - of every row: a generator costs twice as much
        if event.get(key, -1) == -1:
            return True
    return False


def _moments(replayed: Replayed) -> Iterator[tuple[Step, int, Clock, Program]]:
    for program, order in zip(replayed.programs, replayed.orders, strict=True):
        for step, learnt, tick, known in zip(program.steps(), order.learnt, order.ticks, order.known, strict=True):
            yield Step(*step, learnt), tick, known, program


class Survey:
    """What stands at the present row: take the `rows` of each batch one by one, and ask."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.clocks = Present()
        self.rounds = Rounds(self.tables)
        self.meta: EventRow = {}
        self.engine: Engine | None = None
        """Whose trace it is, if that engine has rules of its own."""
        self.events: dict[str, int] = {}
        """Rows by event."""
        self.actors: dict[int, int] = {}
        """The actor of each backend id that did anything, at the present row."""
        self.lowering: Lowering | None = None
        self.sorts: Counter[Sort] = Counter()
        """Races by what they are."""
        self._seen_actors = 1  # the first is HOST
        self._hosts = [0]
        self._pieces: dict[int, list[Piece]] = {}
        self._defined: Program | None = None
        self._works: dict[int, tuple[str, int]] = {}
        self._flagged: set[int] = set()
        """Tensors flagged as graph inputs. Whoever points one elsewhere under its name need not say so again."""

    def rows(self, replayed: Replayed) -> Iterator[DoneRow]:
        """The rows of the next batch that the replay did not skip, each as soon as it was done."""
        self.lowering = replayed.lowering
        self._hosts = [actor for actor, family in enumerate(replayed.lowering.names.families) if family == HOST_NAME]
        events = rows_from_batch(replayed.batch, fitting=True)
        if not replayed.first and events and events[0].get("ev") == "meta":
            self.meta = events[0]
            self.engine = engines.named(self.meta.get("engine"))
        steps = _moments(replayed)
        step = next(steps, None)
        reports = iter(replayed.reports)
        report = next(reports, None)
        for row, event in enumerate(events, replayed.first):
            at = DoneRow(row, event.get("ev") or "", event, event.get("backend", -1))
            while step is not None and step[0].row == row:
                self._define(step[3])
                at.steps.append(self.clocks.do(*step[:3]))
                step = next(steps, None)
            while report is not None and report.current.row <= row:
                at.races.append(report)
                report = next(reports, None)
            if not _lacks(at.ev, event):
                self._do(at)
                yield at
                self.tables.free(at.ev, event)

    def keep(self, rows: set[int]) -> None:
        """Behind a batch: of all rows so far only these can still race."""
        self._works = {row: self._works[row] for row in rows if row in self._works}

    def sort(self, report: Report) -> Sort:
        """What a race is; it counts it."""
        sort = sort_of(report, self._side(report.earlier), self._side(report.current))
        self.sorts[sort] += 1
        return sort

    def pieces(self, footprint: int) -> list[Piece]:
        """The bytes of a step: of each access, in order."""
        return self._pieces.get(footprint, [])

    def pending(self, actor: int, clock: int | None = None) -> bool:
        """Whether no host thread knows that an actor's step of that clock is done; by default its newest step."""
        since = self.clocks.tick(actor) if clock is None else clock
        return all(self.clocks.knows(host, actor) < since for host in self._hosts)

    def host(self, at: DoneRow) -> int:
        """The actor of the host thread that did a row."""
        return self.lowering.host_actor(at.event.get("thread", 0)) if self.lowering is not None else 0

    def asynchronous(self, backend: int) -> bool:
        """Whether work of a backend may still run when the call has returned, as far as the trace says."""
        event = self.tables.backends.get(backend, {})
        return not event.get("synchronous", False) and event.get("async", True) is not False

    def is_host_work(self, backend: int) -> bool:
        """Whether a backend is known to compute where the host does, and to be done when the call returns."""
        return bool(self.host_work(backend))

    def host_work(self, backend: int) -> bool | None:
        """As `is_host_work`; None where nothing tells: no attribute, no name in the table, no place in a scheduler."""
        event = self.tables.backends.get(backend, {})
        declared, kind = event.get("synchronous"), event.get("type")
        if declared is not None:
            return bool(declared)
        if kind in ("cpu", "gpu", "igpu"):
            return bool(kind == "cpu")
        known = backends.of_device(str(event.get("name", "")))
        if known is not None:
            return not known.synchronize
        slots = [sched.get("backends") or [] for sched in self.tables.scheds.values()]
        last = [slot[-1] == backend for slot in slots if len(slot) > 1 and backend in slot]
        return any(last) if last else None

    def backend_name(self, backend: int) -> str:
        return str(self.tables.backends.get(backend, {}).get("name", f"?{backend}"))

    def actor_name(self, actor: int) -> str:
        return self.lowering.names.actors[actor] if self.lowering is not None else f"?{actor}"

    # inside

    def _do(self, at: DoneRow) -> None:
        ev, event = at.ev, at.event
        self.events[ev] = self.events.get(ev, 0) + 1
        if ev == "event_record":
            self.tables.freed_events.discard(event["event"])
        if ev in TABLED:
            if ev == "tensor":
                self._flag(event)
            self.tables.define(ev, event)
            if ev == "backend":
                self._new_actor(event)
        elif at.steps:
            self._undefined_actor(at)
            self._works[at.row] = ev, at.backend
        self.rounds.row(at.row, ev, event)

    def _flag(self, tensor: EventRow) -> None:
        """A tensor that is about to be defined: whether it is an input."""
        ident = tensor["id"]
        if "input" in (tensor.get("flags") or ()):
            self._flagged.add(ident)
        elif self.tables.name(ident) != tensor.get("name"):
            self._flagged.discard(ident)

    def _new_actor(self, event: EventRow) -> None:
        """The actor of a `backend` row: actors are given out in the order of these rows, host threads aside."""
        names = self.lowering.names.families if self.lowering is not None else []
        name = event.get("name")
        while self._seen_actors < len(names):
            self._seen_actors += 1
            if names[self._seen_actors - 1] == name:
                self.actors[event["id"]] = self._seen_actors - 1
                return

    def _undefined_actor(self, at: DoneRow) -> None:
        """A backend used before its definition: its row tells."""
        if at.backend not in self.actors and at.ev != "copy_async" and (work := at.work) is not None:
            self.actors[at.backend] = work.actor

    def _side(self, access: Access) -> RaceSide:
        ev, backend = self._works.get(access.row, ("", -1))
        host_work = backend != -1 and self.is_host_work(backend)
        return RaceSide(ev, host_work, backend, self._is_input(access.root_id))

    def _is_input(self, root: int) -> bool | None:
        """Whether a root tensor is a graph input: declared by an allocation, or flagged. None where none ever was."""
        inputs = self._flagged, self.rounds.inputs
        return any(root in known for known in inputs) if any(inputs) else None

    def _define(self, program: Program) -> None:
        """The footprints of a program, when its first step is done."""
        if program is not self._defined:
            self._defined = program
            if program.forget_footprints:
                self._pieces.clear()
            self._pieces.update(program.defined())
