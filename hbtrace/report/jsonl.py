"""JSON Lines: a report a line, a finding of a check, or what became of a race."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hbtrace.compare.check_result import CheckedTrace
from hbtrace.compare.race_result import RaceResult
from hbtrace.escape import as_text, json_line
from hbtrace.report.objects import check_object, judged_object, race_object
from hbtrace.report.renderer import AnyResult, Renderer, Style, Trace


def _trace(trace: Trace, _: Style) -> bytes:
    """With the trace's path in each line."""
    objects: Iterable[dict[str, Any]]
    if isinstance(trace, CheckedTrace):
        path, objects = trace.name, map(check_object, trace.checked.findings)
    else:
        path = as_text(trace.path)
        objects = (judged_object(trace, *marked) for marked in trace.selection.all_marked())
    return b"".join(json_line({"trace": path, **one}) for one in objects)


def _whole(result: AnyResult, style: Style) -> bytes:
    lines: list[dict[str, Any]] = []
    if style.alone:
        lines = [{"trace": as_text(one.path), "error": as_text(one.error)} for one in result.unreadable]
    if isinstance(result, RaceResult) and result.compared:
        lines += [{"state": finding.state, **race_object(finding)} for finding in result.findings]
    return b"".join(map(json_line, lines))


RENDERER = Renderer(_trace, _whole, has_warnings=False, has_notes=False)
