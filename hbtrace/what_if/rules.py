"""Rules that add, drop or change single events: waits, edges, a copy's queue, synchronous backends, direct writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hbtrace.errors import UsageError
from hbtrace.races.identity import is_row
from hbtrace.trace.vocabulary import DIRECT, EDGES, QUEUED
from hbtrace.what_if.rewriting import Entry, Ruling, Wants, waits_for
from hbtrace.what_if.state import BUSY, INSERTED, PLACING, PREPARING, WRITING, Event, Raw, State

_Met = dict[int | Raw, bool]
"""Whether a graph, or who writes these bytes, writes a tensor, for as long as the trace defines nothing."""


@dataclass
class Wait(Ruling):
    """The host waits for queues at named points: a `synchronize` of each that is busy.

    at: `ubatch` (each boundary), `before:TENSOR` (a glob; before it is written) or `row:N` (before the row).
    how: `synchronize`, or `event` for an event record and wait, where the backends have events.
    """

    at: str
    how: str = "synchronize"
    asked: bool = False
    """Somebody named the point: a row or tensor that is nowhere is a slip then, a UsageError at the stream's end."""

    def __post_init__(self) -> None:
        kind, _, what = self.at.partition(":")
        if not (self.at == "ubatch" or (kind == "before" and what) or (kind == "row" and is_row(what))):
            raise UsageError(f"{self.at!r} is no point of a trace: give ubatch, before:TENSOR or row:N")

    def __str__(self) -> str:
        return f"{'--sync' if self.how == 'synchronize' else '--event'} {self.at}"

    @property
    def wants(self) -> Wants:
        kind, _, what = self.at.partition(":")
        if kind == "row":
            return Wants(BUSY | PLACING, frozenset({int(what)}))
        if kind == "before":
            return Wants(BUSY | PLACING | WRITING | {"graph", "buffer_clear", "buffer_free"})
        return Wants(BUSY | PLACING | PREPARING | {"ubatch"}, ubatches=True)

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        state, ubatch = self.state(), _Boundaries()
        met: _Met = {}
        found = self.at == "ubatch" or not self.asked  # a trace of one ubatch has no boundary
        for row, event in entries:
            if event.get("ev") in ("tensor", "graph", "buffer"):
                met.clear()
            if self._here(row, event, state, ubatch, met):
                found = True
                for new in self._waits(event, state):
                    state.take(new)
                    yield INSERTED, new
            state.take(event, row)
            yield row, event
        if not found:
            kind, _, what = self.at.partition(":")
            lacks = f"there is no row {what}" if kind == "row" else f"no tensor named {what!r} is written"
            raise UsageError(f"{self}: {lacks}, or another option hides it")

    def _here(self, row: int, event: Event, state: State, ubatch: _Boundaries, met: _Met) -> bool:
        if self.at == "ubatch":
            return ubatch.begins(event)
        kind, _, what = self.at.partition(":")
        if kind == "row":
            return row == int(what)
        if event.get("ev") != "compute":
            return self._writes(event, what, state, met)
        graph = event.get("graph", -1)
        if graph not in met:  # graphs are large and computed often
            met[graph] = self._writes(event, what, state, met)
        return met[graph]

    @staticmethod
    def _writes(event: Event, what: str, state: State, met: _Met) -> bool:
        """Whether an event writes a tensor of this name, by its name or the bytes in which it lies."""

        def named(tensors: Iterable[int]) -> bool:
            return any(fnmatchcase(name, what) for tensor in tensors for name in state.names(tensor))

        pieces = state.written_raw(event)
        for raw in pieces:
            if raw not in met:
                met[raw] = named(state.under(raw))
        return any(met[raw] for raw in pieces) or named(state.written(event))

    def _waits(self, event: Event, state: State) -> Iterator[Event]:
        """Of each queue that is busy; the event's own queue is in order without."""
        own = state.runner(event)
        for queue in state.busy(event):
            if queue == own:
                continue
            way = state.way(queue, own) if self.how == "event" else "drain"
            yield from waits_for(event, queue, own, state.fresh(), way, self.price)


