"""What each event touches at a place of a trace's stream, and what is still in flight there.

It is for rules that change a stream (`rewriting.py`): events may be whole, or have only what a rule asked to see.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from hbtrace.explain.ways import Way, way_of
from hbtrace.replay.tables import Tables, tensors_of
from hbtrace.trace.columns import ABSENT, Range
from hbtrace.trace.vocabulary import ACCESSES, EDGES, EVENTS, GRAPH, HOST_WRITES, OWN, QUEUED, TABLED, WHOLE, EventRow

Event = EventRow

INSERTED: Final = -1
PREPARING: Final = HOST_WRITES | {ev for ev in QUEUED if EVENTS[ev].writes == OWN}
"""What sets the inputs of a ubatch."""
WRITING: Final = QUEUED | HOST_WRITES
TENSOR_ACCESSES: Final = frozenset(ev for ev in ACCESSES if not EVENTS[ev].whole)
"""All that access tensors, not the whole of a buffer."""
DEFINING: Final = frozenset({"tensor", "graph", "buffer", "buffer_free", "sched"})
BUSY: Final = QUEUED | (EDGES - {"event_wait"}) | {"meta", "backend", "backend_free"}
"""What `State` must see to know which queues are busy."""
PLACING: Final = frozenset({"tensor", "buffer"})
"""What `State` must see to know who runs a copy that does not say it."""

USES: Final = " uses"
"""Key of an event that is not decoded whole: the `Uses` of what it runs. No JSON key is spelled so by a recorder."""
Uses = tuple[set[int], set[int]]
"""Tensors read and tensors written."""
RAW: Final = " raw"
"""Key of an event that is not decoded whole: the `Raw` pieces that it writes."""
Raw = tuple[int, int, int | None]
"""(buffer, lo, hi) of bytes that no tensor names; None is the buffer's end."""
PART: Final = " part"
"""Key of a compute that a rule left a part of its graph, if it is not decoded whole: the `Span` of its accesses."""
Span = tuple[int, int, int]
"""(first, end, how many the whole graph has): numbers of accesses, in the order in which the nodes list them."""

_FIRST_OWN: Final = 1 << 40
"""Ids from here on are given out by rules: recorders count from 0, or use addresses, which are larger."""
_LANE_BITS: Final = 30

Known = dict[int, int]
"""By backend id: up to which of its pieces of work somebody knows that they are done."""


