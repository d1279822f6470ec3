"""The executable model: real bytes, equal in both modes and under every schedule; its faults and how they are found."""

from __future__ import annotations

import random

import pytest

from hbtrace.replay.session import analyze_events
from hbtrace.strata.checks.grammar import grammar
from hbtrace.strata.checks.protocol import rules
from hbtrace.strata.checks.races import COPY_RACES, broken_rule, copy_race
from hbtrace.strata.model.faults import FAULTS, StrataFault
from hbtrace.strata.model.schedules import order
from hbtrace.strata.model.simulate import Mix, RunShape, plan, simulate
from hbtrace.strata.model.sizes import LayerSize, megabytes, saved_each_window
from hbtrace.strata.model.tape import HOST
from tests.strata.runs import run

SHAPES = [(2, 2), (2, 3), (3, 2), (4, 3)]


@pytest.mark.parametrize(("stages", "windows"), SHAPES)
def test_ring_and_copy_end_bit_for_bit_equal(stages: int, windows: int) -> None:
    for seed in range(6):
        ring, copied = (run(mode, stages=stages, windows=windows, seed=seed) for mode in ("ring", "copy"))
        assert ring.requests == copied.requests
        assert ring.outcome() == copied.outcome(), f"seed {seed}"
        assert len(set(ring.outcome().replies)) > 1


@pytest.mark.parametrize("mode", ["ring", "copy"])
@pytest.mark.parametrize(("stages", "windows"), SHAPES)
def test_no_schedule_changes_a_byte(mode: str, stages: int, windows: int) -> None:
    for seed in range(2):
        found = run(mode, stages=stages, windows=windows, seed=seed)
        assert found.outcome("latest") == found.outcome()
        assert found.differing(8) == 0


def test_schedules_keep_to_the_edges() -> None:
    """Every schedule is a permutation that respects each line and each wait, and no two schedules are alike."""
    operations = run("copy").engine.tape.operations
    recorded = list(order(operations, "recorded"))
    orders = [list(order(operations, "latest")), *(list(order(operations, "random", seed)) for seed in range(3))]
    for found in orders:
        assert sorted(found) == recorded
        place = {number: at for at, number in enumerate(found)}
        last: dict[str, int] = {}
        for number, operation in enumerate(operations):
            assert all(place[other] < place[number] for other in operation.after)
            assert place[number] > last.get(operation.line, -1)
            last[operation.line] = place[number]
        assert found != recorded
    assert {operation.line for operation in operations} >= {HOST, "s0", "s1", "side0", "main", "drafter"}


@pytest.mark.parametrize("mode", ["ring", "copy"])
def test_the_right_machine_is_silent(mode: str) -> None:
    """No rule fires; ring mode has no race at all, copy mode the three of its own and no other."""
    for seed in range(12):
        found = run(mode, stages=2 + seed % 2, windows=2 + seed // 2 % 2, seed=seed)
        assert not rules(found.events)
        assert not grammar(found.events)
        result = analyze_events(found.events, strict=True)
        assert not result.warnings
        assert {copy_race(report) for report in result.reports} <= (set(COPY_RACES) if mode == "copy" else set())


def test_thousands_of_requests_are_silent() -> None:
    requests = 0
    for windows in (2, 3):
        shape, mix = RunShape(windows=windows), Mix(requests=1000, windows=4)
        events = simulate(shape, mix, windows).events
        assert not rules(events)
        assert not grammar(events)
        requests += sum(event.get("what") == "request" and event["attrs"]["do"] == "end" for event in events)
    assert requests == 2000


def test_ring_mode_never_touches_the_state_aside() -> None:
    found = run("ring", stages=3)
    sides = {event["id"] for event in found.events if event["ev"] == "backend" and event["name"].startswith("side")}
    assert len(sides) == 2
    assert not any(event.get("backend") in sides for event in found.events if event["ev"] != "synchronize")


# faults


def found_ids(fault: StrataFault, seed: int, windows: int = 2) -> tuple[set[str], set[str | None]]:
    """Ids of the rules that fire on a faulty run, and names of its races."""
    stages = 3 if fault.name == "settle-first-stage-only" else 2
    events = run(fault.mode, stages=stages, windows=windows, seed=seed, fault=fault.name).events
    reports = analyze_events(events).reports
    races = {copy_race(report) or f"strata.{broken_rule(report)}" for report in reports}
    return {finding.id for finding in rules(events)} | {name for name in races if name.startswith("strata.")}, races


RELATED = {
    "strata.S1": {"strata.S4", "strata.P3", "strata.W2"},
    "strata.S5": {"strata.S1", "strata.S4", "strata.P3"},
    "strata.X1": {"strata.P1"},
}
"""What a fault may break beside its own rule, since one follows from the other."""


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.expects != "race"], ids=lambda fault: fault.name)
def test_each_fault_is_found_by_its_rule(fault: StrataFault) -> None:
    ids = [found_ids(fault, seed)[0] for seed in range(5)]
    assert sum(fault.expects in found for found in ids) >= 3, ids
    assert set().union(*ids) <= {fault.expects} | RELATED.get(fault.expects, set())


