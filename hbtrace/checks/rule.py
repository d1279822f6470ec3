"""The base of all rules, and how a rule says which rows it wants. No rule is here: `registry.py` lists them.

A rule is told of rows and races by `checking.py`, and asks the `Survey` what stands at the present row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from hbtrace.checks.model import Judgement, Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.findings import Finding, Severity
from hbtrace.replay.reports import Report
from hbtrace.replay.session import Replayed

_Method = TypeVar("_Method", bound=Callable[..., None])


def on(*events: str) -> Callable[[_Method], _Method]:
    """Marks the method of a rule that gets each row of these events."""

    def mark(method: _Method) -> _Method:
        method.events = events  # type: ignore[attr-defined]
        return method

    return mark


class Rule:
    """A check. Methods marked by `on` get each row of their events after it was done; `race` each report of the replay.

    A subclass says what it is in class attributes and adds to `findings`. `missing` tells what the trace lacks, None
    if the rule could be checked; then `seen` says in a few words what was looked at.
    """

    id: ClassVar[str]
    severity: ClassVar[Severity]
    """The worst it can say."""
    title: ClassVar[str]
    needs: ClassVar[str]
    """The events and keys without which it is not checkable."""
    why: ClassVar[str]
    """One sentence on why it matters."""
    about: ClassVar[str]
    """What it looks at, how it decides, what fixes it: the documentation."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.findings: list[Finding] = []

    def batch(self, replayed: Replayed) -> None:
        """The batch whose rows come next; its program is whole already."""

    def step(self, at: DoneRow) -> None:
        """Any row with steps, before the handlers for its event."""

    def race(self, report: Report, sort: Sort) -> None:
        """One race of the replay, as soon as the row of its current access was done."""

    def finish(self) -> None:
        """After the last row: add the findings that need the whole trace."""

    def missing(self) -> str | None:
        """What the trace would have to hold, if it does not."""
        return None

    def seen(self) -> str:
        """What was looked at, where nothing was found."""
        return ""

    def find(self, severity: Severity, message: str, met: Tally | None = None) -> None:
        """Add a finding; `met` gives its rows and how often."""
        rows = [] if met is None else sorted(met.rows)
        self.findings.append(Finding(self.id, severity, message, rows, 1 if met is None else met.count))

    def judgement(self) -> Judgement:
        """What became of the rule, after `finish`."""
        lacks = self.missing()
        if self.findings and (lacks is None or any(f.severity != "info" for f in self.findings)):
            return Judgement(self.id, "findings", "")
        if lacks is not None:
            return Judgement(self.id, "not checkable", f"needs {lacks}")
        return Judgement(self.id, "holds", self.seen())
