"""`check` as a function: a path in, what all rules found and what the run is worth out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hbtrace.checks.checking import Checking
from hbtrace.checks.coverage import Coverage
from hbtrace.checks.meter import Meter
from hbtrace.checks.model import Judgement
from hbtrace.checks.registry import all_rules
from hbtrace.checks.verdict import judge
from hbtrace.errors import TraceError, in_trace
from hbtrace.findings import SEVERITIES, Finding
from hbtrace.importers.source import Source, open_source
from hbtrace.races.firsts import Tell, told
from hbtrace.replay.session import Session
from hbtrace.replay.settings import Settings


@dataclass(slots=True)
class Checked:
    """What the checks found in one trace. `sorts`: its races by what they are. `nothing`: why there is nothing to judge
    (contract, section 10), empty where there is: the findings stand all the same."""

    path: str
    rows: int
    dropped_bytes: int
    findings: list[Finding]
    judgements: list[Judgement]
    coverage: Coverage
    races: int
    distinct: int
    sorts: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    nothing: str = ""
    unseen: str = ""
    """What the recorder could not see (`Exercise.unseen`)."""

    @property
    def failed(self) -> bool:
        """Whether there is an error or a warning."""
        return any(finding.severity != "info" for finding in self.findings)


def check(path: str, **options: Any) -> Checked:
    """Check a trace (`-` is standard input). Options: `threads`, `skip_weights`, `strict`. Raises TraceError."""
    checked = check_source(open_source(path), **options)
    if checked.nothing:
        raise TraceError(checked.nothing)
    return checked


def check_source(
    source: Source, *, threads: str | None = None, skip_weights: bool = False, strict: bool = False,
    tell: Tell | None = None,
) -> Checked:  # fmt: skip
    """As `check`, for what is open already. tell: the first report of each distinct race, when it is found."""
    checking, meter = Checking(all_rules()), Meter()
    session = Session(source.batches(), Settings(threads, skip_weights, strict), (checking, meter))
    races, signatures = 0, set()
    with in_trace(source.path):
        for report in told(session, tell):
            races += 1
            signatures.add(report.signature)
    checking.finish()
    findings = [finding for rule in checking.rules for finding in rule.findings]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Checked(
        source.path,
        session.rows,
        source.dropped_bytes,
        findings,
        [judged for rule in checking.rules if not (judged := rule.judgement()).foreign],
        judge(meter),
        races,
        len(signatures),
        {sort: count for sort, count in checking.survey.sorts.items() if count},
        [*source.warnings, *session.warnings],
        f"{source.path}: {session.nothing}" if session.nothing else "",
        session.exercise.unseen,
    )
