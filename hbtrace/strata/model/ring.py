"""The snapshot ring's selector: which buffer a commit reads, which it writes, and what an undo goes back to.

What it is: the host's bookkeeping of one front stage (`pl_ring_sel`, `pl_ring_restore` and `pl_ring_settle` of the
engine), with the seeded bugs of its own, and the exhaustive search of it. What it is not: it moves no bytes and knows
no queue. The engine has two windows in flight and three buffers; depth d with d + 1 buffers is our generalization.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class RingSelection(NamedTuple):
    """What a commit is told: the two selection words, and what the host did to its records on the way."""

    src: int
    dst: int
    dropped: bool = False
    """The parity's old record was dropped before the choice."""
    recorded: int = -1
    """The buffer that became the window's record, -1 for none."""
    cleared: bool = False


@dataclass
class Selector:
    """The host's mirror of one front stage: the current buffer and a record for each window parity."""

    depth: int = 2
    fault: str = ""
    cur: int = 0
    records: list[int] = field(default_factory=list)
    """By parity: the buffer that holds what the window of that parity read, -1 for none."""

    def __post_init__(self) -> None:
        self.records = self.records or [-1] * self.depth

    @property
    def buffers(self) -> int:
        return self.depth + 1

    def speculative(self, parity: int) -> RingSelection:
        """A commit whose window may be undone: out of the current buffer into one neither current nor recorded."""
        src, old = self.cur, self.records[parity]
        dropped = old >= 0 and self.fault != "keep-own-parity-record"
        taken = {src, *(buffer for at, buffer in enumerate(self.records) if at != parity or not dropped)}
        # Stuck only with a wrong rule; a real engine would take some buffer too, and not stop.
        dst = (_free(self.buffers, taken) or _free(self.buffers, {src}))[0]
        if self.fault == "dst-ignores-records":  # of all choices that are as good without records, a recorded one
            dst = max(taken - {src, -1}, default=dst)
        if self.fault == "spec-in-place":
            dst = src
        self.records[parity] = src
        self.cur = dst
        return RingSelection(src, dst, dropped, src)

    def undo(self, parity: int) -> RingSelection:
        """Back to what the window of `parity` read; its commit is replayed there, in place."""
        buffer = self.records[parity]
        if self.fault == "undo-in-current" or buffer < 0:
            buffer = self.cur
        elif self.fault == "undo-wrong-parity":
            others = [b for at, b in enumerate(self.records) if at != parity and b >= 0]
            buffer = others[0] if others else buffer
        cleared = self.fault != "records-not-cleared"
        if cleared:
            self.records = [-1] * self.depth
        self.cur = buffer
        return RingSelection(buffer, buffer, cleared=cleared)

    def in_place(self) -> RingSelection:
        """Any other commit of the loop."""
        if self.fault == "serial-sel-00":
            self.cur = 0
        return RingSelection(self.cur, self.cur)

    def settle(self) -> int:
        """Back into the session's own buffer. Gives the buffer that must be copied there, 0 for none."""
        was, self.cur = self.cur, 0
        self.records = [-1] * self.depth
        return was


def _free(buffers: int, taken: set[int]) -> list[int]:
    return [buffer for buffer in range(buffers) if buffer not in taken]


class RingState(NamedTuple):
    """One state of the abstract machine: everything that the selector's next choice can depend on."""

    cur: int
    records: tuple[int, ...]
    live: tuple[int, ...]
    """Parities of the windows whose verdict is due, oldest first."""
    parity: int
    """Of the next window."""


@dataclass
class Explored:
    """All reachable states. `tight` holds the numbers of free buffers that a speculative commit found."""

    states: set[RingState] = field(default_factory=set)
    stuck: set[RingState] = field(default_factory=set)
    tight: set[int] = field(default_factory=set)


def explore(buffers: int = 3, depth: int = 2, *, keep_own: bool = False) -> Explored:
    """Search the machine exhaustively. keep_own: the wrong rule, which keeps its parity's old record when choosing."""
    start = RingState(0, (-1,) * depth, (), 0)
    found, todo = Explored({start}), [start]
    while todo:
        state = todo.pop()
        for follower in _followers(state, buffers, keep_own, found):
            if follower not in found.states:
                found.states.add(follower)
                todo.append(follower)
    return found


def _followers(state: RingState, buffers: int, keep_own: bool, found: Explored) -> list[RingState]:
    depth = len(state.records)
    following = (state.parity + 1) % depth
    cleared = (-1,) * depth
    out = []
    if len(state.live) < depth - 1:  # one more guess may be launched
        records = list(state.records)
        if not keep_own:
            records[state.parity] = -1
        free = _free(buffers, {state.cur, *records})
        found.tight.add(len(free))
        if free:
            records[state.parity] = state.cur
            out.append(RingState(free[0], tuple(records), (*state.live, state.parity), following))
        else:
            found.stuck.add(state)
    if state.live:
        oldest, *rest = state.live
        out.append(state._replace(live=tuple(rest)))  # on the path
        # A miss dooms every later window; the next one has the first doomed one's place.
        out.append(RingState(state.records[oldest], cleared, (), (oldest + 1) % depth))
    else:
        out.append(state._replace(parity=following))  # a commit in place
        out.append(RingState(0, cleared, (), 0))  # settled
    return out
