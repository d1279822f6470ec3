"""The allocator's reuse of memory is told apart from inputs that are written too early, and only pinning mends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hbtrace
from hbtrace.explain.causes import Cause
from hbtrace.explain.triage import triage, triage_recording
from hbtrace.replay.recording import record
from hbtrace.simulate.ggml import Config, simulate
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import Wait
from hbtrace.what_if.whatif import WhatIf, whatif
from tests.material import recording

Event = dict[str, Any]

LENT, TAKEN = 90_001, 90_002


def lent_again() -> list[Event]:
    """The real recording whose embedding is looked up by a CPU split, with one tensor more in host memory: the device
    reads it in place, and the CPU split of the next ubatch gets its bytes for another one."""
    events = list(hbtrace.open(str(recording("cuda_integrated"))))
    row = next(row for row, e in enumerate(events) if e["ev"] == "sched_compute")
    home = next(e["buffer"] for e in reversed(events[:row]) if e["ev"] == "tensor" and e["name"] == "inp_pos")
    buffer = next(e for e in events if e["ev"] == "buffer" and e["id"] == home)
    place = {"buffer": home, "offset": buffer["size"], "size": 4096}
    buffer["size"] += 4096
    queues = {e["id"]: e["name"] for e in events if e["ev"] == "backend"}
    runs_on = {e["graph"]: queues[e["backend"]] for e in events if e["ev"] == "compute"}
    for event in events:
        if event["ev"] == "graph":
            on_cpu = runs_on.get(event["id"]) == "CPU"
            event["nodes"][0]["writes" if on_cpu else "reads"].append({"tensor": TAKEN if on_cpu else LENT})
    named = [
        {"ev": "tensor", "id": LENT, "name": "kqv_out-1", **place},
        {"ev": "tensor", "id": TAKEN, "name": "ffn_norm-0", **place},
    ]
    return [*events[:row], *named, *events[row:]]


def quarantine_off() -> list[Event]:
    """The scheduler's model without its quarantine, and without the waits at a slot's entry: both kinds of races."""
    rows = list(simulate(Config(fault="quarantine-off")).rows)
    return [event for event in rows if event["ev"] != "event_synchronize"]


def tried(events: list[Event], *rules: Any) -> WhatIf:
    return whatif(lambda: [batch_from_rows(events)], list(rules))


def by_nature(causes: list[Cause]) -> dict[str, int]:
    found: dict[str, int] = {}
    for cause in causes:
        found[cause.nature] = found.get(cause.nature, 0) + len(cause.reports)
    return found


def test_no_recording_of_a_partial_offload_shows_reuse() -> None:
    assert [cause.nature for cause in triage(str(recording("ngl2")))] == ["input"]


def test_of_all_three_a_ring_removes_one_and_pinning_another() -> None:
    events = lent_again()
    found = triage_recording(record([batch_from_rows(events)]), "-")
    before = by_nature(found.causes)
    assert before == {"input": 24, "cpu-split": 6, "reuse": 6}
    reuse = next(cause for cause in found if cause.nature == "reuse")
    assert set(reuse.tensors) == {"kqv_out-1", "ffn_norm-0"}
    assert found.advice(reuse).rules == ("--pin", f"--edge {reuse.ident}")
    for depth in (2, 3, 4):
        ringed = tried(events, Ring(depth))
        assert by_nature(ringed.after.causes) == {"cpu-split": 6, "reuse": 6}, depth
        assert [cause.nature for cause in ringed.removed] == ["input"]
    pinned = tried(events, Pin())
    assert by_nature(pinned.after.causes) == {"input": 24, "cpu-split": 6}
    assert pinned.price.bytes >= 4096
    assert by_nature(tried(events, Pin(), Ring(2)).after.causes) == {"cpu-split": 6}
    assert tried(events, Wait("ubatch")).after.races == 0


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_of_the_model_without_quarantine(depth: int) -> None:
    events = quarantine_off()
    before = by_nature(tried(events, Ring(depth)).before.causes)
    assert before["reuse"] > 0
    assert by_nature(tried(events, Ring(depth)).after.causes)["reuse"] == before["reuse"]
    assert "reuse" not in by_nature(tried(events, Pin()).after.causes)


def test_without_anything_in_use_there_is_no_reuse() -> None:
    """The same bytes for another tensor, when the queue was waited for: no race, and nothing to pin."""
    wait: Callable[[list[Event]], WhatIf] = lambda events: tried(events, Pin())  # noqa: E731
    events: list[Event] = [
        {"ev": "backend", "id": 0, "name": "GPU0"},
        {"ev": "buffer", "id": 0, "name": "GPU0_Host", "size": 64, "host": True},
        {"ev": "tensor", "id": 0, "name": "a", "buffer": 0, "size": 64},
        {"ev": "tensor", "id": 1, "name": "b", "buffer": 0, "size": 64},
        {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]},
        {"ev": "synchronize", "backend": 0},
        {"ev": "host_access", "writes": [{"tensor": 1}]},
    ]
    clean = wait(events)
    assert (clean.before.races, clean.price.changed) == (0, 0)
    racy = wait([event for event in events if event["ev"] != "synchronize"])
    assert (by_nature(racy.before.causes), racy.after.races, racy.price.bytes) == ({"reuse": 1}, 0, 64)
