"""Markdown: the table one would paste into a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.report.words import count, occurrences, short_kind, sides, tensors

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&$@])")
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


def render(verdict: Verdict) -> str:
    """A headline, a table of the races with their state, and the notes."""
    counted = [finding for finding in verdict.findings if finding.suppression is None]
    parts = [f"**hbtrace {verdict.verb}**: {headline(verdict, counted)}"]
    if counted:
        parts.append("\n".join(_table(counted, several=verdict.verb != "analyze")))
    if verdict.suppressed:
        parts.append(f"{count(verdict.suppressed, 'distinct race')} suppressed")
    if verdict.sentences:
        parts.append("\n".join(f"- {_escaped(sentence)}" for sentence in verdict.sentences))
    return "\n\n".join(parts) + "\n"


def headline(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """How many of each state, plainly."""
    states: dict[str, int] = {}
    for finding in findings:
        states[finding.state] = states.get(finding.state, 0) + 1
    if verdict.verb == "analyze":
        return count(states.get("found", 0), "distinct race") if states else "no race"
    told = ", ".join(f"{states[state]} {state}" for state in _ORDER if state in states)
    told = told or "no race"
    return told if verdict.comparable else f"{told} (workloads not comparable)"


_ORDER = ("new", "persisting", "moved", "not exercised", "fixed")


def _table(findings: Sequence[Finding], *, several: bool) -> list[str]:
    head = ["id", "kind", "buffer", "tensor", "earlier", "current"]
    head = ["state", *head, "base", "head"] if several else [*head, "reports"]
    lines = [_row(head), _row(["---"] * len(head))]
    for finding in sorted(findings, key=lambda f: ((*_ORDER, "found").index(f.state), f.ident, f.trace)):
        report = finding.report
        cells = [
            f"`{finding.ident}`" + (f" (was `{finding.was}`)" if finding.was else ""),
            short_kind(report.kind),
            _escaped(report.buffer),
            _escaped(tensors(report.signature)),
            *map(_escaped, sides(finding)),
        ]
        if several:
            cells = [finding.state, *cells, occurrences(finding.base), occurrences(finding.head)]
        else:
            cells.append(occurrences(finding.head))
        lines.append(_row(cells))
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """A name as it is: no markup, no line break, no cell border."""
    return _SPECIAL.sub(r"\\\1", _BREAKS.sub(" ", text))
