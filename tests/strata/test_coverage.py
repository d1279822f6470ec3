"""V1 to V8: what a run exercised, and what a green one that exercised nothing says."""

from __future__ import annotations

from pathlib import Path

from hbtrace.checks.checked import check
from hbtrace.checks.require import parse, unmet
from hbtrace.compare.outcome import analyze
from hbtrace.strata.checks.coverage import StageCoverage, coverage
from hbtrace.strata.model.simulate import Mix, RunShape, simulate
from hbtrace.trace.writer import open_writer
from tests.strata.runs import run


def test_a_run_that_never_guessed_is_not_exercised() -> None:
    found = coverage(simulate(RunShape(), Mix(gate=0.0), 0).events)
    assert found.verdict == "not-exercised"
    assert found.lacks()[0].startswith("stage 0 never had a speculative commit, a right guess, an undo, a settle that")


def test_a_run_that_never_missed_is_not_exercised() -> None:
    found = coverage(simulate(RunShape(), Mix(hit=1.0, gate=1.0, requests=1, stopped=1.0), 5).events)
    assert (found.verdict, found.stages[0].undone) == ("not-exercised", 0)
    assert found.stages[0].speculative


def test_a_long_run_is_exercised() -> None:
    found = coverage(simulate(RunShape(stages=3), Mix(requests=40), 1).events)
    assert (found.verdict, found.lacks()) == ("exercised", [])
    assert min(found.counters().values()) > 0
    assert found.stages[0].sources == found.stages[0].destinations == {0, 1, 2}
    assert set(found.kept) == {1, 2, 3, 4}


def test_each_stage_counts_for_itself() -> None:
    """A later front stage is undone only if the guess had reached it."""
    found = coverage(simulate(RunShape(stages=4), Mix(requests=40), 1).events)
    undone = [stage.undone for _, stage in sorted(found.stages.items())]
    assert undone == sorted(undone, reverse=True)
    assert undone[0] > undone[2] > 0
    assert found.counters()["undos"] == undone[2]


def test_hashed_stages_and_others_are_told_apart() -> None:
    found = coverage(run(stages=3, hashes=True).events)
    assert "state hashes cover stage 0, not 1" in found.lacks()


def test_copy_mode_needs_no_ring() -> None:
    found = coverage(simulate(RunShape(mode="copy"), Mix(requests=40), 1).events)
    assert (found.ring, found.verdict) == (False, "exercised")


def test_what_lacks_is_named() -> None:
    stage = StageCoverage(1, 1, 1, 1, 1, {0, 1}, {0, 1, 2})
    assert stage.lacks(3, ring=True) == ["buffer 2 as a source"]
    assert stage.lacks(3, ring=False) == []


def test_serial_requests_and_the_kernel_tests_are_told_beside_the_verdict() -> None:
    """V6 and V8."""
    found = coverage(simulate(RunShape(layers=9), Mix(requests=40), 1).events)
    serial, kernels = found.told()
    assert serial.startswith(f"{found.serial} of 40 requests were served serially and are not covered (")
    assert sum(found.why_serial.values()) == found.serial > 1
    assert "here 1, 2, 3, 4 were kept, windows had 1, 2, 3, 4, on 9 layers" in kernels
    assert coverage(simulate(RunShape(), Mix(requests=1, serial=0.0), 5).events).told()[0].startswith("the engine's")


def test_beyond_the_kernel_tests_is_named() -> None:
    events = [
        {"ev": "note", "what": "stage", "attrs": {"stage": 0, "front": True}},
        {"ev": "note", "what": "window", "attrs": {"do": "launch", "stage": 0, "seq": 0, "verifier": 0, "tokens": 9}},
        {"ev": "note", "what": "commit", "attrs": {"stage": 0, "seq": 0, "verifier": 0, "kind": "x", "keep": 10}},
    ]
    lacks = coverage(events).lacks()
    assert "commits kept 10 tokens, beyond the kernel test's 1 to 8" in lacks
    assert "windows had 9 tokens, beyond the kernel test's 1 to 8" in lacks


def test_advice_is_on_what_lacks() -> None:
    never = coverage(simulate(RunShape(), Mix(hit=1.0, gate=1.0, requests=1, stopped=1.0), 5).events)
    assert never.advice()[0].startswith("STRATA_PIPELINE_FORCE_MISS")
    assert coverage(simulate(RunShape(stages=3), Mix(requests=40), 1).events).advice() == []


def test_the_meter_says_the_same(tmp_path: Path) -> None:
    """In `analyze` and in `check`, whose `--require` knows the counters; another engine has none of them."""
    path = tmp_path / "run.jsonl"
    made = simulate(RunShape(stages=3), Mix(requests=8), 2)
    with open_writer(str(path)) as writer:
        writer.write_rows(made.events)
    expected = coverage(made.events)
    for found in (analyze(str(path)).coverage, check(str(path)).coverage):
        assert found is not None
        assert (found.verdict, found.reasons, found.told) == (expected.verdict, expected.lacks(), expected.told())
        assert expected.counters().items() <= found.counters.items()
        assert found.to_object()["ubatches"] == 0
    undos = expected.counters()["undos"]
    assert unmet(parse(f"undos>={undos}, ubatches=0"), found) == []
    assert unmet(parse(f"undos>{undos}"), found) == [f"undos>{undos} is not met: undos is {undos}"]
    other = tmp_path / "other.jsonl"
    other.write_text(path.read_text(encoding="utf-8").replace('"engine":"strata"', '"engine":"x"', 1), encoding="utf-8")
    told = unmet(parse("undos>=0"), check(str(other)).coverage)
    assert told == ["undos>=0 is not met: no undos in such a trace"]


def test_notes_that_only_look_like_the_protocol_are_left_out(tmp_path: Path) -> None:
    """Another program's words, or a damaged trace: no traceback, and no rule called held without a word."""
    made = run("ring", seed=0).events
    keys = ("stage", "seq", "verifier", "kind", "do", "dst", "buffer", "tokens", "stages", "state")
    for number, key in enumerate(keys):
        events = [dict(event) for event in made]
        for event in events:
            if event["ev"] == "note" and key in event["attrs"]:
                attrs = dict(event["attrs"])
                attrs[key] = {"not": "that"}
                if number % 2:
                    del attrs[key]
                event["attrs"] = attrs
        path = tmp_path / f"{key}.jsonl"
        with open_writer(str(path)) as writer:
            writer.write_rows(events)
        found = [finding for finding in check(str(path)).findings if "were left out" in finding.message]
        harmless = number % 2 and key in ("tokens", "state", "dst")
        assert found or harmless or key == "stages", key
        assert analyze(str(path)).coverage is not None
