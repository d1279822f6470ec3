"""A minimized trace shows its race to whoever reads it, with no settings."""

from __future__ import annotations

from typing import Any

import pytest

import hbtrace
from hbtrace.explain.minimize import minimize
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows

Event = dict[str, Any]

THREADS: list[Event] = [
    {"ev": "buffer", "id": 0, "name": "B", "size": 64, "host": True},
    {"ev": "tensor", "id": 0, "name": "x", "buffer": 0},
    {"ev": "tensor_set", "tensor": 0},
    {"ev": "tensor_set", "tensor": 0, "thread": 1},
]


def minimized(events: list[Event], threads: str | None) -> list[Event]:
    (report,) = hbtrace.analyze_events(events, threads=threads).reports
    small = minimize([batch_from_rows(events)], report, Settings(threads=threads))
    (again,) = hbtrace.analyze_events(small, strict=True).reports
    assert again.signature == report.signature
    return small


@pytest.mark.parametrize("meta", [[], [{"ev": "meta", "version": 1}], [{"ev": "meta", "threads": "one"}]], ids=str)
def test_how_threads_were_read_is_written_into_the_trace(meta: list[Event]) -> None:
    assert minimized([*meta, *THREADS], "ordered")[0] == {"ev": "meta", "threads": "ordered"}


def test_what_the_race_does_not_need_is_not_written() -> None:
    queued: list[Event] = [
        {"ev": "backend", "id": 0, "name": "G0"}, *THREADS[:2],
        {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}, THREADS[2],
    ]  # fmt: skip
    for threads in (None, "one", "ordered"):
        assert all(event["ev"] != "meta" for event in minimized(queued, threads))
    assert minimized([{"ev": "meta", "threads": "ordered"}, *THREADS], None)[0]["threads"] == "ordered"
