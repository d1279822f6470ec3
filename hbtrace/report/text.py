"""Text for people: what `analyze` and `check` print of a trace, and what a comparison prints."""

from __future__ import annotations

from hbtrace.compare.check_result import CheckedTrace
from hbtrace.compare.race_result import RaceResult
from hbtrace.report import analyze, check, diff
from hbtrace.report.renderer import AnyResult, Renderer, Style, Trace


def _trace(trace: Trace, style: Style) -> str:
    return check.render(trace, style.width) if isinstance(trace, CheckedTrace) else analyze.render(trace, style)


def _whole(result: AnyResult, style: Style) -> str:
    """Of each trace all is said already."""
    return diff.render(result, style) if isinstance(result, RaceResult) and result.compared else ""


RENDERER = Renderer(_trace, _whole, is_read=True, has_warnings=False)
