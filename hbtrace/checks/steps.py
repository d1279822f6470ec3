"""What a run exercised, counted step by step: windows, and how queues were kept busy. `native_steps.py` is its twin.

Which events matter how is told by row, in numbers: neither counter knows an event's name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from hbtrace.checks.windows import WINDOWS, Windows
from hbtrace.replay.clocks import NOTHING, Clocks
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, Program
from hbtrace.trace.vocabulary import COMPUTING, ENDS, HOST_WAITS, HOST_WRITES

COMPUTES: Final = 1
ENDING: Final = 2
HOST_SETTING: Final = 4
HOST_WAITING: Final = 8

_KINDS: Final = {COMPUTES: COMPUTING, ENDING: ENDS, HOST_SETTING: HOST_WRITES, HOST_WAITING: HOST_WAITS}


def kinds_of(words: Sequence[str | None]) -> npt.NDArray[np.uint8]:
    """What each of these events is to a counter: the numbers above, added up."""
    return np.array([sum(kind for kind, evs in _KINDS.items() if word in evs) for word in words], dtype=np.uint8)


@dataclass(slots=True)
class BatchKinds:
    """The rows of a batch, the first of them, and of each: what its event is (`kinds_of`), its split or -1."""

    first: int
    kinds: npt.NDArray[np.uint8]
    splits: npt.NDArray[np.int64]


class Counted(NamedTuple):
    """What the steps came to so far. Of queues, those count that are asynchronous and computed."""

    queues: int = 0
    max_in_flight: int = 0
    """The most computes of one queue at a time that its host thread did not know to be done."""
    serial_queues: int = 0
    """Queues that never had two computes in flight."""
    waited_queues: int = 0
    """Queues that were waited for at once after each of their computes, and those were several."""
    per_node: int = 0
    """Times that one split was computed in pieces between two times that the host set inputs."""
    windows: tuple[int, ...] = (0,) * len(WINDOWS)
    """By nature, in the order of `WINDOWS`."""
    open: tuple[int, ...] = (0,) * len(WINDOWS)


@dataclass(slots=True)
class _Queue:
    """The computes and kernels of one asynchronous queue."""

    pending: deque[int] = field(default_factory=deque)
    computes: int = 0
    most: int = 0
    at_once: int = 0
    """Those that were waited for before the host or the queue did anything else."""
    fresh: int = 0
    """How often the host had acted when the newest of them was issued; 0 when something else came behind it."""


class Steps:
    """Counts the steps of a trace, in Python."""

    def __init__(self) -> None:
        self._clocks = Clocks()
        self._windows = Windows()
        self._known: dict[int, Clock] = {}
        """What each actor knows of others."""
        self._queues: dict[int, _Queue] = {}
        self._splits: set[int] = set()
        """Those computed since the host last set inputs;"""
        self._in_pieces = False
        """whether one of them was more than once."""
        self._per_node = 0
        self._hosts = 1
        """Steps of the host so far, and one."""

    def take(self, programs: Iterable[Program], batch: BatchKinds, waits: Set[int]) -> None:
        """The programs of the next batch. waits: the actors whose work is complete when the call returns."""
        kinds, splits, first = batch.kinds.tobytes(), batch.splits.tolist(), batch.first
        learnt = self._known
        for program in programs:
            self._windows.define(program)
            order = self._clocks.order(program)
            steps = zip(program.steps(), order.ticks, order.known, strict=True)
            for (op, actor, other, footprint, row), tick, known in steps:
                if op == HOST:
                    learnt[actor] = known
                    self._host(kinds[row - first], splits[row - first], footprint, known)
                elif op == QUEUE:
                    learnt[actor] = known
                    kind, goes_on, issuer = kinds[row - first], actor not in waits, learnt.get(other, NOTHING)
                    computes = kind & COMPUTES > 0
                    if footprint >= 0:
                        self._windows.issued(
                            actor, tick, footprint, issuer, computes=computes, ends=kind & ENDING > 0, goes_on=goes_on
                        )
                    if goes_on and computes:
                        self._computed(actor, tick, issuer, splits[row - first])
                    elif goes_on and actor in self._queues:
                        self._queues[actor].fresh = 0
                elif op == END:
                    self._windows.end(actor)
                elif op != DROP:
                    learnt[actor] = known
                    if op == JOIN and kinds[row - first] & HOST_WAITING:
                        self._waited(other)

    def counted(self) -> Counted:
        """What there is so far."""
        queues = self._queues.values()
        return Counted(
            len(queues),
            max((queue.most for queue in queues), default=0),
            sum(queue.most < 2 for queue in queues),
            sum(queue.computes > 1 and queue.at_once == queue.computes for queue in queues),
            self._per_node,
            tuple(self._windows.all.values()),
            tuple(self._windows.open.values()),
        )

    def _computed(self, actor: int, tick: int, issuer: Clock, split: int) -> None:
        queue = self._queues.setdefault(actor, _Queue())
        known = issuer.get(actor, 0)
        while queue.pending and queue.pending[0] <= known:
            queue.pending.popleft()
        queue.pending.append(tick)
        queue.most = max(queue.most, len(queue.pending))
        queue.computes += 1
        queue.fresh = self._hosts
        if split >= 0:
            self._in_pieces |= split in self._splits
            self._splits.add(split)

    def _host(self, kind: int, split: int, footprint: int, known: Clock) -> None:
        self._hosts += 1
        if footprint < 0:
            return
        sets = split == -1 and kind & HOST_SETTING > 0
        if sets:
            self._per_node += self._in_pieces
            self._in_pieces = False
            self._splits.clear()
        self._windows.host(footprint, known, ends=kind & ENDING > 0, sets=sets)

    def _waited(self, actor: int) -> None:
        queue = self._queues.get(actor)
        if queue is not None and queue.fresh == self._hosts:
            queue.at_once += 1
            queue.fresh = 0
