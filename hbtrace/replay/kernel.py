"""The kernel: vector clocks and shadow memory over a flat program of integers.

It knows no names, no events and no Arrow: a `Program` goes in, `Hit`s come out. Its compiled twin has the same doors
and gives the same answers to the last count (`native_kernel.py`); who changes one changes both. The rules are those of
the contract's sections 3 and 4.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from hbtrace.replay.footprint import Atom, atoms
from hbtrace.replay.program import ALSO, DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, Program
from hbtrace.replay.shadow import Cell, Entry, Resident, Space, Stamp

RESIDENT_ATOMS: Final = 16
"""Footprints from this size on are kept resident; below, visiting every cell is as cheap as the bookkeeping."""

_CELLS_BEFORE_FORGETTING: Final = 4096
UNBOUNDED: Final = 1 << 62
"""More than any program does."""

READ_AFTER_WRITE: Final = 0
WRITE_AFTER_WRITE: Final = 1
WRITE_AFTER_READ: Final = 2

Clock = dict[int, int]
"""A vector clock; an actor it has nothing of is absent."""


class Hit(NamedTuple):
    """One race: a pair of accesses, each known by its row and its number in the event."""

    row: int
    number: int
    earlier_row: int
    earlier_number: int
    kind: int
    actor: int
    clock: int
    earlier_actor: int
    earlier_clock: int
    knows: int
    space: int
    lo: int
    hi: int
    bytes: int


class _EnoughError(Exception):
    """More was to be done than was allowed."""


class _Part(NamedTuple):
    """An atom with what the plain case needs at hand."""

    atom: Atom
    cells: dict[int, Cell]
    lo: int
    hi: int
    last_write: int
    last_read: int


class _Access:
    """The epoch being replayed: who, with what knowledge, and what it has met so far."""

    __slots__ = ("actor", "known", "met", "most", "stamp")

    def __init__(self, stamp: Stamp, known: Clock, most: int) -> None:
        self.actor = stamp[0]
        self.known = known
        self.stamp = stamp
        self.met: dict[tuple[int, int, int, int], list[int]] = {}
        self.most = most

    def check(self, atom: Atom, lo: int, hi: int, cell: Cell) -> bool:
        """Whether any access of the atom races with what the cell remembers of [lo, hi)."""
        actor, known, raced = self.actor, self.known, False
        write = cell.write
        if write is not None and write[0][0] != actor and write[0][1] > known.get(write[0][0], 0):
            for number in atom.reads:
                self._meet(number, write, READ_AFTER_WRITE, atom.space, lo, hi)
            if atom.first_write >= 0:
                self._meet(atom.first_write, write, WRITE_AFTER_WRITE, atom.space, lo, hi)
            raced = True
        if atom.first_write >= 0 and cell.reads:
            for other, read in cell.reads.items():
                if other != actor and read[0][1] > known.get(other, 0):
                    self._meet(atom.first_write, read, WRITE_AFTER_READ, atom.space, lo, hi)
                    raced = True
        return raced

    def _meet(self, number: int, earlier: Entry, kind: int, space: int, lo: int, hi: int) -> None:
        (other, clock, row), earlier_number = earlier
        pair = (number, row, earlier_number, kind)
        found = self.met.get(pair)
        if found is None:
            self.met[pair] = [other, clock, self.known.get(other, 0), space, lo, hi, hi - lo]
            if len(self.met) > self.most:
                raise _EnoughError
        else:
            found[4] = min(found[4], lo)
            found[5] = max(found[5], hi)
            found[6] += hi - lo

    def hits(self) -> list[Hit]:
        """What was met, sorted by the current access, then the earlier one."""
        return [
            Hit(self.stamp[2], number, row, earlier, kind, *self.stamp[:2], *facts)
            for (number, row, earlier, kind), facts in sorted(self.met.items())
        ]


def raise_to(known: Clock, news: Clock) -> bool:
    """The element-wise maximum, in place; whether there was anything new."""
    learnt = False
    for actor, clock in news.items():
        if clock > known.get(actor, 0):
            known[actor] = clock
            learnt = True
    return learnt


class Kernel:
    """Replays programs of one trace in order.

    closed: no actor can still appear that does not know all that actor 0 (the host) knows. Then what the host
    knows can never race again and is forgotten, and what the host itself does need not be remembered at all.
    """

    def __init__(self, *, closed: bool) -> None:
        self._closed = closed
        self._clocks: dict[int, Clock] = {}
        self._versions: dict[int, int] = {}
        """Counts what an actor learnt of others: a queue that saw the newest has nothing to join."""
        self._seen: dict[tuple[int, int], int] = {}
        self._slots: dict[int, Clock] = {}
        self._spaces: dict[int, Space] = {}
        self._footprints: dict[int, list[_Part]] = {}
        self._residents: dict[tuple[int, int], Resident] = {}
        self._sweep_at = _CELLS_BEFORE_FORGETTING
        self.visited = 0
        """Atoms looked at so far, and cells where an atom is not exactly one."""
        self._end = self._most = UNBOUNDED

    @property
    def cells(self) -> int:
        """How many are remembered."""
        return sum(len(space.starts) for space in self._spaces.values())

    @property
    def known(self) -> int:
        """The entries of all vector clocks."""
        return sum(map(len, self._clocks.values())) + sum(map(len, self._slots.values()))

    def run(self, program: Program, *, visits: int = UNBOUNDED, races: int = UNBOUNDED) -> list[Hit]:
        """Replay one chunk; the races in it, in order.

        Where more than so many `visits` or `races` would be made it ends at the first beyond, also amid a step; the
        counts tell, and the kernel is of no use any more.
        """
        hits: list[Hit] = []
        self._end, self._most = self.visited + visits, races
        with suppress(_EnoughError):
            self._define(program)
            self._steps(program, hits)
        return hits

    def _steps(self, program: Program, hits: list[Hit]) -> None:
        for op, a, b, footprint, row in program.steps():
            if op == QUEUE:
                known = self._issue(a, b)
                known[a] = known.get(a, 0) + 1
                if footprint >= 0:
                    self._access(a, known, footprint, row, hits)
            elif op == HOST:
                known = self._clock(a)
                known[a] = known.get(a, 0) + 1
                if footprint >= 0:
                    self._access(a, known, footprint, row, hits)
            elif op == JOIN:
                self._join(a, b)
            elif op == RECORD:
                self._slots[b] = dict(self._clock(a))
            elif op == RELEASE:
                raise_to(self._slots.setdefault(b, {}), self._clock(a))
            elif op == DROP:
                self._slots.pop(b, None)
            elif op == END:
                ended = self._spaces.pop(a, None)
                if ended is not None:
                    ended.clear()  # footprints still point at its cells
            elif op == ALSO:
                self._access(a, self._clock(a), footprint, row, hits)
            else:  # WAIT
                self._learn(a, self._slots.get(b, {}))

    def remembered(self) -> set[int]:
        """The rows whose accesses can still be met. Forgets what cannot."""
        self._forget()
        rows: set[int] = set()
        for space in self._spaces.values():
            for cell in space.cells.values():
                if cell.write is not None:
                    rows.add(cell.write[0][2])
                if cell.reads:
                    rows.update(read[0][2] for read in cell.reads.values())
        return rows

    # clocks

    def _clock(self, actor: int) -> Clock:
        found = self._clocks.get(actor)
        if found is None:
            found = self._clocks[actor] = {}
        return found

    def _issue(self, queue: int, thread: int) -> Clock:
        """`VC[queue] |= VC[thread]`; cheap where the thread only ticked since the queue last learnt from it."""
        known, version = self._clock(queue), self._versions.get(thread, 0)
        if self._seen.get((queue, thread)) != version:
            self._join(queue, thread)
            self._seen[queue, thread] = version
        elif (ticks := self._clock(thread).get(thread, 0)) > known.get(thread, 0):
            known[thread] = ticks
            self._versions[queue] = self._versions.get(queue, 0) + 1
        return known

    def _join(self, actor: int, other: int) -> None:
        self._learn(actor, self._clock(other))

    def _learn(self, actor: int, news: Clock) -> None:
        if raise_to(self._clock(actor), news):
            self._versions[actor] = self._versions.get(actor, 0) + 1

    # memory

    def _define(self, program: Program) -> None:
        if program.forget_footprints:
            self._footprints.clear()
            self._residents.clear()
            for space in self._spaces.values():
                for cell in space.cells.values():
                    cell.home = None  # no footprint speaks for it any more
        for number, pieces in program.defined():
            self._footprints[number] = [
                _Part(atom, self._space(atom.space).cells, atom.lo, atom.hi, atom.last_write, atom.last_read)
                for atom in atoms(pieces)
            ]

    def _space(self, number: int) -> Space:
        found = self._spaces.get(number)
        if found is None:
            found = self._spaces[number] = Space()
        return found

    def _access(self, actor: int, known: Clock, footprint: int, row: int, hits: list[Hit]) -> None:
        parts = self._footprints[footprint]
        stamp: Stamp = [actor, known[actor], row]
        host = self._closed and actor == 0
        small = len(parts) < RESIDENT_ATOMS
        self._count(len(parts) if small or host else 0)
        if small and not host:
            parts = self._plain(stamp, known, parts)
            if not parts:
                return
        access = _Access(stamp, known, self._most - len(hits))
        try:
            if host:
                for part in parts:
                    self._unremembered(access, part.atom)
            elif small:
                for part in parts:
                    self._visit(access, part.atom, (stamp, part.last_write), (stamp, part.last_read), None, 0)
            else:
                self._resident(access, footprint, parts)
        finally:
            if access.met:
                hits.extend(access.hits())

    def _count(self, visits: int) -> None:
        self.visited += visits
        if self.visited > self._end:
            raise _EnoughError

    @staticmethod
    def _plain(stamp: Stamp, known: Clock, parts: list[_Part]) -> list[_Part]:
        """Spell `_visit` out for the atoms that are one cell with nothing to race with; the others are returned."""
        actor = stamp[0]
        others: list[_Part] = []
        for part in parts:
            _, cells, lo, hi, last_write, last_read = part
            cell = cells.get(lo)
            if cell is not None and cell.hi == hi and cell.home is None:
                write, reads = cell.write, cell.reads
                if write is None or write[0][0] == actor or write[0][1] <= known.get(write[0][0], 0):
                    if last_write < 0:
                        if reads is None:
                            cell.reads = {actor: (stamp, last_read)}
                        else:
                            reads[actor] = (stamp, last_read)
                        continue
                    if reads is None or (len(reads) == 1 and actor in reads):
                        cell.write = (stamp, last_write)
                        cell.reads = None if last_read < 0 else {actor: (stamp, last_read)}
                        continue
            others.append(part)
        return others

    def _resident(self, access: _Access, footprint: int, parts: list[_Part]) -> None:
        """Visit only the atoms that something happened to since the last pass; the stamp speaks for the others."""
        key = (footprint, access.actor)
        resident = self._residents.get(key)
        if resident is None:
            resident = self._residents[key] = Resident(access.actor, len(parts))
        stamp = resident.stamp
        stamp[1:] = access.stamp[1:]
        stale, resident.stale = resident.stale, set()
        self._count(len(stale))
        for index in sorted(stale):
            atom = parts[index].atom
            self._visit(access, atom, (stamp, atom.last_write), (stamp, atom.last_read), resident, index)

    def _visit(
        self, access: _Access, atom: Atom, write: Entry, read: Entry, home: Resident | None, index: int
    ) -> None:
        """One atom of a remembered actor: check, then remember `write` and `read` where the atom has them."""
        space = self._space(atom.space)
        cell = space.cells.get(atom.lo)
        if cell is None or cell.hi != atom.hi:
            self._visit_many(access, space, atom, write, read, home, index)
            return
        raced = access.check(atom, atom.lo, atom.hi, cell) if cell.write is not None or cell.reads else False
        if cell.home is not None and cell.home is not home:
            cell.home.stale.add(cell.atom)
        if atom.last_write >= 0:
            cell.write = write
            cell.reads = {access.actor: read} if atom.last_read >= 0 else None
        elif cell.reads is None:
            cell.reads = {access.actor: read}
        else:
            cell.reads[access.actor] = read
        self._settle(cell, raced, home, index)

    @staticmethod
    def _settle(cell: Cell, raced: bool, home: Resident | None, index: int) -> None:
        if raced and home is not None:
            home.stale.add(index)  # the next pass races again and must be told
            home = None
        cell.home, cell.atom = home, index

    def _visit_many(
        self, access: _Access, space: Space, atom: Atom, write: Entry, read: Entry, home: Resident | None, index: int
    ) -> None:
        """As `_visit`, where the atom is not exactly one cell."""
        cells = space.cells
        inside = space.cut(atom.lo, atom.hi)
        self._count(len(inside))
        raced = False
        for start in inside:
            raced |= access.check(atom, start, cells[start].hi, cells[start])
        if atom.last_write >= 0:
            cell = Cell(atom.hi, write, {access.actor: read} if atom.last_read >= 0 else None)
            space.replace(inside, atom.lo, cell)
            self._settle(cell, raced, home, index)
            return
        at = atom.lo
        for start in [*inside, atom.hi]:
            if at < start:
                space.replace([], at, Cell(start, None, None))
            at = cells[start].hi if start < atom.hi else at
        inside = space.overlapping(atom.lo, atom.hi)
        for start in inside:
            cell = cells[start]
            if cell.home is not None and cell.home is not home:
                cell.home.stale.add(cell.atom)
            self._drop_known(cell)
            if cell.reads is None:
                cell.reads = {access.actor: read}
            else:
                cell.reads[access.actor] = read
            self._settle(cell, raced, home, index)
        space.merge(inside)

    def _unremembered(self, access: _Access, atom: Atom) -> None:
        """The host's own access in a closed world: checked, and what a write forgets is forgotten."""
        space = self._space(atom.space)
        cells = space.cells
        cell = cells.get(atom.lo)
        if cell is not None and cell.hi == atom.hi and atom.first_write >= 0:
            # The usual case: an input is set again as a whole. The cell stays, empty, for whoever reads it next.
            access.check(atom, atom.lo, atom.hi, cell)
            if cell.home is not None:
                cell.home.stale.add(cell.atom)
            cell.write = cell.reads = cell.home = None
            return
        inside = space.overlapping(atom.lo, atom.hi) if atom.first_write < 0 else space.cut(atom.lo, atom.hi)
        self._count(len(inside))
        for start in inside:
            cell = cells[start]
            access.check(atom, max(start, atom.lo), min(cell.hi, atom.hi), cell)
        if atom.first_write >= 0 and inside:
            space.replace(inside, inside[0], None)

    # forgetting

    def _drop_known(self, cell: Cell) -> None:
        """Forget what every actor there is, or can still be, already knows."""
        if not self._closed:
            return
        known = self._clock(0)
        write = cell.write
        if write is not None and write[0][1] <= known.get(write[0][0], 0):
            cell.write = None
        if cell.reads:
            alive = {actor: read for actor, read in cell.reads.items() if read[0][1] > known.get(actor, 0)}
            if len(alive) < len(cell.reads):
                cell.reads = alive or None

    def _forget(self) -> None:
        """Sweep all cells, but only when their number doubled since the last sweep. Residents' cells stay."""
        if not self._closed or self.cells < self._sweep_at:
            return
        for space in self._spaces.values():
            for cell in space.cells.values():
                if cell.home is None:
                    self._drop_known(cell)
            empty = [s for s, c in space.cells.items() if c.write is None and not c.reads and c.home is None]
            for start in empty:
                del space.cells[start]
            if empty:
                space.starts = sorted(space.cells)
            if space.starts:
                space.merge(list(space.starts))
        self._sweep_at = max(_CELLS_BEFORE_FORGETTING, 2 * self.cells)


