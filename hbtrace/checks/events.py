"""`event-order`, `freed-in-flight` and `redundant-wait`: events, queues and waits, and how long they live."""

from __future__ import annotations

from typing import Final

from hbtrace.checks.model import Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay.clocks import Clocks
from hbtrace.replay.program import HOST, RECORD, WAIT
from hbtrace.replay.reports import Report
from hbtrace.trace.vocabulary import EVENT_WAITS, EVENTS, HOST_WAITS
from hbtrace.words import times

_ON_QUEUES: Final = frozenset(ev for ev, e in EVENTS.items() if e.edge in ("record", "queue waits"))
"""What a queue itself does with an event."""
_WAITS: Final = HOST_WAITS | EVENT_WAITS
"""The calls that may turn out to be redundant."""


class EventOrder(Rule):
    """Events recorded again, or freed, while somebody still waits for them."""

    id = "event-order"
    severity = "warning"
    title = "an event is recorded again or freed while it is pending"
    needs = "`event_record` with `event_wait` or `event_synchronize`"
    why = "Whether a wait means the old record or the new one is up to the backend, and a freed event orders nothing."
    about = """\
`warning`: an event is recorded again while another queue's `event_wait` on it may not have passed yet; an event is
freed while its record, or a wait on it, may still be pending. `info`: a wait on an event that was never recorded:
it adds nothing, and is normal for the first pass of llama.cpp over its copies. Fix: one event a slot, waited for
before it is used again; synchronize before freeing. Strata's queues are CUDA streams, whose waits hold the record that
they met: there, recording again is allowed and no finding."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        # Clocks in which waits and records tick, too: else a wait with no work behind it is never known to have passed.
        self._clocks = Clocks()
        self._records: dict[int, tuple[int, int, int]] = {}
        self._waits: dict[int, list[tuple[int, int, int]]] = {}
        self._again, self._freed, self._never = Tally(), Tally(), Tally()

    def step(self, at: DoneRow) -> None:
        clocks = self._clocks
        if at.ev == "event_record":
            self._recorded(at)
        for op, actor, other, _, _, _ in at.steps:
            clocks.step(op, actor, other)
            if op in (WAIT, RECORD) and at.ev in _ON_QUEUES:
                clocks.step(HOST, actor, actor)
                if op == RECORD:
                    clocks.step(RECORD, actor, other)
        if at.ev in EVENT_WAITS:
            self._waited(at)
        elif at.ev == "event_record" and at.steps:
            queue = at.steps[-1].actor
            self._records[at.event.get("event", -1)] = queue, clocks.tick(queue), at.row

    def _recorded(self, at: DoneRow) -> None:
        event = at.event.get("event", -1)
        queue = at.steps[-1].actor if at.steps else -1
        issuer = self.survey.host(at)
        if self.survey.engine is not None and self.survey.engine.rerecords:
            self._waits.pop(event, None)
        for waiter, clock, row in self._waits.pop(event, ()):
            # the host issues the record, and hands on what it knows
            if waiter != queue and max(self._clocks.knows(who, waiter) for who in (queue, issuer)) < clock:
                self._again.add((row, at.row), f"event {event} of {self.survey.actor_name(queue)}")

    def _waited(self, at: DoneRow) -> None:
        event = at.event.get("event", -1)
        if event in self.survey.tables.freed_events:
            return  # `use-after-free` has it
        if event not in self._records:
            self._never.add([at.row])
        elif at.ev == "event_wait" and at.steps:
            waiter = at.steps[-1].actor
            self._waits.setdefault(event, []).append((waiter, self._clocks.tick(waiter), at.row))

    @on("event_free")
    def _freeing(self, at: DoneRow) -> None:
        event, host = at.event.get("event", -1), self.survey.host(at)
        pending = self._waits.pop(event, [])
        if event in self._records:
            pending.append(self._records.pop(event))
        rows = [row for actor, clock, row in pending if self._clocks.knows(host, actor) < clock]
        if rows:
            self._freed.add((*rows, at.row), f"event {event}")

    def finish(self) -> None:
        for met, what in (
            (self._again, "recorded again while another queue may still wait for it"),
            (self._freed, "freed while pending"),
        ):
            if met:
                self.find("warning", f"{what}: {met.names()}", met)
        if self._never:
            self.find(
                "info",
                f"{self._never.count} waits on an event that was never recorded: they order nothing, which is normal"
                " for the first use of each copy",
                self._never,
            )

    def missing(self) -> str | None:
        events = self.survey.events
        return (
            None if events.get("event_record") or events.get("event_wait") or events.get("event_free") else self.needs
        )

    def seen(self) -> str:
        return f"{self.survey.events.get('event_record', 0)} records"


class FreedInFlight(Rule):
    """Memory or a queue freed with work in flight."""

    id = "freed-in-flight"
    severity = "error"
    title = "a buffer or a queue is freed while work in flight may use it"
    needs = "`buffer_free` or `backend_free`"
    why = "What is in flight goes on with memory that is nobody's, or never ends."
    about = """\
