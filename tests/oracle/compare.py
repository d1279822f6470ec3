"""Holds an engine's result against the oracle's, field for field, and shrinks a program on which they differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.oracle.oracle import Event, Findings

_REPORT = ("kind", "buffer", "buffer_id", "lo", "hi", "bytes", "approx", "knows", "needs")
_SIDE = (
    "row", "access", "mode", "actor", "clock", "split", "ubatch", "thread", "tensor", "tensor_id", "root", "root_id",
    "label", "site",
)  # fmt: skip


def fields(report: Any) -> dict[str, Any]:
    """Everything a report says, by name. The oracle's reports and the engine's are read alike."""
    flat = {name: getattr(report, name) for name in _REPORT}
    for side in ("earlier", "current"):
        flat |= {f"{side}.{name}": getattr(getattr(report, side), name) for name in _SIDE}
    flat["signature"] = tuple(report.signature)
    return flat


def _counted(sentence: str) -> tuple[int, int]:
    """How many a warning counts, and the row in which it was first met: both are numbers that it names."""
    number, row = (re.search(pattern, sentence) for pattern in (r"\b(\d+) ", r"first in row (\d+)\b"))
    return int(number[1]) if number else -1, int(row[1]) if row else -1


def differences(expected: Findings, got: Any) -> list[str]:
    """What the engine's result says otherwise than the oracle, a line each; empty where they agree."""
    found = []
    if len(got.reports) != len(expected.reports):
        found.append(f"{len(got.reports)} reports, expected {len(expected.reports)}")
    for number, (theirs, ours) in enumerate(zip(got.reports, expected.reports, strict=False)):
        got_fields = fields(theirs)
        found += [
            f"report {number}: {name} is {got_fields[name]!r}, expected {value!r}"
            for name, value in fields(ours).items()
            if got_fields[name] != value or type(got_fields[name]) is not type(value)
        ]
    if got.distinct != expected.distinct:
        found.append(f"{got.distinct} distinct races, expected {expected.distinct}")
    if sorted(map(_counted, got.warnings)) != expected.counted:
        found.append(f"warnings {list(got.warnings)}, expected {expected.met}")
    return found


def shrink(events: list[Event], fails: Callable[[list[Event]], bool]) -> list[Event]:
    """A shorter program that still fails: events are left out, large pieces first, while it does."""
    piece = len(events) // 2
    while piece:
        start = 0
        while start < len(events):
            shorter = events[:start] + events[start + piece :]
            if fails(shorter):
                events = shorter
            else:
                start += piece
        piece //= 2
    return events
