"""Operations move to another backend: a rule that cuts graphs as the scheduler cuts them into splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from hbtrace.errors import UsageError
from hbtrace.replay.tables import tensors_of
from hbtrace.what_if.rewriting import Entry, Ruling, Wants, waits_for
from hbtrace.what_if.state import (
    INSERTED,
    PART,
    RAW,
    USES,
    Event,
    Raw,
    State,
    Uses,
    raw_of,
)

_CHANGING = frozenset({"tensor", "buffer", "graph"})


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
            cuts[graph] = self._parts(state.nodes(graph), state)
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
        for new in waits_for(event, first, then, state.fresh(), state.way(first, then), self.price):
            state.take(new)
            yield INSERTED, new
