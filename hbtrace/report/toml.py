"""A file for `--suppressions`: a block for each race that `analyze` shows."""

from __future__ import annotations

from hbtrace.compare.race_result import RaceResult
from hbtrace.escape import harmless
from hbtrace.races.suppressions import suppression_file
from hbtrace.report.renderer import AnyResult, Renderer, Style


def _whole(result: AnyResult, style: Style) -> str:
    outcomes = result.outcomes if isinstance(result, RaceResult) else []
    file = suppression_file((report, outcome.id_of(report)) for outcome in outcomes for report in outcome.reports)
    return "".join(f"# {harmless(one.error)}\n" for one in result.unreadable if style.alone) + file


RENDERER = Renderer(whole=_whole, has_warnings=False, has_notes=False)
