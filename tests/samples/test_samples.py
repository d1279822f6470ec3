"""The sample traces: what they show, and that they are what their sources say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hbtrace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"

COUNTS = {
    "discrete": (0, 0),
    "integrated": (30, 5),
    "pipeline_cuda": (9, 1),
    "ring2_three_in_flight": (1, 1),
    "ring2_waited": (0, 0),
    "seed": (1, 1),
    "seed_mended": (0, 0),
    "strata_bug": (0, 0),
    "strata_copy": (5, 3),
    "strata_ring": (0, 0),
    "tour_large_ubatch": (0, 0),
    "tour_prepare_forgotten": (15, 5),
    "tour_quarantine_off": (7, 1),
    "tour_ring_off": (15, 5),
    "tour_ring_on": (0, 0),
    "tour_uid_not_stamped": (0, 0),
}

TOUR = {
    "tour_ring_on": ([], set(), "exercised"),
    "tour_ring_off": (["--ring", "0"], {"hazard", "prepare-missing"}, "exercised"),
    "tour_prepare_forgotten": (["--fault", "prepare-forgotten"], {"prepare-missing"}, "partly"),
    "tour_uid_not_stamped": (["--fault", "uid-not-stamped"], {"stale-uid"}, "exercised"),
    "tour_quarantine_off": (["--fault", "quarantine-off"], {"memory-reuse"}, "exercised"),
    "tour_large_ubatch": (["--ubatch", "128"], set(), "not-exercised"),
}
"""Name -> what it was simulated with, what `check` finds, what the run is worth."""

SEED_REPORT = """\
RACE (write-after-read) on ROCm_Host[0, 2048)
  read  ROCm0#2  @3  split 0   inp_tokens (compute)
  write HOST     @5  split -1  inp_tokens (tensor_set)
  no happens-before edge: HOST knows ROCm0#2@2, needs >=3
"""


def run(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hbtrace", *map(str, arguments)]
    return subprocess.run(command, cwd=SAMPLES.parent, env=env, capture_output=True, check=False, encoding="utf-8")


def analyzed(name: str, *options: str) -> dict[str, Any]:
    done = run("analyze", SAMPLES / f"{name}.arrow", "--format", "json", "--strict", *options)
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if result["shown"] else 0), done.stderr
    return result


def test_all_are_here() -> None:
    # Those that the recorder wrote have no other source than a run: test_recorded.py and test_cuda.py have them.
    made = [path for path in SAMPLES.glob("*.arrow") if not path.stem.startswith(("recorded_", "cuda_"))]
    sources = list(SAMPLES.glob("src/*.jsonl"))
    assert sorted(path.stem for path in made) == sorted(COUNTS)
    assert sorted(path.stem for path in sources) == sorted(COUNTS)
    assert sum(path.stat().st_size for path in (*made, *sources)) < 2_000_000


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    result = analyzed(name)
    assert (result["races"], result["distinct"]) == COUNTS[name]
    assert result["warnings"] == []


@pytest.mark.parametrize("name", COUNTS)
def test_the_readme_says_the_same(name: str) -> None:
    rows = [line.split("|") for line in (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()]
    (row,) = [row for row in rows if len(row) > 4 and row[1].strip() == f"`{name}`"]
    assert (int(row[3]), int(row[4])) == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_a_sample_is_what_its_source_says(name: str) -> None:
    with hbtrace.open(SAMPLES / f"{name}.arrow") as sample, hbtrace.open(SAMPLES / f"src/{name}.jsonl") as source:
        assert sample.table().equals(source.table())
        assert source.meta["notes"]


@pytest.mark.parametrize("name", COUNTS)
def test_converting_gives_the_same_bytes_whatever_memory_held(name: str, tmp_path: Path) -> None:
    # A null slot is easily left as the allocator gave it: fill its memory with something else each time.
    made = []
    for fill in ("1", "170"):
        target = tmp_path / f"{fill}.arrow"
        environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_PERTURB_": fill}
        done = run("convert", SAMPLES / f"src/{name}.jsonl", target, env=environment)
        assert done.returncode == 0, done.stderr
        made.append(target.read_bytes())
    assert made[0] == made[1]


def test_the_seed_s_report_to_the_byte() -> None:
    done = run("analyze", SAMPLES / "seed.arrow")
    assert done.stdout.startswith(SEED_REPORT + "\n")
    assert done.stderr == ""


def test_integrated_races_on_its_inputs_at_each_boundary() -> None:
    result = analyzed("integrated", "--all")
    inputs = {"inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask"}
    where = {(report["current"]["tensor"], report["current"]["ubatch"]) for report in result["reports"]}
    assert where == {(name, ubatch) for name in inputs for ubatch in range(1, 7)}


def test_pipeline_cuda_races_from_the_fifth_ubatch_on() -> None:
    result = analyzed("pipeline_cuda", "--all")
    assert [report["current"]["ubatch"] for report in result["reports"]] == list(range(4, 13))
    assert {report["current"]["label"] for report in result["reports"]} == {"copy_async dst"}


@pytest.mark.parametrize("name", TOUR)
def test_the_tour(name: str, tmp_path: Path) -> None:
    options, expected, verdict = TOUR[name]
    made = tmp_path / "made.jsonl"
    shape = ("--prompt", "128", "--decode", "2", "--layers", "1", "--schedules", "0")
    assert run("simulate", "ggml", *shape, *options, "-o", made).returncode == 0
    source = SAMPLES / f"src/{name}.jsonl"
    assert made.read_bytes() == source.read_bytes(), "sample_traces/README.md says how to make it anew"
    done = run("check", SAMPLES / f"{name}.arrow", "--format", "json")
    found = json.loads(done.stdout)
    assert {finding["id"] for finding in found["findings"] if finding["severity"] != "info"} == expected
    assert found["coverage"]["verdict"] == verdict
    assert done.returncode == bool(expected)


def test_the_tour_is_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("tour_*")) < 300_000
