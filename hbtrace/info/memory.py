"""Buffers by type, and which of those on the host some work touches: where tensors lie, as definitions tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hbtrace.info.records import BufferGroup, Ints
from hbtrace.trace.columns import ABSENT, matrix_of

GRAPH_BUDGET: Final = 1 << 20
"""Ranges of graphs remembered; beyond it the oldest graphs are forgotten, and `Memory.partial` is set."""
_MOST_KNOWN: Final = 1 << 12
"""Pieces of work of which the touched bytes are remembered."""
_NOWHERE: Final = (-1, 0, 0)

Work = int | tuple[bytes, bytes]
"""A graph by its id, or what a kernel reads and writes: the keys of two lists of ranges."""


class Demand(NamedTuple):
    """What a piece of work touches, wherever that lies: ranges, and how often each is read and written."""

    ranges: Ints
    times: Ints


@dataclass(slots=True)
class _Life:
    """Of a buffer id, from one definition to the end."""

    group: BufferGroup
    size: int = 0
    largest: int = 0


class Memory:
    """The definitions in force. Whoever changes one changes what later work touches, not what earlier did."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str, bool], BufferGroup] = {}
        self.all = BufferGroup("all", "", False)
        """All groups together."""
        self.partial = False
        """Whether graphs were forgotten."""
        self._buffers: dict[int, _Life] = {}
        self._tensors: dict[int, tuple[int, int, int]] = {}
        self._graphs: dict[int, Demand] = {}
        self._graph_ranges = 0
        self._known: dict[Work, dict[str, list[int]]] = {}

    def buffer(self, ident: int, size: int, key: tuple[str, str, bool]) -> None:
        """A buffer is defined. key: its type, usage and host flag."""
        group = self.groups.setdefault(key, BufferGroup(*key))
        life = self._buffers.get(ident)
        if life is None or life.group is not group:
            if life is not None:  # goes on under another type: its bytes count there from now on
                self._resize(life, 0)
            life = self._buffers[ident] = _Life(group)
            for counted in (group, self.all):
                counted.lives += 1
                counted.empty_lives += 1
        self._resize(life, size)

    def free(self, ident: int) -> None:
        """A buffer's life ends."""
        if (life := self._buffers.pop(ident, None)) is not None:
            self._resize(life, 0)

    def _resize(self, life: _Life, size: int) -> None:
        for group in (life.group, self.all):
            group.live_bytes += size - life.size
            group.peak_bytes = max(group.peak_bytes, group.live_bytes)
            if size > life.largest:
                group.empty_lives -= life.largest == 0
                group.total_bytes += size - life.largest
        life.size, life.largest = size, max(size, life.largest)
        self._known.clear()

    def tensor(self, ident: int, buffer: int, offset: int, size: int) -> None:
        """A tensor is defined; `size` is `ABSENT` if it ends where its buffer does.

        Where it lies matters only then: a ring that re-points it changes nothing here.
        """
        place = (buffer, offset if size == ABSENT else 0, size)
        if self._tensors.get(ident) != place:
            self._tensors[ident] = place
            self._known.clear()

    def graph(self, ident: int, reads: Ints, writes: Ints) -> None:
        """A graph is defined, by all ranges of its nodes."""
        self._forget(ident)
        self._graphs[ident] = demand = _demand(reads, writes)
        self._graph_ranges += len(demand.ranges)
        while self._graph_ranges > GRAPH_BUDGET and len(self._graphs) > 1:
            self._forget(next(iter(self._graphs)))
            self.partial = True

    def _forget(self, graph: int) -> None:
        self._known.pop(graph, None)
        if (demand := self._graphs.pop(graph, None)) is not None:
            self._graph_ranges -= len(demand.ranges)

    def touched(self, work: Work) -> dict[str, list[int]]:
        """Bytes read and written of host buffers, by buffer type."""
        found = self._known.get(work)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            demand = self._graphs.get(work) if isinstance(work, int) else _demand(*map(matrix_of, work))
            found = self._known[work] = {} if demand is None else self._touched(demand)
        return found

    def _touched(self, demand: Demand) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for (tensor, number, offset, size, rows, stride, _), times in zip(
            demand.ranges.tolist(), demand.times.tolist(), strict=True
        ):
            buffer, start, end = self._tensors.get(tensor, _NOWHERE) if tensor != -1 else (number, 0, ABSENT)
            life = self._buffers.get(buffer)
            if life is None or not life.group.host:
                continue
            if size == ABSENT:
                size = (end if end != ABSENT else life.size - start) - offset
            if count := _bytes(max(0, size), rows, stride):
                totals = found.setdefault(life.group.type, [0, 0])
                for write, how_often in enumerate(times):
                    totals[write] += how_often * count
        return found


def _bytes(size: int, rows: int, stride: int) -> int:
    """Of `rows` pieces, `stride` apart; where they overlap each byte counts once."""
    if rows <= 1 or stride < 1:
        return size
    return rows * size if stride >= size else (rows - 1) * stride + size


def _demand(reads: Ints, writes: Ints) -> Demand:
    """From all ranges; those of a whole tensor are one, with a count."""
    ranges, write = np.concatenate((reads, writes)), np.repeat((0, 1), (len(reads), len(writes)))
    tensor, _, offset, size, rows, *_ = ranges.T
    whole = (tensor >= 0) & (offset == 0) & (size == ABSENT) & (rows <= 1)
    keys = np.where(whole, tensor, -1 - np.arange(len(ranges)))
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    times = np.bincount(2 * number + write, minlength=2 * len(first)).reshape(-1, 2)
    return Demand(ranges[first], times)
