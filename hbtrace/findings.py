"""A finding: one thing to tell of a run. It is of one type, whether a check or a race of the replay says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Worst first."""


@dataclass(slots=True)
class Finding:
    """What is told, how bad it is, and the rows it points to. `count` is how often it was met."""

    id: str
    """The check's, or the race's own, `R-...`."""
    severity: Severity
    message: str
    rows: list[int] = field(default_factory=list)
    count: int = 1
    trace: str = ""
    """The path of the trace that it is of; empty where it is of more than one, or of the only one."""
