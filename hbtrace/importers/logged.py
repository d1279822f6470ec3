"""Reports of races that another program wrote into its log: what all such programs tell.

What it is: the record that each reader of reports fills, and the set of them. What it is not: a report of ours, which
knows rows (`hbtrace.races.logged` makes one of it).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

KINDS: Final = ("read-after-write", "write-after-read", "write-after-write")

UNTOLD: Final = -1
"""A clock, an end of a range or what is known, where the program does not print it."""


@dataclass(frozen=True, slots=True)
class ReportAccess:
    """One side of a race, as printed."""

    mode: str
    actor: str
    clock: int
    split: int
    tensor: str | None
    root: str | None
    label: str


@dataclass(frozen=True, slots=True)
class LoggedReport:
    """One report. ggml prints as `[lo, hi)` the *whole* range of the current access, not the conflicting part.

    line: where it begins, from 1. A report that was cut off, or whose beginning was not pasted, keeps what is left and
    is not `complete`; `kind` and `buffer` are then `?` where the first line is missing.
    """

    kind: str
    buffer: str
    lo: int
    hi: int
    earlier: ReportAccess | None
    current: ReportAccess | None
    knows: int
    needs: int
    line: int
    complete: bool = field(default=True, kw_only=True)


class LoggedReports(list[LoggedReport]):
    """The reports in log order, and what the log says about itself."""

    def __init__(
        self, reports: Iterable[LoggedReport] = (), announced: int | None = None, aborted: bool = False
    ) -> None:
        super().__init__(reports)
        self.announced = announced
        """The count printed at exit (ggml: only with `GGML_SCHED_SANITIZE_NONFATAL=1`), of all runs in the text."""
        self.aborted = aborted
        """The run ended at its first race: later ones were never looked for."""
        self.lines = 0
        """How many the log has."""
