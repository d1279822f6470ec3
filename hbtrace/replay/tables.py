"""What the ids of a trace mean at a place of its stream: the newest definition of each, as events.

For those who walk over rows and ask what a row speaks of: checks, rules of what-if, rows in words. The lowering keeps
integer tables of its own (`definitions.py`); what is in flight is nobody's business here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hbtrace.replay.names import follow
from hbtrace.trace.vocabulary import EVENTS, EventRow


@dataclass(slots=True)
class Tables:
    """The newest definition of each id. `define` them in the order of the trace."""

    backends: dict[int, EventRow] = field(default_factory=dict)
    buffers: dict[int, EventRow] = field(default_factory=dict)
    tensors: dict[int, EventRow] = field(default_factory=dict)
    graphs: dict[int, EventRow] = field(default_factory=dict)
    scheds: dict[int, EventRow] = field(default_factory=dict)
    freed: set[int] = field(default_factory=set)
    """Buffers whose life has ended, as far as `free` was told."""
    freed_events: set[int] = field(default_factory=set)
    """Events that were freed and not recorded since, likewise."""

    def define(self, ev: str, event: EventRow) -> bool:
        """One of `TABLED` more. False for one that lacks what it cannot do without: the replay skips it, too."""
        if event.get("id", -1) == -1 or any(key not in event for key in EVENTS[ev].needs):
            return False
        table: dict[int, EventRow] = getattr(self, f"{ev}s")
        table[event["id"]] = event
        if ev == "buffer":
            self.freed.discard(event["id"])
        return True

    def free(self, ev: str, event: EventRow) -> None:
        """Behind a row that may end a buffer or an event."""
        its = EVENTS.get(ev)
        if its is not None and its.ends:
            self.freed.add(event["buffer"])
        elif its is not None and its.edge == "forget":
            self.freed_events.add(event["event"])

    def root(self, tensor: int) -> int:
        """The id of the tensor that owns the bytes."""
        return follow(tensor, lambda t: int(self.tensors.get(t, {}).get("view_of", -1)))

    def name(self, tensor: int) -> str:
        return str(self.tensors.get(tensor, {}).get("name", f"?{tensor}"))

    def place(self, tensor: int) -> tuple[int, int]:
        """(buffer, offset) of a tensor."""
        its = self.tensors.get(tensor, {})
        return int(its.get("buffer", -1)), int(its.get("offset", 0))

    def buffer_of(self, tensor: int) -> EventRow:
        """The buffer in which a tensor lies, empty if unknown."""
        return self.buffers.get(self.tensors.get(tensor, {}).get("buffer", -1), {})

    def size(self, tensor: int) -> int:
        """Bytes of a tensor; without a size of its own it reaches to the end of its buffer."""
        its = self.tensors.get(tensor, {})
        if isinstance(its.get("size"), int):
            return max(0, int(its["size"]))
        return max(0, int(self.buffer_of(tensor).get("size", 0)) - int(its.get("offset", 0)))

    def told_size(self, tensor: int) -> int:
        """Bytes of a tensor by its own word, 0 where it has none."""
        return int(self.tensors.get(tensor, {}).get("size", 0))

    def nodes(self, graph: int) -> list[EventRow]:
        """The nodes of a graph."""
        return [node for node in self.graphs.get(graph, {}).get("nodes") or () if isinstance(node, dict)]


def tensors_of(ranges: Iterable[Any] | None) -> set[int]:
    """The tensors that a list of ranges names."""
    found = (r.get("tensor", -1) for r in ranges or () if isinstance(r, dict))
    return {t for t in found if isinstance(t, int) and t != -1}
