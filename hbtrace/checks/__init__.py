"""Protocol checks on a trace and the coverage verdict. See `check`.

`registry.py` lists the rules, one family a file; `survey.py` feeds them; `coverage.py` counts and `verdict.py` judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hbtrace.checks.coverage import Coverage, Meter
from hbtrace.checks.model import SEVERITIES, Finding, Judgement
from hbtrace.checks.registry import RULES
from hbtrace.checks.survey import Survey
from hbtrace.errors import TraceError
from hbtrace.replay.session import Session
from hbtrace.replay.settings import Settings

if TYPE_CHECKING:
    from hbtrace.importers.source import Source

__all__ = ["Checked", "Coverage", "Finding", "Meter", "check", "check_source"]


@dataclass(slots=True)
class Checked:
    """What the checks found in one trace. `sorts`: its races by what they are."""

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

    @property
    def failed(self) -> bool:
        """Whether there is an error or a warning."""
        return any(finding.severity != "info" for finding in self.findings)


def check(path: str, **options: Any) -> Checked:
    """Check a trace (`-` is standard input). Options: `threads`, `skip_weights`, `strict`. Raises TraceError."""
    from hbtrace.info.info import open_contents

    return check_source(open_contents(path), **options)


def check_source(
    source: Source, *, threads: str | None = None, skip_weights: bool = False, strict: bool = False
) -> Checked:
    """As `check`, for what is open already."""
    survey, meter = Survey(list(RULES)), Meter()
    session = Session(source.batches(), Settings(threads, skip_weights, strict), (survey, meter))
    races, signatures = 0, set()
    try:
        for report in session:
            races += 1
            signatures.add(report.signature)
    except TraceError as error:
        if error.row is None:
            raise
        raise TraceError(f"{source.path}: {error} (strict)", row=error.row) from None
    survey.finish()
    findings = [finding for rule in survey.rules for finding in rule.findings]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Checked(
        source.path,
        session.rows,
        source.dropped_bytes,
        findings,
        [judged for rule in survey.rules if not (judged := rule.judgement()).foreign],
        meter.coverage(),
        races,
        len(signatures),
        {sort: count for sort, count in survey.sorts.items() if count},
        [*source.warnings, *session.warnings],
    )
