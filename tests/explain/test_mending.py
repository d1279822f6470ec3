"""The mends that are named: each is a rule that can be typed, and where it is said to reach a cause, it does."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hbtrace.cli import run
from hbtrace.explain.causes import Cause
from hbtrace.explain.mends import advice
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.writer import open_writer
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.rewriting import Rule
from hbtrace.what_if.rules import CopyOn, Wait
from hbtrace.what_if.whatif import Side, rewrite, side_of, whatif
from tests.oracle.programs import random_program

Event = dict[str, Any]

BASE: list[Event] = [
    {"ev": "backend", "id": 0, "name": "G0"},
    {"ev": "backend", "id": 1, "name": "G1"},
    {"ev": "buffer", "id": 0, "name": "H", "size": 64},
    {"ev": "tensor", "id": 0, "name": "a", "buffer": 0, "size": 64},
]
READ: Event = {"ev": "kernel", "backend": 0, "label": "k", "reads": [{"tensor": 0}]}


def side(events: list[Event]) -> Side:
    return side_of([batch_from_rows(events)], Settings())


def cause(*events: Event) -> Cause:
    (found,) = side([*BASE, *events]).causes
    return found


def rule_of(word: str, of: Cause, before: Side) -> Rule | None:
    """The rule of an advice; None for those of which it is not said that they reach every race."""
    option, _, value = word.partition(" ")
    made: dict[str, Callable[[], Rule]] = {
        "--sync": lambda: Wait(value, asked=True),
        "--event": lambda: Wait(value, "event", asked=True),
        "--edge": lambda: edges_for(of, before.recording, stall=False),
        "--after-dst": lambda: CopyOn(None, after_dst=True),
    }
    return made[option]() if option in made else None


def left(events: list[Event], word: str, of: Cause, before: Side) -> int | None:
    """How many reports of a cause are left under a rule that is named for it."""
    rule = rule_of(word, of, before)
    if rule is None:
        return None
    after = whatif(lambda: [batch_from_rows(events)], [rule], before=before).after
    return sum(len(other.reports) for other in after.causes if other.ident == of.ident)


def test_what_is_named_for_random_programs_does_it() -> None:
    named: dict[str, int] = {}
    for seed in range(20):
        events = random_program(random.Random(seed), weird=0.0)
        before = side(events)
        for its in before.causes[:3]:
            words = advice(its).rules
            assert f"--edge {its.ident}" in words
            for word in words:
                if (found := left(events, word, its, before)) is not None:
                    assert found == 0, f"seed {seed}: {word}"
                    option = word.partition(" ")[0]
                    named[option] = named.get(option, 0) + 1
    assert set(named) >= {"--edge", "--sync", "--event"}


@pytest.mark.parametrize("ev", ["buffer_free", "buffer_clear"])
def test_a_buffer_that_ends_under_a_queue_is_mended_by_the_edge(ev: str, tmp_path: Path) -> None:
    found = cause(READ, {"ev": ev, "buffer": 0})
    assert advice(found).rules == (f"--edge {found.ident}",)
    trace = tmp_path / "t.jsonl"
    with open_writer(str(trace)) as writer:
        writer.write_batch(batch_from_rows([*BASE, READ, {"ev": ev, "buffer": 0}]))
    for rule in (["--edge", found.ident], ["--sync", "before:a"], ["--event", "before:a"]):
        assert run(["whatif", str(trace), *rule]) == 0


@pytest.mark.parametrize(
    ("write", "met"),
    [
        ({"ev": "kernel", "backend": 1, "writes": [{"buffer": 0, "offset": 8, "size": 8}]}, True),
        ({"ev": "kernel", "backend": 1, "writes": [{"buffer": 0, "offset": 64, "size": 8}]}, False),
        ({"ev": "kernel", "backend": 1, "writes": [{"buffer": 0, "offset": 48, "size": 8, "rows": 2, "stride": 32}]},
         True),
        ({"ev": "kernel", "backend": 1, "reads": [{"buffer": 0}]}, False),
        ({"ev": "host_access", "writes": [{"buffer": 0, "offset": 60}]}, True),
        ({"ev": "host_access", "writes": [{"buffer": 1}]}, False),
        ({"ev": "tensor_copy", "src": {"buffer": 1}, "dst": {"buffer": 0}}, True),
        ({"ev": "copy_async", "backend": 1, "src": {"buffer": 0}, "dst": {"buffer": 1}}, False),
        ({"ev": "copy_async", "backend": 1, "src": {"buffer": 1}, "dst": {"buffer": 0, "size": 4}}, True),
        ({"ev": "get_async", "backend": 1, "tensor": 9, "host_range": {"buffer": 0, "size": 4}}, True),
        ({"ev": "compute", "backend": 1, "graph": 0}, True),
    ],
    ids=lambda value: str(value.get("ev")) if isinstance(value, dict) else str(value),
)  # fmt: skip
def test_a_point_before_a_tensor_is_met_by_whoever_writes_its_bytes(write: Event, met: bool) -> None:
    graph: Event = {"ev": "graph", "id": 0, "nodes": [{"op": "A", "writes": [{"buffer": 0, "offset": 63, "size": 1}]}]}
    more: list[Event] = [
        {"ev": "buffer", "id": 0, "name": "H", "size": 96}, {"ev": "buffer", "id": 1, "name": "I", "size": 96},
        {"ev": "tensor", "id": 9, "name": "b", "buffer": 1}, graph,
    ]  # fmt: skip
    events = [*BASE, *more, READ, write]

    def batches() -> Any:
        return [batch_from_rows(events)]

    patched, rewriting = Wait("before:a"), Wait("before:a")
    found = whatif(batches, [patched])
    list(rewrite(batches, [rewriting]))
    assert patched.price == rewriting.price
    assert patched.price.waits == met
    assert found.before.races == met
    assert found.after.races == 0


def test_between_host_threads_there_is_no_event() -> None:
    ordered: list[Event] = [{"ev": "meta", "version": 1, "threads": "ordered"}, *BASE]
    events = [*ordered, {"ev": "tensor_get", "tensor": 0}, {"ev": "tensor_set", "tensor": 0, "thread": 1}]
    before = side(events)
    (found,) = before.causes
    assert found.nature == "threads"
    assert "event" not in advice(found).text
    assert "release" in advice(found).text
    assert advice(found).rules == (f"--edge {found.ident}",)
    assert left(events, advice(found).rules[0], found, before) == 0


def test_a_queue_that_is_gone_is_not_waited_for_by_name() -> None:
    write: Event = {"ev": "tensor_set", "tensor": 0}
    assert advice(cause(READ, write)).rules[1:] == ("--event before:a",)
    assert advice(cause(READ, {"ev": "backend_free", "backend": 0}, write)).rules[1:] == ()
    assert advice(cause(READ, BASE[0], write)).rules[1:] == ()


def test_before_a_read_there_is_no_point() -> None:
    wrote = READ | {"reads": [], "writes": [{"tensor": 0}]}
    assert advice(cause(wrote, {"ev": "get_direct", "tensor": 0})).rules[1:] == ()


def copies(**keys: Any) -> Cause:
    """A copy from G0 to G1 over what G1 still reads."""
    read: Event = READ | {"backend": 1}
    copy: Event = {"ev": "copy_async", "backend": 1, "src_backend": 0, "src": {"buffer": 0, "offset": 64}}
    return cause({"ev": "buffer", "id": 0, "name": "H", "size": 96}, read, copy | {"dst": {"tensor": 0}, **keys})


def test_copies_wait_for_the_destination_where_that_is_whom_they_meet() -> None:
    for keys in ({}, {"label": "restore"}):
        found = copies(**keys)
        assert advice(found).short == "G0 waits for the slot's last reader on G1"
        assert advice(found).rules == (f"--edge {found.ident}", "--after-dst", "--event before:a")
    third: Event = {"ev": "backend", "id": 2, "name": "G2"}
    copy: Event = {"ev": "copy_async", "backend": 2, "src_backend": 1, "src": {"buffer": 9}, "dst": {"tensor": 0}}
    other = cause(third, READ, copy)
    assert "--after-dst" not in advice(other).rules
    assert advice(other).short == "G1 waits for G0"


def test_a_slot_is_any_slot_and_a_name_no_pattern() -> None:
    named: Event = {"ev": "tensor", "id": 0, "name": "G0#x[1]#0", "buffer": 0}
    (found,) = side([*BASE, named, READ, {"ev": "tensor_set", "tensor": 0}]).causes
    assert advice(found).rules[1:] == ("--event before:G0#x[[]1]#*",)
    assert advice(found).typed[1:] == ["--event 'before:G0#x[[]1]#*'"]


def test_a_ring_is_named_where_it_can_be() -> None:
    flagged: Event = {"ev": "tensor", "id": 0, "name": "inp", "buffer": 0, "flags": ["input"]}
    write: Event = {"ev": "tensor_set", "tensor": 0}

    def rules(first: int, then: int, event: Event = write) -> tuple[str, ...]:
        return advice(cause(flagged, READ | {"ubatch": first}, event | {"ubatch": then})).rules[:-1]

    assert rules(0, 1) == ("--ring 2", "--sync ubatch")
    assert rules(0, 3) == ("--ring 4", "--sync ubatch")
    assert rules(0, 64) == ("--sync ubatch",), "deeper than a ring can be"
    assert rules(-1, 1) == ("--ring 2",)
    assert rules(1, 0) == ("--ring 2",)
    assert rules(0, 1, {"ev": "host_access", "writes": [{"tensor": 0}]}) == ("--sync ubatch",)
