"""The input ring as a rule: a graph's inputs rotate over N slots, so that the host writes where no queue still reads.

As the scheduler's ring does it: at the first write of an input after work that reads inputs was issued, all inputs are
re-pointed to the next slot (with `sched_prepare`, and a new uid for graphs that have one); before a slot is entered
again, the host waits for the work that read it last. What no graph has as an input stays where it is: what a CPU split
computes into host memory is not rotated, nor is memory that the allocator hands out again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hbtrace.errors import UsageError
from hbtrace.explain.mends import DEEPEST_RING
from hbtrace.replay.canonical import without_slot
from hbtrace.trace.vocabulary import HOST_SETS, QUEUED
from hbtrace.what_if.rewriting import Entry, Ruling, Wants, inserted
from hbtrace.what_if.state import BUSY, DEFINING, INSERTED, TENSOR_ACCESSES, WRITING, Event, Uses

_NAMES: Final = ("inp_", "attn_inp_", "out_ids")
_MOST_NAMES: Final = 3


@dataclass
class Ring(Ruling):
    """Inputs rotate over `depth` slots; slot 0 is where they are."""

    depth: int
    stale: Counter[str] = field(default_factory=Counter, init=False)
    """By name of an input: how often work reads it in a slot that nobody has written since it was entered."""

    def __post_init__(self) -> None:
        if not 2 <= self.depth <= DEEPEST_RING:
            raise UsageError(f"a ring has 2 to {DEEPEST_RING} slots, not {self.depth}")

    def __str__(self) -> str:
        return f"--ring {self.depth}"

    @property
    def wants(self) -> Wants:
        return Wants(TENSOR_ACCESSES | BUSY | DEFINING)

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        self.stale.clear()
        return _Rotation(self).run(entries)

    @property
    def warnings(self) -> list[str]:
        """What no race tells: complete when the stream was read to its end."""
        if not self.stale:
            return []
        names = ", ".join(name for name, _ in self.stale.most_common(_MOST_NAMES))
        more = ", ..." if len(self.stale) > _MOST_NAMES else ""
        reads = "1 read" if self.stale.total() == 1 else f"{self.stale.total():,} reads"
        return [
            f"{self}: {reads} of {names}{more} would find an older value, or none: nothing recorded sets them again"
            " after the slot is entered, as an engine with a ring must"
        ]


class _Rotation:
    """One pass over the stream."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._state = ring.state()
        self._flagged = False
        self._slot = 0
        self._homes: dict[int, int] = {}
        """By tensor: the buffer in which the trace has it, whatever slot it is in."""
        self._buffers: dict[tuple[int, int], int] = {}
        """By home and slot: the buffer that the ring has for it."""
        self._readers: dict[int, dict[int, int]] = {}
        """By slot: an event recorded behind the last reader, by queue; -1 for a queue that has no events."""
        self._read = False
        """Whether work that reads inputs was issued since the last rotation."""
        self._uid = 1 << 40
        self._graphs: dict[int, Uses] = {}
        """Which inputs a graph uses, by their roots, for as long as the trace defines nothing."""
        self._fresh: set[int] = set()
        """Inputs that were written since the last rotation."""
        self._rotated = False

    def run(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for row, event in entries:
            ev = event.get("ev")
            if ev in ("tensor", "graph"):
                self._graphs.clear()
            if ev in HOST_SETS and self._read and self._is_input(event.get("tensor", -1)) and self._in_flight(event):
                yield from self._rotate(event)
            if ev == "sched":
                event = event | {"ring": self._ring.depth}
            if ev == "tensor":
                yield from self._define(row, event)
                continue
            self._state.take(event, row)
            yield row, event
            read, written = self._inputs(event) if ev in WRITING else (set(), set())
            if self._rotated and ev in QUEUED:
                self._ring.stale.update(str(self._state.tensors[root].get("name")) for root in read - self._fresh)
            self._fresh |= written
            if read and ev in QUEUED:
                yield from self._note(event)
            elif ev == "buffer_free":
                yield from self._free(event)

    def _is_input(self, tensor: int) -> bool:
        root = self._state.tensors.get(self._state.root(tensor), {})
        name = str(root.get("name", ""))
        if without_slot(name) != name:
            return False  # the scheduler's own copy on a device: flagged as an input, too, but never set by the host
        return "input" in (root.get("flags") or ()) if self._flagged else name.startswith(_NAMES)

    def _in_flight(self, event: Event) -> bool:
        """Generation never pays: where the host has waited for the readers, inputs stay at fixed addresses."""
        readers = {queue for slot in self._readers.values() for queue in slot}
        return bool(readers.intersection(self._state.busy(event)))

    def _note(self, event: Event) -> Iterator[Entry]:
        """Work that reads inputs was issued: an event behind it says when their slot is free."""
        queue = self._state.runner(event)
        if queue == -1:
            return  # the replay skips work of no queue
        self._read = True
        if self._state.backends.get(queue, {}).get("synchronous"):
            return
        ident = self._state.fresh() if self._state.way(queue, -1) == "host" else -1
        self._readers.setdefault(self._slot, {})[queue] = ident
        if ident != -1:
            record = inserted(event, "event_record", backend=queue, event=ident)
            self._state.take(record)
            yield INSERTED, record

    def _inputs(self, event: Event) -> Uses:
        """The inputs that an event reads and writes. Of a graph they are remembered: it is large and computed often."""
        graph = event.get("graph", -1) if event.get("ev") == "compute" else None
        if graph is not None and graph in self._graphs:
            return self._graphs[graph]
        found = self._roots(self._state.read(event)), self._roots(self._state.written(event))
        if graph is not None:
            self._graphs[graph] = found
        return found

    def _roots(self, tensors: Iterable[int]) -> set[int]:
        return {self._state.root(tensor) for tensor in tensors if self._is_input(tensor)}

    def _rotate(self, event: Event) -> Iterator[Entry]:
        """Enter the next slot: wait for its last readers, re-point the inputs and their views."""
        self._read, self._rotated = False, True
        self._fresh.clear()
        self._slot = (self._slot + 1) % self._ring.depth
        for queue, ident in sorted(self._readers.pop(self._slot, {}).items()):
            self._ring.price.waits += 1
            drain = inserted(event, "synchronize", backend=queue)
            wait = drain if ident == -1 else inserted(event, "event_synchronize", event=ident)
            self._state.take(wait)
            yield INSERTED, wait
        yield INSERTED, inserted(event, "sched_prepare", sched=0, slot=self._slot, rotated=True)
        for tensor in list(self._homes):
            yield from self._define(INSERTED, self._state.tensors[tensor] | {"buffer": self._homes[tensor]})
        self._ring.price.bytes = max(self._ring.price.bytes, self._size() * (self._ring.depth - 1))
        yield from self._stamp()

    def _define(self, row: int, event: Event) -> Iterator[Entry]:
        """A tensor, given as the trace has it: an input lies in the slot of now."""
        self._flagged = self._flagged or "input" in (event.get("flags") or ())
        self._state.take(event)
        ident, home = event.get("id", -1), event.get("buffer", -1)
        if not self._is_input(ident) or home not in self._state.buffers:
            self._homes.pop(ident, None)
            yield row, event
            return
        self._homes[ident] = home
        if self._slot:
            if (home, self._slot) not in self._buffers:
                self._buffers[home, self._slot] = slot = self._state.fresh()
                buffer = self._state.buffers[home] | {"id": slot}
                self._state.take(buffer)
                yield INSERTED, buffer
            event = event | {"buffer": self._buffers[home, self._slot]}
            self._state.take(event)
        yield row, event

    def _stamp(self) -> Iterator[Entry]:
        """Who caches work by a graph's uid must not trust addresses that have moved."""
        for ident, uid in list(self._state.uids.items()):
            if uid and any(map(self._is_input, self._state.read({"ev": "compute", "graph": ident}))):
                self._uid += 1
                stamped: Event = {"ev": "graph", "id": ident, "uid": self._uid, "nodes": self._state.nodes(ident)}
                self._state.take(stamped)
                yield INSERTED, stamped

    def _free(self, event: Event) -> Iterator[Entry]:
        """The slots go when their home goes."""
        home = event.get("buffer", -1)
        for key in [key for key in self._buffers if key[0] == home]:
            yield INSERTED, inserted(event, "buffer_free", buffer=self._buffers.pop(key))
        for tensor in [tensor for tensor, its in self._homes.items() if its == home]:
            del self._homes[tensor]

    def _size(self) -> int:
        """Bytes of one slot: all inputs, those at the same place once."""
        spans = sorted(
            (self._homes[t], int(self._state.tensors[t].get("offset", 0)), self._state.size(t)) for t in self._homes
        )
        total, reach = 0, (-1, 0)
        for home, offset, size in spans:
            start = max(offset, reach[1]) if home == reach[0] else offset
            total += max(0, offset + size - start)
            reach = home, max(offset + size, reach[1] if home == reach[0] else 0)
        return total
