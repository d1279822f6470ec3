"""Findings: distinct races with what a gate thinks of them. The one thing that every output renders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hbtrace.compare.selection import Selection
from hbtrace.compare.side_coverage import Worth
from hbtrace.compare.sides import Occurrences
from hbtrace.races.suppressions import Suppression
from hbtrace.replay.reports import Report

State = Literal["found", "new", "persisting", "fixed", "moved", "not exercised"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One distinct race. base, head: how often it was reported on a side, None where it was not."""

    ident: str
    report: Report
    state: State
    base: Occurrences | None = None
    head: Occurrences | None = None
    suppression: Suppression | None = None
    was: str | None = None
    """The id under which a moved race is known on the other side."""
    trace: str = ""
    consequence: str | None = None
    """What the race comes to, `live`, `dead` or `unknown`; None where that was not asked for."""

    @property
    def counts(self) -> bool:
        """Whether the race is there and nobody suppressed it."""
        return self.suppression is None and self.head is not None


@dataclass(slots=True)
class Verdict:
    """What a verb has to say: findings in a stable order, and sentences beside them."""

    verb: str
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not exercised, what changed beside the races."""
    warnings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why the sides cannot be compared; empty where they can."""
    errors: list[str] = field(default_factory=list)
    """A sentence for each trace that could not be read, and for each requirement that failed: why the sides cannot be
    compared (`--require-comparable`), what a run did not exercise (`--require-exercised`)."""
    coverage: dict[str, Worth] = field(default_factory=dict)
    """By side, `base` and `head`, what its runs exercised."""

    @property
    def comparable(self) -> bool:
        return not self.reasons

    @property
    def sentences(self) -> list[str]:
        """All there is to say beside the findings and errors; what cannot be compared first."""
        return [*self.reasons, *self.notes, *self.warnings]

    @property
    def suppressed(self) -> int:
        """How many findings somebody suppressed."""
        return sum(finding.suppression is not None for finding in self.findings)

    def of(self, *states: State) -> list[Finding]:
        return [finding for finding in self.findings if finding.state in states]


def findings_of(selection: Selection, trace: str) -> list[Finding]:
    """The distinct races of one analyzed trace, suppressed ones among them."""
    return [
        Finding(
            selection.ids[canonical],
            found.report,
            "found",
            head=Occurrences(found.count, found.count),
            suppression=found.suppression,
            trace=trace,
            consequence=None if selection.judged is None else selection.judged.races.get(canonical),
        )
        for canonical, found in selection.found.items()
    ]


def fails(findings: Iterable[Finding], fail_on: str) -> bool:
    """Whether findings make the exit code 1. Where there is nothing to compare with, every race is new."""
    if fail_on == "none":
        return False
    states = ("found", "new") if fail_on == "new" else ("found", "new", "persisting", "moved")
    return any(finding.counts and finding.state in states for finding in findings)
