"""Memory in use is not handed out again: a rule on where things are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hbtrace.replay.canonical import without_slot
from hbtrace.trace.vocabulary import QUEUED
from hbtrace.what_if.rewriting import Entry, Ruling, Wants
from hbtrace.what_if.state import (
    BUSY,
    DEFINING,
    INSERTED,
    TENSOR_ACCESSES,
    Event,
)


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
        return Wants(TENSOR_ACCESSES | BUSY | DEFINING)

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