`error`: a `buffer_free` that is not ordered after work of a queue on its bytes (the replay reports it as a race,
too); a `backend_free` of an asynchronous queue whose work the host does not know to be done. Fix: synchronize the
queue first."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._buffers, self._queues = Tally(), Tally()

    def race(self, report: Report, sort: Sort) -> None:
        if sort == "free":
            self._buffers.add(
                (report.earlier.row, report.current.row), f"{report.buffer} under {report.earlier.actor}"
            )  # fmt: skip

    @on("backend_free")
    def _freeing(self, at: DoneRow) -> None:
        survey = self.survey
        actor = survey.actors.get(at.backend)
        if actor is not None and survey.pending(actor):
            self._queues.add([at.row], survey.actor_name(actor))

    def finish(self) -> None:
        if self._buffers:
            self.find("error", f"buffers freed with work in flight: {self._buffers.names()}", self._buffers)
        if self._queues:
            self.find("error", f"queues freed with work in flight: {self._queues.names()}", self._queues)

    def missing(self) -> str | None:
        events = self.survey.events
        return None if events.get("buffer_free") or events.get("backend_free") else self.needs

    def seen(self) -> str:
        events = self.survey.events
        return f"{events.get('buffer_free', 0)} buffers and {events.get('backend_free', 0)} queues freed"


class RedundantWait(Rule):
    """Waits that order nothing new."""

    id = "redundant-wait"
    severity = "info"
    title = "a synchronize or a wait that orders nothing not already ordered"
    needs = "`synchronize`, `event_synchronize` or `event_wait`"
    why = "It costs a round trip to the device and buys nothing."
    about = """\
A `synchronize`, `event_synchronize` or `event_wait` after which nobody knows more than before, counted by place (call
site, or event and queue). Waits on events never recorded are left out (`event-order` counts them), and those on freed
ones (`use-after-free` does). With times, the time between the call's row and the row before it, which the wait is a
part of."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._met: dict[str, Tally] = {}
        self._time: dict[str, int] = {}
        self._recorded: set[int] = set()
        self._last: int | None = None
        self._waits = 0

    def step(self, at: DoneRow) -> None:
        time = at.event.get("time")
        if at.ev == "event_record":
            self._recorded.add(at.event.get("event", -1))
        elif at.ev == "event_free":
            self._recorded.discard(at.event.get("event", -1))
        elif at.ev in _WAITS:
            self._wait(at, time - self._last if time is not None and self._last is not None else None)
        if time is not None:
            self._last = time

    def _wait(self, at: DoneRow, took: int | None) -> None:
        self._waits += 1
        if at.ev in EVENT_WAITS and at.event.get("event", -1) not in self._recorded:
            return
        if not at.steps or at.steps[-1].learnt:
            return
        who = f" of {self.survey.backend_name(at.backend)}" if at.backend != -1 else ""
        place = f"{at.ev}{who}" + (f" in {at.event['site']}" if at.event.get("site") else "")
        self._met.setdefault(place, Tally()).add([at.row])
        if took is not None:
            self._time[place] = self._time.get(place, 0) + took

    def finish(self) -> None:
        for place, met in sorted(self._met.items(), key=lambda entry: (-entry[1].count, entry[0])):
            took = f", at most {self._time[place] / 1e6:.3f} ms in all" if place in self._time else ""
            self.find("info", f"{place}: {times(met.count)} nothing was left to order{took}", met)

    def missing(self) -> str | None:
        return None if self._waits else self.needs

    def seen(self) -> str:
        return f"{self._waits} waits"
