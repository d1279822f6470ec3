"""Two rules on where things are: memory in use is not handed out again, and operations move to another backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from hbtrace.errors import UsageError
from hbtrace.explain.draft import Entry, Ruling, Wants, inserted
from hbtrace.explain.state import (
    ACCESSES,
    BUSY,
    DEFINING,
    INSERTED,
    PART,
    QUEUED,
    RAW,
    USES,
    Event,
    Raw,
    State,
    Uses,
    raw_of,
    tensors_of,
)
from hbtrace.replay.canonical import without_slot


@dataclass
class Pin(Ruling):
    """Memory that a queue was given to read or write stays out of the allocator's pool until the host has waited.

    A tensor about to be written over bytes of another tensor that a queue still uses is given bytes of its own,
    told by the view root that owns them.
    """

    def __str__(self) -> str:
        return "--pin"

    @property
    def wants(self) -> Wants:
        return Wants(ACCESSES | BUSY | DEFINING)

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        return _Pool(self).run(entries)


Use = tuple[int, int, int]
"""(lo, hi, root)"""

_CHANGING = frozenset({"tensor", "buffer", "graph"})


class _Pool:
    def __init__(self, pin: Pin) -> None:
        self._pin = pin
        self._state = pin.state()
        self._uses: dict[int, dict[int, dict[Use, int]]] = {}
        """By queue and buffer: what its work uses, and the number of the last piece of work that does."""
        self._placed: dict[int, list[tuple[int, Use]]] = {}
        """Of graphs: (buffer, use) of all that they touch, for as long as the trace defines nothing."""

    def run(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for row, event in entries:
            ev = event.get("ev")
            if ev in _CHANGING:
                self._placed.clear()
            rivals = self._rivals(event)
            if rivals:
                for tensor in sorted(self._state.written(event)):
                    yield from self._protect(tensor, rivals)
            self._state.take(event, row)
            yield row, event
            if ev in QUEUED:
                self._remember(event)

    def _use(self, tensor: int) -> tuple[int, Use]:
        its = self._state.tensors.get(tensor, {})
        lo = int(its.get("offset", 0))
        return int(its.get("buffer", -1)), (lo, lo + self._state.size(tensor), self._state.root(tensor))

    def _touched(self, event: Event) -> list[tuple[int, Use]]:
        """(buffer, use) of all tensors of an event; graphs are large and computed often."""
        graph = event.get("graph", -1) if event.get("ev") == "compute" else None
        found = self._placed.get(graph) if graph is not None else None
        if found is None:
            found = [self._use(tensor) for tensor in sorted(self._state.read(event) | self._state.written(event))]
            if graph is not None:
                self._placed[graph] = found
        return found

    def _remember(self, event: Event) -> None:
        touched = self._touched(event)
        for queue in {event.get("backend", -1), event.get("src_backend", -1)} - {-1}:
            if self._state.backends.get(queue, {}).get("synchronous"):
                continue
            number, uses = self._state.issued.get(queue, 0), self._uses.setdefault(queue, {})
            for buffer, use in touched:
                uses.setdefault(buffer, {})[use] = number

    def _rivals(self, event: Event) -> list[tuple[int, dict[int, dict[Use, int]]]]:
        """Of the other queues that are not waited for: (work that is done, uses). Of one that is, nothing is in use."""
        own = self._state.runner(event)
        rivals = []
        for queue, uses in self._uses.items():
            done = self._state.done(queue, event)
            if self._state.issued.get(queue, done + 1) <= done:
                if self._state.threads != "ordered":  # another thread may not know it
                    uses.clear()
            elif queue != own:
                rivals.append((done, uses))
        return rivals

    def _protect(self, tensor: int, rivals: list[tuple[int, dict[int, dict[Use, int]]]]) -> Iterator[Entry]:
        buffer, (lo, hi, root) = self._use(tensor)
        for done, uses in rivals:
            if any(
                number > done and use[0] < hi and lo < use[1] and self._others(use[2], root)
                for use, number in uses.get(buffer, {}).items()
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
        self._placed.clear()


@dataclass
class Part:
    """Nodes of a graph that stand together, and the graph that they become; -1 until it is defined.

    first, end: the numbers of their accesses among those of the whole graph.
    """

    moved: bool
    first: int
    end: int
    nodes: list[Event] = field(default_factory=list)
    graph: int = -1

    def add(self, node: Event) -> None:
        """One node more."""
        self.nodes.append(node)
        self.end += sum(isinstance(its, dict) for key in ("reads", "writes") for its in _listed(node, key))

    @cached_property
    def uses(self) -> Uses:
        """The tensors that its nodes read and write."""
        reads, writes = (
            {tensor for node in self.nodes for tensor in tensors_of(_listed(node, key))} for key in ("reads", "writes")
        )
        return reads, writes

    @cached_property
    def raw(self) -> list[Raw]:
        """The bytes of no tensor that its nodes write."""
        return [raw for node in self.nodes for raw in raw_of(_listed(node, "writes"))]


def _listed(node: Event, key: str) -> list[Any]:
    """The ranges of a node; none where a damaged trace has no list."""
    found = node.get(key)
    return found if isinstance(found, list) else []


@dataclass
class Place(Ruling):
    """Operations run on another backend: nodes by operation or by the name of what they make.

    The graph is cut there, as the scheduler cuts it into splits; each part waits for the one before it.
    """

    what: str
    backend: str
    def __str__(self) -> str:
        return f"--place {self.what}={self.backend}"

    @property
    def wants(self) -> Wants:
        return Wants(_CHANGING | {"backend", "compute"}, nodes=True)

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        state = self.state()
        cuts: dict[int, list[Part]] = {}  # graphs are large and computed often: each is cut once
        for row, event in entries:
            if event.get("ev") in _CHANGING:
                cuts.clear()
            if event.get("ev") == "compute" and self._is_cut(event, state, cuts):
                yield from self._run(row, event, cuts[event["graph"]], state)
            else:
                state.take(event)
                yield row, event
        if not self.price.changed:
            raise UsageError(f"no operation {self.what!r} can be moved to a backend {self.backend!r}")

    def _target(self, state: State) -> int:
        found = [ident for ident, its in state.backends.items() if fnmatchcase(str(its.get("name")), self.backend)]
        return found[-1] if found else -1

    def _is_cut(self, event: Event, state: State, cuts: dict[int, list[Part]]) -> bool:
        """Whether a compute's graph has nodes that move, and somewhere to move to."""
        graph = event.get("graph", -1)
        if graph not in cuts:
            cuts[graph] = self._parts(state.graphs.get(graph, ()), state)
        moves = any(part.moved for part in cuts[graph])
        own = event.get("backend")
        return moves and isinstance(own, int) and self._target(state) not in (-1, own)

    def _parts(self, nodes: Iterable[Event], state: State) -> list[Part]:
        """Runs of nodes that move or stay."""
        parts: list[Part] = []
        for node in nodes:
            names = {str(node.get("op")), *state.names(node.get("tensor", -1))}
            moved = any(fnmatchcase(name, self.what) for name in names)
            if not parts or parts[-1].moved != moved:
                end = parts[-1].end if parts else 0
                parts.append(Part(moved, end, end))
            parts[-1].add(node)
        return parts

    def _run(self, row: int, event: Event, parts: list[Part], state: State) -> Iterator[Entry]:
        own, target = event["backend"], self._target(state)
        for index, part in enumerate(parts):
            queue = target if part.moved else own
            if index or part.moved:
                yield from self._hand_over(event, own if part.moved else target, queue, state)
            if part.graph == -1:
                part.graph = state.fresh()
                yield INSERTED, {"ev": "graph", "id": part.graph, "nodes": part.nodes}
            compute = event | {"backend": queue, "graph": part.graph}
            if USES in event:
                compute |= {USES: part.uses, RAW: part.raw, PART: (part.first, part.end, parts[-1].end)}
            state.take(compute)
            self.price.changed += part.moved
            yield row if index == 0 else INSERTED, compute
        if parts[-1].moved:
            yield from self._hand_over(event, target, own, state)

    def _hand_over(self, event: Event, first: int, then: int, state: State) -> Iterator[Entry]:
        ident = state.fresh()
        self.price.queue_waits += 1
        yield INSERTED, inserted(event, "event_record", backend=first, event=ident)
        yield INSERTED, inserted(event, "event_wait", backend=then, event=ident)