def test_ten_are_the_seeds_and_three_leave_every_byte_right() -> None:
    assert sum(fault.seeded for fault in FAULTS) == 10
    silent = [fault for fault in FAULTS if fault.bytes_right]
    assert [fault.expects for fault in silent] == ["strata.R6", "strata.R7", "strata.R3"]
    for fault in silent:
        for seed in range(5):
            assert run(fault=fault.name, seed=seed).outcome() == run(seed=seed).outcome()


@pytest.mark.parametrize(
    "name", ["spec-in-place", "undo-in-current", "undo-wrong-parity", "serial-sel-00", "no-settle", "word-not-set"]
)
def test_the_others_make_wrong_bytes(name: str) -> None:
    assert any(run(fault=name, seed=seed).outcome() != run(seed=seed).outcome() for seed in range(6))


def test_what_is_harmless_at_depth_2_bites_at_depth_3() -> None:
    """Ignoring records destroys a live one as soon as two guesses are out: an error then, and wrong bytes."""
    fault = "dst-ignores-records"
    ids: set[str] = set()
    wrong = 0
    for seed in range(8):
        bad = run(fault=fault, seed=seed, windows=3)
        ids |= {finding.id for finding in rules(bad.events)}
        wrong += bad.outcome() != run(seed=seed, windows=3).outcome()
    assert "strata.R2" in ids
    assert wrong


def test_the_missing_wait_is_a_live_race() -> None:
    """Without it some schedule ends otherwise; with it none does."""
    differing = 0
    for seed in range(6):
        bad = run("copy", fault="snap-wait-removed", seed=seed)
        names = {copy_race(report) for report in analyze_events(bad.events).reports}
        assert "copy-wait" in names
        differing += bool(bad.differing(10))
    assert differing >= 3


def test_the_three_races_of_copy_mode_are_all_seen() -> None:
    names = {
        copy_race(report)
        for seed in range(6)
        for report in analyze_events(run("copy", stages=3, seed=seed).events).reports
    }
    assert names == set(COPY_RACES)


def test_a_state_hash_waits_for_the_device_and_hides_copy_3() -> None:
    for seed in range(6):
        reports = analyze_events(run("copy", stages=3, seed=seed, hashes=True).events).reports
        assert "copy-3" not in {copy_race(report) for report in reports}


# plans and sizes


def test_plans_are_pure_and_varied() -> None:
    shape = RunShape()
    assert plan(shape, Mix(), 3) == plan(shape, Mix(), 3)
    steps = [step for seed in range(10) for request in plan(shape, Mix(), seed) for step in request.steps]
    verdicts = {step.on for step in steps if step.op == "V"}
    assert verdicts == {-1, 0, 1}


def test_forced_misses() -> None:
    for seed in range(5):
        steps = [step for request in plan(RunShape(), Mix(force_miss=1), seed) for step in request.steps]
        assert all(step.forced for step in steps if step.op == "L" and step.spec)
        assert not any(step.on == 1 for step in steps if step.op == "V")


def test_the_seeds_sizes_come_out() -> None:
    saved = saved_each_window(9)
    assert (saved.copied, saved.traffic) == (29_417_472, 58_834_944)
    assert (megabytes(saved.copied), megabytes(saved.traffic)) == ("29.4 MB", "58.8 MB")
    assert LayerSize().bytes == 3_268_608
    rng = random.Random(0)
    for _ in range(20):
        layers, size = rng.randint(1, 60), rng.randint(1, 10**6)
        assert saved_each_window(layers, size).traffic == 2 * layers * size


@pytest.mark.parametrize("name", ["no-settle", "keep-own-parity-record", "dst-ignores-records"])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_fault_that_changes_the_run_is_found_in_each_run(name: str, stages: int) -> None:
    """By its own breach, not by what it leads to later: also where the state happens to be in place at the end, and
    where a buffer happens to be free. Whoever ignores records may hit a live one, which is another rule's."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    shown = 0
    for seed in range(6):
        for requests in (1, 3):
            found = simulate(RunShape(stages=stages, fault=name), Mix(requests=requests), seed)
            if found.showed():
                shown += 1
                assert fault.expects in {finding.id for finding in rules(found.events)}, (seed, requests)
    assert shown >= 5
