"""What every verb that gates has to say in the end: findings, sentences beside them, an exit code.

`analyze`, `diff` and `baseline check` end with a `RaceResult`, `check` with a `CheckResult`. Every output renders a
result, and no result knows of an output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hbtrace.errors import worst
from hbtrace.findings import Finding, Severity
from hbtrace.races.tomlfile import Place


class Sentence(NamedTuple):
    """What is said beside the findings. title: of whom, or by what."""

    severity: Severity
    text: str
    title: str = "hbtrace"
    place: Place | None = None
    """A line of a file that it is said of."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One of several traces that could not be read: why, and the exit code of that."""

    path: str
    error: str
    exit_code: int


class Result(Protocol):
    """What an output may ask of any result."""

    @property
    def verb(self) -> str: ...

    @property
    def several(self) -> bool:
        """More than one trace was asked for, however many could be read."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Those that could not be read."""

    @property
    def findings(self) -> Sequence[Finding]:
        """All of them, in a stable order."""

    @property
    def headline(self) -> str:
        """How many findings of each sort."""

    @property
    def first(self) -> Sequence[Sentence]:
        """What a reader must know before the findings."""

    @property
    def last(self) -> Sequence[Sentence]:
        """What is said after them."""

    def told(self) -> Iterator[Sentence | Finding]:
        """Findings and sentences in one, what failed before what is only to know."""

    @property
    def failed(self) -> bool:
        """Whether a finding fails the gate."""

    @property
    def unmet(self) -> Sequence[str]:
        """What was required of the runs, and is not so."""


def exit_code(result: Result, *, exit_zero: bool = False) -> int:
    """The worst of all there is to say. exit_zero: findings are none of it."""
    unread = (one.exit_code for one in result.unreadable)
    return worst((*unread, 4 if result.unmet else 0, 1 if result.failed and not exit_zero else 0))
