"""Runs for these tests: made once, of the same few seeds."""

from __future__ import annotations

from functools import cache

from hbtrace.strata.model.simulate import Mix, Run, RunShape, simulate


@cache
def run(
    mode: str = "ring", *, stages: int = 2, windows: int = 2, seed: int = 0, fault: str = "", hashes: bool = False
) -> Run:
    return simulate(RunShape(mode=mode, stages=stages, windows=windows, fault=fault, state_hash=hashes), Mix(), seed)


def lines(text: str) -> list[bytes]:
    return text.encode().splitlines(keepends=True)
