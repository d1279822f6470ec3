"""Windows: where races can be. Work was issued, and then somebody else touches the memory that it touches.

A window is open if the host thread that comes next, or issues what comes next, does not know that work to be done: then
something else than its waits kept the two apart, or nothing did. It tells no race from an order; the replay does.

Memory is told by the life of its buffer: slots of a ring and parts of a pipeline are neighbours there. Kernels and
computes depend on inputs wherever they read them from, so of all host writes those beside them count; transfers, and
whoever else meets work, only by the memory that both touch, one of them writing.
"""

from __future__ import annotations

from typing import Final, Literal

from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import PIECE, Program
from hbtrace.trace.vocabulary import COMPUTING, ENDS, HOST_WRITES

WindowNature = Literal["input", "host_read", "free", "transfer", "queues"]

WINDOWS: Final[dict[WindowNature, str]] = {
    "input": "input write",
    "host_read": "host read",
    "free": "free",
    "transfer": "transfer",
    "queues": "queue pair",
}
"""The natures of races that a run can have room for, in words."""

_Touch = tuple[int, int]
"""(tick of the queue, serial number among all work issued) of the newest work that touched something."""
_Touched = dict[tuple[int, bool], _Touch]
"""By (queue, whether it is a transfer), the newest last."""


class Windows:
    """Counts windows by nature, all of them and those that were open: one at most for each memory and issue of work."""

    def __init__(self) -> None:
        self.all: dict[WindowNature, int] = dict.fromkeys(WINDOWS, 0)
        self.open: dict[WindowNature, int] = dict.fromkeys(WINDOWS, 0)
        self._issues = 0
        self._counted: dict[tuple[WindowNature, int], int] = {}
        """Up to which issue windows of a memory were counted."""
        self._spaces: dict[int, tuple[tuple[int, bool], ...]] = {}
        """(space, write) of each footprint."""
        self._readers: dict[int, _Touched] = {}
        """By space."""
        self._writers: dict[int, _Touched] = {}
        self._computing: _Touched = {}

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

    def issued(self, queue: int, tick: int, ev: str | None, footprint: int, known: Clock, *, goes_on: bool) -> None:
        """Queued work that touches bytes. known: what its host thread knows; goes_on: when the call has returned."""
        spaces = self._spaces[footprint]
        for space, write in spaces:
            self._count("free" if ev in ENDS else "queues", space, known, self._met(space, write), queue)
        if not goes_on:
            return
        self._issues += 1
        key, touch = (queue, ev not in COMPUTING), (tick, self._issues)
        if ev in COMPUTING:
            self._computing.pop(key, None)
            self._computing[key] = touch
        for space, write in spaces:
            touched = (self._writers if write else self._readers).setdefault(space, {})
            touched.pop(key, None)
            touched[key] = touch

    def host(self, ev: str | None, split: int, footprint: int, known: Clock) -> None:
        """A host thread touches bytes. known: what it knows."""
        for space, write in self._spaces[footprint]:
            met = self._met(space, write)
            if met and ev in ENDS:
                self._count("free", space, known, met)
            elif met:
                self._count("transfer", space, known, met)
                if not write:
                    self._count("host_read", space, known, met)
            if write and split == -1 and ev in HOST_WRITES:
                self._count("input", _ANYWHERE, known, (self._computing,))

    def _met(self, space: int, write: bool) -> tuple[_Touched, ...]:
        """The work that an access of a space can race with."""
        sides = (self._writers, self._readers) if write else (self._writers,)
        return tuple(touched for side in sides if (touched := side.get(space)))

    def _count(
        self, nature: WindowNature, space: int, known: Clock, met: tuple[_Touched, ...], actor: int = -1
    ) -> None:
        """A window, if any of this work is of the nature, not the actor's, and was issued since the last one."""
        since, wanted = self._counted.get((nature, space), 0), _TRANSFERS.get(nature)
        closed = False
        for touched in met:
            for (queue, carries), (tick, issue) in reversed(touched.items()):
                if issue <= since:
                    break
                if queue == actor or wanted not in (None, carries):
                    continue
                closed = True
                if tick > known.get(queue, 0):
                    self.all[nature] += 1
                    self.open[nature] += 1
                    self._counted[nature, space] = self._issues
                    return
        if closed:
            self.all[nature] += 1
            self._counted[nature, space] = self._issues


_ANYWHERE: Final = -1
_TRANSFERS: Final[dict[WindowNature, bool]] = {"input": False, "host_read": False, "transfer": True}
"""Whether the work of a window carries bytes or computes, where that matters."""
