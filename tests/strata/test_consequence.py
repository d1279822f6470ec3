"""Live or dead, held against real bytes: random programs under many schedules, and the copy mode's races."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import shake_128
from typing import Any

import pytest

from hbtrace.replay.reports import Report
from hbtrace.replay.session import analyze_events
from hbtrace.strata.checks.races import COPY_RACES, copy_race
from hbtrace.strata.model.schedules import carry_out
from hbtrace.strata.model.tape import BlockMemory, StrataTape
from hbtrace.trace.rows import batch_from_rows
from tests.strata.runs import run

consequence = pytest.importorskip("hbtrace.consequence.taint")
recording = pytest.importorskip("hbtrace.replay.recording")

SIZE = 8
BLOCKS = ("a", "b", "c", "d")
QUEUES = ("q0", "q1", "q2")
PROGRAMS = 800
SCHEDULES = 120


def verdicts(events: list[dict[str, Any]]) -> list[tuple[Report, str]]:
    reports = analyze_events(events).reports
    found = consequence.consequences([batch_from_rows(events)], reports)
    return [(report, found[recording.pair_of(report)].verdict) for report in reports]


def together_is_the_worst_of_each(events: list[dict[str, Any]], each: list[tuple[Report, str]]) -> None:
    """Or of each alone: what shares memory with another's marks can pass for live in its company only."""
    of: dict[Any, list[str]] = {}
    for report, verdict in each:
        of.setdefault(report.canonical, []).append(verdict)
    kept = recording.record([batch_from_rows(events)], recording.Settings(), replay=False)
    races = consequence.judge_races(kept, [report for report, _ in each])
    for canonical, found in of.items():
        if races[canonical] != consequence.worst(found):
            alone = [report for report, _ in each if report.canonical == canonical]
            own = [consequence.judge(kept, [report]).popitem()[1].verdict for report in alone]
            assert races[canonical] == consequence.worst(own)


def test_memory_that_two_writes_left_is_marked_after_a_read_of_the_same_race() -> None:
    """The approximate read in between does not decide for the race: what is in memory at the end does."""
    events: list[dict[str, Any]] = [
        {"ev": "buffer", "id": 0, "name": "B", "size": 16},
        {"ev": "tensor", "id": 1, "name": "a", "buffer": 0, "offset": 6, "size": 2},
        {"ev": "tensor", "id": 2, "name": "b", "buffer": 0, "offset": 14, "size": 2},
        {
            "ev": "kernel", "backend": 0, "reads": [{"buffer": 0, "offset": 6, "size": 9, "approx": True}],
            "writes": [{"buffer": 0, "offset": 3}],
        },
        {"ev": "host_access", "reads": [{"tensor": 2, "approx": True}]},
        {"ev": "set_async", "backend": 2, "tensor": 1, "offset": 1},
    ]
    kept = recording.record([batch_from_rows(events)], recording.Settings())
    each = consequence.judge(kept, kept.reports)
    told: dict[Any, list[str]] = {}
    for report in kept.reports:
        told.setdefault(report.canonical, []).append(each[recording.pair_of(report)].verdict)
    assert "live" in {consequence.worst(found) for found in told.values()}
    assert consequence.judge_races(kept, kept.reports) == {race: consequence.worst(of) for race, of in told.items()}


