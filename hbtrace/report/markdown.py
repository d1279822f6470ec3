"""Markdown: the table one would paste into a pull request."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.side_coverage import lines
from hbtrace.report.words import columns, reported, short_kind, sides, tensors
from hbtrace.words import count

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&$@])")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


def render(verdict: Verdict) -> str:
    """A headline, what failed or cannot be compared, a table of the races with their state, and the notes."""
    counted = [finding for finding in verdict.findings if finding.suppression is None]
    parts = [f"**hbtrace {verdict.verb}**: {headline(verdict, counted)}"]
    parts += _list(dict.fromkeys([*verdict.errors, *verdict.reasons]))
    if counted:
        parts.append("\n".join(_table(counted, verdict)))
    if verdict.suppressed:
        parts.append(f"{count(verdict.suppressed, 'distinct race')} suppressed")
    parts += _list([*verdict.notes, *verdict.warnings, *lines(verdict.coverage)])
    return "\n\n".join(parts) + "\n"


def _list(sentences: Collection[str]) -> list[str]:
    return ["\n".join(f"- {escaped(sentence)}" for sentence in sentences)] if sentences else []


def headline(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """How many of each state, plainly."""
    states: dict[str, int] = {}
    for finding in findings:
        states[finding.state] = states.get(finding.state, 0) + 1
    if verdict.verb == "analyze":
        unread = f"; {count(len(verdict.errors), 'trace')} not read" if verdict.errors else ""
        return (count(states.get("found", 0), "distinct race") if states else "no race") + unread
    told = ", ".join(f"{states[state]} {state}" for state in _ORDER if state in states)
    told = told or "no race"
    return told if verdict.comparable else f"{told} (workloads not comparable)"


_ORDER = ("new", "persisting", "moved", "not exercised", "fixed")


def _table(findings: Sequence[Finding], verdict: Verdict) -> list[str]:
    stated = verdict.verb != "analyze"
    judged = any(finding.consequence for finding in findings)
    head = ["id", "kind", "buffer", "tensor", "earlier", "current"]
    head = [*(["state"] if stated else []), *head, *(["comes to"] if judged else []), *columns(verdict)]
    lines = [row(head), row(["---"] * len(head))]
    for finding in sorted(findings, key=lambda f: ((*_ORDER, "found").index(f.state), f.ident, f.trace)):
        report = finding.report
        cells = [
            f"`{finding.ident}`" + (f" (was `{finding.was}`)" if finding.was else ""),
            short_kind(report.kind),
            escaped(report.buffer),
            escaped(tensors(report.signature)),
            *map(escaped, sides(finding)),
        ]
        comes_to = [finding.consequence or "-"] if judged else []
        cells = [*([finding.state] if stated else []), *cells, *comes_to, *reported(finding, verdict)]
        lines.append(row(cells))
    return lines


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    """A name as it is: no markup, no line break, no cell border."""
    return _SPECIAL.sub(r"\\\1", _BREAKS.sub(" ", text))
