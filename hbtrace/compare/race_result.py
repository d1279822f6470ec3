"""The races of runs as a result: those of each trace (`analyze`), or what became of them (`diff`, `baseline check`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from hbtrace.compare.findings import Occurrences, RaceFinding, State
from hbtrace.compare.outcome import Outcome
from hbtrace.compare.result import Sentence, Unreadable
from hbtrace.compare.side_coverage import Worth, lines
from hbtrace.escape import as_text
from hbtrace.findings import Finding
from hbtrace.races.suppressions import Suppressions
from hbtrace.races.tomlfile import Complaint
from hbtrace.words import count

STATES: Final[tuple[State, ...]] = ("new", "expired", "persisting", "moved", "not exercised", "fixed")
"""What can become of a race, in the order in which it is told."""


@dataclass(slots=True)
class RaceResult:
    """Findings in a stable order, and sentences beside them. fail_on: which races fail, `none`, `new` or `any`."""

    verb: str
    fail_on: str = "new"
    findings: list[RaceFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not exercised, what changed beside the races."""
    warnings: list[str] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)
    """What is said of the suppressions themselves."""
    reasons: list[str] = field(default_factory=list)
    """Why the sides cannot be compared; empty where they can."""
    demands: dict[str, list[str]] = field(default_factory=dict)
    """By option that required it, what is not so: of these, and of what was not exercised. By the empty name what no
    option is asked for: a run that its recorder saw whole."""
    coverage: dict[str, Worth] = field(default_factory=dict)
    """By side, `base` and `head`, what its runs exercised; `analyze` has that with each outcome."""
    workload: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By counter, how much base and head did; a baseline holds no numbers."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Of `analyze`: its outputs show reports, too."""
    unreadable: list[Unreadable] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What filters left out, a sentence for each trace, or one."""
    several: bool = False
    marked: bool = False
    """Suppressions were asked for."""
    sides: str = ""
    """What was compared, as it was named."""
    next: str = ""
    """The command to type next, if there is one."""

    def demand(self, option: str, lacking: Sequence[str]) -> None:
        """Take note of what an option required in vain."""
        if lacking:
            self.demands[option] = list(lacking)

    @property
    def unmet(self) -> list[str]:
        return [sentence for sentences in self.demands.values() for sentence in sentences]

    def heed(self, suppressions: Suppressions | None) -> None:
        """Say what is wrong with the suppressions that were asked for."""
        if suppressions is not None:
            self.marked = True
            self.complaints += suppressions.complaints()

    @property
    def compared(self) -> bool:
        """Whether findings tell what became of a race, and not only that it is there."""
        return self.verb != "analyze"

    @property
    def comparable(self) -> bool:
        return not self.reasons

    @property
    def failed(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def counted(self) -> list[RaceFinding]:
        """Findings that nobody suppressed."""
        return [finding for finding in self.findings if finding.suppression is None]

    @property
    def suppressed(self) -> int:
        """How many findings somebody suppressed."""
        return len(self.findings) - len(self.counted)

    @property
    def errors(self) -> list[str]:
        """A sentence for each trace that could not be read, and for each requirement that failed."""
        return [*(as_text(one.error) for one in self.unreadable), *self.unmet]

    @property
    def first(self) -> list[Sentence]:
        """Errors, and what cannot be compared."""
        errors = self.errors
        reasons = [reason for reason in self.reasons if reason not in errors]
        return [*(Sentence("error", error) for error in errors), *(Sentence("warning", reason) for reason in reasons)]

    @property
    def last(self) -> list[Sentence]:
        """Notes, warnings, what the runs exercised."""
        beside = [Sentence("warning", text) for text in (*self.notes, *self.warnings)]
        beside += [Sentence("warning", str(one), place=one.place) for one in self.complaints]
        return beside + [Sentence("info", line) for line in (*self.left_out, *lines(self.coverage))]

    def told(self) -> Iterator[Sentence | Finding]:
        return chain(self.first, self.counted, self.last)

    @property
    def headline(self) -> str:
        """How many races of each state."""
        if self.unreadable and not self.several:
            return "cannot judge"
        states = Counter(finding.state for finding in self.counted)
        if self.compared:
            told = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
        else:
            told = count(states["found"], "distinct race") if states else ""
        if not told:
            told = "no new race" if self.compared and self.suppressed else "no race"
            told += " seen" if any(outcome.unseen for outcome in self.outcomes) else ""
            told += f" ({self.suppressed} suppressed)" if self.suppressed else ""
        if not self.compared:
            return told + (f"; {count(len(self.unreadable), 'trace')} not read" if self.unreadable else "")
        return told if self.comparable else f"{told} (workloads not comparable)"

    @property
    def verdict(self) -> str:
        """PASS, FAIL or CANNOT JUDGE, by the exit code, and what of: a text's first line and its last."""
        failing = Counter(finding.state for finding in self.findings if finding.severity == "error")
        told = ", ".join(count(failing[state], f"{state} race") for state in STATES if failing[state])
        if self.errors:
            more = f" and {len(self.errors) - 1} more" if len(self.errors) > 1 else ""
            asked = "" if self.unreadable else next(iter(self.demands))
            option = f"{asked}: " if asked else ""
            first = self.errors[0].removeprefix("cannot judge: ")
            word, told = "CANNOT JUDGE", f"{option}{first}{more}" + (f"; {told}" if told else "")
        elif told:
            word = "FAIL"
        else:
            word, told = "PASS", self._passed
        return f"{word}: {told}" + (f" ({self.sides})" if self.sides else "")

    @property
    def _passed(self) -> str:
        """What a result passes with: how much that is worth stands beside it."""
        told = {"new": "no new race", "any": "no race"}.get(self.fail_on, f"{self.headline}, --fail-on none")
        told += f" ({self.suppressed} suppressed)" if self.suppressed and self.fail_on != "none" else ""
        states = Counter(finding.state for finding in self.counted) if self.fail_on != "none" else Counter()
        told += f", {states['fixed']} fixed" if states["fixed"] else ""
        head = self.coverage.get("head")
        if states["not exercised"]:
            told += f"; {states['not exercised']} not exercised"
        elif not states["fixed"] and head is not None and head.of is not None and head.best == "not-exercised":
            told += "; not exercised"
        return told if self.comparable else f"{told}; workloads not comparable"


