"""What definitions make: backends, buffers, tensors, as the replay keeps them.

Not a reader and not a replay: plain records, with a stand-in for what was never defined (contract section 3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backend:
    """One queue: an actor of its own, also where its id was in use before."""

    actor: int
    device: str | None = None
    synchronous: bool = False
    drains: frozenset[str] = frozenset()
    live: bool = True


@dataclass(slots=True)
class Buffer:
    """One life of a buffer id. `size` is None for an id never defined: such a buffer has no bounds."""

    ident: int
    space: int
    size: int | None = None
    host: bool = False
    owner: int = -1
    device: str | None = None
    weights: bool = False
    dead: bool = False
    touched: Touched | None = None


@dataclass(slots=True)
class Tensor:
    """Where a tensor lies from its newest row on. `size` is None where it reaches to the end of its buffer."""

    buffer: int
    offset: int
    size: int | None
    view_of: int


@dataclass(slots=True)
class Touched:
    """The bytes of a never-defined buffer that were accessed so far: disjoint, sorted, merged where they meet."""

    spans: list[tuple[int, int]] = field(default_factory=list)

    def add(self, lo: int, hi: int) -> None:
        spans = self.spans
        first = bisect_left(spans, lo, key=lambda span: span[1])
        last = bisect_right(spans, hi, lo=first, key=lambda span: span[0])
        if first < last:
            lo, hi = min(lo, spans[first][0]), max(hi, spans[last - 1][1])
        spans[first:last] = [(lo, hi)]
