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
}

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
    assert sorted(path.stem for path in SAMPLES.glob("*.arrow")) == sorted(COUNTS)
    assert sorted(path.stem for path in SAMPLES.glob("src/*.jsonl")) == sorted(COUNTS)
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 1_500_000


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
