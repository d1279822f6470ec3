"""A trace being rewritten: its events as a stream, with the definitions in force and what is still in flight.

A rule of `whatif` is a function from such a stream to another. Events keep their row of the recorded trace, inserted
ones have none, so that several rules can be put one behind the other and still mean the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from hbtrace.replay.definitions import follow
from hbtrace.trace.columns import Range
from hbtrace.trace.rows import batch_from_rows, rows_from_batch

Event = dict[str, Any]
Entry = tuple[int, Event]
"""The row in the recorded trace, `INSERTED` for none, and the event."""

INSERTED: Final = -1
QUEUED: Final = frozenset({"set_async", "get_async", "copy_async", "compute", "kernel"})
SETS: Final = frozenset({"tensor_set", "tensor_memset", "set_direct"})
WRITING: Final = QUEUED | SETS | {"tensor_copy", "host_access"}
ACCESSES: Final = WRITING | {"tensor_get", "get_direct"}
DEFINING: Final = frozenset({"tensor", "graph", "buffer", "buffer_free", "sched"})
BUSY: Final = QUEUED | {"synchronize", "event_record", "event_synchronize", "backend", "backend_free"}
"""What `State` must see to know which queues are busy."""
WAITS: Final = frozenset({"synchronize", "event_synchronize", "event_wait", "acquire"})

USES: Final = " uses"
"""Key of an event that is not decoded whole: the `Uses` of what it runs. No JSON key is spelled so by a recorder."""
Uses = tuple[set[int], set[int]]
"""Tensors read and tensors written."""
PART: Final = " part"
"""Key of a compute that a rule left a part of its graph, if it is not decoded whole: the `Span` of its accesses."""
Span = tuple[int, int, int]
"""(first, end, how many the whole graph has): numbers of accesses, in the order in which the nodes list them."""

_BATCH_ROWS: Final = 1 << 14
_FIRST_OWN: Final = 1 << 40
"""Ids from here on are given out by rules: recorders count from 0, or use addresses, which are larger."""
_LANE_BITS: Final = 30


@dataclass(frozen=True)
class Wants:
    """What a rule asks to see. events: kinds. rows: these, whatever they are. ubatches: rows with another ubatch.

    nodes: graphs with their nodes, which cost more to decode than all else.
    """

    events: frozenset[str] = frozenset()
    rows: frozenset[int] = frozenset()
    ubatches: bool = False
    nodes: bool = False

    def __or__(self, other: Wants) -> Wants:
        return Wants(
            self.events | other.events, self.rows | other.rows, self.ubatches or other.ubatches,
            self.nodes or other.nodes,
        )  # fmt: skip


class Rule(Protocol):
    """One change of the rules. `price` is complete when the stream was read to its end."""

    price: Price
    lane: int
    """Its place among the rules of a rewriting: ids that rules give out must differ."""

    @property
    def wants(self) -> Wants:
        """The rows that it looks at."""

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]: ...

    def __str__(self) -> str: ...


@dataclass(slots=True)
class Price:
    """What a rule costs: waits that it adds, of the host and between queues, and bytes of memory."""

    waits: int = 0
    queue_waits: int = 0
    bytes: int = 0
    changed: int = 0
    """Events that are changed, moved or left out."""

    def __add__(self, other: Price) -> Price:
        return Price(
            self.waits + other.waits, self.queue_waits + other.queue_waits, self.bytes + other.bytes,
            self.changed + other.changed,
        )  # fmt: skip


def entries_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Entry]:
    """The events of a trace with their rows."""
    row = 0
    for batch in batches:
        for event in rows_from_batch(batch):
            yield row, event
            row += 1


def chained(rules: Sequence[Rule], entries: Iterable[Entry]) -> Iterator[Entry]:
    """One rule after the other."""
    for lane, rule in enumerate(rules):
        rule.lane = lane
        entries = rule.apply(entries)
    return iter(entries)


def batches_of(entries: Iterable[Entry]) -> Iterator[pa.RecordBatch]:
    """The stream as batches again."""
    stream = iter(entries)
    while rows := [event for _, event in islice(stream, _BATCH_ROWS)]:
        yield batch_from_rows(rows)


@dataclass(slots=True)
class State:
    """What definitions say at a place of the stream, and what work nobody on the host has waited for."""

    backends: dict[int, Event] = field(default_factory=dict)
    buffers: dict[int, Event] = field(default_factory=dict)
    tensors: dict[int, Event] = field(default_factory=dict)
    graphs: dict[int, list[Event]] = field(default_factory=dict)
    issued: dict[int, int] = field(default_factory=dict)
    """Pieces of work issued so far, by backend id."""
    waited: dict[int, int] = field(default_factory=dict)
    """Up to which of them a synchronize or an event was waited for."""
    uids: dict[int, int] = field(default_factory=dict)
    """Of graphs that have one."""
    events: dict[int, tuple[int, int]] = field(default_factory=dict)
    """(backend, pieces issued) when each event was recorded."""
    lane: int = 0
    _own: int = 0
    _uses: dict[int, tuple[set[int], set[int]]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """One event more."""
        ev = event.get("ev")
        ident = event.get("id", -1)
        if ev in QUEUED:
            for queue in {event.get("backend", -1), event.get("src_backend", -1)} - {-1}:
                self.issued[queue] = self.issued.get(queue, 0) + 1
        elif ev == "synchronize":
            self.waited[event.get("backend", -1)] = self.issued.get(event.get("backend", -1), 0)
        elif ev == "event_record":
            queue = event.get("backend", -1)
            self.events[event.get("event", -1)] = (queue, self.issued.get(queue, 0))
        elif ev == "event_synchronize":
            queue, done = self.events.get(event.get("event", -1), (-1, 0))
            self.waited[queue] = max(self.waited.get(queue, 0), done)
        elif ev == "backend":
            self.backends[ident] = event
            self.issued[ident] = self.waited[ident] = 0
        elif ev == "backend_free":
            self.issued.pop(event.get("backend", -1), None)  # there is no waiting for it any more
        elif ev == "buffer":
            self.buffers[ident] = event
        elif ev == "tensor":
            self.tensors[ident] = event
        elif ev == "graph":
            self.graphs[ident] = [node for node in event.get("nodes") or () if isinstance(node, dict)]
            self._uses.pop(ident, None)
            if isinstance(event.get("uid"), int):
                self.uids[ident] = event["uid"]

    def busy(self) -> list[int]:
        """The asynchronous queues with work that the host has not waited for, by id."""
        return sorted(
            queue
            for queue, issued in self.issued.items()
            if issued > self.waited.get(queue, 0) and not self.backends.get(queue, {}).get("synchronous")
        )

    def root(self, tensor: int) -> int:
        return follow(tensor, lambda t: int(self.tensors.get(t, {}).get("view_of", -1)))

    def names(self, tensor: int) -> set[str]:
        """A tensor's name and its root's."""
        return {str(self.tensors.get(t, {}).get("name", f"?{t}")) for t in (tensor, self.root(tensor))}

    def size(self, tensor: int) -> int:
        """Bytes of a tensor; without a size it reaches to the end of its buffer."""
        its = self.tensors.get(tensor, {})
        if isinstance(its.get("size"), int):
            return max(0, int(its["size"]))
        return max(0, int(self.buffers.get(its.get("buffer", -1), {}).get("size", 0)) - int(its.get("offset", 0)))

    def written(self, event: Event) -> set[int]:
        """Tensors that an event writes."""
        if USES in event:
            return cast(Uses, event[USES])[1]
        ev = event.get("ev")
        if ev in SETS or ev == "set_async":
            return {event.get("tensor", -1)}
        if ev in ("tensor_copy", "copy_async"):
            return tensors_of([event.get("dst")])
        if ev in ("kernel", "host_access"):
            return tensors_of(event.get("writes"))
        if ev == "get_async":
            return tensors_of([event.get("host_range")])
        if ev == "compute":
            return self._of_graph(event.get("graph", -1))[1]
        return set()

    def read(self, event: Event) -> set[int]:
        """Tensors that an event reads."""
        if USES in event:
            return cast(Uses, event[USES])[0]
        ev = event.get("ev")
        if ev in ("tensor_get", "get_direct", "get_async"):
            return {event.get("tensor", -1)}
        if ev in ("tensor_copy", "copy_async"):
            return tensors_of([event.get("src")])
        if ev in ("kernel", "host_access"):
            return tensors_of(event.get("reads"))
        if ev == "set_async":
            return tensors_of([event.get("host_range")])
        if ev == "compute":
            return self._of_graph(event.get("graph", -1))[0]
        return set()

    def _of_graph(self, graph: int) -> tuple[set[int], set[int]]:
        found = self._uses.get(graph)
        if found is None:
            nodes = self.graphs.get(graph, ())
            found = self._uses[graph] = (
                {t for node in nodes for t in tensors_of(node.get("reads"))},
                {t for node in nodes for t in tensors_of(node.get("writes"))},
            )
        return found

    def fresh(self) -> int:
        """An id that no recorder gives out."""
        self._own += 1
        return _FIRST_OWN + (self.lane << _LANE_BITS) + self._own


def tensors_of(ranges: Any) -> set[int]:
    """The tensors that a list of ranges names."""
    found = (r.get("tensor", -1) for r in ranges or () if isinstance(r, dict))
    return {t for t in found if isinstance(t, int) and t != -1}


def tensors_used(accesses: Iterable[tuple[bool, Range]]) -> Uses:
    """The tensors that a template's accesses name."""
    uses: Uses = set(), set()
    for write, its in accesses:
        if its.tensor != -1:
            uses[write].add(its.tensor)
    return uses


def inserted(like: Event, ev: str, **keys: Any) -> Event:
    """An event to stand before or after `like`: of its thread, ubatch and time."""
    kept: Event = {key: like[key] for key in ("thread", "split", "ubatch", "time") if key in like}
    return {"ev": ev, **keys, **kept}
