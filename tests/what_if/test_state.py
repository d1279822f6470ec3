"""What rules know of work in flight: who runs a copy, what each thread has waited for, which queue an event was of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hbtrace.errors import UsageError
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.rewriting import Rule
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import Synchronous, Wait
from hbtrace.what_if.state import State
from hbtrace.what_if.whatif import WhatIf, rewrite, whatif

Event = dict[str, Any]

WAITS: list[Callable[[], Rule]] = [
    lambda: Wait("ubatch"), lambda: Wait("ubatch", "event"), lambda: Wait("before:inp_tokens"),
    lambda: Wait("before:inp_tokens", "event"),
]  # fmt: skip
INPUT: list[Event] = [
    {"ev": "backend", "id": 0, "name": "G0"},
    {"ev": "buffer", "id": 0, "name": "G_Host", "size": 64, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "flags": ["input"]},
]
WORK: Event = {"ev": "kernel", "backend": 0, "label": "w"}


def ubatch(number: int) -> list[Event]:
    read: Event = {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}], "ubatch": number}
    return [{"ev": "tensor_set", "tensor": 0, "ubatch": number}, read]


def tried(events: list[Event], *rules: Rule, threads: str | None = None) -> WhatIf:
    return whatif(lambda: [batch_from_rows(events)], rules, Settings(threads=threads))


def races(found: WhatIf) -> tuple[int, int]:
    return found.before.races, found.after.races


def copies(**keys: Any) -> list[Event]:
    """A copy into what the other device still reads."""
    events: list[Event] = [{"ev": "backend", "id": ident, "name": f"G{ident}"} for ident in (0, 1)]
    events += [
        {"ev": "buffer", "id": 0, "name": "G0", "size": 64, "host": keys.pop("host", False)},
        {"ev": "buffer", "id": 1, "name": "G1", "size": 64},
        {"ev": "tensor", "id": 0, "name": "l_out-0", "buffer": 0},
        {"ev": "tensor", "id": 1, "name": "G1#l_out-0#0", "buffer": 1},
    ]
    src = keys.pop("src", {"tensor": 0})
    copy: Event = {"ev": "copy_async", "backend": 1, "src_backend": 0, "src": src, "dst": {"tensor": 1}, **keys}
    read: Event = {"ev": "kernel", "backend": 1, "reads": [{"tensor": 1}]}
    return [*events, copy, read, copy, read]


@pytest.mark.parametrize("how", ["synchronize", "event"])
@pytest.mark.parametrize("keys", [{}, {"runs_on": "src"}, {"src": {"buffer": 0}}, {"runs_on": "?"}], ids=str)
def test_a_copy_that_does_not_say_it_runs_on_its_source(how: str, keys: dict[str, Any]) -> None:
    found = tried(copies(**keys), Wait("before:G1#*", how))
    assert races(found) == (1, 0)
    price = found.price
    assert (price.waits, price.queue_waits) == ((1, 0) if how == "synchronize" else (0, 1))


@pytest.mark.parametrize("keys", [{"host": True}, {"host": True, "src": {"buffer": 0}}, {"runs_on": "dst"}], ids=str)
def test_from_host_memory_it_runs_on_its_destination(keys: dict[str, Any]) -> None:
    events = copies(**keys)
    assert tried(events).before.races == 0
    rows = rewrite(lambda: [batch_from_rows(events)], [Wait("before:G1#*")])
    waited = {event["backend"] for _, event in rows if event["ev"] == "synchronize"}
    assert waited == {0}, "its own queue is in order"


def test_who_runs_a_copy() -> None:
    def runner(**keys: Any) -> int:
        state = State()
        events = copies(**keys)
        for event in events:
            state.take(event)
        return state.runner(next(event for event in events if event["ev"] == "copy_async"))

    assert [runner(runs_on=word) for word in ("src", "dst", "both")] == [0, 1, 0]
    assert (runner(), runner(host=True), runner(host=True, runs_on="src")) == (0, 1, 0)
    assert runner(src_backend=-1) == 1
    assert State().runner({"ev": "tensor_set", "backend": 3}) == -1


def test_a_ring_knows_the_queue_that_reads_an_input_by_a_copy() -> None:
    """With the event on the wrong queue the slot would be entered before it was read."""
    events: list[Event] = [
        *INPUT, {"ev": "backend", "id": 1, "name": "G1"}, {"ev": "buffer", "id": 1, "name": "G1", "size": 64},
        {"ev": "tensor", "id": 1, "name": "G1#inp_tokens#0", "buffer": 1},
    ]  # fmt: skip
    events[1] = events[1] | {"host": False}
    copy: Event = {"ev": "copy_async", "backend": 1, "src_backend": 0, "src": {"tensor": 0}, "dst": {"tensor": 1}}
    for number in range(5):
        events += [{"ev": "tensor_set", "tensor": 0, "ubatch": number}, copy]
    for keys in ({}, {"runs_on": "src"}):
        found = tried([event | keys if event["ev"] == "copy_async" else event for event in events], Ring(2))
        assert (found.before.races, found.after.races) == (4, 0)
        rows = rewrite(lambda: [batch_from_rows(events)], [Ring(2)])
        assert {event["backend"] for _, event in rows if event["ev"] == "event_record"} == {0}


ORDERED: Event = {"ev": "meta", "version": 1, "threads": "ordered"}
OTHER: Event = {"ev": "synchronize", "backend": 0, "thread": 1}


@pytest.mark.parametrize("make", [*WAITS, lambda: Ring(2)], ids=lambda make: str(make()))
def test_what_another_thread_waited_for_is_not_known(make: Callable[[], Rule]) -> None:
    events = [ORDERED, *INPUT, *ubatch(0), OTHER, *ubatch(1)]
    found = tried(events, make())
    assert races(found) == (1, 0)
    assert (found.price.waits, found.price.bytes) != (0, 0)
    assert races(tried(events[1:], make(), threads="ordered")) == (1, 0)
    for alike in (tried(events[1:], make()), tried(events, make(), threads="one")):
        assert races(alike) == (0, 0)
        assert (alike.price.waits, alike.price.bytes) == (0, 0), "all threads are one: it was waited for"


@pytest.mark.parametrize("make", [*WAITS, lambda: Ring(2)], ids=lambda make: str(make()))
def test_what_another_thread_handed_over_is_known(make: Callable[[], Rule]) -> None:
    handed: list[Event] = [
        OTHER, {"ev": "release", "object": "m", "thread": 1}, {"ev": "acquire", "object": "m"},
    ]  # fmt: skip
    found = tried([ORDERED, *INPUT, *ubatch(0), *handed, *ubatch(1)], make())
    assert races(found) == (0, 0)
    assert (found.price.waits, found.price.bytes) == (0, 0)


def test_a_queue_that_rings_a_doorbell_is_waited_for() -> None:
    rung: list[Event] = [{"ev": "release", "object": "done", "backend": 0}, {"ev": "acquire", "object": "done"}]
    for events, waits in (([*ubatch(0), *rung], 0), ([*rung[:1], *ubatch(0), *rung[1:]], 1)):
        found = tried([*INPUT, *events, *ubatch(1)], Wait("ubatch"))
        assert (found.after.races, found.price.waits) == (0, waits)


RECORD: Event = {"ev": "event_record", "backend": 0, "event": 5}
WAIT: Event = {"ev": "event_synchronize", "event": 5}
FREED: Event = {"ev": "event_free", "event": 5}


@pytest.mark.parametrize("make", [*WAITS, lambda: Ring(2)], ids=lambda make: str(make()))
def test_an_event_of_a_queue_that_is_no_more_says_nothing_of_the_next(make: Callable[[], Rule]) -> None:
    again: list[Event] = [WORK] * 6 + [RECORD, {"ev": "backend_free", "backend": 0}, INPUT[0], WAIT]
    found = tried([*INPUT, *again, *ubatch(0), *ubatch(1), *ubatch(2)], make())
    assert races(found) == (2, 0)
    assert found.price.waits > 0


@pytest.mark.parametrize("make", [*WAITS, lambda: Ring(2)], ids=lambda make: str(make()))
def test_an_event_that_was_freed_is_no_wait(make: Callable[[], Rule]) -> None:
    found = tried([*INPUT, *ubatch(0), RECORD, FREED, WAIT, *ubatch(1)], make())
    assert races(found) == (1, 0)
    kept = tried([*INPUT, *ubatch(0), RECORD, WAIT, FREED, *ubatch(1)], make())
    assert races(kept) == (0, 0)
    assert (kept.price.waits, kept.price.bytes) == (0, 0)


def test_memory_that_only_another_thread_knows_to_be_free_is_pinned() -> None:
    tensors: list[Event] = [
        {"ev": "tensor", "id": ident, "name": name, "buffer": 0} for ident, name in ((1, "ffn_out"), (2, "attn_out"))
    ]
    events = [ORDERED, *INPUT, *tensors, WORK | {"reads": [{"tensor": 1}]}, OTHER, {"ev": "tensor_set", "tensor": 2}]
    assert races(tried(events, Pin())) == (1, 0)
    plain = tried(events[1:], Pin())
    assert (plain.before.races, plain.price.bytes) == (0, 0)


def marked(number: int, *, first: bool) -> list[Event]:
    """A ubatch with its marker before its inputs, or behind them."""
    write, read = ubatch(number)
    marker: Event = {"ev": "ubatch", "sched": 0, "n": number}
    prepared: Event = {"ev": "sched_reuse", "sched": 0, "ubatch": number}
    return [prepared, marker, write, read] if first else [prepared, write, marker, read]


@pytest.mark.parametrize("how", ["synchronize", "event"])
@pytest.mark.parametrize("first", [True, False])
def test_a_ubatch_begins_with_its_first_input_or_its_marker(how: str, first: bool) -> None:
    events = [*INPUT, *(event for number in range(4) for event in marked(number, first=first))]
    found = tried(events, Wait("ubatch", how))
    assert races(found) == (3, 0)
    assert found.price.waits == 3, "one at each boundary"
    rows = [row for row, event in enumerate(events) if event["ev"] == ("ubatch" if first else "tensor_set")][1:]
    entries = list(rewrite(lambda: [batch_from_rows(events)], [Wait("ubatch", how)]))
    before = [entries[place + 1][0] for place, (_, event) in enumerate(entries) if event["ev"].endswith("synchronize")]
    assert before == rows


def test_ubatches_that_begin_again_with_the_next_context() -> None:
    """Number 0 once more, inputs first: it is another ubatch all the same."""
    events = [*INPUT, *(event for number in (0, 1, 0, 1) for event in marked(number, first=False))]
    found = tried(events, Wait("ubatch"))
    assert races(found) == (3, 0)
    assert found.price.waits == 3


@pytest.mark.parametrize(
    ("name", "left"),
    [("G0", set()), ("G0#1", {"G0#2"}), ("G0#2", {"G0#1"}), ("G0*", set()), ("G0#[12]", set())],
    ids=str,
)
def test_one_backend_of_several_of_a_name_is_made_synchronous(name: str, left: set[str]) -> None:
    events: list[Event] = [*INPUT, INPUT[0] | {"id": 1}, INPUT[0] | {"id": 2}]
    for queue in (1, 2):
        write, read = ubatch(0)
        events += [read | {"backend": queue}, write, {"ev": "synchronize", "backend": queue}]
    found = tried(events, Synchronous(name))
    assert found.before.races == 2
    assert {report.earlier.actor for cause in found.after.causes for report in cause.reports} == left


def test_a_backend_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no asynchronous backend is named 'G0#1'"):
        tried([*INPUT, *ubatch(0)], Synchronous("G0#1"))
