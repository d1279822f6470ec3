"""`simulate strata`: an executable model of the pipelined loop with its snapshot copy or ring.

    run = simulate(Shape(mode="ring"), plan(...))
    run.events          # a trace of the contract
    run.outcome("random", seed=3)   # real bytes under a schedule

The loop of two stages and depth 2 follows the engine's source; more stages and depth 3 are a model of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from hbtrace.strata.model.engine import StrataEngine
from hbtrace.strata.model.plan import Mix, plan
from hbtrace.strata.model.schedules import carry_out
from hbtrace.strata.model.steps import Request, RunShape

__all__ = ["Mix", "Request", "Run", "RunOutcome", "RunShape", "plan", "simulate"]


@dataclass(frozen=True)
class RunOutcome:
    """What a schedule of a run left and showed; two are equal if no byte differs."""

    state: bytes
    """The session's own buffer of every stage, and its cells."""
    replies: tuple[bytes, ...]
    hashes: tuple[tuple[tuple[str, int], ...], ...]
    saved: tuple[bytes, ...]

    @property
    def digest(self) -> str:
        parts = [self.state, *self.replies, repr(self.hashes).encode(), *self.saved]
        return blake2b(b"".join(len(part).to_bytes(8, "little") + part for part in parts), digest_size=8).hexdigest()


class Run:
    """A simulated run: its events, and its bytes under any schedule."""

    def __init__(self, shape: RunShape, requests: Sequence[Request]) -> None:
        self.shape = shape
        self.requests = list(requests)
        self.engine = StrataEngine(shape, self.requests)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.engine.tape.rows

    def showed(self) -> bool:
        """Whether the planted fault made any row another than a sound run has."""
        return Run(replace(self.shape, fault=""), self.requests).events != self.events

    def outcome(self, schedule: str = "recorded", seed: int = 0) -> RunOutcome:
        """Carry the run out under a schedule."""
        seen = self.engine.seen
        seen.clear()
        memory = carry_out(self.engine.tape, schedule, seed)
        stages = self.engine.stages
        state = b"".join(bytes(memory[name]) for stage in stages for name in (stage.session, stage.cells))
        return RunOutcome(
            state,
            tuple(bytes(reply) for _, reply in sorted(seen.replies.items())),
            tuple(tuple(items.items()) for _, items in sorted(seen.hashes.items())),
            tuple(seen.saved),
        )

    def differing(self, schedules: int, seed: int = 0) -> int:
        """How many of so many random schedules end or show something else than the recorded one."""
        expected = self.outcome()
        return sum(self.outcome("random", seed + number) != expected for number in range(schedules))


def simulate(shape: RunShape, mix: Mix, seed: int = 0) -> Run:
    """A run of random requests. The same seed gives the same requests in either mode and with any fault."""
    return Run(shape, plan(replace(shape, fault=""), mix, seed))
