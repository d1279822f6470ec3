"""What `analyze` says of a log that holds only reports: the same selection, and what no such log can tell.

What it is not: a replay, or a verdict on coverage; nothing here knows what the run did beside its races.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from hbtrace.compare.selection import Selection, select
from hbtrace.consequence.sampling import Judged
from hbtrace.consequence.taint import Consequence
from hbtrace.races.filters import Filters
from hbtrace.races.logged import ReportedRaces
from hbtrace.races.suppressions import Suppressions
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.recording import pair_of

_UNKNOWN: Final = Consequence("unknown", "a log of reports holds no other access")


def select_reported(
    found: ReportedRaces, filters: Filters, limit: int | None, suppressions: Suppressions | None, only: frozenset[str]
) -> Selection:
    """As `select`; what any of the reports comes to is unknown, and its root cause told from what it says itself."""
    left: Counter[bool] = Counter()

    def wanted(_: object) -> bool:
        keep = not only or "unknown" in only
        left[keep] += 1
        return keep

    selection = select(found.reports, filters, limit, suppressions, wanted)
    if left[False]:
        found.warnings.append(
            f"reports left out whose consequence is unknown: {left[False]:,} (--only unknown shows them)"
        )
    if selection.shown:
        judged = selection.judged = Judged(
            {pair_of(report): _UNKNOWN for report in found.reports}, dict.fromkeys(selection.known, "unknown")
        )
        for report in found.reports:
            judged.causes.setdefault(report.canonical, set()).add(judged.cause(report))
    return selection


def named_in(found: ReportedRaces) -> Exercise:
    """The names and numbers that filters can match: those in the reports."""
    out = Exercise(touched=bool(found.reports))
    for report in found.reports:
        out.buffers.add(report.buffer)
        for side in (report.earlier, report.current):
            out.labels.add(side.label)
            out.splits.add(side.split)
            out.tensors |= {name for name in (side.tensor, side.root) if name is not None}
    return out


def actors_in(found: ReportedRaces) -> list[str]:
    """Whoever takes part in a report, in the order of the log."""
    return list(dict.fromkeys(side.actor for report in found.reports for side in (report.earlier, report.current)))
