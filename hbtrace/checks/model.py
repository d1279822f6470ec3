"""What a check is and what it says: severities, findings, verdicts, and the base of all rules.

No rule is here and no trace is read; `registry.py` lists the rules, `survey.py` feeds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from hbtrace.checks.race_sorts import Sort
    from hbtrace.checks.survey import Row, Survey
    from hbtrace.replay.reports import Report
    from hbtrace.replay.session import Replayed

Severity = Literal["error", "warning", "info"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Worst first."""

_SHOWN_ROWS: Final = 100
"""Rows of one finding that are kept; `count` goes on."""


@dataclass(slots=True)
class Finding:
    """One thing that a rule has to say, and the rows it points to. `count` is how often it was met."""

    id: str
    severity: Severity
    message: str
    rows: list[int] = field(default_factory=list)
    count: int = 1


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one rule: `findings`, which speak for themselves; `holds`, with what it saw; or `not checkable`,
    with the reason."""

    id: str
    status: Literal["findings", "holds", "not checkable"]
    note: str
    foreign: bool = False
    """Whether the rule is of an engine that is not in the trace: not even "not checkable", it has no say."""


def times(number: int) -> str:
    """How often, as people say it."""
    return "once" if number == 1 else f"{number:,} times"


def count(number: int, noun: str) -> str:
    """`1 race`, `2 races`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Tally:
    """Occurrences of one kind of thing: how many, and their rows, the first ones only."""

    __slots__ = ("count", "rows", "words")

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[int] = []
        self.words: dict[str, int] = {}

    def add(self, rows: Iterable[int] = (), word: str | None = None) -> None:
        """Count one more; `word` says of whom, for `names`."""
        self.count += 1
        for row in rows:
            if len(self.rows) < _SHOWN_ROWS and row not in self.rows:
                self.rows.append(row)
        if word is not None:
            self.words[word] = self.words.get(word, 0) + 1

    def __bool__(self) -> bool:
        return self.count > 0

    def names(self, most: int = 6) -> str:
        """The words by how often, `a 6, b 2`; no more than `most` of them."""
        ordered = sorted(self.words.items(), key=lambda pair: (-pair[1], pair[0]))
        told = ", ".join(word if number == 1 else f"{word} {number}" for word, number in ordered[:most])
        return told + (f" and {len(ordered) - most} more" if len(ordered) > most else "")


class Rule:
    """A check. Methods named `on_EVENT` get each such row after it was done; `race` each report of the replay.

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
    """What it looks at, how it decides, what mends it: the documentation."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.findings: list[Finding] = []

    def batch(self, replayed: Replayed) -> None:
        """The batch whose rows come next; its program is whole already."""

    def step(self, at: Row) -> None:
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
