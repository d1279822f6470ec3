"""The rules on real runs of llama.cpp, beside the project."""

from __future__ import annotations

import pytest

from hbtrace.checks import Checked, check
from tests.checks.traces import found, status
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared

EXPECTED = {
    "integrated": {"hazard", "prepare-missing"},
    "ngl2": {"hazard", "prepare-missing"},
    "cuda_integrated": {"hazard", "prepare-missing", "cpu-split-in-place"},
    "cuda": {"copy-unordered"},
    "discrete": set(),
    "pipeline_src": set(),
    "vulkan": set(),
}


def run(name: str) -> Checked:
    return check(str(SHARED / "traces" / f"{name}.jsonl"))


def message(result: Checked, ident: str) -> str:
    return next(finding.message for finding in result.findings if finding.id == ident)


@pytest.mark.parametrize("name", EXPECTED)
def test_errors_and_warnings(name: str) -> None:
    result = run(name)
    assert found(result) == EXPECTED[name]
    assert result.warnings == []
    for ident in ("stale-uid", "alias-moved"):  # this version's recordings tell neither uids nor inputs
        assert status(result, ident).startswith("not checkable: needs")


def test_integrated() -> None:
    result = run("integrated")
    assert "no input ring is engaged; 30 input races" in message(result, "hazard")
    assert message(result, "prepare-missing").startswith("5 of 20 reuses write inputs without prepare")
    assert (result.coverage.verdict, result.coverage.counters["prepare"]) == ("exercised", 0)
    assert (result.coverage.hidden, result.coverage.reports) == (18, 30)
    assert result.coverage.counters["open_windows"] == 6


@pytest.mark.parametrize("name", ["discrete", "vulkan"])
def test_no_hazard(name: str) -> None:
    result = run(name)
    assert status(result, "hazard").startswith("holds: no asynchronous backend computes")
    assert result.coverage.verdict == "partly"


def test_the_copy_rule_names_the_slots() -> None:
    text = message(run("cuda"), "copy-unordered")
    assert text.startswith("9 copies fill a slot before its last reader is known to be done")
    for slot, number in enumerate((3, 2, 2, 2)):
        assert f"CUDA1#l_out-2#{slot} (read by CUDA1, copied by CUDA0) {number}" in text


def test_what_the_ring_cannot_mend_is_told_apart() -> None:
    result = run("cuda_integrated")
    assert result.sorts == {"input": 24, "cpu-split": 6}
    assert "embd 6" in message(result, "cpu-split-in-place")
    assert "embd" not in message(result, "hazard")
