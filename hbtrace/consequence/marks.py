"""Bytes whose value a race can change, and by whom: the memory of the consequence analysis.

A mark is a set of sources, as bits of an integer, in two strengths: `sure`, and `maybe` where an approximate range
decides. A write removes marks only where it surely overwrites them in every schedule: it must know all who wrote them.
One of an approximate range removes none and makes none doubtful: what it may have left is called live, not unknown, for
`--only live` must rather show it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from hbtrace.consequence.work import Work
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import Piece


class Spans(NamedTuple):
    """Bytes of one space: disjoint spans in order, by their first bytes and their ends."""

    starts: list[int]
    ends: list[int]


def spans_of(pieces: Iterable[Piece]) -> dict[int, Spans]:
    """The bytes of pieces, by space."""
    found: dict[int, Spans] = {}
    for space, lo, hi, _, _ in sorted(pieces):
        spans = found.setdefault(space, Spans([], []))
        if spans.ends and lo <= spans.ends[-1]:
            spans.ends[-1] = max(spans.ends[-1], hi)
        else:
            spans.starts.append(lo)
            spans.ends.append(hi)
    return found


class Mark(NamedTuple):
    """sure, maybe: bits. writers: (actor, clock) of the writes that put them there."""

    sure: int
    maybe: int
    writers: frozenset[tuple[int, int]]

    def known_to(self, known: Clock) -> bool:
        return all(clock <= known.get(actor, 0) for actor, clock in self.writers)


class Marks:
    """The marks of one space: disjoint segments in order. work: what going over them is counted in; sources: how many
    its marks tell apart."""

    __slots__ = ("_ends", "_marks", "_sources", "_starts", "_work")

    def __init__(self, work: Work, sources: int) -> None:
        self._work = work
        self._sources = sources
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._marks: list[Mark] = []

    def __bool__(self) -> bool:
        return bool(self._starts)

    def _span(self, lo: int, hi: int) -> tuple[int, int]:
        """Which segments meet [lo, hi)."""
        first = bisect_right(self._ends, lo)
        last = max(first, bisect_left(self._starts, hi))
        self._work.spend(1 + last - first, self._sources)
        return first, last

    def meet(self, spans: Spans) -> bool:
        """Whether any of these bytes is marked."""
        few, many = (self._starts, self._ends), (spans.starts, spans.ends)
        if len(few[0]) > len(many[0]):
            few, many = many, few
        self._work.spend(len(few[0]))
        starts, ends = many
        for start, end in zip(*few, strict=True):
            at = bisect_right(ends, start)
            if at < len(starts) and starts[at] < end:
                return True
        return False

    def read(self, lo: int, hi: int) -> tuple[int, int]:
        """(sure, maybe) of all that is marked in [lo, hi)."""
        first, last = self._span(lo, hi)
        sure = maybe = 0
        for mark in self._marks[first:last]:
            sure |= mark.sure
            maybe |= mark.maybe
        return sure, maybe

    def write(self, lo: int, hi: int, new: Mark | None, known: Clock, *, surely: bool) -> None:
        """Overwrite [lo, hi) with what is marked by `new`; what `known` does not know, or may miss, stays."""
        first, last = self._span(lo, hi)
        if first == last and new is None:
            return
        out: list[tuple[int, int, Mark]] = []
        at = lo
        for start, end, mark in zip(
            self._starts[first:last], self._ends[first:last], self._marks[first:last], strict=True
        ):
            if start < lo:
                out.append((start, lo, mark))
            if new is not None and at < start:
                out.append((at, start, new))
            stays = None if surely and mark.known_to(known) else mark
            both = _join(stays, new)
            if both is not None:
                out.append((max(start, lo), min(end, hi), both))
            if end > hi:
                out.append((hi, end, mark))
            at = max(at, min(end, hi))
        if new is not None and at < hi:
            out.append((at, hi, new))
        self._starts[first:last] = [start for start, _, _ in out]
        self._ends[first:last] = [end for _, end, _ in out]
        self._marks[first:last] = [mark for _, _, mark in out]

    def forget(self, decided: int) -> None:
        """Drop the bits of sources that are judged, and segments that have no other."""
        self._work.spend(len(self._marks), self._sources)
        kept = [
            (start, end, Mark(mark.sure & ~decided, mark.maybe & ~decided, mark.writers))
            for start, end, mark in zip(self._starts, self._ends, self._marks, strict=True)
        ]
        kept = [entry for entry in kept if entry[2].sure or entry[2].maybe]
        self._starts = [start for start, _, _ in kept]
        self._ends = [end for _, end, _ in kept]
        self._marks = [mark for _, _, mark in kept]

    def size(self) -> int:
        """How many bytes are marked."""
        return sum(self._ends) - sum(self._starts)

    def all(self) -> tuple[int, int]:
        """(sure, maybe) of the whole space."""
        self._work.spend(len(self._marks), self._sources)
        sure = maybe = 0
        for mark in self._marks:
            sure |= mark.sure
            maybe |= mark.maybe
        return sure, maybe


def _join(old: Mark | None, new: Mark | None) -> Mark | None:
    if old is None or new is None:
        return old or new
    return Mark(old.sure | new.sure, old.maybe | new.maybe, old.writers | new.writers)