class Program:
    """A few queues, a few blocks, and every value a hash of what it was made of."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.tape, self.seen, self.freed = StrataTape(), list[bytes](), ""
        for queue in QUEUES:
            self.tape.queue(queue)
        for block in BLOCKS:
            self.tape.block(block, SIZE, "GPU")
        for number, block in enumerate(BLOCKS):  # no two blocks alike, or a wrong order would not show
            self.host_write(block, 100 + number)
        events = 0
        for step in range(rng.randint(5, 14)):
            queue, kind = rng.choice(QUEUES), rng.random()
            if kind < 0.45:
                self.kernel(rng, queue, step)
            elif kind < 0.55:
                self.copy(rng, queue, step)
            elif kind < 0.65:
                self.host_write(rng.choice(BLOCKS), step)
            elif kind < 0.72:
                self.host_read(rng.choice(BLOCKS))
            elif kind < 0.8:
                self.tape.synchronize(queue)
            elif kind < 0.97:
                self.tape.record(queue, f"e{events}")
                self.tape.wait(rng.choice(QUEUES), f"e{events}")
                events += 1
            else:
                self.freed = rng.choice(BLOCKS)
                self.tape.free(self.freed)
                break
        if not self.freed and seed % 8 == 4:  # what raced is seen by nobody, unless it was read before
            for queue in QUEUES:
                self.tape.synchronize(queue)
            for number, block in enumerate(BLOCKS):
                self.host_write(block, 200 + number)

    def kernel(self, rng: random.Random, queue: str, step: int) -> None:
        reads = rng.sample(BLOCKS, rng.choice((0, 1, 1, 2)))
        (target,) = rng.sample(BLOCKS, 1)
        low = rng.choice((0, 0, 0, SIZE // 2))

        def ran(memory: BlockMemory) -> None:
            made = b"".join(bytes(memory[name]) for name in reads)
            memory[target][low:] = shake_128(f"{step}".encode() + made).digest(SIZE - low)

        self.tape.kernel(queue, f"kernel {step}", list(reads), [(target, low, SIZE)], ran)

    def copy(self, rng: random.Random, queue: str, step: int) -> None:
        """A copy that leaves its mark: two of one value would hide which came last."""
        src, dst = rng.sample(BLOCKS, 2)

        def moved(memory: BlockMemory) -> None:
            memory[dst][:] = shake_128(f"copy {step}".encode() + memory[src]).digest(SIZE)

        self.tape.copy(queue, f"copy {step}", src, dst, moved)

    def host_write(self, name: str, step: int) -> None:
        def wrote(memory: BlockMemory) -> None:
            memory[name][:] = shake_128(f"host {step}".encode()).digest(SIZE)

        self.tape.host("write", [], [name], wrote)

    def host_read(self, name: str) -> None:
        self.tape.host("read", [name], [], lambda memory: self.seen.append(bytes(memory[name])))

    def outcome(self, schedule: str, seed: int = 0) -> tuple[Any, ...]:
        """What the host read and what is left at the end."""
        self.seen.clear()
        memory = carry_out(self.tape, schedule, seed)
        return tuple(self.seen), tuple(bytes(memory[name]) for name in BLOCKS if name != self.freed)

    def differs(self) -> bool:
        expected = self.outcome("recorded")
        return self.outcome("latest") != expected or any(
            self.outcome("random", seed) != expected for seed in range(SCHEDULES)
        )


def test_dead_changes_nothing_and_live_does() -> None:
    """Programs of one race: called dead, no schedule shows anything else; called live, some does.

    Where a program has several, all dead must still show nothing.
    """
    told: Counter[str] = Counter()
    for seed in range(PROGRAMS):
        program = Program(seed)
        each = verdicts(program.tape.rows)
        together_is_the_worst_of_each(program.tape.rows, each)
        found = [verdict for _, verdict in each]
        if not found:
            if seed % 8 == 0:
                assert not program.differs(), f"seed {seed}: no race, and a schedule differs"
        elif set(found) == {"dead"}:
            told["dead"] += 1
            assert not program.differs(), f"seed {seed}: dead, and a schedule differs"
        elif found == ["live"] and program.tape.rows[each[0][0].current.row]["ev"] == "buffer_free":
            told["freed"] += 1  # live by what it is: whoever owns the bytes afterwards is not in the program
        elif found == ["live"]:
            told["live"] += 1
            assert program.differs(), f"seed {seed}: live, and no schedule differs"
    assert told["dead"] >= 20, told
    assert told["live"] >= 60, told
    assert told["freed"] >= 1, told


def test_the_three_races_of_copy_mode_are_dead() -> None:
    """And nothing differs under any schedule, as `test_model` shows for the same runs."""
    seen = Counter[tuple[str | None, str]]()
    for seed in range(5):
        seen.update(
            (copy_race(report), verdict) for report, verdict in verdicts(run("copy", stages=3, seed=seed).events)
        )
    assert {name for name, _ in seen} == set(COPY_RACES)
    assert {verdict for _, verdict in seen} == {"dead"}


def test_without_the_wait_they_are_live() -> None:
    made = run("copy", fault="snap-wait-removed", seed=0)
    found = Counter((copy_race(report), verdict) for report, verdict in verdicts(made.events))
    assert found["copy-wait", "live"]
    assert made.differing(30)
