"""GitHub Actions annotations: a workflow command a race, escaped so that a name can neither end nor begin one."""

from __future__ import annotations

from collections.abc import Callable

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.side_coverage import lines as coverage_lines
from hbtrace.report.markdown import headline
from hbtrace.report.words import occurrences, sentence


def render(verdict: Verdict, failing: Callable[[Finding], bool]) -> str:
    """Errors for what fails, warnings for other races and what was not exercised, notices for what is fixed.

    What failed or cannot be compared comes first: of each level GitHub shows only the first ten of a step.
    """
    counted = [finding for finding in verdict.findings if finding.suppression is None]
    lines = [annotation("error", "hbtrace", error) for error in verdict.errors]
    lines += [annotation("warning", "hbtrace", reason) for reason in verdict.reasons if reason not in verdict.errors]
    lines += [_of(finding, failing=failing(finding)) for finding in counted]
    lines += [annotation("warning", "hbtrace", sentence) for sentence in (*verdict.notes, *verdict.warnings)]
    lines += [annotation("notice", "hbtrace", line) for line in coverage_lines(verdict.coverage)]
    told = headline(verdict, counted) + (f", {verdict.suppressed} suppressed" if verdict.suppressed else "")
    lines.append(annotation("notice", f"hbtrace {verdict.verb}", told))
    return "\n".join(lines) + "\n"


def _of(finding: Finding, *, failing: bool) -> str:
    level = "error" if failing else "notice" if finding.state == "fixed" else "warning"
    state = "race" if finding.state == "found" else f"{finding.state} race"
    seen = occurrences(finding.head or finding.base)
    told = f"reports: {seen}" + (f"; comes to: {finding.consequence}" if finding.consequence else "")
    return annotation(level, f"{state} {finding.ident}", f"{sentence(finding)} ({told})")


def annotation(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
