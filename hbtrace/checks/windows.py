"""Windows: where races can be. Work was issued, and then somebody else touches the memory that it touches.

A window is open if the host thread that comes next, or issues what comes next, does not know that work to be done: then
something else than its waits kept the two apart, or nothing did. It tells no race from an order; the replay does.

Memory is told by the life of its buffer: slots of a ring and parts of a pipeline are neighbours there. Kernels and
computes depend on inputs wherever they read them from, so of all host writes those beside them count; transfers, and
whoever else meets work, only by the memory that both touch, one of them writing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import PIECE, Program

WindowNature = Literal["input", "host_read", "free", "transfer", "queues"]

WINDOWS: Final[dict[WindowNature, str]] = {
    "input": "input write",
    "host_read": "host read",
    "free": "free",
    "transfer": "transfer",
    "queues": "queue pair",
}
"""The natures of races that a run can have room for, in words."""

_Touched = dict[int, tuple[int, int]]
"""By queue, the newest work that touched something, the newest of all last: (tick of the queue, serial number among all
work issued)."""


@dataclass(slots=True)
class _Memory:
    """What was done to one space."""

    read: tuple[_Touched, _Touched] = field(default_factory=lambda: ({}, {}))
    """By computes and kernels, and by transfers."""
    written: tuple[_Touched, _Touched] = field(default_factory=lambda: ({}, {}))
    counted: dict[WindowNature, int] = field(default_factory=dict)
    """Up to which issue windows were counted."""

    def met(self, write: bool, transfers: bool) -> tuple[_Touched, ...]:
        """The work that an access can race with."""
        return (self.written[transfers], self.read[transfers]) if write else (self.written[transfers],)


class Windows:
    """Counts windows by nature, all of them and those that were open: one at most for each memory and issue of work."""

    def __init__(self) -> None:
        self.all: dict[WindowNature, int] = dict.fromkeys(WINDOWS, 0)
        self.open: dict[WindowNature, int] = dict.fromkeys(WINDOWS, 0)
        self._issues = 0
        self._spaces: dict[int, tuple[tuple[int, bool], ...]] = {}
        """(space, write) of each footprint."""
        self._memories: dict[int, _Memory] = {}
        """By space."""
        self._computing: _Touched = {}
        self._anywhere = _Memory()
        """Of inputs, which count beside all work, wherever they lie."""

    def define(self, program: Program) -> None:
        """The footprints of the next program."""
        if program.forget_footprints:
            self._spaces.clear()
        pieces, bounds = program.pieces, program.bounds
        for index, number in enumerate(program.footprints):
            lo, hi = bounds[index], bounds[index + 1]
            self._spaces[number] = tuple(
                dict.fromkeys(zip(pieces[lo:hi:PIECE], map(bool, pieces[lo + 4 : hi : PIECE]), strict=True))
            )

    def issued(
        self, queue: int, tick: int, footprint: int, known: Clock, *, computes: bool, ends: bool, goes_on: bool
    ) -> None:
        """Queued work that touches bytes. known: what its host thread knows; computes: it is no transfer; ends: a
        buffer's life; goes_on: when the call has returned."""
        spaces = self._spaces[footprint]
        for space, write in spaces:
            if (memory := self._memories.get(space)) is not None:
                met = memory.met(write, False) + memory.met(write, True)
                self._count("free" if ends else "queues", memory, known, met, queue)
        if not goes_on:
            return
        self._issues += 1
        touch = tick, self._issues
        if computes:
            self._computing.pop(queue, None)
            self._computing[queue] = touch
        for space, write in spaces:
            memory = self._memory(space)
            touched = (memory.written if write else memory.read)[not computes]
            touched.pop(queue, None)
            touched[queue] = touch

    def host(self, footprint: int, known: Clock, *, ends: bool, sets: bool) -> None:
        """A host thread touches bytes. known: what it knows; ends: a buffer's life; sets: its writes are inputs."""
        for space, write in self._spaces[footprint]:
            if (memory := self._memories.get(space)) is not None:
                computing, transfers = memory.met(write, False), memory.met(write, True)
                if ends:
                    self._count("free", memory, known, computing + transfers)
                else:
                    self._count("transfer", memory, known, transfers)
                    if not write:
                        self._count("host_read", memory, known, computing)
            if write and sets and self._computing:
                self._count("input", self._anywhere, known, (self._computing,))

    def end(self, space: int) -> None:
        """A space is never accessed again."""
        self._memories.pop(space, None)

    def _memory(self, space: int) -> _Memory:
        memory = self._memories.get(space)
        if memory is None:
            memory = self._memories[space] = _Memory()
        return memory

    def _count(
        self, nature: WindowNature, memory: _Memory, known: Clock, met: tuple[_Touched, ...], actor: int | None = None
    ) -> None:
        """A window, if any of this work is not the actor's own and was issued since the last one."""
        since = memory.counted.get(nature, 0)
        closed = False
        for touched in met:
            for queue, (tick, issue) in reversed(touched.items()):
                if issue <= since:
                    break
                if queue == actor:
                    continue
                closed = True
                if tick > known.get(queue, 0):
                    self.all[nature] += 1
                    self.open[nature] += 1
                    memory.counted[nature] = self._issues
                    return
        if closed:
            self.all[nature] += 1
            memory.counted[nature] = self._issues
