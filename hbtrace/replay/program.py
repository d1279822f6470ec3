"""The flat program between lowering and kernel: integers only, no names, no Arrow, no events.

A `Program` is one chunk of a trace. Its `code` is an array of steps of five integers each:

| op        | a      | b      | f         | row | does                                               |
|-----------|--------|--------|-----------|-----|----------------------------------------------------|
| `HOST`    | thread |        | footprint | row | `VC[a][a] += 1`; the footprint's accesses          |
| `QUEUE`   | queue  | thread | footprint | row | `VC[a] |= VC[b]`; `VC[a][a] += 1`; the accesses    |
| `JOIN`    | actor  | actor  |           | row | `VC[a] |= VC[b]`                                   |
| `RECORD`  | queue  | slot   |           | row | `S[b] = VC[a]`                                     |
| `RELEASE` | actor  | slot   |           | row | `S[b] |= VC[a]`                                    |
| `WAIT`    | actor  | slot   |           | row | `VC[a] |= S[b]`                                    |
| `DROP`    |        | slot   |           | row | `S[b]` is forgotten                                |
| `END`     | space  |        |           | row | the space is never accessed again                  |
| `ALSO`    | actor  |        | footprint | row | more accesses of the epoch that the actor is in    |

Every step has the row of its event. Actors, slots, spaces (one a life of a buffer) and footprints are small integers
given out by the lowering; footprint -1 is none. A footprint is a list of pieces `(space, lo, hi, number, write)`:
half-open bytes, the access's number within its event, 0 or 1. All pieces of a footprint are accessed in one epoch, in
order. `ALSO` stands behind the `HOST` or `QUEUE` of its row; the lowering makes none, what-if replays do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

HOST: Final = 0
QUEUE: Final = 1
JOIN: Final = 2
RECORD: Final = 3
RELEASE: Final = 4
WAIT: Final = 5
DROP: Final = 6
END: Final = 7
ALSO: Final = 8

STEP: Final = 5
PIECE: Final = 5

_FEW: Final = 64
"""Pieces of a footprint that are not worth counting: all of them may overlap."""

Piece = tuple[int, int, int, int, int]
"""(space, lo, hi, number, write)"""


def _integers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Shape:
    """What a footprint's numbers do not say: which node each access is of, and which ranges are approximate."""

    nodes: list[int]
    approx: list[bool]


@dataclass(slots=True)
class Program:
    """One chunk: the steps, and the footprints that they use for the first time.

    `pieces[bounds[k]:bounds[k + 1]]` are the pieces of footprint `footprints[k]`, `PIECE` integers each.
    """

    code: array[int] = field(default_factory=_integers)
    footprints: array[int] = field(default_factory=_integers)
    bounds: array[int] = field(default_factory=lambda: array("q", [0]))
    pieces: array[int] = field(default_factory=_integers)
    forget_footprints: bool = False
    """The numbers of footprints given out before this chunk are void: they start again at 0."""
    shapes: dict[int, Shape] = field(default_factory=dict)
    """Of footprints defined here that are a graph's or have approximate ranges, by number."""

    @property
    def first_row(self) -> int:
        """The row of its first step, -1 without one."""
        return self.code[STEP - 1] if self.code else -1

    def steps(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(op, a, b, footprint, row)"""
        flat = iter(self.code)
        return zip(*[flat] * STEP, strict=True)

    def defined(self) -> Iterator[tuple[int, list[Piece]]]:
        """The footprints that are used here for the first time: number and pieces."""
        for index, number in enumerate(self.footprints):
            flat = iter(self.pieces[self.bounds[index] : self.bounds[index + 1]])
            yield number, list(zip(*[flat] * PIECE, strict=True))

    def overlaps(self) -> int:
        """What cutting its footprints into atoms comes to: each piece for each atom it lies over.

        Where ranges overlap in chains that is the square of their number.
        """
        sizes = zip(self.bounds, self.bounds[1:], strict=False)
        return sum(
            (end - start) // PIECE if end - start <= _FEW * PIECE else _overlaps(self.pieces[start:end])
            for start, end in sizes
        )


def _overlaps(pieces: array[int]) -> int:
    table = np.asarray(pieces, dtype=np.int64).reshape(-1, PIECE)
    order = np.argsort(table[:, 0], kind="stable")
    spaces, los, his = table[order, 0], table[order, 1], table[order, 2]
    found = 0
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(spaces)) + 1).tolist(), len(table)]):
        lo, hi = los[start:end], his[start:end]
        edges = np.unique(np.concatenate([lo, hi]))
        found += int((np.searchsorted(edges, hi) - np.searchsorted(edges, lo)).sum())
    return found
