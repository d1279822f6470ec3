"""Text for people: what `analyze` and `check` print of a trace, and what a comparison prints."""

from __future__ import annotations

from hbtrace.compare.check_result import CheckedTrace, CheckResult
from hbtrace.compare.race_result import RaceResult
from hbtrace.escape import page
from hbtrace.report import analyze, check, diff
from hbtrace.report.renderer import AnyResult, Renderer, Style, Trace


def _trace(trace: Trace, style: Style) -> str:
    return check.render(trace, style.width) if isinstance(trace, CheckedTrace) else analyze.render(trace, style)


def _whole(result: AnyResult, style: Style) -> str:
    """Of each trace of `analyze` all is said already."""
    if result.unreadable and not result.several:
        return page([result.verdict])
    if isinstance(result, RaceResult) and result.compared:
        return diff.render(result, style)
    unread = page(["", *(one.error for one in result.unreadable)]) if style.alone and result.unreadable else ""
    return unread + (check.render_end(result) if isinstance(result, CheckResult) else "")


RENDERER = Renderer(_trace, _whole, is_read=True, has_warnings=False)
