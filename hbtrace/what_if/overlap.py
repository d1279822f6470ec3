"""How far the host runs ahead of its queues, and queues beside one another: what a wait costs, as far as a recording
tells.

A recording says when work was issued and when it was surely done, not how long it took. So this counts computes and
kernels in flight (issued and not yet waited for), the host's time beside them, and the pairs of two queues that nothing
orders: these may run at the same time, and a wait between queues makes fewer of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hbtrace.backends import is_done
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import DROP, END, JOIN, QUEUE, WAIT
from hbtrace.replay.recording import NO_TIME, Recording
from hbtrace.trace.vocabulary import COMPUTING


@dataclass(frozen=True, slots=True)
class Pace:
    """in_flight: most pieces of work of one queue that the host had issued and not waited for. beside: nanoseconds
    during which there was any, None if the trace has no times. side_by_side: pairs of pieces of work of two queues
    that are unordered."""

    in_flight: int
    beside: int | None
    side_by_side: int = 0


NOBODY: Final = -1


def pace_of(recording: Recording) -> Pace:
    """The pace of a recording, as the first host thread sees it."""
    host: Clock = {}
    behind: dict[int, deque[int]] = {}
    work: dict[int, list[int]] = {}
    pairs, work_rows = 0, recording.events.among(COMPUTING)
    most, beside, since, last, before = 0, 0, NO_TIME, -1, NOBODY
    done = {actor for actor, name in enumerate(recording.actors) if is_done(recording.queues.get(name, {}))}
    for op, actor, other, row, tick, known, learnt in _moments(recording):
        # Only now is the row before done: a synchronous backend's work is waited for within its row, right after it. A
        # row that a rule cut into parts has several pieces of work, and may have waits of the host between them.
        waits = actor == 0 and (op == WAIT or (op == JOIN and not (before == other and other in done)))
        if row != last or op == QUEUE or waits:
            most, last = max([most, *map(len, behind.values())]), row
            time = recording.time_at(row)
            if behind and since != NO_TIME and time > since:
                beside += time - since
            since = time if time != NO_TIME else since
        before = actor if op == QUEUE else NOBODY
        if actor == 0:
            host = known
        if op == QUEUE and work_rows[row]:
            # Each queue knows what the only host thread knows: work that this has waited for is beside nothing.
            others = behind if recording.closed else work
            pairs += _unordered(known, {queue: work[queue] for queue in others if queue != actor})
            work.setdefault(actor, []).append(tick)
            behind.setdefault(actor, deque()).append(tick)
        elif learnt and actor == 0 and behind:
            for queue, pieces in list(behind.items()):
                while pieces and pieces[0] <= host.get(queue, 0):
                    pieces.popleft()
                if not pieces:
                    del behind[queue]
    most = max([most, *map(len, behind.values())])
    return Pace(most, beside if since != NO_TIME else None, pairs)


def _moments(recording: Recording) -> Iterator[tuple[int, int, int, int, int, Clock, bool]]:
    """Each step of an actor, and what it then knows."""
    for program, order in zip(recording.programs, recording.orders, strict=True):
        steps = zip(program.steps(), order.ticks, order.known, order.learnt, strict=True)
        for (op, actor, other, _, row), tick, known, learnt in steps:
            yield op, actor if op not in (DROP, END) else NOBODY, other, row, tick, known, learnt


def _unordered(known: Clock, work: dict[int, list[int]]) -> int:
    """How many pieces of work of other queues are not known to one that is issued now; none of them knows it."""
    return sum(len(clocks) - bisect_right(clocks, known.get(queue, 0)) for queue, clocks in work.items())
