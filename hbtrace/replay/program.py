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
from dataclasses import dataclass, field
from typing import Final

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


def _integers() -> array[int]:
    return array("q")


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
