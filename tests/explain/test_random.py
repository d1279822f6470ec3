"""Mends, waits, witnesses and minimized traces of random programs, held against brute force and schedules."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

import hbtrace
from hbtrace.explain.minimize import minimize
from hbtrace.explain.schedule import WHOLE, IllegalError, Lines, Machine, Turn, lines_of
from hbtrace.explain.witness import Witness, witness
from hbtrace.replay.program import HOST, QUEUE
from hbtrace.replay.recording import Recording, record
from hbtrace.replay.reports import Report
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.fix import fix, mends_for
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import HideDirect, Wait
from hbtrace.what_if.waits import weigh
from hbtrace.what_if.whatif import batches_of, rewrite, side_of
from tests.oracle import oracle
from tests.oracle.programs import random_program
from tests.oracle.schedules import Order

Event = dict[str, Any]
PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "250"))


def programs(step: int = 1, first: int = 0) -> Iterator[tuple[int, list[Event], list[Report]]]:
    """Even programs that race."""
    for seed in range(first, first + PROGRAMS, step):
        events = random_program(random.Random(seed), weird=0.0)
        reports = hbtrace.analyze_events(events).reports
        if reports:
            yield seed, events, reports


def pair(report: Any) -> tuple[Any, ...]:
    return report.current.row, report.current.access, report.earlier.row, report.earlier.access


def test_each_witness_is_legal_and_reads_what_it_claims() -> None:
    """The schedule is run once more by the tests' own machine, which shares no code with the product's."""
    told = swapped = 0
    for seed, events, reports in programs():
        recording = record([batch_from_rows(events)])
        lines, found = lines_of(recording), oracle.analyze(events)
        order = Order(events, found)
        touches = _touches_by_turn(recording, lines, found)
        for report in random.Random(seed).sample(reports, min(4, len(reports))):
            shown = witness(recording, report, lines)
            seen = _run(order, touches, shown, shown.schedule, seed)
            before = _run(order, touches, shown, recorded(lines), seed)
            if shown.reader is not None:
                assert (before, seen) == (set(shown.recorded), set(shown.seen)), f"seed {seed}: it reads something else"
            told += shown.differs
            swapped += shown.differs and report.kind == "write-after-write" and shown.reader is not None
    assert told > 20
    assert swapped > 5


def _touches_by_turn(recording: Recording, lines: Lines, found: oracle.Findings) -> list[list[oracle.Touch]]:
    """Of each of the product's operations what it touches according to the oracle: by actor and clock."""
    by_clock: dict[tuple[str, int], list[oracle.Touch]] = {}
    for touch in found.touches:
        by_clock.setdefault((touch.access.actor, touch.access.clock), []).append(touch)
    clocks = Counter[str]()
    out = []
    for its in lines.operations:
        actor = recording.actors[its.actor]
        ticks = its.op in (HOST, QUEUE)
        clocks[actor] += ticks
        out.append(by_clock.get((actor, clocks[actor]), []) if ticks else [])
    return out


def recorded(lines: Lines) -> list[Turn]:
    return [Turn(index, 0, WHOLE) for index in range(len(lines.operations))]


def _run(
    order: Order, touches: list[list[oracle.Touch]], shown: Witness, schedule: list[Turn], seed: int
) -> set[Any]:
    """Run a schedule access by access; what the witness's reader sees."""
    versions: dict[tuple[int, int], Any] = {}
    seen: set[Any] = set()
    left = {number: len(operation.touches) for number, operation in enumerate(order.operations)}
    for turn in schedule:
        for touch in touches[turn.operation]:
            access = touch.access
            if not turn.first <= access.access < turn.last:
                continue
            number = order.operation_of[access.row, access.access]
            before = (k for k in range(len(order.operations)) if order.before_of[number] >> k & 1)
            assert not any(left[k] for k in before), f"seed {seed}: row {access.row} runs before what it waits for"
            left[number] -= 1
            for byte in touch.addresses:
                place = (id(touch.buffer), byte)
                if access.mode == "write":
                    versions[place] = access.row, access.access
                elif (access.row, access.access) == shown.reader and shown.report.lo <= byte < shown.report.hi:
                    seen.add(versions.get(place))
    assert not any(left.values()), f"seed {seed}: not everything runs"
    return seen


