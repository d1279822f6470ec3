"""Rules applied to the program give what they give when the rows are rewritten and lowered anew."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import hbtrace
from hbtrace.explain.draft import WAITS, Rule, batches_of
from hbtrace.explain.edges import edges_for
from hbtrace.explain.pin import Pin
from hbtrace.explain.recording import Recording, Settings, record
from hbtrace.explain.ring import Ring
from hbtrace.explain.rules import CopyOn, Drop, HideDirect, Synchronous, Wait
from hbtrace.explain.variants import replayed
from hbtrace.explain.whatif import rewrite, side_of
from hbtrace.replay.races import Report
from hbtrace.trace.rows import batch_from_rows
from tests.oracle.programs import random_program
from tests.shared import SHARED, needs_shared

Event = dict[str, Any]
Make = Callable[[], list[Rule]]
PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "30"))


def faces(reports: list[Report]) -> Counter[tuple[Any, ...]]:
    """What a report says, without the rows, which are those of two different traces."""
    return Counter(
        (
            r.kind, r.buffer, r.buffer_id, r.lo, r.hi, r.bytes, r.approx, r.knows, r.needs, r.canonical,
            *((s.actor, s.clock, s.access, s.tensor, s.tensor_id, s.root) for s in (r.earlier, r.current)),
        )
        for r in reports
    )  # fmt: skip


def both(batches: Callable[[], Any], make: Make) -> tuple[Recording | None, Recording, list[Rule], list[Rule]]:
    """The two replays under the same rules, and the rules of each, which know their price now."""
    patching, rewriting = make(), make()
    _, (patched,) = replayed(batches(), [patching], Settings())
    rewritten = record(batches_of(rewrite(batches, rewriting)))
    return patched, rewritten, patching, rewriting


def rule_sets(events: list[Event]) -> list[Make]:
    """Rules and combinations of them that mean something in a program."""
    edges = [row for row, event in enumerate(events) if event["ev"] in WAITS | {"event_record", "release"}]
    named = sorted({str(e["name"]) for e in events if e["ev"] == "backend" and not e.get("synchronous")} - {"HOST"})
    sets: list[Make] = [
        lambda: [Ring(2)], lambda: [Ring(3)], lambda: [Pin()], lambda: [HideDirect()], lambda: [Wait("ubatch")],
        lambda: [Wait("before:*")], lambda: [Wait("before:*", "event")], lambda: [CopyOn("src")],
        lambda: [CopyOn("dst")], lambda: [CopyOn(None, after_dst=True)], lambda: [CopyOn("src", after_dst=True)],
        lambda: [Pin(), Ring(2)], lambda: [Ring(2), Wait("before:*", "event")],
        lambda: [HideDirect(), CopyOn("dst"), Wait(f"row:{len(events) // 2}")],
    ]  # fmt: skip
    sets += [lambda row=row: [Drop(row)] for row in edges[:3]]  # type: ignore[misc]
    sets += [lambda name=name: [Synchronous(name), Wait("ubatch", "event")] for name in named[:1]]  # type: ignore[misc]
    return sets


def test_random_programs() -> None:
    compared = raced = left = 0
    for seed in range(PROGRAMS):
        events = random_program(random.Random(seed), weird=0.0)
        for make in random.Random(seed).sample(rule_sets(events), 6):
            patched, rewritten, mine, theirs = both(lambda events=events: [batch_from_rows(events)], make)
            if patched is None:
                left += 1
                continue
            assert faces(patched.reports) == faces(rewritten.reports), f"seed {seed}: {mine}"
            assert [rule.price for rule in mine] == [rule.price for rule in theirs], f"seed {seed}: {mine}"
            compared += 1
            raced += bool(patched.reports)
    assert raced > compared // 10 > 0
    assert left < compared // 5


def test_the_missing_edge_of_each_cause() -> None:
    for seed in range(0, PROGRAMS, 5):
        events = random_program(random.Random(seed), weird=0.0)
        side = side_of([batch_from_rows(events)], Settings())
        for cause in side.causes[:3]:
            for stall in (False, True):
                patched, rewritten, *_ = both(
                    lambda events=events: [batch_from_rows(events)],
                    lambda cause=cause, side=side, stall=stall: [edges_for(cause, side.recording, stall=stall)],
                )
                assert patched is not None
                assert faces(patched.reports) == faces(rewritten.reports), f"seed {seed}, {cause.ident}, {stall}"


@needs_shared
@pytest.mark.parametrize(
    "name", ["integrated", "cuda_integrated", "ngl2", "discrete", "cuda", "pipeline_src", "vulkan"]
)
def test_recordings(name: str) -> None:
    path = str(SHARED / "traces" / f"{name}.jsonl")
    batches = list(hbtrace.open(path).batches())
    for make in rule_sets(list(hbtrace.open(path))):
        patched, rewritten, mine, theirs = both(lambda: batches, make)
        assert patched is not None, mine
        assert faces(patched.reports) == faces(rewritten.reports), mine
        assert [rule.price for rule in mine] == [rule.price for rule in theirs]