def analysis(
    outcomes: Sequence[Outcome], unreadable: Sequence[Unreadable] = (), *, fail_on: str = "any", several: bool = False,
    gates: bool = False,
) -> RaceResult:  # fmt: skip
    """The races of each trace. gates: a run that the recorder did not see whole is one requirement that is not met."""
    out = RaceResult("analyze", fail_on, outcomes=list(outcomes), unreadable=list(unreadable), several=several)
    for outcome in outcomes:
        out.findings += _findings(outcome, fail_on)
        path = f"{outcome.path}: "
        out.notes += [as_text(path + outcome.unseen)] if outcome.unseen and not gates else []
        out.demand("", [*out.unmet, as_text(path + outcome.unseen)] if outcome.unseen and gates else [])
        out.left_out += [as_text(path + told) for told in outcome.selection.left_out]
        out.notes += [as_text(path + remark) for remark in outcome.remarks]
        out.warnings += [as_text(path + warning.removeprefix(path)) for warning in outcome.warnings]
    out.findings.sort(key=lambda finding: (finding.trace, finding.id))
    return out


def _findings(outcome: Outcome, fail_on: str) -> Iterator[RaceFinding]:
    """The distinct races of one trace, suppressed ones among them."""
    selection = outcome.selection
    for canonical, race in selection.found.items():
        yield RaceFinding(
            selection.ids[canonical],
            report=race.report,
            state="found",
            head=Occurrences(race.count, race.count),
            suppression=race.suppression,
            trace=outcome.path,
            consequence=None if selection.judged is None else selection.judged.races.get(canonical),
            fail_on=fail_on,
        )
