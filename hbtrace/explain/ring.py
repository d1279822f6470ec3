"""The input ring as a rule: a graph's inputs rotate over N slots, so that the host writes where no queue still reads.

As the scheduler's ring does it: at the first write of an input after work that reads inputs was issued, all inputs are
re-pointed to the next slot (with `sched_prepare`, and a new uid for graphs that have one); before a slot is entered
again, the host waits for the work that read it last. What no graph has as an input stays where it is: what a CPU split
computes into host memory is not rotated, nor is memory that the allocator hands out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hbtrace.errors import UsageError
from hbtrace.explain.draft import (
    ACCESSES,
    BUSY,
    DEFINING,
    INSERTED,
    QUEUED,
    SETS,
    Entry,
    Event,
    Price,
    State,
    Wants,
    inserted,
)
from hbtrace.replay.canonical import without_slot

_NAMES: Final = ("inp_", "attn_inp_", "out_ids")


@dataclass
class Ring:
    """Inputs rotate over `depth` slots; slot 0 is where they are."""

    depth: int
    price: Price = field(default_factory=Price)
    lane: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.depth <= 64:
            raise UsageError(f"a ring has 2 to 64 slots, not {self.depth}")

    def __str__(self) -> str:
        return f"--ring {self.depth}"

    @property
    def wants(self) -> Wants:
        return Wants(ACCESSES | BUSY | DEFINING)

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        return _Rotation(self).run(entries)


class _Rotation:
    """One pass over the stream."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._state = State(lane=ring.lane)
        self._flagged = False
        self._slot = 0
        self._homes: dict[int, int] = {}
        """By tensor: the buffer in which the trace has it, whatever slot it is in."""
        self._buffers: dict[tuple[int, int], int] = {}
        """By home and slot: the buffer that the ring has for it."""
        self._readers: dict[int, dict[int, int]] = {}
        """By slot: an event recorded behind the last reader, by queue."""
        self._read = False
        """Whether work that reads inputs was issued since the last rotation."""
        self._uid = 1 << 40
        self._readings: dict[int, bool] = {}
        """Whether a graph reads inputs, for as long as the trace defines nothing."""

    def run(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for row, event in entries:
            ev = event.get("ev")
            if ev in ("tensor", "graph"):
                self._readings.clear()
            if ev in SETS and self._read and self._is_input(event.get("tensor", -1)) and self._in_flight():
                yield from self._rotate(event)
            if ev == "sched":
                event = event | {"ring": self._ring.depth}
            if ev == "tensor":
                yield from self._define(row, event)
                continue
            self._state.take(event)
            yield row, event
            if ev in QUEUED:
                yield from self._note(event)
            elif ev == "buffer_free":
                yield from self._free(event)

    def _is_input(self, tensor: int) -> bool:
        root = self._state.tensors.get(self._state.root(tensor), {})
        name = str(root.get("name", ""))
        if without_slot(name) != name:
            return False  # the scheduler's own copy on a device: flagged as an input, too, but never set by the host
        return "input" in (root.get("flags") or ()) if self._flagged else name.startswith(_NAMES)

    def _in_flight(self) -> bool:
        """Generation never pays: where the host has waited for the readers, inputs stay at fixed addresses."""
        readers = {queue for slot in self._readers.values() for queue in slot}
        return bool(readers.intersection(self._state.busy()))

    def _note(self, event: Event) -> Iterator[Entry]:
        """Work was issued: if it reads inputs, an event behind it says when their slot is free."""
        if not self._reads_inputs(event):
            return
        self._read = True
        queue = event.get("backend", -1)
        if event.get("ev") == "copy_async" and event.get("runs_on") in ("src", "both"):
            queue = event.get("src_backend", queue)
        if self._state.backends.get(queue, {}).get("synchronous"):
            return
        ident = self._state.fresh()
        self._readers.setdefault(self._slot, {})[queue] = ident
        record = inserted(event, "event_record", backend=queue, event=ident)
        self._state.take(record)
        yield INSERTED, record

    def _reads_inputs(self, event: Event) -> bool:
        """Of a graph it is remembered: graphs are large and computed often."""
        if event.get("ev") != "compute":
            return any(map(self._is_input, self._state.read(event)))
        graph = event.get("graph", -1)
        if graph not in self._readings:
            self._readings[graph] = any(map(self._is_input, self._state.read(event)))
        return self._readings[graph]

    def _rotate(self, event: Event) -> Iterator[Entry]:
        """Enter the next slot: wait for its last readers, re-point the inputs and their views."""
        self._read = False
        self._slot = (self._slot + 1) % self._ring.depth
        for _, ident in sorted(self._readers.pop(self._slot, {}).items()):
            self._ring.price.waits += 1
            wait = inserted(event, "event_synchronize", event=ident)
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
                stamped: Event = {"ev": "graph", "id": ident, "uid": self._uid, "nodes": self._state.graphs[ident]}
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
