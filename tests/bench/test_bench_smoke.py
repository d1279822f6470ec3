"""The bench runs, and its workloads are what they say: races where there must be some, none elsewhere. No timing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.bench import workloads
from tests.bench.measure import ROOT, replay, scan


def test_the_quick_bench_runs_and_finds_what_it_must(tmp_path):
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "tests.bench", "--quick", "--json", str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(figures.read_text())
    for one in facts["workloads"]:
        assert one["workload"]["name"] in done.stdout
        assert one["wrong"] == ""
    told = {one["workload"]["name"]: one["replays"][0]["reports"] for one in facts["workloads"]}
    assert told == {
        "flat 64 KiB sync": 0, "flat 64 KiB racy": 48, "rows 4 of 64 KiB": 0, "graph loop": 0,
        "server hour": 0,
    }  # fmt: skip
    yardstick = next(one for one in facts["peers"] if one["peer"].startswith("plain-Python"))
    assert (yardstick["told"], yardstick["racy"]) == (0, 48)  # it has the contract's rules, so far as flat needs them


@pytest.mark.parametrize(
    "make", [lambda: workloads.rows(steps=8, racy=True), lambda: workloads.graph_loop(steps=20, racy=True)]
)
def test_a_workload_that_does_not_wait_has_all_its_races(make):
    # Without these twins, rows and the loop would look as sound if nothing of them were replayed.
    workload = make()
    assert workload.reports > 0
    assert replay(str(workload.path)) == (workload.events, workload.reports, 0)
    assert scan(str(workload.path)) == (workload.events, 0, 0)
