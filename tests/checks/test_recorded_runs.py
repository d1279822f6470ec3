"""The rules on real runs of llama.cpp."""

from __future__ import annotations

import orjson
import pytest

from hbtrace.checks.checked import Checked, check
from tests.checks.traces import checked, found, status
from tests.material import recording

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
    return check(str(recording(name)))


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


@pytest.mark.parametrize("name", EXPECTED)
def test_a_single_ubatch_is_not_exercised(name: str) -> None:
    """Each recording up to where the inputs of its second ubatch are prepared: clean, and worth nothing."""
    rows = [orjson.loads(line) for line in (recording(name)).read_bytes().splitlines()]
    numbers = [row.get("n") if row["ev"] == "ubatch" else row.get("ubatch") for row in rows]
    second = numbers.index(1)
    result = checked(rows[:second])
    assert (result.races, result.coverage.counters["ubatches"]) == (0, 1)
    assert result.coverage.verdict == "not-exercised"
    assert "a single ubatch" in result.coverage.line()


def test_clean_runs_have_no_redundant_wait_without_its_time() -> None:
    waits = [f for f in run("discrete").findings if f.id == "redundant-wait"]
    assert waits
    assert all(f.severity == "info" and " ms in all" in f.message and " in ggml_" in f.message for f in waits[:2])


def test_what_a_ring_would_cost() -> None:
    text = message(run("integrated"), "ring-rotation")
    assert text.endswith("6 inputs a slot: 16.8 KiB at depth 2, 33.5 KiB at depth 3, 50.3 KiB at depth 4")


def test_placement_is_counted() -> None:
    assert status(run("integrated"), "placement") == "holds: 24 aliasing nodes, each with its root"


@pytest.mark.parametrize(("name", "hidden"), [("integrated", 18), ("ngl2", 15), ("cuda_integrated", 18), ("cuda", 0)])
def test_what_direct_writes_show_is_what_is_lost_without_them(name: str, hidden: int) -> None:
    """The count is no guess: a replay that never hears of a direct write reports that many fewer."""
    rows = [orjson.loads(line) for line in (recording(name)).read_bytes().splitlines()]
    told = checked(rows).coverage
    quiet = checked([row for row in rows if row["ev"] not in ("set_direct", "get_direct")])
    assert (told.hidden, quiet.races) == (hidden, told.reports - hidden)
