"""Strata's samples: made as sample_traces/README.md says, and what each is there to show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hbtrace.replay.session import analyze_events
from hbtrace.strata.checks.races import COPY_RACES, copy_race
from hbtrace.strata.model.simulate import Mix, RunShape, simulate
from hbtrace.trace.reader import open_trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"

MADE: dict[str, tuple[RunShape, Mix, int]] = {
    "strata_ring": (RunShape(), Mix(requests=2), 26),
    "strata_bug": (RunShape(fault="records-not-cleared"), Mix(requests=2), 26),
    "strata_copy": (RunShape(mode="copy"), Mix(requests=2, force_miss=3), 18),
}


def events(name: str) -> list[dict[str, Any]]:
    with open_trace(SAMPLES / f"src/{name}.jsonl") as trace:
        return list(trace)


def hbtrace(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "hbtrace", *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", MADE)
def test_made_as_told(name: str) -> None:
    shape, mix, seed = MADE[name]
    assert events(name) == simulate(shape, mix, seed).events, "sample_traces/README.md says how to make it anew"


def test_copy_mode_has_its_three_races_and_all_are_dead() -> None:
    reports = analyze_events(events("strata_copy")).reports
    assert {copy_race(report) for report in reports} == set(COPY_RACES)
    code, found = hbtrace("analyze", SAMPLES / "strata_copy.arrow")
    assert (code, found["races"], {report["consequence"] for report in found["reports"]}) == (1, 5, {"dead"})
    assert hbtrace("analyze", SAMPLES / "strata_copy.arrow", "--only", "live")[0] == 0


def test_the_bug_leaves_every_byte_right_and_one_rule_sees_it() -> None:
    bug, ring = (simulate(*MADE[name]) for name in ("strata_bug", "strata_ring"))
    assert bug.outcome() == ring.outcome()
    assert bug.differing(20) == 0
    assert hbtrace("analyze", SAMPLES / "strata_bug.arrow")[0] == 0
    for name, failed in (("strata_bug", {"strata.R6"}), ("strata_ring", set())):
        code, found = hbtrace("check", SAMPLES / f"{name}.arrow")
        assert {f["id"] for f in found["findings"] if f["severity"] != "info"} == failed
        assert code == bool(failed)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("strata_*")) < 200_000