@dataclass(slots=True)
class State(Tables):
    """What definitions say at a place of the stream, and what work each host thread has not waited for.

    What is known of queues is what was waited for directly: not what a queue had waited for that was waited for.
    """

    issued: dict[int, int] = field(default_factory=dict)
    """Pieces of work issued so far, by backend id."""
    waited: dict[int, Known] = field(default_factory=dict)
    """What each host thread has waited for; all of them are thread 0 if they are one actor."""
    uids: dict[int, int] = field(default_factory=dict)
    """Of graphs that have one."""
    events: dict[int, tuple[int, int]] = field(default_factory=dict)
    """(backend, pieces issued) when each event was recorded."""
    objects: dict[str, Known] = field(default_factory=dict)
    """What was known at the releases of each."""
    lane: int = 0
    threads: str | None = None
    _own: int = 0
    _uses: dict[int, tuple[set[int], set[int]]] = field(default_factory=dict)

    def take(self, event: Event, row: int = INSERTED) -> None:
        """One event more. row: 0 for the one that may say how threads are."""
        ev = str(event.get("ev"))
        if ev == "meta" and row == 0:
            self.threads = self.threads or event.get("threads")
        elif ev in TABLED and not self.define(ev, event):
            return
        elif ev in BUSY:
            self._order(ev, event)
        elif ev == "graph":
            self._uses.pop(event["id"], None)
            if isinstance(event.get("uid"), int):
                self.uids[event["id"]] = event["uid"]

    def _order(self, ev: str, event: Event) -> None:
        """An event that issues work, waits, or lets others know."""
        queue, what = event.get("backend", -1), event.get("event", -1)
        if ev in QUEUED:
            for issuer in {queue, event.get("src_backend", -1)} - {-1}:
                self.issued[issuer] = self.issued.get(issuer, 0) + 1
        elif ev == "synchronize":
            self._learn(event, {queue: self.issued.get(queue, 0)})
        elif ev == "event_record":
            self.events[what] = (queue, self.issued.get(queue, 0))
        elif ev == "event_synchronize":
            self._learn(event, dict([self.events.get(what, (-1, 0))]))
        elif ev == "event_free":
            self.events.pop(what, None)
        elif ev == "release":
            mine = self._knows(event) if queue == -1 else {queue: self.issued.get(queue, 0)}
            _raise(self.objects.setdefault(str(event.get("object")), {}), mine)
        elif ev == "acquire" and queue == -1:
            self._learn(event, self.objects.get(str(event.get("object")), {}))
        elif ev == "backend":
            self._begin(event)
        elif ev == "backend_free":
            self.issued.pop(queue, None)  # there is no waiting for it any more

    def _begin(self, event: Event) -> None:
        """A new queue. What was recorded or known of one that had its id says nothing of it."""
        ident = event["id"]
        self.issued[ident] = 0
        self.events = {event: mark for event, mark in self.events.items() if mark[0] != ident}
        for known in (*self.waited.values(), *self.objects.values()):
            known.pop(ident, None)

    def _knows(self, event: Event) -> Known:
        """What the thread of an event has waited for."""
        thread = event.get("thread", 0) if self.threads == "ordered" else 0
        return self.waited.setdefault(thread, {})

    def _learn(self, event: Event, what: Known) -> None:
        _raise(self._knows(event), what)

    def done(self, queue: int, event: Event) -> int:
        """How many pieces of a queue's work are surely done when an event happens."""
        return self._knows(event).get(queue, 0)

    def busy(self, event: Event) -> list[int]:
        """The asynchronous queues with work that the thread of an event has not waited for, by id."""
        known = self._knows(event)
        return sorted(
            queue
            for queue, issued in self.issued.items()
            if issued > known.get(queue, 0) and not self.backends.get(queue, {}).get("synchronous")
        )

    def way(self, queue: int, runner: int) -> Way:
        """How a queue (`runner`; -1: the host) can be made to wait for another."""
        return way_of(self.backends.get(queue, {}), None if runner == -1 else self.backends.get(runner, {}))

    def runner(self, event: Event) -> int:
        """The queue that runs an event's work, -1 for the host. Of a copy that is two pieces it is that of the first,
        for whom that one waits the other does, too. A copy that does not say it runs as the contract's default is."""
        if event.get("ev") not in QUEUED:
            return -1
        queue: int = event.get("backend", -1)
        source: int = event.get("src_backend", -1)
        if event.get("ev") != "copy_async" or source == -1:
            return queue
        runs_on = event.get("runs_on")
        if runs_on not in ("src", "dst", "both"):
            runs_on = "dst" if self._on_host(event.get("src")) else "src"
        return queue if runs_on == "dst" else source

    def _on_host(self, place: Any) -> bool:
        """Whether a range lies in a host buffer."""
        if not isinstance(place, dict):
            return False
        its = self.tensors.get(place.get("tensor", -1), {}) if place.get("tensor", -1) != -1 else place
        return bool(self.buffers.get(its.get("buffer", -1), {}).get("host"))

    def names(self, tensor: int) -> set[str]:
        """A tensor's name and its root's."""
        return {self.name(tensor), self.name(self.root(tensor))}

    def written(self, event: Event) -> set[int]:
        """Tensors that an event writes."""
        return self._touched(event, 1)

    def read(self, event: Event) -> set[int]:
        """Tensors that an event reads."""
        return self._touched(event, 0)

    def _touched(self, event: Event, side: int) -> set[int]:
        """side: 0 what is read, 1 what is written."""
        if USES in event:
            return cast(Uses, event[USES])[side]
        ev = event.get("ev")
        if ev == "compute":
            return self._of_graph(event.get("graph", -1))[side]
        if ev in EVENTS and (EVENTS[ev].reads, EVENTS[ev].writes)[side] == OWN:
            return {event.get("tensor", -1)}
        return tensors_of(_ranges(event, side))

    def written_raw(self, event: Event) -> list[Raw]:
        """What an event writes beside tensors: bytes of a buffer, or all of it."""
        ev = event.get("ev")
        if ev in EVENTS and EVENTS[ev].whole:
            return [(event.get("buffer", -1), 0, None)]
        if RAW in event or USES in event:
            return cast(list[Raw], event.get(RAW, []))
        if ev == "compute":
            return [raw for node in self.nodes(event.get("graph", -1)) for raw in raw_of(node.get("writes"))]
        return raw_of(_ranges(event, 1))

    def under(self, raw: Raw) -> set[int]:
        """The tensors that lie in these bytes."""
        buffer, lo, hi = raw
        return {
            tensor
            for tensor, its in self.tensors.items()
            if its.get("buffer", -1) == buffer
            and (hi is None or int(its.get("offset", 0)) < hi)
            and lo < int(its.get("offset", 0)) + self.size(tensor)
        }

    def _of_graph(self, graph: int) -> tuple[set[int], set[int]]:
        found = self._uses.get(graph)
        if found is None:
            nodes = self.nodes(graph)
            found = self._uses[graph] = (
                {t for node in nodes for t in tensors_of(node.get("reads"))},
                {t for node in nodes for t in tensors_of(node.get("writes"))},
            )
        return found

    def fresh(self) -> int:
        """An id that no recorder gives out."""
        self._own += 1
        return _FIRST_OWN + (self.lane << _LANE_BITS) + self._own


def _ranges(event: Event, side: int) -> list[Any]:
    """The ranges that an event itself lists as read (0) or written (1)."""
    its = EVENTS.get(str(event.get("ev")))
    where = None if its is None else (its.reads, its.writes)[side]
    found = None if where in (None, OWN, WHOLE, GRAPH) else event.get(where)
    return found if isinstance(found, list) else [found]


def _raise(known: Known, what: Known) -> None:
    for queue, done in what.items():
        known[queue] = max(known.get(queue, 0), done)


def raw_of(ranges: Any) -> list[Raw]:
    """The pieces of a list of ranges that name a buffer and no tensor."""
    found = [r for r in ranges or () if isinstance(r, dict) and r.get("tensor", -1) == -1 and r.get("buffer", -1) != -1]
    return [
        _raw(r["buffer"], r.get("offset", 0), r.get("size", ABSENT), r.get("rows", 1), r.get("stride", 0))
        for r in found
    ]


def _raw(buffer: int, offset: int, size: int, rows: int, stride: int) -> Raw:
    if size == ABSENT:
        return buffer, offset, None
    return buffer, offset, offset + size + (max(rows, 1) - 1) * max(stride, 0)


def raw_written(accesses: Iterable[tuple[bool, Range]]) -> list[Raw]:
    """The pieces beside tensors that a template's accesses write."""
    return [
        _raw(its.buffer, its.offset, its.size, its.rows, its.stride)
        for write, its in accesses
        if write and its.tensor == -1 and its.buffer != -1
    ]


def tensors_used(accesses: Iterable[tuple[bool, Range]]) -> Uses:
    """The tensors that a template's accesses name."""
    uses: Uses = set(), set()
    for write, its in accesses:
        if its.tensor != -1:
            uses[write].add(its.tensor)
    return uses
