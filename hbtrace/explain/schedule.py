"""A machine for the program of a recording: any schedule that a real one may take, and what each access sees in it.

Each actor is a line of operations, one a step of the program. An operation may run when the one before it on its line
and what it waits for have run: the issuing host thread, the queue that is waited for, what an event holds. No clock is
kept here: what the vector clocks say is checked by running it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hbtrace.consequence.victims import Site
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Piece
from hbtrace.replay.recording import Recording


class Turn(NamedTuple):
    """A piece of a schedule: the accesses numbered [first, last) of an operation; all where an operation is whole."""

    operation: int
    first: int
    last: int


WHOLE = 1 << 62


@dataclass(slots=True)
class Operation:
    """actor, row: whose, and of which event. waits: operations that must have run."""

    op: int
    actor: int
    row: int
    footprint: int
    waits: tuple[int, ...]


@dataclass
class Lines:
    """All operations of a recording, in the order in which they were recorded."""

    operations: list[Operation] = field(default_factory=list)

    def ancestors(self, operation: int, since: int) -> set[int]:
        """What must run before an operation, of those recorded from `since` on."""
        found: set[int] = set()
        todo = list(self.operations[operation].waits)
        while todo:
            at = todo.pop()
            if at >= since and at not in found:
                found.add(at)
                todo.extend(self.operations[at].waits)
        return found

    def at(self, row: int, actor: int, clock_op: tuple[int, ...] = (HOST, QUEUE)) -> list[int]:
        """The operations of an actor in a row that may touch memory."""
        return [
            index
            for index, its in enumerate(self.operations)
            if its.row == row and its.actor == actor and its.op in clock_op and its.footprint >= 0
        ]


def lines_of(recording: Recording) -> Lines:
    """The operations of a recording and what each waits for (contract, section 3, as a machine does it)."""
    out = Lines()
    newest: dict[int, int] = {}
    slots: dict[int, tuple[int, ...]] = {}
    for op, actor, other, footprint, row in recording.steps():
        if op in (DROP, END):
            slots.pop(other, None) if op == DROP else None
            continue
        own = (newest[actor],) if actor in newest else ()
        if op in (RECORD, RELEASE):
            slots[other] = own if op == RECORD else (*slots.get(other, ()), *own)
            continue
        seen = slots.get(other, ()) if op == WAIT else ()
        if op in (QUEUE, JOIN) and other in newest:
            seen = (newest[other],)
        newest[actor] = len(out.operations)
        out.operations.append(Operation(op, actor, row, footprint, (*own, *seen)))
    return out


class IllegalError(Exception):
    """A schedule that no machine takes."""


@dataclass
class Seen:
    """What a schedule did to the bytes that are watched: versions are the sites of writes, None for what was before."""

    reads: dict[Site, list[Site | None]] = field(default_factory=dict)
    memory: list[Site | None] = field(default_factory=list)


class Machine:
    """Runs schedules of a recording, watching [lo, hi) of one space, by stretches that are always written as one."""

    def __init__(self, recording: Recording, lines: Lines, space: int, lo: int, hi: int) -> None:
        self._lines = lines
        self._touches: dict[int, list[tuple[int, bool, int, int]]] = {}
        edges = {lo, hi}
        table: dict[int, list[Piece]] = {}
        index = 0
        for program in recording.programs:
            if program.forget_footprints:
                table.clear()
            for number, pieces in program.defined():
                table[number] = [p for p in pieces if p[0] == space and p[1] < hi and lo < p[2]]
            for op, _, _, footprint, _ in program.steps():
                if op in (DROP, END, RECORD, RELEASE):
                    continue
                if op in (HOST, QUEUE) and footprint >= 0 and table[footprint]:
                    cut = [(n, bool(w), max(a, lo), min(b, hi)) for _, a, b, n, w in table[footprint]]
                    self._touches[index] = cut
                    edges.update(edge for _, _, a, b in cut for edge in (a, b))
                index += 1
        self._edges = sorted(edges)
        self._place = {edge: k for k, edge in enumerate(self._edges)}

    def run(self, schedule: Iterable[Turn]) -> Seen:
        """Run a schedule. Raises IllegalError if something runs before what it waits for, or not all of it."""
        done = bytearray(len(self._lines.operations))
        part: dict[int, int] = {}
        seen = Seen(memory=[None] * (len(self._edges) - 1))
        for operation, first, last in schedule:
            its = self._lines.operations[operation]
            if done[operation] or part.get(operation, 0) != first:
                raise IllegalError(f"row {its.row} runs twice, or not in its order")
            if not all(done[wait] for wait in its.waits):
                raise IllegalError(f"row {its.row} runs before what it waits for")
            self._touch(operation, first, last, seen)
            part[operation] = last
            done[operation] = last == WHOLE
        if not all(done):
            raise IllegalError("not everything has run")
        return seen

    def _touch(self, operation: int, first: int, last: int, seen: Seen) -> None:
        row = self._lines.operations[operation].row
        for number, write, lo, hi in self._touches.get(operation, ()):
            if first <= number < last:
                low, high = self._place[lo], self._place[hi]
                if write:
                    seen.memory[low:high] = [(row, number)] * (high - low)
                else:
                    seen.reads.setdefault((row, number), []).extend(seen.memory[low:high])
