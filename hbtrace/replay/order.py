"""The order of a trace without its memory: every step of the program with what its actor knows then.

For those who ask about edges rather than bytes: checks, explanations. The kernel does the same while it replays
memory; here each step can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from hbtrace.replay.kernel import Clock, raise_to
from hbtrace.replay.lower import Lowering
from hbtrace.replay.program import DROP, HOST, JOIN, QUEUE, RECORD, RELEASE, STEP, WAIT


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
class Clocks:
    """Vector clocks of all actors, and what slots hold. Absent is 0."""

    actors: dict[int, Clock] = field(default_factory=dict)
    slots: dict[int, Clock] = field(default_factory=dict)

    def of(self, actor: int) -> Clock:
        """What an actor knows, itself among it."""
        return self.actors.setdefault(actor, {})

    def step(self, op: int, actor: int, other: int) -> bool:
        """Do one step; whether anybody learnt something."""
        if op in (QUEUE, HOST):
            learnt = raise_to(self.of(actor), self.of(other)) if op == QUEUE else False
            self.of(actor)[actor] = self.of(actor).get(actor, 0) + 1
            return learnt
        if op == JOIN:
            return raise_to(self.of(actor), self.of(other))
        if op == WAIT:
            return raise_to(self.of(actor), self.slots.get(other, {}))
        if op == RELEASE:
            return raise_to(self.slots.setdefault(other, {}), self.of(actor))
        if op == RECORD:
            before, self.slots[other] = self.slots.get(other), dict(self.of(actor))
            return self.slots[other] != before
        if op == DROP:
            self.slots.pop(other, None)
        return False


def walk(
    batches: Iterable[pa.RecordBatch], lowering: Lowering, clocks: Clocks | None = None
) -> Iterator[tuple[Step, Clocks]]:
    """Every step of a trace in order, and the clocks after it (live: copy what is to be kept).

    `lowering` is the caller's: after a step, its names, its `event(row)` for rows of the newest batch and its
    templates tell what the step was.
    """
    clocks = Clocks() if clocks is None else clocks
    for batch in batches:
        steps = iter(lowering.lower(batch).code)
        for op, actor, other, footprint, row in zip(*[steps] * STEP, strict=True):
            learnt = clocks.step(op, actor, other)
            yield Step(op, actor, other, footprint, row, learnt), clocks
