"""Rules applied to the program give what they give when the rows are rewritten and lowered anew."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import hbtrace
from hbtrace.replay.recording import Recording, record
from hbtrace.replay.reports import Report
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.vocabulary import WAITS
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.overlap import pace_of
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.place import Place
from hbtrace.what_if.rewriting import Rule, batches_of
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import CopyOn, Drop, HideDirect, Synchronous, Wait
from hbtrace.what_if.variants import replayed
from hbtrace.what_if.whatif import rewrite, side_of, whatif
from tests.material import recording
from tests.oracle.programs import random_program

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


def signed(reports: list[Report]) -> Counter[tuple[Any, ...]]:
    """As `faces`, without what is counted within a graph: numbers of accesses, and the place in a graph by which an
    unnamed tensor is called. A cut graph has others than the recorded one."""
    return Counter(
        (
            r.kind, r.buffer, r.buffer_id, r.lo, r.hi, r.bytes, r.approx, r.knows, r.needs, r.signature,
            *((s.actor, s.clock, s.tensor, s.tensor_id, s.root) for s in (r.earlier, r.current)),
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


def placings(events: list[Event]) -> list[Make]:
    """Operations and results that move to each backend, alone and under other rules."""
    backends = sorted({str(event["name"]) for event in events if event["ev"] == "backend"})
    nodes = [node for event in events if event["ev"] == "graph" for node in event.get("nodes", ())]
    tensors = {event["id"]: str(event["name"]) for event in events if event["ev"] == "tensor"}
    whats = [*sorted({str(node.get("op")) for node in nodes})[:2], "*"]
    whats += sorted({tensors[node["tensor"]] for node in nodes if node.get("tensor") in tensors})[:1]
    besides: list[Make] = [
        list, lambda: [HideDirect()], lambda: [Pin()], lambda: [Ring(2)], lambda: [CopyOn("dst")],
        lambda: [Wait("ubatch")], lambda: [Wait("before:*", "event")], lambda: [Pin(), Ring(3), Wait("before:*")],
    ]  # fmt: skip
    sets: list[Make] = [
        lambda what=what, name=name, others=others: [Place(what, name), *others()]  # type: ignore[misc]
        for what in whats for name in backends for others in besides
    ]  # fmt: skip
    sets += [lambda name=name: [Synchronous(name), Place("*", name)] for name in backends]  # type: ignore[misc]
    sets += [
        lambda name=name, other=other: [Synchronous(name), Place(whats[0], other), Place("*", name)]  # type: ignore[misc]
        for name in backends for other in backends
    ]  # fmt: skip
    return sets


def refused_alike(batches: Callable[[], Any], make: Make, why: str) -> bool:
    """Whether patching refuses in these words, or leaves a set of rules to rewriting."""
    try:
        _, (patched,) = replayed(batches(), [make()], Settings())
    except hbtrace.UsageError as error:
        return str(error) == why
    return patched is None


def placed_alike(batches: Callable[[], Any], make: Make, where: str) -> Recording | None:
    """Compare both replays of a placing; the patched one, or None where neither has anything to move."""
    why = ""
    try:
        rewritten = record(batches_of(rewrite(batches, theirs := make())))
    except hbtrace.UsageError as error:
        why = str(error)
        rewritten = None
    if rewritten is None:
        assert refused_alike(batches, make, why), f"{where}: what rewriting refuses was accepted"
        return None
    _, (patched,) = replayed(batches(), [mine := make()], Settings())
    assert patched is not None, f"{where}: {mine}"
    assert signed(patched.reports) == signed(rewritten.reports), f"{where}: {mine}"
    assert [rule.price for rule in mine] == [rule.price for rule in theirs], f"{where}: {mine}"
    assert pace_of(patched) == pace_of(rewritten), f"{where}: {mine}"
    return patched


def test_operations_elsewhere_in_random_programs() -> None:
    compared = raced = refused = 0
    for seed in range(PROGRAMS):
        events = random_program(random.Random(seed), weird=0.0)
        makes = placings(events)
        for make in random.Random(seed).sample(makes, min(8, len(makes))):
            patched = placed_alike(lambda events=events: [batch_from_rows(events)], make, f"seed {seed}")
            compared += patched is not None
            refused += patched is None
            raced += patched is not None and bool(patched.reports)
    assert compared > PROGRAMS
    assert raced > compared // 10
    assert refused > 0


def test_operations_elsewhere_batch_by_batch() -> None:
    """Definitions, footprints and clocks go on from one batch to the next."""
    for seed in range(0, PROGRAMS, 3):
        events = random_program(random.Random(seed), weird=0.0)
        small = [batch_from_rows(events[k : k + 7]) for k in range(0, len(events), 7)]
        for make in random.Random(seed).sample(placings(events), 3):
            placed_alike(lambda small=small: small, make, f"seed {seed}")


def test_a_graph_with_a_number_too_large_is_cut_as_the_lowering_reads_it() -> None:
    """It stands beside its column and counts as absent, for rules as well."""
    events: list[Event] = [
        {"ev": "backend", "id": 0, "name": "GPU0"},
        {"ev": "backend", "id": 1, "name": "GPU1"},
        {"ev": "buffer", "id": 0, "name": "B", "size": 8},
        {"ev": "graph", "id": 0, "nodes": [
            {"op": "A", "reads": [{"buffer": 0, "size": 4}]},
            {"op": "B", "reads": [{"buffer": 0, "tensor": 1 << 70}]},
        ]},
        {"ev": "compute", "backend": 0, "graph": 0},
        {"ev": "host_access", "writes": [{"buffer": 0}]},
    ]  # fmt: skip

    def batches() -> Any:
        return [batch_from_rows(events)]

    def make() -> list[Rule]:
        return [Place("B", "GPU1")]

    patched, rewritten, *_ = both(batches, make)
    assert patched is not None
    assert signed(patched.reports) == signed(rewritten.reports) != Counter()
    found = whatif(batches, make())
    assert (found.price.changed, found.price.queue_waits) == (1, 2)


def test_a_compute_without_a_backend_is_not_moved() -> None:
    events: list[Event] = [
        {"ev": "backend", "id": 0, "name": "GPU0"},
        {"ev": "buffer", "id": 0, "name": "B", "size": 8},
        {"ev": "graph", "id": 0, "nodes": [{"op": "A", "writes": [{"buffer": 0}]}]},
    ]
    for odd in ({}, {"backend": None}, {"backend": []}):
        batch = batch_from_rows([*events, {"ev": "compute", "graph": 0, **odd}])
        with pytest.raises(hbtrace.UsageError, match="can be moved"):
            whatif(lambda batch=batch: [batch], [Place("A", "GPU0")])


@pytest.mark.parametrize("name", ["integrated", "cuda_integrated", "discrete", "pipeline_src"])
def test_operations_elsewhere_in_recordings(name: str) -> None:
    path = str(recording(name))
    batches = list(hbtrace.open(path).batches())
    makes = placings(list(hbtrace.open(path)))
    makes += [lambda: [Place("MUL_MAT", "CPU")], lambda: [Place("*norm*", "CPU"), Wait("ubatch", "event")]]
    done = [placed_alike(lambda: batches, make, name) for make in [*random.Random(0).sample(makes, 4), *makes[-2:]]]
    assert any(patched is not None for patched in done)


@pytest.mark.parametrize(
    "name", ["integrated", "cuda_integrated", "ngl2", "discrete", "cuda", "pipeline_src", "vulkan"]
)
def test_recordings(name: str) -> None:
    path = str(recording(name))
    batches = list(hbtrace.open(path).batches())
    for make in rule_sets(list(hbtrace.open(path))):
        patched, rewritten, mine, theirs = both(lambda: batches, make)
        assert patched is not None, mine
        assert faces(patched.reports) == faces(rewritten.reports), mine
        assert [rule.price for rule in mine] == [rule.price for rule in theirs]
