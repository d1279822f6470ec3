"""GitHub Actions annotations: a workflow command a race, escaped so that a name can neither end nor begin one."""

from __future__ import annotations

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.report.markdown import headline
from hbtrace.report.words import occurrences, sentence

_LEVELS = {"found": "error", "new": "error", "persisting": "warning", "moved": "warning", "not exercised": "warning"}


def render(verdict: Verdict) -> str:
    """Errors for what is new, warnings for what stays or was not exercised, notices for what is fixed."""
    lines = [_annotation(finding) for finding in verdict.findings if finding.suppression is None]
    lines += [_command("warning", "hbtrace", note) for note in (*verdict.notes, *verdict.warnings)]
    counted = [finding for finding in verdict.findings if finding.suppression is None]
    lines.append(_command("notice", f"hbtrace {verdict.verb}", headline(verdict, counted)))
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding) -> str:
    level = _LEVELS.get(finding.state, "notice")
    state = "race" if finding.state == "found" else f"{finding.state} race"
    seen = occurrences(finding.head or finding.base)
    return _command(level, f"{state} {finding.ident}", f"{sentence(finding)} (reports: {seen})")


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
