"""Random requests as the host loop would serve them: any order of its steps that the loop's own rules allow.

The real loop takes the first thing that is ready; which one is ready first is a matter of timing, so the plan draws
among all that could be. It draws from its seed alone: copy and ring get the same plan.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from hbtrace.strata.model.steps import LoopStep, Request, RunShape

_REASONS: Final = ("penalties", "a coupled sampler", "logprobs", "a lookup chain")


@dataclass(frozen=True)
class Mix:
    """How requests are drawn. Shares are probabilities."""

    requests: int = 6
    windows: int = 8
    """Windows of a request on the verified path, at most."""
    tokens: int = 4
    hit: float = 0.6
    """A launched guess was right."""
    gate: float = 0.75
    """The gate lets a guess through, when there is a chance to launch one."""
    serial: float = 0.15
    force_miss: int = 0
    """Every so manieth guess is made wrong, 0 for none."""
    stopped: float = 0.25
    """A request is stopped from outside: its last window runs to its end and gets no verdict."""


@dataclass
class _PlannedWindow:
    seq: int
    tokens: int
    spec: bool
    forced: bool = False
    stage: int = 0
    running: bool = True


def plan(shape: RunShape, mix: Mix, seed: int) -> list[Request]:
    """The requests of a run, a pure function of its arguments but for shape's mode and fault."""
    rng = random.Random(seed)
    requests: list[Request] = []
    for number in range(mix.requests):
        before = requests[-1] if requests else None
        request = Request(number, finish=rng.choice(("stop", "stop", "length")))
        request.resume = before is not None and before.after == "park"
        request.fresh = before is None or (not request.resume and rng.random() < 0.3)
        request.after = rng.choice(("", "", "checkpoint", "park"))
        if before is not None and rng.random() < mix.serial:
            request.pipelined, request.why = False, rng.choice(_REASONS)
            for _ in range(rng.randint(1, max(2, mix.windows // 2))):
                tokens = rng.randint(1, mix.tokens)
                request.serial.append((tokens, rng.randint(1, tokens)))
        else:
            request.prompt = [rng.randint(1, mix.tokens) for _ in range(rng.randint(1, 2))]
            loop = _Loop(shape, mix, rng, stopped=rng.random() < mix.stopped)
            request.steps = loop.steps()
            if loop.stopped:
                request.finish = "stop"
        requests.append(request)
    return requests


@dataclass
class _Loop:
    """One pipelined request's decode loop."""

    shape: RunShape
    mix: Mix
    rng: random.Random
    stopped: bool = False
    flight: list[_PlannedWindow] = field(default_factory=list)
    """On the verified path so far, oldest first; the others are guesses."""
    doomed: list[_PlannedWindow] = field(default_factory=list)
    out: list[LoopStep] = field(default_factory=list)
    following: int = 0
    guesses: int = 0
    pending_undo: tuple[int, int] | None = None
    verdicts: int = 0
    clock: float = 0.0

    def steps(self) -> list[LoopStep]:
        budget = self.rng.randint(1, self.mix.windows)
        while self.verdicts < budget or self.flight or self.doomed or self.pending_undo is not None:
            choices = self._choices(budget)
            kind, window = self.rng.choice(choices)
            getattr(self, "_" + kind)(window, budget)
        return self.out

    def _choices(self, budget: int) -> list[tuple[str, _PlannedWindow | None]]:
        """All that the loop could do next."""
        choices: list[tuple[str, _PlannedWindow | None]] = [
            ("finish", window) for window in (*self.flight, *self.doomed) if window.running
        ]
        if self.pending_undo is not None:
            return choices or [("undo", None)]
        if not self.flight:
            return choices or [("launch", None)]
        newest = self.flight[-1]
        if len(self.flight) < self.shape.windows and (newest.stage > 0 or not newest.running):
            choices.append(("guess", None))
        choices += [("advance", one) for one in self.flight if not one.running and self._may_advance(one)]
        oldest = self.flight[0]
        if oldest.stage == self.shape.last and not oldest.running:
            choices.append(("verdict", oldest))
        return choices

    def _may_advance(self, window: _PlannedWindow) -> bool:
        """The next stage is free for a window; the last stage runs only what is oldest, hence on the path."""
        following = window.stage + 1
        if following > self.shape.last:
            return False
        at = self.flight.index(window)
        if at == 0:
            return True
        ahead = self.flight[at - 1]
        through = ahead.stage > following or (ahead.stage == following and not ahead.running)
        return following < self.shape.last and through

    def _say(self, op: str, **fields: int | bool) -> None:
        self.clock += self.rng.randint(50, 2000) / 1000
        self.out.append(LoopStep(op, time=round(self.clock, 3), **fields))  # type: ignore[arg-type]

    def _launch(self, _: _PlannedWindow | None, budget: int, spec: bool = False) -> None:
        window = _PlannedWindow(self.following, self.rng.randint(1, self.mix.tokens), spec)
        self.following += 1
        if spec:
            self.guesses += 1
            window.forced = self.mix.force_miss > 0 and self.guesses % self.mix.force_miss == 0
        self.flight.append(window)
        self._say("L", stage=0, seq=window.seq, tokens=window.tokens, spec=spec, forced=window.forced)

    def _guess(self, _: _PlannedWindow | None, budget: int) -> None:
        if self.rng.random() < self.mix.gate:
            self._launch(None, budget, spec=True)

    def _finish(self, window: _PlannedWindow | None, budget: int) -> None:
        assert window is not None
        window.running = False
        spec = {"spec": window.spec} if window.stage == 0 else {}
        self._say("F", stage=window.stage, seq=window.seq, tokens=window.tokens, **spec)
        if window in self.doomed:
            self.doomed.remove(window)

    def _advance(self, window: _PlannedWindow | None, budget: int) -> None:
        assert window is not None
        window.stage += 1
        window.running = True
        self._say("L", stage=window.stage, seq=window.seq, tokens=window.tokens)

    def _verdict(self, window: _PlannedWindow | None, budget: int) -> None:
        assert window is not None
        self.verdicts += 1
        if self.stopped and self.verdicts >= budget and len(self.flight) == 1:
            self.flight.clear()
            return
        ends = self.verdicts >= budget
        guess = self.flight[1] if len(self.flight) > 1 else None
        right = guess is not None and not guess.forced and self.rng.random() < self.mix.hit
        accepted = window.tokens - 1 if right else self.rng.randint(0, window.tokens - 1)
        on = 0 if guess is None else 1 if right else -1
        self._say("V", seq=window.seq, accepted=accepted, on=on)
        self.flight.pop(0)
        if on == -1 or (ends and guess is not None):
            self.pending_undo = (window.seq, accepted + 1)
            self.doomed = [window for window in self.flight if window.running]
            self.flight = []
            self.following = window.seq + 1

    def _undo(self, _: _PlannedWindow | None, budget: int) -> None:
        assert self.pending_undo is not None
        seq, keep = self.pending_undo
        self.pending_undo = None
        self._say("U", seq=seq, keep=keep)
