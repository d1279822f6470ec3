"""A footprint cut into atoms: disjoint spans over which the same accesses of one epoch lie.

Because all accesses of a footprint belong to one actor and one epoch, only two things about an atom matter to shadow
memory: which accesses meet what was there before (all up to and including the first write), and what is remembered
afterwards (the last write, and the last read after it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple


class Atom(NamedTuple):
    """Bytes [lo, hi) of a space. Numbers are those of accesses within the event, -1 for none."""

    space: int
    lo: int
    hi: int
    reads: tuple[int, ...]
    """Reads before the first write: they meet the remembered write."""
    first_write: int
    """It meets the remembered write and the remembered reads."""
    last_write: int
    last_read: int
    """The last read after the last write."""


Pieces = Iterable[tuple[int, int, int, int, int]]
"""(space, lo, hi, number, write), in the order of the accesses."""


def atoms(pieces: Pieces) -> list[Atom]:
    """The atoms of a footprint, sorted by space and place."""
    ordered = sorted(pieces, key=itemgetter(0, 1))
    result: list[Atom] = []
    start, reach = 0, None
    for index, (space, lo, hi, _, _) in enumerate(ordered):
        if reach is not None and (space, lo) < reach:
            reach = max(reach, (space, hi))
        else:
            result.extend(_sweep(ordered[start:index]))
            start, reach = index, (space, hi)
    result.extend(_sweep(ordered[start:]))
    return result


def _sweep(cluster: list[tuple[int, int, int, int, int]]) -> Iterator[Atom]:
    """Atoms of pieces that overlap in a chain."""
    if len(cluster) <= 1:
        for space, lo, hi, number, write in cluster:
            yield _atom(space, lo, hi, [(number, write)])
        return
    space = cluster[0][0]
    edges = sorted({edge for _, lo, hi, _, _ in cluster for edge in (lo, hi)})
    active: list[tuple[int, int, int]] = []  # (number, write, hi)
    upcoming = 0
    for lo, hi in pairwise(edges):
        if active:
            active = [access for access in active if access[2] > lo]
        while upcoming < len(cluster) and cluster[upcoming][1] <= lo:
            _, _, end, number, write = cluster[upcoming]
            active.append((number, write, end))
            upcoming += 1
        if active:
            yield _atom(space, lo, hi, sorted({(number, write) for number, write, _ in active}))


def _atom(space: int, lo: int, hi: int, accesses: list[tuple[int, int]]) -> Atom:
    reads: list[int] = []
    first_write = last_write = last_read = -1
    for number, write in accesses:
        if write:
            if first_write < 0:
                first_write = number
            last_write, last_read = number, -1
        else:
            last_read = number
            if first_write < 0:
                reads.append(number)
    return Atom(space, lo, hi, tuple(reads), first_write, last_write, last_read)
