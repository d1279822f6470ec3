"""Real runs: which can have the hazard, and the command on them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from hbtrace.cli.info import command
from hbtrace.errors import TraceError
from hbtrace.info.info import info
from tests.material import CASES, recording

HAZARD = {
    "integrated": ["FAKE0#1"],
    "ngl2": ["FAKE0#1"],
    "cuda_integrated": ["CUDA0"],
    "discrete": [],
    "pipeline_src": [],
    "vulkan": [],
    "cuda": [],
}


@pytest.mark.parametrize("name", HAZARD)
def test_hazard_of_recorded_runs(name: str) -> None:
    found = info(str(recording(name)))
    assert found.queues_with("can arise") == HAZARD[name]
    assert found.queues_with("not known") == []
    assert found.warnings == []
    # nobody computed in place on a host buffer but those of whom it is said
    assert [queue.name for queue in found.contents.queues if queue.touched] == HAZARD[name]


def test_counts_of_a_recorded_run() -> None:
    found = info(str(recording("integrated")))
    phases = found.contents.phases
    assert [(p, phases[p].ubatches, phases[p].tokens) for p in phases] == [("prefill", 7, 200), ("decode", 16, 16)]
    assert found.contents.events["set_direct"] == 72
    assert found.contents.rows == 924


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recording("integrated").parent)  # the lines that fit hold no path of a checkout
    path = recording("integrated").name
    result = CliRunner().invoke(command, [path])
    assert result.exit_code == 0
    assert "hazard       can arise on FAKE0#1; input ring off" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    result = CliRunner().invoke(command, [path, "--format", "json"])
    assert orjson.loads(result.stdout)["trace"]["rows"] == 924
    assert "Example" in CliRunner().invoke(command, ["-h"]).stdout


def test_a_cut_trace_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_text('{"ev":"note","what":"x"}\n{"ev":"no')
    result = CliRunner().invoke(command, [str(cut)])
    assert result.exit_code == 0
    assert "9 bytes dropped" in result.stderr
    assert "JSON Lines, 1 row, 9 bytes dropped" in result.stdout
    (tmp_path / "empty.jsonl").write_text("")
    result = CliRunner().invoke(command, [str(tmp_path / "empty.jsonl")])
    assert isinstance(result.exception, TraceError)
    assert result.exception.exit_code == 3


def test_pasted_reports_are_no_trace() -> None:
    with pytest.raises(TraceError, match="holds reports of the ggml scheduler sanitizer and no accesses"):
        info(str(CASES[0].with_suffix(".txt")))
