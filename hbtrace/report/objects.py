"""What machine formats call things: the objects of the contract's section 6, and those of findings."""

from __future__ import annotations

from typing import Any, Final

from hbtrace.compare.check_result import CheckedTrace
from hbtrace.compare.findings import Occurrences, RaceFinding
from hbtrace.compare.outcome import Outcome
from hbtrace.escape import as_text, harmless
from hbtrace.findings import Finding
from hbtrace.races.suppressions import Suppression
from hbtrace.replay.reports import Access, Report

FORMAT: Final = 1


def report_object(report: Report, ident: str, suppression: Suppression | None = None) -> dict[str, Any]:
    """A report with the keys of section 6, its `id`, and by what it is suppressed, if it is."""
    return {
        "kind": report.kind,
        "buffer": report.buffer,
        "buffer_id": report.buffer_id,
        "lo": report.lo,
        "hi": report.hi,
        "bytes": report.bytes,
        "approx": report.approx,
        "repeats": report.repeats,
        "earlier": _access(report.earlier),
        "current": _access(report.current),
        "knows": report.knows,
        "needs": report.needs,
        "signature": report.signature,
        "id": ident,
        **_suppressed(suppression),
    }


def _suppressed(by: Suppression | None) -> dict[str, Any]:
    return {} if by is None else {"suppressed": {"where": str(by.place or ""), "reason": by.reason}}


def _access(access: Access) -> dict[str, Any]:
    return {
        "row": access.row,
        "access": access.access,
        "mode": access.mode,
        "actor": access.actor,
        "clock": access.clock,
        "split": access.split,
        "ubatch": access.ubatch,
        "thread": access.thread,
        "tensor": access.tensor,
        "tensor_id": access.tensor_id,
        "root": access.root,
        "root_id": access.root_id,
        "label": access.label,
        "site": access.site,
    }


def judged_object(outcome: Outcome, report: Report, mark: Suppression | None) -> dict[str, Any]:
    """A report, what it comes to and its root cause: null where that was not looked at."""
    found, judged = outcome.consequence_of(report), outcome.selection.judged
    return report_object(report, outcome.selection.ids[report.canonical], mark) | {
        "consequence": None if found is None else found.verdict,
        "consequence_why": None if found is None else found.why,
        "consequence_row": None if found is None else found.row,
        "cause": None if judged is None else judged.cause(report),
    }


def outcome_object(outcome: Outcome) -> dict[str, Any]:
    """What `analyze` found in one trace."""
    selection = outcome.selection
    return {
        "trace": {
            "path": as_text(outcome.path), "rows": outcome.rows, "dropped_bytes": outcome.dropped_bytes,
            **({"reported": outcome.reported} if outcome.reported else {}),
        },
        "races": selection.races,
        "distinct": selection.distinct,
        "shown": selection.shown,
        "suppressed": selection.suppressed,
        "reports": [judged_object(outcome, *marked) for marked in selection.all_marked()],
        "warnings": [as_text(warning) for warning in outcome.warnings],
        "coverage": {} if outcome.coverage is None else outcome.coverage.to_object(),
        "remarks": [*([outcome.unseen] if outcome.unseen else []), *outcome.remarks],
    }


def race_object(finding: RaceFinding) -> dict[str, Any]:
    """What became of a race, with a report of it where a run showed it."""
    entry: dict[str, Any] = {
        "id": finding.id,
        "signature": finding.report.signature,
        "base": _occurrences(finding.base),
        "head": _occurrences(finding.head),
        "example": None if finding.seen is None else report_object(finding.report, finding.id),
    }
    if finding.was is not None:
        entry["was"] = finding.was
    if finding.known is not None:
        known = finding.known
        expires = None if known.expires is None else known.expires.isoformat()
        entry["known"] = {"where": str(known.place or ""), "reason": known.reason, "expires": expires}
    return entry | _suppressed(finding.suppression)


def _occurrences(found: Occurrences | None) -> dict[str, int] | None:
    return None if found is None else {"min": found.min, "max": found.max, "runs": found.runs, "of": found.of}


def check_object(finding: Finding) -> dict[str, Any]:
    """A finding of a check. Its message is for people, so names are told in it."""
    keys = ("id", "severity", "rows", "message", "count")
    return {key: getattr(finding, key) for key in keys} | {"message": harmless(finding.message)}


def checked_object(trace: CheckedTrace) -> dict[str, Any]:
    """What `check` found in one trace."""
    checked = trace.checked
    return {
        "trace": {"path": trace.name, "rows": checked.rows, "dropped_bytes": checked.dropped_bytes},
        "findings": [check_object(finding) for finding in checked.findings],
        "checks": [{"id": j.id, "status": j.status, "note": j.note} for j in checked.judgements],
        "races": checked.races,
        "distinct": checked.distinct,
        "sorts": checked.sorts,
        "coverage": checked.coverage.to_object(),
        "unmet": list(trace.lacks),
        "warnings": [as_text(warning) for warning in checked.warnings],
    }
