"""The machine formats of the contract's section 6: one JSON document, or one report a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from hbtrace.compare.outcome import Outcome
from hbtrace.escape import as_text
from hbtrace.races.suppressions import Suppression
from hbtrace.replay.reports import Access, Report

FORMAT: Final = 1
_LINE: Final = orjson.OPT_APPEND_NEWLINE


def report_object(report: Report, ident: str, suppression: Suppression | None = None) -> dict[str, Any]:
    """A report with the keys of section 6, its `id`, and by what it is suppressed, if it is."""
    marked = {} if suppression is None else {"suppressed": {"where": suppression.where, "reason": suppression.reason}}
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
        **marked,
    }


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


def trace_object(outcome: Outcome) -> dict[str, Any]:
    """One trace of the document."""
    selection = outcome.selection
    reports = [_judged(outcome, report, mark) for report, mark in selection.all_marked()]
    return {
        "trace": {"path": as_text(outcome.path), "rows": outcome.rows, "dropped_bytes": outcome.dropped_bytes},
        "races": selection.races,
        "distinct": selection.distinct,
        "shown": selection.shown,
        "suppressed": selection.suppressed,
        "reports": reports,
        "warnings": [as_text(warning) for warning in outcome.warnings],
        "coverage": {} if outcome.coverage is None else outcome.coverage.to_object(),
        "remarks": outcome.remarks,
    }


def _judged(outcome: Outcome, report: Report, mark: Suppression | None) -> dict[str, Any]:
    """A report, what it comes to and its root cause: null where that was not looked at."""
    found, judged = outcome.consequence_of(report), outcome.selection.judged
    return report_object(report, outcome.selection.ids[report.canonical], mark) | {
        "consequence": None if found is None else found.verdict,
        "consequence_why": None if found is None else found.why,
        "consequence_row": None if found is None else found.row,
        "cause": None if judged is None else judged.cause(report),
    }


def document(outcomes: Sequence[Outcome], errors: Sequence[dict[str, Any]] = (), *, several: bool) -> bytes:
    """One document, with a newline at its end; `several`: traces were asked for, however many could be read.

    errors: of each trace that could not be read `path`, `error` (a sentence) and `exit_code`.
    """
    traces = [trace_object(outcome) for outcome in outcomes]
    whole = {"traces": traces, "errors": unread(errors)} if several else traces[0]
    return dumps({"format": FORMAT, **whole}, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def unread(errors: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The traces that could not be read, as text: `path`, `error`, `exit_code`."""
    return [{**error, "path": as_text(error["path"]), "error": as_text(error["error"])} for error in errors]


def lines(outcome: Outcome) -> Iterator[bytes]:
    """One report a line, with the trace's path in each."""
    for report, mark in outcome.selection.all_marked():
        yield dumps({"trace": as_text(outcome.path), **_judged(outcome, report, mark)}, _LINE)


def dumps(value: dict[str, Any], option: int) -> bytes:
    return orjson.dumps(value, option=option)
