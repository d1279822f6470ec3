"""The order of a trace without its memory: what each step's actor knows of the others.

For those who ask about edges rather than bytes: coverage, checks, consequence, explanations. The kernel keeps the same
clocks while it replays memory; here what was known at every step stays, so that one pass over a program serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Program

NOTHING: Clock = {}


class Step(NamedTuple):
    """One step of the program, after it was done. See `program.py` for the operations."""

    op: int
    actor: int
    other: int
    """The actor joined or issued from, or the slot."""
    footprint: int
    row: int
    learnt: bool
    """Whether the actor knows more of others than before (for `RECORD` and `RELEASE`: whether the slot does)."""


@dataclass(slots=True)
class Order:
    """What the actors of a program knew, by its steps.

    ticks: the actor's own clock after the step. known: what it then knows of others; its own clock is not in it, and
    steps between which it learns nothing share one. learnt: as `Step.learnt`. For `DROP` and `END` 0, nothing, False.
    """

    ticks: Sequence[int]
    known: Sequence[Clock]
    learnt: Sequence[bool]

    def whole(self, step: int, actor: int) -> Clock:
        """What the step's actor knew, itself among it."""
        return {**self.known[step], actor: self.ticks[step]}


class Clocks:
    """Vector clocks of all actors, and what slots hold. Absent is 0.

    A clock that was handed out never changes: whoever learns gets a new one.
    """

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}
        self._known: dict[int, Clock] = {}
        self._slots: dict[int, Clock] = {}

    def tick(self, actor: int) -> int:
        """An actor's own clock."""
        return self._ticks.get(actor, 0)

    def known(self, actor: int) -> Clock:
        """What an actor knows of others; its own clock is not in it."""
        return self._known.get(actor, NOTHING)

    def knows(self, actor: int, other: int) -> int:
        """Up to which step of another an actor knows; of its own all."""
        return self.tick(actor) if actor == other else self.known(actor).get(other, 0)

    def whole(self, actor: int) -> Clock:
        """What an actor knows, itself among it."""
        return {**self.known(actor), actor: tick} if (tick := self.tick(actor)) else self.known(actor)

    def slot(self, slot: int) -> Clock:
        """What a slot holds."""
        return self._slots.get(slot, NOTHING)

    def step(self, op: int, actor: int, other: int) -> bool:
        """Do one step; whether anybody learnt something."""
        if op == QUEUE:
            learnt = self.learn(actor, self.known(other), other)
            self._ticks[actor] = self._ticks.get(actor, 0) + 1
            return learnt
        if op == HOST:
            self._ticks[actor] = self._ticks.get(actor, 0) + 1
            return False
        if op == JOIN:
            return self.learn(actor, self.known(other), other)
        if op == WAIT:
            return self.learn(actor, self.slot(other))
        if op == RECORD:
            before, self._slots[other] = self._slots.get(other), self.whole(actor)
            return self._slots[other] != before
        if op == RELEASE:
            held = self.slot(other)
            raised = _raised(held, self.whole(actor))
            self._slots[other] = raised
            return raised is not held
        if op == DROP:
            self._slots.pop(other, None)
        return False

    def learn(self, actor: int, news: Clock, source: int | None = None) -> bool:
        """The maximum with `news` and, if `source` is an actor, with its own clock; whether any of it is new."""
        known = self._known.get(actor, NOTHING)
        raised = known
        if source is not None and source != actor and (tick := self._ticks.get(source, 0)) > known.get(source, 0):
            raised = {**known, source: tick}
        for other, clock in news.items():
            if clock > raised.get(other, 0) and other != actor:
                if raised is known:
                    raised = dict(known)
                raised[other] = clock
        if raised is known:
            return False
        self._known[actor] = raised
        return True

    def order(self, program: Program) -> Order:
        """Do all steps of a program; what was known at each."""
        all_ticks: list[int] = []
        all_known: list[Clock] = []
        all_learnt: list[bool] = []
        ticks, known, learnt = all_ticks.append, all_known.append, all_learnt.append
        mine, knows = self._ticks, self._known
        for op, actor, other, _, _ in program.steps():
            if op == HOST:  # spelled out: the most frequent step learns nothing
                mine[actor] = tick = mine.get(actor, 0) + 1
                ticks(tick)
                known(knows.get(actor, NOTHING))
                learnt(False)
                continue
            learnt(self.step(op, actor, other))
            gone = op in (DROP, END)
            ticks(0 if gone else mine.get(actor, 0))
            known(NOTHING if gone else knows.get(actor, NOTHING))
        return Order(all_ticks, all_known, all_learnt)


def _raised(held: Clock, news: Clock) -> Clock:
    """The element-wise maximum; `held` itself where nothing is new."""
    raised = held
    for actor, clock in news.items():
        if clock > raised.get(actor, 0):
            if raised is held:
                raised = dict(held)
            raised[actor] = clock
    return raised