class _Boundaries:
    """Where an ubatch begins: at its marker, or at its first input if that is set before; in a trace without markers
    where the number in the events changes."""

    def __init__(self) -> None:
        self._marked = False
        self._number = -1
        self._early = False
        """The ubatch of this number began before its marker."""

    def begins(self, event: Event) -> bool:
        if event.get("ev") == "ubatch":
            number, early = event.get("n", -1), self._early
            self._marked, self._early = True, False
            if early and number == self._number:
                return False
            self._number = number
            return True
        number = event.get("ubatch", -1)
        if not isinstance(number, int) or number in (-1, self._number):
            return False
        if self._marked and event.get("ev") not in PREPARING:
            return False
        self._number, self._early = number, True
        return True


@dataclass
class Drop(Ruling):
    """An edge is taken away: one `synchronize`, `event_…`, `release` or `acquire`, by its row."""

    row: int

    def __str__(self) -> str:
        return f"--drop-edge {self.row}"

    @property
    def wants(self) -> Wants:
        return Wants(rows=frozenset({self.row}))

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        seen = False
        for row, event in entries:
            if row != self.row:
                yield row, event
                continue
            seen = True
            if event.get("ev") not in EDGES:
                raise UsageError(f"row {self.row} is no edge but `{event.get('ev')}`: nothing can be dropped there")
            self.price.changed += 1
        if not seen:
            raise UsageError(f"there is no row {self.row}")


@dataclass
class CopyOn(Ruling):
    """Asynchronous copies run on another queue, or after the destination's earlier work."""

    runs_on: str | None = None
    after_dst: bool = False

    def __str__(self) -> str:
        return "--after-dst" if self.after_dst else f"--copy-on {self.runs_on}"

    @property
    def wants(self) -> Wants:
        return Wants(frozenset({"copy_async"}))

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for row, event in entries:
            if event.get("ev") == "copy_async":
                changed = dict(event)
                if self.runs_on is not None:
                    changed["runs_on"] = self.runs_on
                if self.after_dst and changed.get("runs_on") != "dst":
                    changed["after_dst"] = True
                self.price.changed += changed != event
                self.price.queue_waits += bool(changed.get("after_dst")) and not event.get("after_dst")
                event = changed
            yield row, event


@dataclass
class Synchronous(Ruling):
    """Backends whose work is complete when the call returns, by name: all of that name, or one of them by its `#n`."""

    name: str

    def __str__(self) -> str:
        return f"--synchronous {self.name}"

    @property
    def wants(self) -> Wants:
        return Wants(QUEUED | {"backend"})

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        stalling: set[int] = set()
        same: Counter[str] = Counter()
        for row, event in entries:
            if event.get("ev") == "backend" and self._means(event, same):
                if not event.get("synchronous"):
                    self.price.changed += 1
                    stalling.add(event.get("id", -1))
                event = event | {"synchronous": True, "async": False}
            elif event.get("ev") in QUEUED and event.get("backend", -1) in stalling:
                self.price.waits += 1
            yield row, event
        if not self.price.changed:
            raise UsageError(f"no asynchronous backend is named {self.name!r}")

    def _means(self, event: Event, same: Counter[str]) -> bool:
        """Whether a backend is meant, by its name or as reports call its actor."""
        name = str(event.get("name"))
        actor = f"{name}#{same[name]}" if same[name] else name
        same[name] += 1
        return fnmatchcase(name, self.name) or fnmatchcase(actor, self.name)


@dataclass
class HideDirect(Ruling):
    """Writes and reads through `tensor->data` are not announced: what a tool without that hook sees."""


    def __str__(self) -> str:
        return "--hide-direct"

    @property
    def wants(self) -> Wants:
        return Wants(DIRECT)

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for row, event in entries:
            if event.get("ev") in DIRECT:
                self.price.changed += 1
            else:
                yield row, event
