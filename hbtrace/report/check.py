"""What `check` prints of a trace: findings, what became of each rule, coverage; and the documentation of rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hbtrace.escape import json_document, page
from hbtrace.report.fit import wrap
from hbtrace.report.tables import fitted
from hbtrace.words import count

if TYPE_CHECKING:
    from hbtrace.checks.checked import Checked
    from hbtrace.checks.coverage import Coverage
    from hbtrace.checks.rule import Rule
    from hbtrace.compare.check_result import CheckedTrace, CheckResult
    from hbtrace.findings import Finding

_ROWS: Final = 8
_WIDTH: Final = 100
"""Characters of a line where no terminal says how many it has."""


def render(trace: CheckedTrace, width: int | None = None) -> str:
    """Everything that is printed of one trace, the verdict first. width: of the terminal, if it goes to one."""
    checked = trace.checked
    lines = [trace.verdict, ""]
    lines += [checked.unseen, ""] if checked.unseen else []
    for finding in checked.findings:
        lines += _finding(finding, width or _WIDTH)
    if checked.findings:
        lines.append("")
    rows = [
        (judgement.id, judgement.status, judgement.note)
        for judgement in checked.judgements
        if judgement.status != "findings"
    ]
    if rows:
        lines += [*fitted(("check", "status", ""), rows, width=width), ""]
    lines += _summary(checked, width or _WIDTH)
    lines += [f"required: {sentence}" for sentence in trace.unmet]
    return page(lines)


def render_end(result: CheckResult) -> str:
    """What to type next, and the verdict again, for a log is read from its end."""
    return page(["", *([f"next: {result.next}"] if result.next else []), result.verdict])


def _finding(finding: Finding, width: int) -> list[str]:
    head = f"{finding.severity} [{finding.id}] "
    lines = wrap(head + finding.message, width, hanging="  ")
    if finding.rows:
        more = f" and {len(finding.rows) - _ROWS} more" if len(finding.rows) > _ROWS else ""
        lines.append(f"  rows {', '.join(map(str, finding.rows[:_ROWS]))}{more}")
    return lines


def _summary(checked: Checked, width: int) -> list[str]:
    kinds = [(word, sum(f.severity == word for f in checked.findings)) for word in ("error", "warning", "info")]
    found = ", ".join(f"{number} {word}" + ("s" if number != 1 and word != "info" else "") for word, number in kinds)
    lines = [f"{found} in {checked.rows:,} rows"]
    if checked.races:
        sorts = ", ".join(f"{sort} {number}" for sort, number in sorted(checked.sorts.items()))
        unnamed = "" if checked.failed else "; they break no rule, so only analyze fails on them"
        lines.append(
            f"{count(checked.races, 'report')} of {count(checked.distinct, 'distinct race')} ({sorts});"
            f" hbtrace analyze shows them{unnamed}"
        )
    else:
        lines.append(checked.nothing or ("no race seen" if checked.unseen else "no race"))
    return [*lines, *_coverage(checked.coverage, width)]


def _coverage(coverage: Coverage, width: int) -> list[str]:
    """The verdict, its counters, and what to change in the run."""
    lines = [f"coverage: {coverage.verdict}"]
    lines += [f"  {reason}" for reason in coverage.reasons]
    counters = ", ".join(f"{name} {number}" for name, number in coverage.counters.items())
    lines += wrap(counters, width, "  ", "  ")
    for sentence in coverage.told:
        lines += wrap(sentence, width, "  ", "  ")
    lines += [f"  try: {advice}" for advice in coverage.advice]
    if coverage.reports:
        lines.append(coverage.hidden_line())
    return lines


def list_text(rules: Sequence[type[Rule]], width: int | None = None) -> str:
    rows = [(r.id, r.severity, r.title) for r in rules]
    return "\n".join(fitted(("check", "worst", "what"), rows, width=width)) + "\n"


def rules_json(rules: Sequence[type[Rule]]) -> bytes:
    keys = ("id", "severity", "title", "needs", "why", "about")
    return json_document([{key: getattr(rule, key) for key in keys} for rule in rules])


def explain_text(rule: type[Rule], width: int | None = None) -> str:
    """The documentation entry of a rule; its paragraphs are filled anew for a terminal."""
    text = f"{rule.id} ({rule.severity}): {rule.title}\n\n{rule.why}\n\n{rule.about}\n\nNeeds: {rule.needs}."
    if width is not None:
        text = "\n\n".join("\n".join(wrap(paragraph, width)) for paragraph in text.split("\n\n"))
    return text + "\n"
