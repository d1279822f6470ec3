"""Which of a trace's own waits carry weight: leave one out and see whether a race appears.

A wait at which nobody learns anything orders nothing, which needs no replay. Every other one is left out of the
program, and the kernel runs again. Where there are very many, those of one program point are left out together: if no
race appears none of them carries weight, for less order never hides a race; else halves of them are tried, and so on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hbtrace.replay.kernel import Hit
from hbtrace.replay.program import STEP
from hbtrace.replay.recording import Pair, Recording, record
from hbtrace.replay.settings import Settings
from hbtrace.trace.vocabulary import WAITS

MOST: Final = 2000
"""Replays; of more waits those of one point are left out together at first."""
MOST_STEPS: Final = 5_000_000
"""Steps replayed for that: of a long trace there are fewer replays."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait, or several of one program point that were left out together.

    learns: whether anybody learns anything there. races: reports more without it. Of several, without all of them: any
    one of them may carry no weight.
    """

    rows: tuple[int, ...]
    event: str
    who: str
    whom: str
    learns: bool
    races: int

    @property
    def bears(self) -> bool:
        return self.races > 0


@dataclass(slots=True)
class Weighed:
    """All waits of a trace. together: there were too many to leave out one by one. unseen: what the recorder could not
    see (`Exercise.unseen`)."""

    waits: list[Wait]
    reports: int
    together: bool
    unseen: str = ""


def weigh(batches: Iterable[pa.RecordBatch], settings: Settings | None = None) -> Weighed:
    """Leave out each wait in turn, or where there are very many, first those of one point."""
    recording = record(batches, settings)
    recording.demand_accesses()
    found = _waits(recording)
    learning = [wait for wait in found if wait.learns]
    steps = sum(len(program.code) for program in recording.programs) // STEP
    most = min(MOST, max(1, MOST_STEPS // max(1, steps)))
    before = set(map(_pair, recording.hits))

    def tried(wait: Wait) -> Wait:
        return replace(wait, races=len(set(map(_pair, recording.without(wait.rows))) - before))

    together = len(learning) > most
    weighed = _narrowed(_by_point(learning), tried, most) if together else [tried(wait) for wait in learning]
    idle = [wait for wait in found if not wait.learns]
    waits = sorted([*weighed, *idle], key=lambda wait: wait.rows)
    return Weighed(waits, len(before), together, recording.exercise.unseen)


def _narrowed(points: list[Wait], tried: Callable[[Wait], Wait], most: int) -> list[Wait]:
    """All points, and of those that carry weight halves, as long as there are replays left. What carries none is told
    by point."""
    todo, spent = deque(points), 0
    bearing: list[Wait] = []
    spare: list[Wait] = []
    while todo:
        wait = tried(todo.popleft())
        spent += 1
        half = len(wait.rows) // 2
        if not wait.bears:
            spare.append(wait)
        elif half and spent + len(todo) + 2 <= most:
            todo += (replace(wait, rows=wait.rows[:half]), replace(wait, rows=wait.rows[half:]))
        else:
            bearing.append(wait)
    return bearing + _by_point(spare)


def _waits(recording: Recording) -> list[Wait]:
    """One for each row that is a wait, with whether it teaches anything."""
    found: dict[int, Wait] = {}
    waiting = recording.events.among(WAITS)
    learnt_at = (learnt for order in recording.orders for learnt in order.learnt)
    for (_, actor, other, _, row), learnt in zip(recording.steps(), learnt_at, strict=True):
        if not waiting[row]:
            continue
        ev = recording.events[row]
        who = recording.actors[actor]
        whom = recording.actors[other] if ev == "synchronize" else ""
        old = found.get(row)
        found[row] = Wait((row,), ev, who, whom, learnt or (old is not None and old.learns), 0)
    return list(found.values())


def _by_point(waits: list[Wait]) -> list[Wait]:
    points: dict[tuple[str, str, str], list[int]] = {}
    for wait in waits:
        points.setdefault((wait.event, wait.who, wait.whom), []).extend(wait.rows)
    return [Wait(tuple(sorted(rows)), *point, True, 0) for point, rows in points.items()]


def _pair(hit: Hit) -> Pair:
    return hit.row, hit.number, hit.earlier_row, hit.earlier_number
