"""Random programs: the engine against the brute-force oracle, and the oracle against schedules.

HBTRACE_PROGRAMS is the number of programs (2000), HBTRACE_SEED the first seed (0): a failure prints the seed and a
shrunk program.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hbtrace.errors import TraceError
from hbtrace.replay.session import Result, Session, analyze_events
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows
from tests.oracle import compare, oracle
from tests.oracle.programs import random_program
from tests.oracle.schedules import Order

PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "2000"))
FIRST_SEED = int(os.environ.get("HBTRACE_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + PROGRAMS)
EVEN_SEEDS = [seed for seed in SEEDS if seed % 3]
SCHEDULES = 5

needs_many = pytest.mark.skipif(PROGRAMS < 2000, reason="too few programs to ask for every kind of one")


def _program(seed: int) -> list[oracle.Event]:
    """The program of a seed. Every third is odd, some of these very."""
    weird = 0.0 if seed % 3 else (0.03, 0.1, 0.3)[seed // 3 % 3]
    return random_program(random.Random(seed), weird=weird)


def _options(seed: int) -> dict[str, Any]:
    return {
        "skip_weights": seed % 5 == 0,
        "threads": {1: "one", 2: "ordered"}.get(seed % 7),
    }


def _strict_row(events: list[oracle.Event], options: dict[str, Any]) -> int | str | None:
    """The row at which the engine stops in strict mode; its sentence if it names none, which no oracle expects."""
    try:
        analyze_events(events, strict=True, **options)
    except TraceError as error:
        return str(error) if error.row is None else error.row
    return None


def _differences(events: list[oracle.Event], options: dict[str, Any]) -> list[str]:
    """Where engine and oracle differ on a program."""
    expected = oracle.analyze(events, **options)
    session = Session([batch_from_rows(events)] if events else [], Settings(**options))
    found = compare.differences(expected, Result(list(session), session.warnings))
    if bool(session.nothing) == expected.accessed:
        found.append(f"nothing to judge: {session.nothing!r}, expected {not expected.accessed}")
    strict_row = _strict_row(events, options)
    if strict_row != expected.strict_row:
        found.append(f"strict mode stops at row {strict_row}, expected {expected.strict_row}")
    return found


def _disagree(events: list[oracle.Event], options: dict[str, Any]) -> bool:
    """Whether engine and oracle differ, for shrinking: what only the oracle cannot run is not such a program."""
    try:
        return bool(_differences(events, options))
    except oracle.TooLargeError:
        return False


def _failure(seed: int) -> str:
    """The seed, a shrunk program and where engine and oracle differ on it; empty where they do not."""
    events, options = _program(seed), _options(seed)
    if not _differences(events, options):
        return ""
    events = compare.shrink(events, lambda fewer: _disagree(fewer, options))
    lines = [json.dumps(event) for event in events]
    return "\n".join([f"seed {seed}, {options}:", *lines, *_differences(events, options)])


def test_engine_agrees_with_oracle() -> None:
    """Report for report and field for field, distinct races, warning kinds and the row that strict mode names."""
    failures = []
    for seed in SEEDS:
        if failure := _failure(seed):
            failures.append(failure)
            if len(failures) == 5:
                break
    assert not failures, "\n\n".join(failures)


# --- corners that chance seldom reaches

_QUEUE = {"ev": "backend", "id": 0, "name": "SYCL0", "drains": ["set", "get"]}
_MEMORY = {"ev": "buffer", "id": 0, "name": "SYCL0", "size": 32}
_WRITE = {"ev": "kernel", "backend": 0, "writes": [{"buffer": 0}]}
_WRITE_8 = {"ev": "kernel", "backend": 0, "writes": [{"buffer": 0, "size": 8}]}
_READ = {"ev": "host_access", "reads": [{"buffer": 0}]}
_OWNED = {"ev": "buffer", "id": 1, "name": "SYCL0", "size": 8, "backend": 0}
_IN_OWNED = {"ev": "tensor", "id": 1, "name": "x", "buffer": 1, "size": 8}

CORNERS: dict[str, list[oracle.Event]] = {
    "wrong values in a late meta": [_QUEUE, {"ev": "meta", "threads": "many", "version": "x"}],
    "wrong values in a row that is skipped": [_QUEUE, {"ev": "kernel", "split": "x"}],
    "wrong values of an unknown event": [_QUEUE, {"ev": "launch", "split": "x", "backend": 8.0}],
    "a key of another event": [_QUEUE, {"ev": "synchronize", "backend": 0, "tensor": "x"}],
    "a number beyond int64": [_QUEUE, _MEMORY, {**_READ, "reads": [{"buffer": 0, "offset": 2**63}]}],
    "a tensor of negative size": [
        *(_QUEUE, _MEMORY, {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "offset": 16, "size": -4}, _WRITE),
        {"ev": "get_direct", "tensor": 0, "offset": -8},
    ],
    "a buffer of negative size": [{**_MEMORY, "size": -4}, {**_READ, "reads": [{"buffer": 0, "offset": -2}]}],
    "a view of nothing known in a dead buffer": [
        *(_QUEUE, _OWNED, {**_IN_OWNED, "view_of": 9}, {"ev": "buffer_free", "buffer": 1}),
        {"ev": "get_direct", "tensor": 1},
    ],
    "a view of nothing known that is cut away": [
        *(_QUEUE, _OWNED, {**_IN_OWNED, "offset": 9, "view_of": 9}),
        {"ev": "get_direct", "tensor": 1},
    ],
    "a call on skipped weights drains": [
        *(_QUEUE, _MEMORY, {**_OWNED, "usage": "weights"}, _IN_OWNED, _WRITE),
        *({"ev": "tensor_get", "tensor": 1}, _READ),
    ],
    "a call on a dead buffer drains": [
        *(_QUEUE, _MEMORY, _OWNED, _IN_OWNED, _WRITE, {"ev": "buffer_free", "buffer": 1}),
        *({"ev": "tensor_get", "tensor": 1}, _READ),
    ],
    "a free does not drain": [_QUEUE, _MEMORY, _OWNED, _WRITE, {"ev": "buffer_free", "buffer": 1}, _READ],
    "an undefined buffer defined later is the same life": [_QUEUE, _WRITE_8, {**_MEMORY, "size": 4}, _READ],
    "an undefined buffer freed and defined is another": [
        *(_QUEUE, _WRITE_8, {"ev": "buffer_free", "buffer": 0}, _MEMORY, _READ)
    ],
    "freed twice without a byte": [{**_MEMORY, "size": 0}, *[{"ev": "buffer_free", "buffer": 0}] * 2],
    "a freed queue is copied from": [
        *(_QUEUE, {**_QUEUE, "id": 1}, _MEMORY, {"ev": "backend_free", "backend": 0}),
        {"ev": "copy_async", "backend": 1, "src_backend": 0, "src": {"buffer": 0}, "dst": {"buffer": 0}},
    ],
    "a queue freed twice": [_QUEUE, *[{"ev": "backend_free", "backend": 0}] * 2],
    "zero bytes of a tensor nowhere": [
        {"ev": "tensor", "id": 0, "name": "x", "size": 8},
        {"ev": "get_direct", "tensor": 0, "size": 0},
    ],
    "ranges of a graph that is never computed": [{"ev": "graph", "id": 0, "nodes": [{"reads": [{"tensor": "x"}, {}]}]}],
    "an empty device is none": [
        *({**_QUEUE, "device": ""}, _MEMORY, {**_OWNED, "backend": -1, "device": ""}, _IN_OWNED, _WRITE),
        *({"ev": "tensor_get", "tensor": 1}, _READ),
    ],
}

_KV = {"ev": "tensor", "id": 0, "name": "kv", "buffer": 0, "size": 32}
_ROWS = {"tensor": 0, "by": 1, "pitch": 4, "size": 4}
_WEIGHTS = {**_MEMORY, "usage": "weights"}
_FREED = [_MEMORY, _KV, {"ev": "buffer_free", "buffer": 0}]
_BIG = 2**62


def _rows(*picked: Any, **keys: Any) -> list[oracle.Event]:
    """What a queue wrote is read in the rows that are picked, of a range with these keys."""
    return [_QUEUE, _MEMORY, _KV, _WRITE, *_look(*picked, **keys)]


def _look(*picked: Any, **keys: Any) -> list[oracle.Event]:
    return [{"ev": "host_access", "reads": [{**_ROWS, **keys}], "picked": list(picked)}]


def _of(*runs: Any) -> dict[str, Any]:
    return {"tensor": 1, "runs": list(runs)}


CORNERS |= {
    "no picked": [*_rows()[:-1], {"ev": "host_access", "reads": [_ROWS]}],
    "no element": _rows({"tensor": 2, "runs": [{"first": 0}]}),
    "an element without runs": _rows({"tensor": 1}),
    "an element of no tensor": _rows({"tensor": -1, "runs": [{"first": 0}]}, {"runs": [{"first": 0}]}),
    "rows without bytes": _rows(_of({"first": 0, "count": 4}), size=0),
    "rows without bytes, not picked": _rows(size=-1),
    "a run without a first": _rows(_of({"first": 0}, {"count": 2})),
    "a run without a first after one with": _rows(_of({"first": 0}), _of({"count": 2})),
    "a run without a first before one with": _rows(_of({"count": 2}), _of({"first": 0})),
    "two elements": _rows(_of({"first": 0}), _of({"first": 3})),
    "runs of the wrong type": _rows(_of({"first": 1}, "x")),
    "a null run": _rows(_of({"first": 1}, None)),
    "runs that are no list": _rows({"tensor": 1, "runs": {"first": 1}}),
    "picked that is no list": [*_rows()[:-1], {"ev": "host_access", "reads": [_ROWS], "picked": {"tensor": 1}}],
    "no element is one": _rows(None, 5, _of({"first": 1})),
    "no count and no repeat": _rows(_of({"first": 1, "count": 0}, {"first": 2, "repeat": -1})),
    "rows below zero": _rows(_of({"first": -3, "count": 4}, {"first": 2, "repeat": 9, "step": -1})),
    "rows below zero only": _rows(_of({"first": -3, "count": 3})),
    "rows that overlap": _rows(_of({"first": 0, "count": 3}), pitch=2, size=7),
    "rows past the buffer": _rows(_of({"first": 7, "count": 2})),
    "rows past the buffer only": _rows(_of({"first": 8, "count": 2})),
    "rows before the buffer": _rows(_of({"first": 0, "count": 4}), offset=-6),
    "rows before the buffer only": _rows(_of({"first": 0, "count": 2}), offset=-8),
    "rows without end": _rows(_of({"first": 1, "count": _BIG})),
    "rows without end and gaps between them": _rows(_of({"first": 1, "count": _BIG}), size=1),
    "a run repeated without end": _rows(_of({"first": 1, "repeat": _BIG, "step": 3})),
    "a run repeated without end from above": _rows(_of({"first": 3 * _BIG // 2, "repeat": _BIG, "step": -1})),
    "a run repeated in place without end": _rows(_of({"first": 1, "repeat": _BIG})),
    "a run of long steps": _rows(_of({"first": -_BIG, "repeat": 4, "step": _BIG, "count": 2})),
    "rows far apart": _rows(_of({"first": 0, "count": 3}), pitch=_BIG, size=2),
    "rows far before the buffer": _rows(_of({"first": _BIG, "count": 3}), pitch=1, size=1, offset=-_BIG),
    "rows in a dead buffer": [_QUEUE, *_FREED, *_look(_of({"first": 9, "count": _BIG}))],
    "no row in a dead buffer": [_QUEUE, *_FREED, *_look(_of({"first": -1}))],
    "rows of a tensor nowhere": [{"ev": "tensor", "id": 0, "name": "x", "size": 8}, *_look(_of({"first": 0}))],
    "rows of a tensor nowhere, none": [{"ev": "tensor", "id": 0, "name": "x", "size": 8}, *_look(_of())],
    "rows of nothing": _rows(_of({"first": 0}), tensor=None),
    "rows of nothing known": _look(_of({"first": 1, "count": 2}), offset=-6),
    "no rows of nothing known": _look(_of()),
    "rows of nothing known, not picked": _look(),
    "rows in nothing known": [{**_KV, "buffer": 7}, *_look(_of({"first": 1, "count": 2}))],
    "rows of an odd kind": [
        *_rows(),
        *(
            event
            for keys in (
                {"rows": 2, "stride": 8},
                {"stride": 4},
                {"buffer": 0},
                {"size": None},
                {"pitch": None},
                {"pitch": 0},
                {"by": -1},
                {"by": "x"},
            )
            for event in _look(_of(), **keys)
        ),
    ],
    "rows of an odd kind in a graph never computed": [{"ev": "graph", "id": 0, "nodes": [{"reads": [{"by": 1}]}]}],
    "by in a copy": [
        *_rows()[:-1],
        {"ev": "tensor_copy", "src": _ROWS, "dst": {**_ROWS, "size": 0}, "picked": [_of({"first": 0})]},
    ],
    "by of a transfer": [*_rows()[:-1], {"ev": "tensor_get", "tensor": 0, "by": 1, "pitch": 4, "size": 4}],
    "a free on a queue after its own work": [_QUEUE, _MEMORY, _WRITE, {**_FREED[2], "backend": 0}],
    "a free on another queue": [_QUEUE, {**_QUEUE, "id": 1}, _MEMORY, _WRITE, {**_FREED[2], "backend": 1}],
    "a free on a synchronous queue": [
        *(_QUEUE, {**_QUEUE, "id": 1, "synchronous": True}, _MEMORY, {**_OWNED, "backend": -1}, _IN_OWNED, _WRITE_8),
        *({"ev": "kernel", "backend": 1, "writes": [{"tensor": 1}]}, {"ev": "buffer_free", "buffer": 0, "backend": 1}),
        {"ev": "get_direct", "tensor": 1},
    ],
    "a free on a queue twice": [_QUEUE, _MEMORY, *[{**_FREED[2], "backend": 0}] * 2],
    "a free on no queue": [_QUEUE, _MEMORY, _WRITE, {**_FREED[2], "backend": -1}],
    "a free on a queue that is no id": [_QUEUE, _MEMORY, _WRITE, {**_FREED[2], "backend": "x"}],
    "a free on a queue never defined": [_QUEUE, _MEMORY, _WRITE, {**_FREED[2], "backend": 9}],
    "a free on a freed queue": [_QUEUE, _MEMORY, {"ev": "backend_free", "backend": 0}, {**_FREED[2], "backend": 0}],
    "a free on a queue of a buffer never defined": [_QUEUE, _WRITE_8, {**_FREED[2], "backend": 0}, _WRITE_8],
    "a free on a queue of weights": [_QUEUE, _WEIGHTS, _WRITE, {**_FREED[2], "backend": 0}],
    "unknown keys in a late meta": [_QUEUE, {"ev": "meta", "versions": 1}],
    "unknown keys in a row that is skipped": [_QUEUE, {"ev": "kernel", "write": []}],
    "unknown keys of an unknown event": [_QUEUE, {"ev": "launch", "write": []}],
    "unknown keys after an error": [{"ev": "synchronize", "backend": 3}, {"ev": "synchronize", "backend": 3, "k": 1}],
    "unknown keys before an error": [{"ev": "synchronize", "backend": 3, "k": 1}, {"ev": "synchronize", "backend": 3}],
    "an unknown key of null": [{**_QUEUE, "k": None}, {**_WRITE, "writes": [{"buffer": 0, "k": None}]}],
    "the producer's own": [
        {"ev": "meta", "env": {"k": 1}, "x_": 1, "modules": [{"k": 1}, 5], "x_a": None},
        {"ev": "note", "attrs": {"k": {"k": 1}}, "sched": 3, "duration": 2, "frames": [4096, {"k": 1}]},
        {"ev": "kernel", "backend": 0, "reads": [{"x_a": 1}], "picked": [{"x_": 1, "runs": [{"first": 0, "x_b": []}]}]},
    ],
    "unknown keys within": [
        {"ev": "graph", "id": 0, "nodes": [{"read": []}]},
        {"ev": "graph", "id": 0, "nodes": [{"reads": [{"tensors": 1}]}]},
        {"ev": "copy_async", "backend": 0, "src": {"k": 1}, "dst": {}},
        {"ev": "host_access", "picked": [{"run": []}]},
        {"ev": "host_access", "picked": [{"runs": [{"first": 0, "cuont": 2}]}]},
        {"ev": "sched", "id": 0, "buffer": 3},
        {**_MEMORY, "extra": 1},
    ],
    "nothing but zero bytes": [_QUEUE, _MEMORY, {**_READ, "reads": [{"buffer": 0, "size": 0}]}],
    "nothing but what is cut away": [_QUEUE, _MEMORY, {**_READ, "reads": [{"buffer": 0, "offset": 32, "size": 4}]}],
    "nothing but weights": [_QUEUE, _WEIGHTS, _READ],
    "nothing but zero bytes of weights": [_QUEUE, _WEIGHTS, {**_READ, "reads": [{"buffer": 0, "size": 0}]}],
    "nothing but weights cut away": [_QUEUE, _WEIGHTS, {**_READ, "reads": [{"buffer": 0, "offset": 32, "size": 4}]}],
    "nothing but zero rows of weights": [_QUEUE, _WEIGHTS, _KV, *_look(_of())],
    "nothing but weights in no place": [_QUEUE, _WEIGHTS, {**_KV, "size": 0}, *_look()],
    "nothing but dead bytes": [_QUEUE, {**_MEMORY, "size": 0}, {"ev": "buffer_free", "buffer": 0}, _WRITE_8],
    "nothing but a free": [_QUEUE, _MEMORY, {"ev": "buffer_free", "buffer": 0}],
    "nothing but frees of nothing": [_QUEUE, {**_MEMORY, "size": 0}, *[{"ev": "buffer_free", "buffer": 0}] * 2],
}


@pytest.mark.parametrize("skip_weights", [False, True])
@pytest.mark.parametrize("corner", CORNERS)
def test_engine_agrees_in_the_corners(corner: str, skip_weights: bool) -> None:
    """Hand-made programs of a few events, each a clause that the random ones seldom meet."""
    assert not _differences(CORNERS[corner], {"skip_weights": skip_weights})


@pytest.mark.parametrize("size", [1, 7])
def test_where_a_batch_ends_changes_nothing(size: int) -> None:
    """History that is dropped between batches is history that nobody can meet any more."""
    for seed in SEEDS[:150]:
        events, options = _program(seed), _options(seed)
        whole = analyze_events(events, **options)
        batches = (batch_from_rows(events[at : at + size]) for at in range(0, len(events), size))
        cut = Session(batches, Settings(**options))
        assert list(cut) == whole.reports, f"seed {seed}"
        assert cut.warnings == whole.warnings, f"seed {seed}"


# --- more edges, no more races


def _with_an_edge(rng: random.Random, events: list[oracle.Event]) -> tuple[list[oracle.Event], list[int]]:
    """The program with a `synchronize`, or a fresh event recorded and waited for, put in somewhere; and for each row
    of the new program the old row, -1 for what was put in."""
    definitions = [row for row, event in enumerate(events) if event["ev"] == "backend"]
    at = rng.randint(definitions[0] + 1, len(events))
    queues = sorted({events[row]["id"] for row in definitions if row < at})
    thread = rng.randrange(3)
    extra: list[oracle.Event] = [{"ev": "synchronize", "backend": rng.choice(queues), "thread": thread}]
    if rng.random() < 0.6:
        extra = [
            {"ev": "event_record", "backend": rng.choice(queues), "event": 1000, "thread": thread},
            {"ev": "event_wait", "backend": rng.choice(queues), "event": 1000, "thread": thread},
        ]
    rows = [*range(at), *[-1] * len(extra), *range(at, len(events))]
    return events[:at] + extra + events[at:], rows


def _by_pair(reports: list[Any], rows: list[int]) -> dict[tuple[int, ...], Any]:
    """The reports by their two accesses, with rows as in the program before anything was put in."""
    return {
        (rows[report.earlier.row], report.earlier.access, rows[report.current.row], report.current.access): report
        for report in reports
    }


@pytest.mark.parametrize("analyze", [oracle.analyze, analyze_events], ids=["oracle", "engine"])
def test_an_edge_never_adds_a_race(analyze: Any) -> None:
    """With one edge more there are at most the same races, on at most the same bytes, and nobody knows less."""
    lost = 0
    for seed in EVEN_SEEDS[: max(PROGRAMS // 4, 1)]:
        events = _program(seed)
        edged, rows = _with_an_edge(random.Random(seed), events)
        before = _by_pair(analyze(events).reports, list(range(len(events))))
        after = _by_pair(analyze(edged).reports, rows)
        assert after.keys() <= before.keys(), f"seed {seed}: {sorted(after.keys() - before.keys())}"
        for pair, report in after.items():
            assert report.bytes <= before[pair].bytes, f"seed {seed}: {pair}"
            assert report.knows >= before[pair].knows, f"seed {seed}: {pair}"
            assert report.needs == before[pair].needs, f"seed {seed}: {pair}"
        lost += len(before) - len(after)
    assert lost or PROGRAMS < 100, "no edge took a race away"


# --- schedules


Pair = tuple[tuple[int, int], tuple[int, int]]
"""Two accesses, each by row and number, the earlier one first."""


def _met(touches: list[oracle.Touch]) -> Iterator[Pair]:
    """The accesses to one byte, in recorded order, each with those that the byte remembers then and one of which
    writes: the last write, and after it the newest read of each actor."""
    write: list[oracle.Touch] = []
    reads: dict[oracle.Actor, oracle.Touch] = {}
    for touch in touches:
        writes = touch.access.mode == "write"
        for earlier in [*write, *(reads.values() if writes else ())]:
            yield (earlier.access.row, earlier.access.access), (touch.access.row, touch.access.access)
        if writes:
            write, reads = [touch], {}
        else:
            reads[touch.access.by] = touch


def _unordered(found: oracle.Findings, order: Order) -> Counter[Pair]:
    """How many bytes of each pair of remembered and current access can be touched in either order."""
    at: dict[tuple[int, int], list[oracle.Touch]] = {}
    for touch in found.touches:
        for byte in touch.addresses:
            at.setdefault((id(touch.buffer), byte), []).append(touch)
    return Counter(pair for touches in at.values() for pair in _met(touches) if order.unordered(*pair))


def test_schedules_agree_with_oracle() -> None:
    """The races are the accesses that can run either way round, byte for byte. Without one, every read sees the same
    versions under any schedule and leaves the same memory."""
    differed = Counter[bool]()
    for seed in EVEN_SEEDS:
        found = oracle.analyze(events := _program(seed))
        order = Order(events, found)
        reported = {
            ((report.earlier.row, report.earlier.access), (report.current.row, report.current.access)): report.bytes
            for report in found.reports
        }
        assert reported == _unordered(found, order), f"seed {seed}: races are not what schedules can swap"
        recorded, rng = order.recorded(), random.Random(seed)
        same = all(order.shuffled(rng) == recorded for _ in range(SCHEDULES))
        assert same or reported, f"seed {seed}: no race, yet a schedule sees or leaves something else"
        if reported:
            differed[same] += 1
    assert differed[False] > differed[True] or PROGRAMS < 100, f"few races show in a schedule: {differed}"


# --- nothing here is vacuous


def _like_an_engine(found: oracle.Findings) -> SimpleNamespace:
    """A result as an engine would give it, open to alteration."""
    reports = []
    for report in found.reports:
        flat = compare.fields(report)
        sides = {
            side: SimpleNamespace(
                **{key.removeprefix(side + "."): value for key, value in flat.items() if key.startswith(side + ".")}
            )
            for side in ("earlier", "current")
        }
        reports.append(SimpleNamespace(**{key: value for key, value in flat.items() if "." not in key}, **sides))
    warnings = [f"{number} rows (first in row {row}: x)" for number, row in found.counted]
    return SimpleNamespace(reports=reports, distinct=found.distinct, warnings=warnings)


def test_the_comparison_notices() -> None:
    """A dropped, repeated or reordered report, and any single field that differs, is seen."""
    found = next(found for found in map(oracle.analyze, map(_program, range(1, 1000, 3))) if len(found.reports) > 2)
    assert not compare.differences(found, _like_an_engine(found))

    for alter in (
        lambda got: got.reports.pop(),
        lambda got: got.reports.pop(0),
        lambda got: got.reports.append(got.reports[-1]),
        lambda got: got.reports.reverse(),
        lambda got: got.warnings.append("another kind"),
        lambda got: setattr(got, "distinct", got.distinct + 1),
    ):
        got = _like_an_engine(found)
        alter(got)
        assert compare.differences(found, got)

    for name in compare.fields(found.reports[0]):
        got = _like_an_engine(found)
        *side, field = name.split(".")
        owner = getattr(got.reports[1], side[0]) if side else got.reports[1]
        value = getattr(owner, field)
        setattr(owner, field, value + 1 if isinstance(value, int) else (*(value or ()), "other"))
        assert len(compare.differences(found, got)) == 1, name


def test_shrinking_keeps_what_fails() -> None:
    """What is left is all needed."""
    events = _program(1)
    wanted = [events[0], events[-1]]
    assert compare.shrink(copy.copy(events), lambda fewer: all(event in fewer for event in wanted)) == wanted


@needs_many
def test_the_programs_hold_everything() -> None:
    """Every kind of race, of warning, of event and of way to run a copy occurs, and enough programs are race free."""
    seen = Counter[str]()
    for seed in SEEDS:
        events, options = _program(seed), _options(seed)
        json.dumps(events)
        found = oracle.analyze(events, **options)
        oddness = "even" if seed % 3 else "odd"
        seen[f"{oddness}, {'racy' if found.reports else 'race free'}"] += 1
        seen.update(f"warning: {kind}" for kind in found.warnings)
        seen["nothing to judge"] += not found.accessed
        if oddness == "even":
            assert not found.warnings, f"seed {seed}: {found.warnings}"
        for report in found.reports:
            seen[f"race: {report.kind}"] += 1
            seen["report: approx"] += report.approx
            if found.chosen & {(report.current.row, report.current.access)}:
                seen[f"race: rows that were {'not' if report.current.approx else 'picked'}"] += 1
            seen["report: in pieces"] += report.bytes < report.hi - report.lo
            seen["report: buffer never defined"] += report.buffer.startswith("?")
            seen["report: tensor never defined"] += "?" in str(report.current.tensor)
            seen["report: view"] += " <- " in report.current.shown
            seen["report: no tensor"] += report.current.tensor is None
            seen["report: between threads"] += "HOST" == report.earlier.by.base == report.current.by.base
            seen["report: later queue of a name"] += report.current.actor != report.current.by.base
        seen["some distinct races are several reports"] += 0 < found.distinct < len(found.reports)
        seen.update(_features(events))
    wanted = [
        *(f"{oddness}, {racy}" for oddness in ("even", "odd") for racy in ("racy", "race free")),
        *(f"race: {kind}" for kind in ("read-after-write", "write-after-write", "write-after-read")),
        *(f"warning: {kind}" for kind in (*oracle.STRICT_ERRORS, oracle.VALUES, oracle.LATE_META)),
        *(f"warning: {kind}" for kind in (oracle.TOUCHES_NOTHING, oracle.FREED_BACKEND)),
        *(f"copy_async {runs_on}" for runs_on in ("src", "dst", "both", "default")),
        *(f"ev: {ev}" for ev, event in oracle.v.EVENTS.items() if event.needs),
        *("after_dst", "host_range", "drains", "synchronous"),
        *("re-recorded event", "graph of 20 nodes", "repeated compute"),
        *("rows of a graph", "rows of a kernel", "rows of a host access", "two elements", "no runs", "free on a queue"),
        *("race: rows that were picked", "race: rows that were not", "nothing to judge"),
    ]
    assert not [kind for kind in wanted if seen[kind] < 5], seen
    assert not [kind for kind, count in seen.items() if kind.startswith("report: ") and count < 5], seen
    assert min(seen["even, racy"], seen["even, race free"]) > PROGRAMS // 6, seen


def _features(events: list[oracle.Event]) -> Iterator[str]:
    """What a program holds."""
    recorded: set[Any] = set()
    computed = Counter[str]()
    for event in events:
        ev = event.get("ev")
        yield f"ev: {ev}"
        if ev == "copy_async":
            yield f"copy_async {event.get('runs_on', 'default')}"
        if ev == "event_record":
            if str(event.get("event")) in recorded:
                yield "re-recorded event"
            recorded.add(str(event.get("event")))
        if ev == "graph" and str(event.get("nodes")).count("writes") >= 20:
            yield "graph of 20 nodes"
        if ev == "compute":
            computed[str(event.get("graph"))] += 1
        if "'by': " in str(event.get("nodes")):
            yield "rows of a graph"
        if "'by': " in str((event.get("reads"), event.get("writes"))):
            yield f"rows of a {str(ev).replace('_', ' ')}"
        if isinstance(picked := event.get("picked"), list):
            tensors = [str(element.get("tensor")) for element in picked if isinstance(element, dict)]
            if len(tensors) > len(set(tensors)):
                yield "two elements"
            if any(isinstance(element, dict) and not element.get("runs") for element in picked):
                yield "no runs"
        if ev == "buffer_free" and "backend" in event:
            yield "free on a queue"
        yield from {"after_dst", "host_range", "drains", "synchronous"} & event.keys()
    if max(computed.values(), default=0) >= 5:
        yield "repeated compute"
