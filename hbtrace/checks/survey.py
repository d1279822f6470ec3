"""Feeds the rules: a trace row by row, with the order and the tables as they stand after each row.

It decides nothing. The clocks are the contract's (`replay.order`), the bytes are the lowering's; what ids mean at a
row is kept here, because the lowering stands at the end of its batch already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hbtrace import backends
from hbtrace.checks.model import Rule
from hbtrace.checks.race_sorts import Side, Sort, sort_of
from hbtrace.checks.rounds import Rounds
from hbtrace.checks.sound import sound_rows
from hbtrace.replay.clocks import NOTHING, Step
from hbtrace.replay.kernel import Clock
from hbtrace.replay.lower import Lowering
from hbtrace.replay.names import HOST_NAME, follow
from hbtrace.replay.program import DROP, END, QUEUE, Piece, Program
from hbtrace.replay.reports import Access, Report
from hbtrace.replay.session import Observer, Replayed
from hbtrace.trace.vocabulary import EVENTS

Event = dict[str, Any]

@dataclass(slots=True)
class Row:
    """One row, done: its event, its steps, who issued it."""

    row: int
    ev: str
    event: Event
    steps: list[Step]

    @property
    def backend(self) -> int:
        return int(self.event.get("backend", -1))

    @property
    def work(self) -> Step | None:
        """The step that queues work, the last of them if there are two."""
        return next((step for step in reversed(self.steps) if step.op == QUEUE), None)


@dataclass(slots=True)
class Tables:
    """What the ids of a trace mean at the present row: the newest definition of each."""

    backends: dict[int, Event] = field(default_factory=dict)
    buffers: dict[int, Event] = field(default_factory=dict)
    tensors: dict[int, Event] = field(default_factory=dict)
    graphs: dict[int, Event] = field(default_factory=dict)
    scheds: dict[int, Event] = field(default_factory=dict)
    freed: set[int] = field(default_factory=set)
    """Buffers whose life has ended."""
    freed_events: set[int] = field(default_factory=set)
    """Events that were freed and not recorded since."""
    inputs: set[int] = field(default_factory=set)
    """Tensors flagged as graph inputs. Whoever points one elsewhere under its name need not say so again."""

    def define(self, ev: str, event: Event) -> None:
        table: dict[int, Event] | None = getattr(self, f"{ev}s", None)
        if table is None:
            return
        ident = event["id"]
        if ev == "buffer":
            self.freed.discard(ident)
        elif ev == "tensor":
            if "input" in (event.get("flags") or ()):
                self.inputs.add(ident)
            elif self.name(ident) != event.get("name"):
                self.inputs.discard(ident)
        table[ident] = event

    def root(self, tensor: int) -> int:
        """The id of the tensor that owns the bytes."""
        return follow(tensor, lambda t: int(self.tensors.get(t, {}).get("view_of", -1)))

    def name(self, tensor: int) -> str:
        return str(self.tensors.get(tensor, {}).get("name", f"?{tensor}"))

    def size(self, tensor: int) -> int:
        """Bytes of a tensor, 0 where the trace does not say."""
        return int(self.tensors.get(tensor, {}).get("size", 0))

    def buffer_of(self, tensor: int) -> Event:
        """The buffer in which a tensor lies, empty if unknown."""
        return self.buffers.get(self.tensors.get(tensor, {}).get("buffer", -1), {})

    def place(self, tensor: int) -> tuple[int, int]:
        """(buffer, offset) of a tensor."""
        event = self.tensors.get(tensor, {})
        return int(event.get("buffer", -1)), int(event.get("offset", 0))


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


def _moments(replayed: Replayed) -> Iterator[tuple[Step, int, Clock, Program]]:
    for program, order in zip(replayed.programs, replayed.orders, strict=True):
        for step, learnt, tick, known in zip(program.steps(), order.learnt, order.ticks, order.known, strict=True):
            yield Step(*step, learnt), tick, known, program


class Survey(Observer):
    """Give it chunks with `take`; it calls the rules. Then ask it what stands at the present row."""

    def __init__(self, rules: list[type[Rule]]) -> None:
        self.tables = Tables()
        self.clocks = Present()
        self.rounds = Rounds(self.tables)
        self.meta: Event = {}
        self.events: dict[str, int] = {}
        """Rows by event."""
        self.actors: dict[int, int] = {}
        """The actor of each backend id that did anything, at the present row."""
        self.rules = [rule(self) for rule in rules]
        self.lowering: Lowering | None = None
        self._seen_actors = 1  # the first is HOST
        self._hosts = [0]
        self._pieces: dict[int, list[Piece]] = {}
        self._defined: Program | None = None
        self._handlers: dict[str, list[Callable[[Row], None]]] = {}
        for rule in self.rules:
            for name in dir(rule):
                if name.startswith("on_"):
                    self._handlers.setdefault(name[3:], []).append(getattr(rule, name))
        self._watching = [rule for rule in self.rules if type(rule).step is not Rule.step]
        self.sorts: Counter[Sort] = Counter()
        """Races by what they are."""
        self._works: dict[int, tuple[str, int]] = {}

    def take(self, replayed: Replayed) -> None:
        """The next batch, replayed."""
        self.lowering = replayed.lowering
        self._hosts = [actor for actor, family in enumerate(replayed.lowering.names.families) if family == HOST_NAME]
        for rule in self.rules:
            rule.batch(replayed)
        events = sound_rows(replayed.batch)
        if not replayed.first and events and events[0].get("ev") == "meta":
            self.meta = events[0]
        steps = _moments(replayed)
        step = next(steps, None)
        reports, told = replayed.reports, 0
        for row, event in enumerate(events, replayed.first):
            mine: list[Step] = []
            while step is not None and step[0].row == row:
                self._define(step[3])
                mine.append(self.clocks.do(*step[:3]))
                step = next(steps, None)
            self._row(Row(row, str(event.get("ev") or ""), event, mine))
            while told < len(reports) and reports[told].current.row <= row:
                self._race(reports[told])
                told += 1

    def keep(self, rows: set[int]) -> None:
        self._works = {row: self._works[row] for row in rows if row in self._works}

    def finish(self) -> None:
        for rule in self.rules:
            rule.finish()

    def pieces(self, footprint: int) -> list[Piece]:
        """The bytes of a step: of each access, in order."""
        return self._pieces.get(footprint, [])

    def pending(self, actor: int, clock: int | None = None) -> bool:
        """Whether no host thread knows that an actor's step of that clock is done; by default its newest step."""
        since = self.clocks.tick(actor) if clock is None else clock
        return all(self.clocks.knows(host, actor) < since for host in self._hosts)

    def host(self, at: Row) -> int:
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

    def _row(self, at: Row) -> None:
        ev = at.ev
        if any(at.event.get(key, -1) == -1 for key in (EVENTS[ev].needs if ev in EVENTS else ())):
            return  # the replay skips it, too
        self.events[ev] = self.events.get(ev, 0) + 1
        if ev == "event_record":
            self.tables.freed_events.discard(at.event["event"])
        if ev in ("backend", "buffer", "tensor", "graph", "sched"):
            self.tables.define(ev, at.event)
            if ev == "backend":
                self._new_actor(at.event)
        elif at.steps:
            self._undefined_actor(at)
            self._works[at.row] = ev, at.event.get("backend", -1)
            for rule in self._watching:
                rule.step(at)
        self.rounds.row(at.row, ev, at.event)
        for handler in self._handlers.get(ev, ()):
            handler(at)
        if ev == "buffer_free":
            self.tables.freed.add(at.event.get("buffer", -1))
        elif ev == "event_free":
            self.tables.freed_events.add(at.event["event"])

    def _new_actor(self, event: Event) -> None:
        """The actor of a `backend` row: actors are given out in the order of these rows, host threads aside."""
        names = self.lowering.names.families if self.lowering is not None else []
        name = event.get("name")
        while self._seen_actors < len(names):
            self._seen_actors += 1
            if names[self._seen_actors - 1] == name:
                self.actors[event["id"]] = self._seen_actors - 1
                return

    def _undefined_actor(self, at: Row) -> None:
        """A backend used before its definition: its row tells."""
        ident, work = at.event.get("backend", -1), at.work
        if work is not None and at.ev != "copy_async" and ident not in self.actors:
            self.actors[ident] = work.actor

    def _race(self, report: Report) -> None:
        sort = sort_of(report, self._side(report.earlier), self._side(report.current))
        self.sorts[sort] += 1
        for rule in self.rules:
            rule.race(report, sort)

    def _side(self, access: Access) -> Side:
        ev, backend = self._works.get(access.row, ("", -1))
        host_work = backend != -1 and self.is_host_work(backend)
        return Side(ev, host_work, backend, self._is_input(access.root_id))

    def _is_input(self, root: int) -> bool | None:
        """Whether a root tensor is a graph input: declared by an allocation, or flagged. None where none ever was."""
        inputs = self.tables.inputs, self.rounds.inputs
        return any(root in known for known in inputs) if any(inputs) else None

    def _define(self, program: Program) -> None:
        """The footprints of a program, when its first step is done."""
        if program is not self._defined:
            self._defined = program
            if program.forget_footprints:
                self._pieces.clear()
            self._pieces.update(program.defined())
