"""Races of a Strata trace by the rule that they break: the copy mode's three by name, the others by what was accessed.

What it is: a function of a report's labels and tensors. What it is not: it finds no race. The three of copy mode are
there on paper in the engine as it is, and dead: what they can tear is overwritten before anybody reads it.
"""

from __future__ import annotations

from typing import Final

from hbtrace.replay.reports import Report

COPY_RACES: Final = {
    "copy-1": "a serial commit at a verdict, against the side stream's snapshot of the same window",
    "copy-2": "an undo's restore, against the side stream's snapshot of the doomed window",
    "copy-3": "the next request's writer, against the last snapshot: the drain does not wait for the side stream",
}
"""The races of copy mode that the engine's own order leaves."""

COPY_WAIT: Final = "copy-wait"
"""Not the engine's: a speculative commit does not wait for the snapshot, and an undo reads what was torn."""

_WRITERS: Final = {
    "in-place commit": "copy-1", "undo restore dst": "copy-2", "session_zero": "copy-3", "restore": "copy-3",
    "prompt commit": "copy-3", "serial commit": "copy-3", "spec commit": COPY_WAIT, "undo commit": COPY_WAIT,
}  # fmt: skip

_MEMORY: Final = (
    ("h_commit", "M1"), ("h_win", "M2"), ("h_x", "M3"), ("h_y", "M3"), ("rows", "C3"), ("commit_in", "C1"),
    ("cur", "W1"), ("gdn", "S2"), ("snap", "P1"),
)  # fmt: skip
"""A tensor's name begins with; the rule that orders its accesses."""


def is_named(report: Report) -> bool:
    """Whether a rule of Strata's tells of this race."""
    return copy_race(report) is not None or broken_rule(report) is not None


def copy_race(report: Report) -> str | None:
    """`copy-1` to `copy-3` or `copy-wait`, None for any other race."""
    labels = {report.earlier.label, report.current.label}
    if "snap_take src" in labels:
        others = labels - {"snap_take src"}
        return _WRITERS.get(others.pop()) if others else None
    return COPY_WAIT if labels == {"snap_take dst", "undo restore src"} else None


def broken_rule(report: Report) -> str | None:
    """The rule (`M1` and so on, without `strata.`) that a race breaks, None where it is one of copy mode or unknown."""
    if copy_race(report) is not None:
        return None
    labels = (report.earlier.label, report.current.label)
    name = report.current.root or ""
    if any(label.startswith("snap_take") for label in labels):
        return "X1"
    if name.startswith("cur"):
        return "W3" if any(label.startswith("settle") for label in labels) else "W1"
    if name.startswith("gdn") and not any(label == "settle" or label.startswith("settle ") for label in labels):
        return "P3"
    return next((rule for start, rule in _MEMORY if name.startswith(start)), None)
