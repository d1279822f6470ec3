"""Distinct races as findings: with what became of each, how often it was reported, and whether a gate fails on it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from datetime import date
from typing import Final, Literal

from hbtrace.compare.race_text import sentence
from hbtrace.findings import Finding, Severity
from hbtrace.races.suppressions import Suppression
from hbtrace.races.tomlfile import Place
from hbtrace.replay.reports import Report, Signature

State = Literal["found", "new", "expired", "persisting", "fixed", "moved", "not exercised"]


@dataclass(frozen=True, slots=True)
class Known:
    """One race of a baseline, with what people say of it. place: its entry, None before it is written."""

    ident: str
    canonical: Signature
    reason: str = ""
    expires: date | None = None
    place: Place | None = None

    def expired(self, today: date) -> bool:
        return self.expires is not None and self.expires < today


@dataclass(slots=True)
class Occurrences:
    """How often a race was reported in the `runs` runs, of `of`, in which it was."""

    min: int
    max: int
    runs: int = 1
    of: int = 1

    def add(self, count: int) -> None:
        self.min, self.max, self.runs = min(self.min, count), max(self.max, count), self.runs + 1


_FAILING: Final[dict[str, tuple[State, ...]]] = {
    "none": (),
    "new": ("found", "new", "expired"),  # where there is nothing to compare with, every race is new
    "any": ("found", "new", "expired", "persisting", "moved"),
}


@dataclass(slots=True, kw_only=True)
class RaceFinding(Finding):
    """One distinct race. base, head: how often it was reported on a side, None where it was not.

    Its severity is what a gate thinks of it: an `error` fails, `info` is fixed. fail_on: `none`, `new` or `any`.
    """

    report: Report
    state: State
    base: Occurrences | None = None
    head: Occurrences | None = None
    suppression: Suppression | None = None
    was: str | None = None
    """The id under which a moved race is known on the other side."""
    known: Known | None = None
    """Its entry in a baseline."""
    consequence: str | None = None
    """What the race comes to, `live`, `dead` or `unknown`; None where that was not asked for."""
    fail_on: InitVar[str]
    severity: Severity = field(init=False)
    message: str = field(init=False)
    rows: list[int] = field(init=False)
    count: int = field(init=False)

    def __post_init__(self, fail_on: str) -> None:
        counts = self.head is not None and self.suppression is None
        failing = counts and self.state in _FAILING[fail_on]
        self.severity = "error" if failing else "info" if self.state == "fixed" else "warning"
        self.message = sentence(self.report)
        self.rows = [] if self.seen is None else [self.report.earlier.row, self.report.current.row]
        self.count = 0 if self.seen is None else self.seen.max

    @property
    def why(self) -> str:
        """What people say of it, and where: the reason of its suppression, or of its entry in a baseline; of a
        suppression also that none was given."""
        if self.suppression is not None:
            return self.suppression.why
        return f"{self.known.reason} ({self.known.place})" if self.known is not None and self.known.reason else ""

    @property
    def seen(self) -> Occurrences | None:
        """How often, on the side that counts; None for a race that only a baseline knows: no report of it is there."""
        return self.head or self.base