def test_the_machine_refuses_what_is_no_schedule() -> None:
    events = [
        {"ev": "backend", "id": 0, "name": "GPU0"},
        {"ev": "buffer", "id": 0, "name": "B", "size": 8},
        {"ev": "kernel", "backend": 0, "writes": [{"buffer": 0}]},
        {"ev": "synchronize", "backend": 0},
        {"ev": "host_access", "reads": [{"buffer": 0}]},
    ]
    recording = record([batch_from_rows(events)])
    lines = lines_of(recording)
    machine = Machine(recording, lines, 0, 0, 8)
    order = list(range(len(lines.operations)))
    machine.run([Turn(k, 0, 1 << 62) for k in order])
    with pytest.raises(IllegalError):
        machine.run([Turn(k, 0, 1 << 62) for k in reversed(order)])
    with pytest.raises(IllegalError):
        machine.run([Turn(k, 0, 1 << 62) for k in order[:-1]])


def test_every_answer_is_clean_and_a_minimal_one_is_minimal() -> None:
    proven = several = 0
    for seed, events, _ in programs(step=12, first=5):
        def batches(events: list[Event] = events) -> Any:
            return [batch_from_rows(events)]

        found = fix(batches)
        assert found.answers, f"seed {seed}: nothing mends it"
        for answer in found.answers:
            rules = [mend.rule() for mend in answer.mends]
            mended = [event for _, event in rewrite(batches, rules)]
            assert hbtrace.analyze_events(mended).reports == [], f"seed {seed}: {[m.name for m in answer.mends]}"
        several += len(found.answers) > 1
        first = found.answers[0]
        if first.minimal and 1 < len(first.mends) <= 3 and len(found.mends) <= 8:
            proven += 1
            mends = mends_for(side_of(batches(), Settings()))
            for size in range(1, len(first.mends)):
                for chosen in combinations(mends, size):
                    rules = [mend.rule() for mend in chosen]
                    mended = [event for _, event in rewrite(batches, rules)]
                    assert hbtrace.analyze_events(mended).reports, f"seed {seed}: a smaller set is clean"
    assert several > 3
    assert proven > 0


def test_waits_bear_what_they_are_said_to_bear() -> None:
    bearing = spare = 0
    for seed, events, reports in programs(step=4):
        before = set(map(pair, reports))
        for wait in weigh([batch_from_rows(events)]).waits:
            (row,) = wait.rows
            # A row that does nothing keeps the numbers of all others.
            without = [event if k != row else {"ev": "note", "what": "gone"} for k, event in enumerate(events)]
            after = set(map(pair, hbtrace.analyze_events(without).reports))
            assert before <= after
            assert (after != before) == wait.bears, f"seed {seed}, row {row}"
            assert len(after - before) == wait.races
            bearing += wait.bears
            spare += not wait.bears
    assert bearing > 10
    assert spare > 10


def test_a_minimized_trace_still_races_and_loses_the_race_with_any_event() -> None:
    done = 0
    for seed, events, reports in programs(step=25):
        report = reports[seed % len(reports)]
        try:
            small = minimize([batch_from_rows(events)], report)
        except hbtrace.UsageError:
            continue
        assert report.signature in signatures(small), f"seed {seed}"
        assert hbtrace.analyze_events(small, strict=True).warnings == []
        assert not any({"time", "site"} & event.keys() for event in small)
        for gone in range(len(small)):
            rest = small[:gone] + small[gone + 1 :]
            assert report.signature not in signatures(rest), f"seed {seed}: {gone} of {small}"
        done += 1
    assert done > 3


def signatures(events: list[Event]) -> set[Any]:
    return {report.signature for report in hbtrace.analyze_events(events).reports}


def test_a_rewritten_trace_can_be_written_and_read(tmp_path: Any) -> None:
    _, events, _ = next(programs())
    path = tmp_path / "mended.arrow"
    with hbtrace.open_writer(path) as writer:
        for batch in batches_of(rewrite(lambda: [batch_from_rows(events)], [Wait("before:*")])):
            writer.write_batch(batch)
    assert len(list(hbtrace.open(path))) >= len(events)


def test_rules_break_no_rule_and_waits_make_no_race() -> None:
    for seed, events, reports in programs(step=6):
        before = {report.signature for report in reports}
        warned = len(hbtrace.analyze_events(events).warnings)
        for rule in (Wait("before:*"), Wait("before:*", "event"), Wait("ubatch"), Ring(2), Pin(), HideDirect()):
            entries = rewrite(lambda events=events: [batch_from_rows(events)], [rule])
            after = hbtrace.analyze_events([event for _, event in entries])
            assert len(after.warnings) <= warned, f"seed {seed}, {rule}: {after.warnings}"
            if isinstance(rule, Wait):
                assert {report.signature for report in after.reports} <= before, f"seed {seed}, {rule}"
        recorded = [row for row, _ in rewrite(lambda events=events: [batch_from_rows(events)], [Ring(3)]) if row >= 0]
        assert recorded == list(range(len(events)))
