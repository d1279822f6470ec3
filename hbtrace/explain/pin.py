"""Two rules on where things are: memory in use is not handed out again, and operations move to another backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from hbtrace.errors import UsageError
from hbtrace.explain.draft import INSERTED, QUEUED, Entry, Event, Price, State, inserted
from hbtrace.replay.canonical import without_slot

_MOST_USES: Final = 1 << 16
"""Uses remembered of one queue; older ones are forgotten, the replay tells whether that mattered."""


@dataclass
class Pin:
    """Memory that a queue was given to read or write stays out of the allocator's pool until the host has waited.

    A tensor about to be written over bytes of another tensor that a queue still uses is given bytes of its own,
    told by the view root that owns them.
    """

    price: Price = field(default_factory=Price)

    def __str__(self) -> str:
        return "--pin"

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        return _Pool(self).run(entries)


Use = tuple[int, int, int, int]
"""(buffer, lo, hi, root)"""


class _Pool:
    def __init__(self, pin: Pin) -> None:
        self._pin = pin
        self._state = State()
        self._uses: dict[int, list[tuple[int, Use]]] = {}
        """By queue: (number of the piece of work, what it uses)."""

    def run(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for row, event in entries:
            for tensor in sorted(self._state.written(event)):
                yield from self._protect(event, tensor)
            self._state.take(event)
            yield row, event
            if event.get("ev") in QUEUED:
                self._remember(event)

    def _use(self, tensor: int) -> Use:
        its = self._state.tensors.get(tensor, {})
        lo = int(its.get("offset", 0))
        return int(its.get("buffer", -1)), lo, lo + self._state.size(tensor), self._state.root(tensor)

    def _remember(self, event: Event) -> None:
        tensors = self._state.read(event) | self._state.written(event)
        for queue in {event.get("backend", -1), event.get("src_backend", -1)} - {-1}:
            if self._state.backends.get(queue, {}).get("synchronous"):
                continue
            number, done = self._state.issued.get(queue, 0), self._state.waited.get(queue, 0)
            uses = [use for use in self._uses.get(queue, ()) if use[0] > done]
            self._uses[queue] = uses[-_MOST_USES:] + [(number, self._use(tensor)) for tensor in sorted(tensors)]

    def _protect(self, event: Event, tensor: int) -> Iterator[Entry]:
        buffer, lo, hi, root = self._use(tensor)
        own = event.get("backend", -1) if event.get("ev") in QUEUED else -1
        if event.get("ev") == "copy_async" and event.get("runs_on") == "src":
            own = event.get("src_backend", own)
        for queue, uses in self._uses.items():
            done = self._state.waited.get(queue, 0)
            if queue != own and any(
                number > done and use[0] == buffer and use[1] < hi and lo < use[2] and self._others(use[3], root)
                for number, use in uses
            ):
                yield from self._move(root)
                return

    def _others(self, used: int, root: int) -> bool:
        """Two tensors, not one that was made anew at its place: that one would race there as it did before."""
        names = [without_slot(str(self._state.tensors.get(t, {}).get("name", t))) for t in (used, root)]
        return used != root and names[0] != names[1]

    def _move(self, root: int) -> Iterator[Entry]:
        """A root and its views get bytes of their own."""
        home = self._state.buffers.get(self._state.tensors.get(root, {}).get("buffer", -1))
        if home is None:
            return
        moved = [t for t in self._state.tensors if self._state.root(t) == root]
        # As large as the old one, so that offsets and what lies past a tensor's end mean the same.
        buffer = home | {"id": self._state.fresh()}
        self._pin.price.bytes += max(map(self._state.size, moved))
        self._pin.price.changed += 1
        self._state.take(buffer)
        yield INSERTED, buffer
        for t in moved:
            tensor = self._state.tensors[t]
            if tensor.get("buffer", -1) == home["id"]:
                again = tensor | {"buffer": buffer["id"]}
                self._state.take(again)
                yield INSERTED, again


@dataclass
class Place:
    """Operations run on another backend: nodes by operation or by the name of what they make.

    The graph is cut there, as the scheduler cuts it into splits; each part waits for the one before it.
    """

    what: str
    backend: str
    price: Price = field(default_factory=Price)

    def __str__(self) -> str:
        return f"--place {self.what}={self.backend}"

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        state = State()
        for row, event in entries:
            parts = self._parts(event, state) if event.get("ev") == "compute" else []
            target = self._target(state)
            if len(parts) + sum(moved for moved, _ in parts) > 1 and target not in (-1, event.get("backend")):
                yield from self._cut(row, event, parts, target, state)
            else:
                state.take(event)
                yield row, event
        if not self.price.changed:
            raise UsageError(f"no operation {self.what!r} can be moved to a backend {self.backend!r}")

    def _target(self, state: State) -> int:
        found = [ident for ident, its in state.backends.items() if fnmatchcase(str(its.get("name")), self.backend)]
        return found[-1] if found else -1

    def _parts(self, event: Event, state: State) -> list[tuple[bool, list[Event]]]:
        """Runs of nodes that move or stay."""
        parts: list[tuple[bool, list[Event]]] = []
        for node in state.graphs.get(event.get("graph", -1), ()):
            names = {str(node.get("op")), *state.names(node.get("tensor", -1))}
            moved = any(fnmatchcase(name, self.what) for name in names)
            if parts and parts[-1][0] == moved:
                parts[-1][1].append(node)
            else:
                parts.append((moved, [node]))
        return parts

    def _cut(
        self, row: int, event: Event, parts: list[tuple[bool, list[Event]]], target: int, state: State
    ) -> Iterator[Entry]:
        own = event["backend"]
        for index, (moved, nodes) in enumerate(parts):
            queue, graph = target if moved else own, state.fresh()
            if index or moved:
                yield from self._hand_over(event, own if moved else target, queue, state)
            yield INSERTED, {"ev": "graph", "id": graph, "nodes": nodes}
            compute = event | {"backend": queue, "graph": graph}
            state.take(compute)
            self.price.changed += moved
            yield row if index == 0 else INSERTED, compute
        if parts[-1][0]:
            yield from self._hand_over(event, target, own, state)

    def _hand_over(self, event: Event, first: int, then: int, state: State) -> Iterator[Entry]:
        ident = state.fresh()
        self.price.queue_waits += 1
        yield INSERTED, inserted(event, "event_record", backend=first, event=ident)
        yield INSERTED, inserted(event, "event_wait", backend=then, event=ident)
