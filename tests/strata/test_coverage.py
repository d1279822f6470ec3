"""V1 to V8: what a run exercised, and what a green one that exercised nothing says."""

from __future__ import annotations

from hbtrace.checks.strata_coverage import StageCoverage, coverage
from hbtrace.simulate.strata import Mix, Shape, simulate
from tests.strata.runs import run


def test_a_run_that_never_guessed_is_not_exercised() -> None:
    found = coverage(simulate(Shape(), Mix(gate=0.0), 0).events)
    assert found.verdict == "not-exercised"
    assert found.lacks()[0].startswith("stage 0 never had a speculative commit, a right guess, an undo, a settle that")


def test_a_run_that_never_missed_is_not_exercised() -> None:
    found = coverage(simulate(Shape(), Mix(hit=1.0, gate=1.0, requests=1, stopped=1.0), 5).events)
    assert (found.verdict, found.stages[0].undone) == ("not-exercised", 0)
    assert found.stages[0].speculative


def test_a_long_run_is_exercised() -> None:
    found = coverage(simulate(Shape(stages=3), Mix(requests=40), 1).events)
    assert (found.verdict, found.lacks()) == ("exercised", [])
    assert min(found.counters().values()) > 0
    assert found.stages[0].sources == found.stages[0].destinations == {0, 1, 2}
    assert set(found.kept) == {1, 2, 3, 4}


def test_each_stage_counts_for_itself() -> None:
    """A later front stage is undone only if the guess had reached it."""
    found = coverage(simulate(Shape(stages=4), Mix(requests=40), 1).events)
    undone = [stage.undone for _, stage in sorted(found.stages.items())]
    assert undone == sorted(undone, reverse=True)
    assert undone[0] > undone[2] > 0
    assert found.counters()["undos"] == undone[2]


def test_hashed_stages_and_others_are_told_apart() -> None:
    found = coverage(run(stages=3, hashes=True).events)
    assert "state hashes cover stage 0, not 1" in found.lacks()


def test_copy_mode_needs_no_ring() -> None:
    found = coverage(simulate(Shape(mode="copy"), Mix(requests=40), 1).events)
    assert (found.ring, found.verdict) == (False, "exercised")


def test_what_lacks_is_named() -> None:
    stage = StageCoverage(1, 1, 1, 1, 1, {0, 1}, {0, 1, 2})
    assert stage.lacks(3, ring=True) == ["buffer 2 as a source"]
    assert stage.lacks(3, ring=False) == []
