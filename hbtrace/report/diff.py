"""`diff` and `baseline check` as text and as JSON."""

from __future__ import annotations

from typing import Any

import orjson

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.side_coverage import lines as coverage_lines
from hbtrace.compare.sides import Occurrences
from hbtrace.escape import harmless
from hbtrace.report.json import FORMAT, report_object
from hbtrace.report.markdown import headline
from hbtrace.report.tables import fitted, table
from hbtrace.report.text import block, details
from hbtrace.report.words import columns, is_seen, reported, short_kind, sides, tensors
from hbtrace.words import count

_STATES = ("new", "moved", "persisting", "not exercised", "fixed")


def render_text(
    verdict: Verdict, workload: dict[str, tuple[int, int]], *, verbose: bool, width: int | None = None
) -> str:
    """What cannot be compared first, then the races by state, what is new in full, then the workloads.

    width: characters of a line of the terminal, None elsewhere.
    """
    counted = [finding for finding in verdict.findings if finding.suppression is None]
    said = dict.fromkeys([*verdict.errors, *verdict.reasons, *verdict.notes])
    parts = ["\n".join(map(harmless, said))] if said else []
    shown = [finding for finding in counted if is_seen(finding) and (finding.state == "new" or verbose)]
    parts += [_block(finding, verbose=verbose) for finding in shown]
    parts.append(headline(verdict, counted))
    if counted:
        parts.append("\n".join(_table(counted, verdict, width)))
    if workload:
        head = ("workload", "base", "head")
        rows = [(name.replace("_", " "), f"{b:,}", f"{h:,}") for name, (b, h) in workload.items()]
        parts.append("\n".join(table(head, rows, right=frozenset({1, 2}))))
    if told := coverage_lines(verdict.coverage):
        parts.append("\n".join(map(harmless, told)))
    if verdict.suppressed:
        parts.append(f"suppressed: {count(verdict.suppressed, 'distinct race')}")
    return "\n\n".join(parts) + "\n"


def _block(finding: Finding, *, verbose: bool) -> str:
    return "\n".join([block(finding.report), *(details(finding.report, finding.ident) if verbose else [])])


def _table(findings: list[Finding], verdict: Verdict, width: int | None) -> list[str]:
    head = ("state", "id", "kind", "buffer", "tensor", "earlier", "current", *columns(verdict))
    rows = [
        (
            finding.state,
            finding.ident + (f" (was {finding.was})" if finding.was else ""),
            short_kind(finding.report.kind),
            finding.report.buffer,
            tensors(finding.report.signature),
            *sides(finding),
            *reported(finding, verdict),
        )
        for finding in sorted(findings, key=lambda f: (_STATES.index(f.state), f.ident))
    ]
    return fitted(head, rows, width=width)


def document(verdict: Verdict, workload: dict[str, tuple[int, int]]) -> bytes:
    """One JSON document: `new fixed persisting moved not_exercised`, each a list of races, and `comparable`."""
    whole: dict[str, Any] = {"format": FORMAT}
    for state in ("new", "fixed", "persisting", "moved", "not exercised"):
        key = state.replace(" ", "_")
        whole[key] = [_entry(finding) for finding in verdict.findings if finding.state == state]
    whole["comparable"] = {"ok": verdict.comparable, "reasons": verdict.reasons}
    whole["suppressed"] = verdict.suppressed
    whole["notes"] = verdict.notes
    whole["workload"] = {name: {"base": base, "head": head} for name, (base, head) in workload.items()}
    whole["coverage"] = {side: worth.to_object() for side, worth in verdict.coverage.items()}
    whole["warnings"] = verdict.warnings
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def lines(verdict: Verdict) -> bytes:
    """One race a line, with its state."""
    return b"".join(
        orjson.dumps({"state": finding.state, **_entry(finding)}, option=orjson.OPT_APPEND_NEWLINE)
        for finding in verdict.findings
    )


def _entry(finding: Finding) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": finding.ident,
        "signature": finding.report.signature,
        "base": _occurrences(finding.base),
        "head": _occurrences(finding.head),
        "example": report_object(finding.report, finding.ident) if is_seen(finding) else None,
    }
    if finding.was is not None:
        entry["was"] = finding.was
    if finding.suppression is not None:
        entry["suppressed"] = {"where": finding.suppression.where, "reason": finding.suppression.reason}
    return entry


def _occurrences(found: Occurrences | None) -> dict[str, int] | None:
    return None if found is None else {"min": found.min, "max": found.max, "runs": found.runs, "of": found.of}
