"""A run while it is made: rows of a trace, and beside each what it does to real bytes.

What it is: one method an event, memory as named blocks, and the happens-before edges of the events as plain
dependencies between operations, so that the same run can be carried out under any schedule (`schedules`). What it is
not: it knows no engine. Edges here are the contract's, told a second time without clocks: tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hbtrace.trace.vocabulary import EventRow

BlockMemory = dict[str, bytearray]
BlockAction = Callable[[BlockMemory], None]
BlockPlace = str | tuple[str, int, int]
"""A block, or bytes of it: (block, offset, end)."""

HOST = "HOST"


class Block(NamedTuple):
    """A named piece of memory, a buffer and a tensor of its own."""

    ident: int
    size: int


@dataclass(slots=True)
class TapeStep:
    """One step of a queue or of the host: runs after `after`, and after the step before it on its line."""

    line: str
    after: tuple[int, ...]
    action: BlockAction | None
    row: int


@dataclass
class StrataTape:
    """Events in recorded order, and their operations."""

    rows: list[EventRow] = field(default_factory=list)
    operations: list[TapeStep] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queues: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._events: dict[str, tuple[int, int]] = {}
        self._numbers: dict[str, int] = {}
        self._released: dict[str, list[int]] = {}

    @property
    def recorded(self) -> frozenset[str]:
        """Events that were recorded at some time."""
        return frozenset(self._events)

    # definitions

    def queue(self, name: str, **attributes: Any) -> None:
        """A stream: one in-order queue."""
        self._queues[name] = number = len(self._queues)
        self.rows.append({"ev": "backend", "id": number, "name": name, "type": "gpu", "events": True, **attributes})

    def block(self, name: str, size: int, kind: str, **attributes: Any) -> None:
        """Memory of buffer type `kind`."""
        number = len(self.blocks)
        self.blocks[name] = Block(number, size)
        self.rows.append({"ev": "buffer", "id": number, "name": kind, "size": size, **attributes})
        self.rows.append({"ev": "tensor", "id": number, "name": name, "buffer": number, "size": size})

    def memory(self) -> BlockMemory:
        """All blocks as zeros."""
        return {name: bytearray(block.size) for name, block in self.blocks.items()}

    def note(self, what: str, /, **attrs: Any) -> None:
        self.rows.append({"ev": "note", "what": what, "attrs": attrs})

    # work

    def kernel(
        self,
        queue: str,
        label: str,
        reads: Sequence[BlockPlace],
        writes: Sequence[BlockPlace],
        action: BlockAction | None = None,
    ) -> None:
        """Queued work; reads come before writes."""
        row = {"ev": "kernel", "backend": self._queues[queue], "label": label, **self._ranges(reads, writes)}
        self._queued(queue, row, action)

    def copy(self, queue: str, label: str, src: str, dst: str, action: BlockAction | None = None) -> None:
        """A copy of a whole block by a queue. action: None copies what the names say."""

        def moved(memory: BlockMemory) -> None:
            memory[dst][:] = memory[src]

        number = self._queues[queue]
        row = {"ev": "copy_async", "backend": number, "src_backend": number, "label": label, "runs_on": "dst"}
        self._queued(queue, row | {"src": self._range(src), "dst": self._range(dst)}, action or moved)

    def host(
        self, label: str, reads: Sequence[BlockPlace], writes: Sequence[BlockPlace], action: BlockAction | None = None
    ) -> None:
        """Work of the host thread on mapped memory."""
        self._add(HOST, (), {"ev": "host_access", "label": label, **self._ranges(reads, writes)}, action)

    def free(self, name: str) -> None:
        """The block's buffer ends, which the contract counts as a write of the host."""

        def cleared(memory: BlockMemory) -> None:
            memory[name][:] = bytes(len(memory[name]))

        self._add(HOST, (), {"ev": "buffer_free", "buffer": self.blocks[name].ident}, cleared)

    # edges

    def record(self, queue: str, event: str) -> None:
        number = self._numbers.setdefault(event, len(self._numbers))
        self._queued(queue, {"ev": "event_record", "backend": self._queues[queue], "event": number}, None)
        self._events[event] = (number, len(self.operations) - 1)

    def wait(self, queue: str, event: str) -> None:
        """A queue waits for an event; one never recorded holds nobody up."""
        number, recorded = self._events.get(event, (self._numbers.setdefault(event, len(self._numbers)), -1))
        row = {"ev": "event_wait", "backend": self._queues[queue], "event": number}
        self._queued(queue, row, None, recorded)

    def query(self, event: str) -> None:
        """The host saw the event done (a query that said yes, or a wait)."""
        number, recorded = self._events[event]
        self._add(HOST, (recorded,), {"ev": "event_synchronize", "event": number}, None)

    def synchronize(self, queue: str) -> None:
        after = (self._last[queue],) if queue in self._last else ()
        self._add(HOST, after, {"ev": "synchronize", "backend": self._queues[queue]}, None)

    def release(self, name: str, queue: str | None = None) -> None:
        """A doorbell is rung or a flag raised, by a queue or the host."""
        row: EventRow = {"ev": "release", "object": name}
        if queue is None:
            self._add(HOST, (), row, None)
        else:
            self._edge_of(queue, row | {"backend": self._queues[queue]}, ())
        self._released.setdefault(name, []).append(len(self.operations) - 1)

    def acquire(self, name: str, queue: str | None = None) -> None:
        """A doorbell is seen, or a flag awaited."""
        row: EventRow = {"ev": "acquire", "object": name}
        after = tuple(self._released.get(name, ()))
        if queue is None:
            self._add(HOST, after, row, None)
        else:
            self._edge_of(queue, row | {"backend": self._queues[queue]}, after)

    # inside

    def _queued(self, queue: str, row: EventRow, action: BlockAction | None, *more: int) -> None:
        submitted = (self._last[HOST],) if HOST in self._last else ()
        self._add(queue, (*submitted, *(number for number in more if number >= 0)), row, action)

    def _edge_of(self, queue: str, row: EventRow, after: tuple[int, ...]) -> None:
        # A queue's own release or acquire was submitted with the work before it: no edge from the host now.
        self._add(queue, after, row, None)

    def _add(self, line: str, after: tuple[int, ...], row: EventRow, action: BlockAction | None) -> None:
        self.operations.append(TapeStep(line, after, action, len(self.rows)))
        self._last[line] = len(self.operations) - 1
        self.rows.append(row)

    def _ranges(self, reads: Sequence[BlockPlace], writes: Sequence[BlockPlace]) -> EventRow:
        found: EventRow = {}
        if reads:
            found["reads"] = [self._range(place) for place in reads]
        if writes:
            found["writes"] = [self._range(place) for place in writes]
        return found

    def _range(self, place: BlockPlace) -> EventRow:
        if isinstance(place, str):
            return {"tensor": self.blocks[place].ident}
        name, low, high = place
        return {"tensor": self.blocks[name].ident, "offset": low, "size": high - low}
