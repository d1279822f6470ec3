"""One JSON document: of a trace, of several, or of a comparison; of nothing but `errors` where none was judged."""

from __future__ import annotations

from typing import Any

from hbtrace.compare.race_result import RaceResult
from hbtrace.escape import as_text, json_document
from hbtrace.report.objects import FORMAT, checked_object, outcome_object, race_object
from hbtrace.report.renderer import AnyResult, Renderer, Style


def _whole(result: AnyResult, _: Style) -> bytes:
    if result.unreadable and not result.several:
        return json_document({"format": FORMAT, "errors": _errors(result)})
    if isinstance(result, RaceResult) and result.compared:
        return json_document(_comparison(result))
    return json_document(_traces(result))


def _traces(result: AnyResult) -> dict[str, Any]:
    """The keys of the only trace; of several `traces`, and `errors` for those that could not be read."""
    if isinstance(result, RaceResult):
        traces = [outcome_object(outcome) for outcome in result.outcomes]
    else:
        traces = [checked_object(trace) for trace in result.read if trace.unjudged is None]
    if not result.several:
        return {"format": FORMAT, **traces[0]}
    return {"format": FORMAT, "traces": traces, "errors": _errors(result)}


def _errors(result: AnyResult) -> list[dict[str, Any]]:
    """What could not be read; `path` is empty where it is no trace, or one of several, that is at fault."""
    return [
        {"path": as_text(one.path), "error": as_text(one.error), "exit_code": one.exit_code}
        for one in result.unreadable
    ]


def _comparison(result: RaceResult) -> dict[str, Any]:
    """`new expired fixed persisting moved not_exercised`, each a list of races, and `comparable`."""
    whole: dict[str, Any] = {"format": FORMAT}
    for state in ("new", "expired", "fixed", "persisting", "moved", "not exercised"):
        whole[state.replace(" ", "_")] = [race_object(one) for one in result.findings if one.state == state]
    whole["comparable"] = {"ok": result.comparable, "reasons": result.reasons}
    whole["suppressed"] = result.suppressed
    whole["left_out"] = result.left_out
    whole["unmet"] = result.unmet
    whole["notes"] = result.notes
    whole["workload"] = {name: {"base": base, "head": head} for name, (base, head) in result.workload.items()}
    whole["coverage"] = {side: worth.to_object() for side, worth in result.coverage.items()}
    whole["warnings"] = [*result.warnings, *map(str, result.complaints)]
    return whole


RENDERER = Renderer(whole=_whole)
