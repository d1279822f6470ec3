"""What must hold for any two runs: random programs, the changes that change no identity, and filters."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from hbtrace.compare.diff import diff
from hbtrace.compare.outcome import Outcome
from hbtrace.compare.selection import select
from hbtrace.compare.sides import Side
from hbtrace.races.filters import Filters
from hbtrace.races.identity import identities
from hbtrace.replay.reports import Report
from hbtrace.replay.session import Session
from hbtrace.trace.rows import batch_from_rows
from tests.compare.samples import found, renumbered, run
from tests.oracle.programs import random_program

PROGRAMS = [random_program(random.Random(seed), weird=0.0) for seed in range(80)]
NOTHING = Filters()


REPLAYED: dict[int, tuple[list[Report], Session]] = {}


def side(events, filters=NOTHING, name="run"):
    if id(events) not in REPLAYED:  # the programs live as long as this module
        session = Session([batch_from_rows(events)])
        REPLAYED[id(events)] = list(session), session
    reports, session = REPLAYED[id(events)]
    selection = select(reports, filters, 1)
    out = Side([name])
    out.add(Outcome(name, session.rows, 0, selection, exercise=session.exercise, actors=session.all_names))
    return out


def states(verdict):
    out = defaultdict(set)
    for finding in verdict.findings:
        out[finding.state].add((finding.id, finding.was))
    return out


def variant(events, seed):
    """A run that has some of another's work: rows fall out, and names change."""
    rng = random.Random(seed)
    queued = ("kernel", "compute", "synchronize", "event_wait", "tensor_set", "set_direct")
    out = [e for e in events if e["ev"] not in queued or rng.random() < 0.8]
    return [e | {"name": "renamed"} if e["ev"] == "tensor" and rng.random() < 0.1 else e for e in out]


PAIRS = [(events, variant(events, seed)) for seed, events in enumerate(PROGRAMS)]


def test_the_programs_race():
    assert sum(bool(side(events).races) for events in PROGRAMS) > 25
    assert sum(len(side(a).races) != len(side(b).races) for a, b in PAIRS) > 10
    seen = {state for a, b in PAIRS for state in states(diff(side(a), side(b)))}
    assert seen == {"new", "fixed", "persisting", "moved", "not exercised"}


def test_a_trace_against_itself_shows_nothing():
    for events in PROGRAMS:
        one = side(events)
        verdict = diff(one, side(events, name="again"))
        assert states(verdict).keys() <= {"persisting"}
        assert {f.id for f in verdict.findings} == set(found(events))
        assert not [note for note in verdict.notes if note.startswith("backend")]


def test_diff_is_antisymmetric():
    for a, b in PAIRS:
        there, back = states(diff(side(a), side(b))), states(diff(side(b), side(a)))
        for one, other in ((there, back), (back, there)):
            assert one["new"] == other["fixed"] | other["not exercised"]
        assert there["persisting"] == back["persisting"]
        assert there["moved"] == {(was, now) for now, was in back["moved"]}


def test_renumbered_ids_change_no_identity():
    for events in PROGRAMS:
        assert set(found(renumbered(events, 1000))) == set(found(events))


def test_other_addresses_change_no_identity():
    """All of a buffer moves up by the same number of bytes, and the buffer grows."""
    for events in PROGRAMS:
        moved = [shifted(event, 512) for event in events]
        assert set(found(moved)) == set(found(events))


def shifted(event, by):
    def of_range(given):
        return given | {"offset": given.get("offset", 0) + by} if "buffer" in given and "tensor" not in given else given

    event = {k: [of_range(r) for r in v] if k in ("reads", "writes") else v for k, v in event.items()}
    for key in ("src", "dst", "host_range"):
        if isinstance(event.get(key), dict):
            event[key] = of_range(event[key])
    if event["ev"] == "graph":
        event["nodes"] = [shifted({"ev": "", **node}, by) for node in event["nodes"]]
        event["nodes"] = [{k: v for k, v in node.items() if k != "ev"} for node in event["nodes"]]
    if event["ev"] == "tensor" and event.get("buffer", -1) != -1:
        event["offset"] = event.get("offset", 0) + by
    if event["ev"] == "buffer":
        event["size"] += by
    return event


def test_unrelated_buffers_change_no_identity():
    for seed, events in enumerate(PROGRAMS):
        rng = random.Random(seed)
        more = list(events)
        for number in range(5):
            first = next((k for k, e in enumerate(more) if e["ev"] != "meta"), 0)
            row = {"ev": "buffer", "id": 5000 + number, "name": "Other", "size": 64}
            more.insert(rng.randint(first, len(more)), row)
        assert set(found(more)) == set(found(events))


def test_the_order_of_independent_rows_changes_no_identity():
    """Two queues and a host that never meet: their rows may stand in any order that keeps each one's own."""
    def part(number):
        events = run(f"inp_{number}", name=f"GPU{number}", ubatches=4)
        return renumbered(events[1:3], number * 10), renumbered(events[3:], number * 10)

    for seed in range(30):
        rng = random.Random(seed)
        (first, one), (second, two) = part(1), part(2)
        mixed = [*first, *second]
        one, two = list(one), list(two)
        while one or two:
            mixed.append((one if one and (not two or rng.random() < 0.5) else two).pop(0))
        in_order = [*first, *second, *part(1)[1], *part(2)[1]]
        assert set(found(mixed)) == set(found(in_order))


FILTERS = [
    Filters(tensor=("l_out*",)), Filters(buffer=("CUDA*",)), Filters(kind=("write-after-write",)),
    Filters(label=("kernel",)), Filters(split=((0, 4),)), Filters(ubatch=((1, 1),), label=("*set*",)),
    Filters(actor=("HOST",)), Filters(ids=("R-[0-7]*",)), Filters(tensor=("renamed", "inp*"), kind=("*-read",)),
    Filters(label=("kernel",), buffer=("ROCm*",)), Filters(tensor=("Q*", "*#*")), Filters(ids=("R-*",)),
]  # fmt: skip


@pytest.mark.parametrize("filters", FILTERS, ids=range(len(FILTERS)))
def test_filter_then_diff_is_diff_then_filter(filters):
    """A finding is told if a report of it, on either side, passes; what became of the race is the same."""
    told = 0
    for a, b in PAIRS:
        sides = side(a, filters), side(b, filters)
        ids = identities([*sides[0].races, *sides[1].races])
        shown = {ids[c] for s in sides for c, seen in s.races.items() if seen.occurrences is not None}
        expected = {(f.id, f.state) for f in diff(side(a), side(b)).findings if shown & {f.id, f.was}}
        assert {(f.id, f.state) for f in diff(*sides).findings} == expected
        told += len(expected)
    assert told
