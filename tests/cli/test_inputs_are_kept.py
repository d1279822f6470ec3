"""No verb writes over what it reads, force or not: a trace cannot be recorded again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hbtrace.cli import run

SEED = Path(__file__).resolve().parents[2] / "sample_traces/src/seed.jsonl"
VERBS = [
    ["analyze", "{}"], ["check", "{}"], ["info", "{}"], ["triage", "{}"], ["explain", "{}", "R-4ea695"],
    ["minimize", "{}", "R-4ea695"], ["whatif", "{}", "--ring", "2"], ["diff", "{}", "{}"],
    ["diff", "{folder}", "{folder}"], ["diff", "{folder}/*.jsonl", "{folder}"],
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_trace_is_not_written_over(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "run.jsonl"
    shutil.copy(SEED, trace)
    words = [word.format(trace, folder=tmp_path) for word in verb]
    assert run([*words, "-o", str(trace), "-f"]) == 2
    assert "is what is being read" in capsys.readouterr().err
    assert trace.read_bytes() == SEED.read_bytes()


def test_another_file_is_written(tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    shutil.copy(SEED, trace)
    assert run(["analyze", str(trace), "-o", str(tmp_path / "out.txt")]) == 1
    assert (tmp_path / "out.txt").exists()
