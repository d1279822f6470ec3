"""What `check` found in each trace, as a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Final

from hbtrace.checks.checked import Checked
from hbtrace.compare.result import Sentence, Unreadable
from hbtrace.errors import TraceError
from hbtrace.escape import as_text
from hbtrace.findings import SEVERITIES, Finding, Severity
from hbtrace.words import count

_CANNOT: Final = "CANNOT JUDGE"


@dataclass(frozen=True, slots=True)
class CheckedTrace:
    """A trace that was checked, and what `--require` asked of it in vain."""

    checked: Checked
    unmet: Sequence[str] = ()

    @property
    def path(self) -> str:
        return self.checked.path

    @property
    def name(self) -> str:
        """The path as text."""
        return as_text(self.checked.path)

    @property
    def lacks(self) -> list[str]:
        """Why it is no clean run whatever was found: what the recorder could not see, and what is not met."""
        return [*([self.checked.unseen] if self.checked.unseen else []), *self.unmet]

    @property
    def unjudged(self) -> Unreadable | None:
        """Why it is no clean run whatever was found in it, if it is none: it has no access."""
        why = self.checked.nothing
        return Unreadable(self.checked.path, why, TraceError.exit_code) if why else None

    @property
    def findings(self) -> list[Finding]:
        return [replace(finding, trace=self.checked.path) for finding in self.checked.findings]

    @property
    def warnings(self) -> list[str]:
        """What was lost or is wrong in the trace."""
        return [f"{self.name}: {as_text(text).removeprefix(f'{self.name}: ')}" for text in self.checked.warnings]

    @property
    def verdict(self) -> str:
        """PASS, FAIL or CANNOT JUDGE, and why."""
        failing = told(Counter(f.severity for f in self.checked.findings if f.severity != "info"))
        beside = [failing] if failing else []
        if why := self.checked.nothing or self.checked.unseen:
            return f"{_CANNOT}: {'; '.join((as_text(why).removeprefix(f'{self.name}: '), *beside))} ({self.name})"
        if self.unmet:
            return f"{_CANNOT}: --require: {'; '.join((*self.unmet, *beside))} ({self.name})"
        if self.checked.failed:
            return f"FAIL: {failing} ({self.name})"
        raced = f"; no rule is broken by {count(self.checked.distinct, 'distinct race')}" if self.checked.races else ""
        return f"PASS: no error, no warning{raced}; coverage: {self.checked.coverage.verdict} ({self.name})"

    @property
    def next(self) -> str:
        """The command to type next, if there is one."""
        failing = next((f.id for f in self.checked.findings if f.severity != "info"), None)
        if failing is not None:
            return f"hbtrace check --explain {failing}"
        return f"hbtrace analyze {quote(self.path)}" if self.checked.races and self.path != "-" else ""

    @property
    def exercised(self) -> str:
        """The verdict of coverage and its first reason."""
        coverage = self.checked.coverage
        return "coverage: " + "; ".join([coverage.verdict, *coverage.reasons[:1]])


def told(found: Counter[Severity]) -> str:
    """How many findings of each severity; empty without any."""
    numbers = {severity: found[severity] for severity in SEVERITIES if found[severity]}
    return ", ".join(f"{n} info" if severity == "info" else count(n, severity) for severity, n in numbers.items())


@dataclass(slots=True)
class CheckResult:
    """The traces in the order in which they were asked for, those that could not be read among them."""

    several: bool
    traces: list[CheckedTrace | Unreadable] = field(default_factory=list)
    verb: str = "check"

    @property
    def read(self) -> list[CheckedTrace]:
        return [trace for trace in self.traces if isinstance(trace, CheckedTrace)]

    @property
    def unreadable(self) -> list[Unreadable]:
        """Those without an access are among them: what was found in them is told all the same."""
        return [one for trace in self.traces if (one := trace if isinstance(trace, Unreadable) else trace.unjudged)]

    @property
    def findings(self) -> list[Finding]:
        return [finding for trace in self.read for finding in trace.findings]

    @property
    def failed(self) -> bool:
        return any(trace.checked.failed for trace in self.read)

    @property
    def unmet(self) -> list[str]:
        return [f"{trace.name}: {sentence}" for trace in self.read for sentence in trace.lacks]

    @property
    def headline(self) -> str:
        """How many findings of each severity, and of how many traces nobody can know that."""
        unread = len(self.traces) - len(self.read)
        unjudged = len(self.unreadable) - unread
        found = told(Counter(finding.severity for finding in self.findings))
        if self.unreadable and not self.several:
            return "; ".join(["cannot judge", *([found] if found else [])])
        lost = [f"{count(number, 'trace')} {what}" for number, what in
                ((unread, "not read"), (unjudged, "with nothing to judge")) if number]  # fmt: skip
        return "; ".join([found or "no finding", *lost])

    @property
    def verdict(self) -> str:
        """That of the only trace; of several the worst word, and how many are as it says."""
        if not self.several:
            (trace,) = self.traces
            return trace.verdict if isinstance(trace, CheckedTrace) else trace.error.replace("cannot judge", _CANNOT, 1)
        words = Counter(trace.verdict.partition(":")[0] for trace in self.read)
        words[_CANNOT] += len(self.traces) - len(self.read)
        worst = next(word for word in (_CANNOT, "FAIL", "PASS") if words[word])
        return f"{worst}: {words[worst]} of {count(words.total(), 'trace')}; {self.headline}"

    @property
    def next(self) -> str:
        """The command to type next: that of the first trace that has one."""
        return next(filter(None, (trace.next for trace in self.read)), "")

    @property
    def first(self) -> list[Sentence]:
        return []

    @property
    def last(self) -> list[Sentence]:
        """What is wrong in the traces, what each exercised or why it could not be read, what is not met."""
        return [*self._warnings, *map(self._came_to, self.traces), *self._not_met]

    def told(self) -> Iterator[Sentence | Finding]:
        """Each trace's findings where the trace has its place."""
        for trace in self.traces:
            if isinstance(trace, Unreadable) or trace.unjudged is not None:
                yield self._came_to(trace)
            if isinstance(trace, CheckedTrace):
                yield from trace.findings
        yield from self._not_met
        yield from self._warnings
        yield from (self._came_to(trace) for trace in self.read if trace.unjudged is None)

    @property
    def _warnings(self) -> list[Sentence]:
        return [Sentence("warning", text) for trace in self.read for text in trace.warnings]

    @property
    def _not_met(self) -> list[Sentence]:
        return [Sentence("error", sentence, "hbtrace check") for sentence in self.unmet]

    def _came_to(self, trace: CheckedTrace | Unreadable) -> Sentence:
        """One sentence on a trace, with its name where there are several."""
        unread = trace if isinstance(trace, Unreadable) else trace.unjudged
        if unread is not None:
            return Sentence("error", as_text(unread.error))
        assert isinstance(trace, CheckedTrace)
        return Sentence("info", f"{trace.name}: {trace.exercised}" if len(self.traces) > 1 else trace.exercised)
