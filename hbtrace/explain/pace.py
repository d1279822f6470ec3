"""How far the host runs ahead of its queues: what a wait costs, as far as a recording tells.

A recording says when work was issued and when it was surely done, not how long it took. So this counts computes and
kernels in flight (issued and not yet waited for), and the host's time beside them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from hbtrace.explain.recording import NO_TIME, Recording
from hbtrace.replay.order import Clocks
from hbtrace.replay.program import QUEUE


@dataclass(frozen=True, slots=True)
class Pace:
    """in_flight: most pieces of work of one queue that the host had issued and not waited for. beside: nanoseconds
    during which there was any, None if the trace has no times."""

    in_flight: int
    beside: int | None


_WORK: Final = frozenset({"compute", "kernel"})


def pace_of(recording: Recording) -> Pace:
    """The pace of a recording, as the first host thread sees it."""
    clocks = Clocks()
    host = clocks.of(0)
    behind: dict[int, deque[int]] = {}
    most, beside, since, last = 0, 0, NO_TIME, -1
    for op, actor, other, _, row in recording.steps():
        # Only now is the row before done: a synchronous backend's work is waited for within its row. A row that a rule
        # cut into parts has several pieces of work.
        if row != last or op == QUEUE:
            most, last = max([most, *map(len, behind.values())]), row
            time = recording.time_at(row)
            if behind and since != NO_TIME and time > since:
                beside += time - since
            since = time if time != NO_TIME else since
        learnt = clocks.step(op, actor, other)
        if op == QUEUE and recording.events[row] in _WORK:
            behind.setdefault(actor, deque()).append(clocks.of(actor)[actor])
        elif learnt and actor == 0 and behind:
            for queue, pieces in list(behind.items()):
                while pieces and pieces[0] <= host.get(queue, 0):
                    pieces.popleft()
                if not pieces:
                    del behind[queue]
    most = max([most, *map(len, behind.values())])
    return Pace(most, beside if since != NO_TIME else None)
