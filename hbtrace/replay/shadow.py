"""Shadow memory: for each byte of a space its last write and, since then, the newest read of each actor.

Bytes with the same history share a cell. Cells of a space are disjoint and sorted; where there is none, nothing is
remembered. This module moves and cuts cells; what an access means is the kernel's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

Stamp = list[int]
"""[actor, clock, row] of an epoch. A resident footprint moves its stamp on instead of visiting its cells."""

Entry = tuple[Stamp, int]
"""An access: its epoch and its number within the event."""


class Resident:
    """A large footprint as an actor last accessed it: which of its atoms need a visit before the stamp may move on.

    An atom is fresh while nobody else touched its cells since and none of its accesses raced; then the next
    pass over it can change nothing but the stamp.
    """

    __slots__ = ("stale", "stamp")

    def __init__(self, actor: int, size: int) -> None:
        self.stamp: Stamp = [actor, 0, 0]
        self.stale = set(range(size))


class Cell:
    """What is remembered of the bytes up to `hi`; its place in `Space.cells` says from where."""

    __slots__ = ("atom", "hi", "home", "reads", "write")

    def __init__(self, hi: int, write: Entry | None, reads: dict[int, Entry] | None) -> None:
        self.hi = hi
        self.write = write
        self.reads = reads
        self.home: Resident | None = None
        self.atom = 0


class Space:
    """The cells of one life of a buffer, by their first byte."""

    __slots__ = ("cells", "starts")

    def __init__(self) -> None:
        self.cells: dict[int, Cell] = {}
        self.starts: list[int] = []

    def clear(self) -> None:
        """Forget everything: the space is not accessed again."""
        self.cells.clear()
        self.starts.clear()

    def overlapping(self, lo: int, hi: int) -> list[int]:
        """First bytes of the cells that share a byte with [lo, hi)."""
        starts = self.starts
        first = bisect_right(starts, lo) - 1
        if first < 0 or self.cells[starts[first]].hi <= lo:
            first += 1
        return starts[first : bisect_left(starts, hi, first)]

    def cut(self, lo: int, hi: int) -> list[int]:
        """Like `overlapping`, after cutting the cells that reach over an edge: none does any more."""
        inside = self.overlapping(lo, hi)
        if inside:
            if inside[0] < lo:
                self._cut_at(inside[0], lo)
                inside[0] = lo
            if self.cells[inside[-1]].hi > hi:
                self._cut_at(inside[-1], hi)
        return inside

    def _cut_at(self, start: int, at: int) -> None:
        left = self.cells[start]
        right = Cell(left.hi, left.write, dict(left.reads) if left.reads else None)
        right.home, right.atom = left.home, left.atom
        left.hi = at
        self.cells[at] = right
        self.starts.insert(bisect_left(self.starts, at), at)

    def replace(self, inside: list[int], lo: int, cell: Cell | None) -> None:
        """Put one cell, or none, in the place of neighbours that were cut out before; mark their homes."""
        cells, starts = self.cells, self.starts
        for start in inside:
            old = cells.pop(start)
            if old.home is not None:
                old.home.stale.add(old.atom)
        first = bisect_left(starts, lo)
        starts[first : first + len(inside)] = [] if cell is None else [lo]
        if cell is not None:
            cells[lo] = cell

    def merge(self, inside: list[int]) -> None:
        """Join neighbours among these cells that remember the same."""
        cells = self.cells
        kept = [inside[0]]
        gone = 0
        left = cells[inside[0]]
        for start in inside[1:]:
            cell = cells[start]
            same = left.hi == start and left.write == cell.write and left.reads == cell.reads
            if same and left.home is cell.home and left.atom == cell.atom:
                left.hi = cell.hi
                del cells[start]
                gone += 1
            else:
                kept.append(start)
                left = cell
        if gone:
            first = bisect_left(self.starts, inside[0])
            self.starts[first : first + len(inside)] = kept
