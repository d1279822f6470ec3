"""Memory, queues and schedules: runs what was asked of the backends, at the times that a schedule chooses.

The host does its steps in order. A queue does its items in order, each after what it waits for; how far a queue has
come when the host does its next step is the schedule's to say. No step knows the schedule, so that two schedules give
the same result unless something was left unordered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

WORD: Final = 4
"""Bytes of a value."""

PRIME: Final = 65521
"""Values are computed modulo this."""

POISON: Final = 48879
"""What freed memory holds."""

SCHEDULES: Final = ("in-order", "latest", "random")

WordArray = npt.NDArray[np.int64]
Need = tuple[int, int]
"""(queue, number of its items that must be done)"""


@dataclass(slots=True)
class Store:
    """The words of each buffer, and what the host has read of them as results."""

    buffers: dict[int, WordArray] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)

    def view(self, place: WordSpan) -> WordArray:
        return self.buffers[place.buffer][place.word : place.word + place.words]


@dataclass(frozen=True, slots=True)
class WordSpan:
    """Words of a buffer."""

    buffer: int
    word: int
    words: int


StoreAction = Callable[[Store], None]


@dataclass(slots=True)
class Task:
    """Something the host does (queue -1), or an item that it puts into a queue."""

    queue: int
    action: StoreAction | None
    needs: tuple[Need, ...] = ()


class Schedule:
    """When queues run. `in-order`: at once; `latest`: when somebody waits; `random`: by a seed, at speeds drawn."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self._random = random.Random(seed)
        self._speeds: dict[int, float] = {}

    def items(self, queue: int) -> int:
        """How many items a queue may try now."""
        if self.name == "in-order":
            return 1 << 30
        if self.name == "latest":
            return 0
        speed = self._speeds.get(queue)
        if speed is None:
            speed = self._speeds[queue] = self._random.choice((0.0, 0.05, 0.3, 0.7, 0.95))
        count = 0
        while count < 16 and self._random.random() < speed:
            count += 1
        return count


class QueueMachine:
    """One run of a list of steps."""

    def __init__(self, sizes: dict[int, int], queues: int, schedule: Schedule) -> None:
        """sizes: words by buffer."""
        self.memory = Store({buffer: np.zeros(words, dtype=np.int64) for buffer, words in sizes.items()})
        self._items: list[list[Task]] = [[] for _ in range(queues)]
        self._done = [0] * queues
        self._schedule = schedule

    def run(self, steps: Iterable[Task]) -> Store:
        """Do all steps, then whatever is left in the queues."""
        for step in steps:
            if step.queue >= 0:
                self._items[step.queue].append(step)
            else:
                for need in step.needs:
                    self._force(*need)
                if step.action is not None:
                    step.action(self.memory)
            for queue in range(len(self._items)):
                self._advance(queue, self._schedule.items(queue))
        for queue, items in enumerate(self._items):
            self._force(queue, len(items))
        return self.memory

    def _advance(self, queue: int, most: int) -> None:
        """Do up to so many items, as long as none has to wait."""
        items = self._items[queue]
        while most > 0 and self._done[queue] < len(items):
            if any(self._done[q] < n for q, n in items[self._done[queue]].needs):
                return
            self._item(queue)
            most -= 1

    def _force(self, queue: int, count: int) -> None:
        """Do a queue's items up to a number, and before each what it waits for."""
        items = self._items[queue]
        while self._done[queue] < min(count, len(items)):
            for need in items[self._done[queue]].needs:
                self._force(*need)
            self._item(queue)

    def _item(self, queue: int) -> None:
        action = self._items[queue][self._done[queue]].action
        if action is not None:
            action(self.memory)
        self._done[queue] += 1
