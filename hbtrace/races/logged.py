"""Reports that another program wrote, as reports of ours, so that identity, filters, natures and formats know them.

What it is: a translation. What such a log cannot tell stays untold: no row (`row` is the line of the log, from 1), no
ubatch, no id, and a range that may be wider than the bytes in conflict. What it is not: a replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from hbtrace.errors import TraceError
from hbtrace.importers import REPORTS, foreign_reports
from hbtrace.importers.ggml_survey import base_name
from hbtrace.importers.logged import LoggedReport, LoggedReports, ReportAccess
from hbtrace.importers.source import ReportLog
from hbtrace.replay.canonical import fold_layers, without_slot
from hbtrace.replay.reports import Access, Kind, Mode, Report, Signature
from hbtrace.words import count


@dataclass(slots=True)
class ReportedRaces:
    """What a log reports. of: whose reports they are, in words."""

    path: str
    of: str
    reports: list[Report]
    lines: int
    warnings: list[str] = field(default_factory=list)
    partial: bool = False
    """The log says, or shows, that some of its reports are not in it whole."""

    def sentence(self) -> str:
        """What a reader of any verdict on it must know."""
        return (
            f"a log of {self.of}: nothing was replayed, and whether they are all races of the run it does not tell"
        )


def read_reports(source: ReportLog, *, fold: bool) -> ReportedRaces:
    """The reports of a log. fold: layers' numbers make no other race.

    Raises TraceError for a log that says that there are races, or has pieces of some, and holds none whole.
    """
    found = foreign_reports(source.kind, source.log)
    whole = [one for one in found if one.complete]
    pieces = len(found) - len(whole)
    missing = (found.announced or 0) - len(whole)
    if not whole and (pieces or missing > 0 or found.aborted):
        said = f"says that there were {count(found.announced or 0, 'race')}" if missing > 0 else "has pieces of reports"
        raise TraceError(
            f"{source.path}: {said}, and holds no report that is whole: give the log as it was printed, standard error"
            " too, with no line broken"
        )
    out = ReportedRaces(source.path, REPORTS[source.kind], [_report(one, fold) for one in whole], found.lines)
    out.warnings += _complaints(found, pieces, missing)
    out.partial = pieces > 0 or missing > 0
    return out


def _complaints(found: LoggedReports, pieces: int, missing: int) -> list[str]:
    said = []
    if pieces:
        said.append(f"left out: {count(pieces, 'report')} that are cut off or have no first line")
    if missing > 0:
        said.append(f"the log counts {count(found.announced or 0, 'race')} at its end: {missing:,} are not in it whole")
    if found.aborted:
        said.append("the run was aborted at a race: it looked for no later one")
    return said


def _report(one: LoggedReport, fold: bool) -> Report:
    assert one.earlier is not None
    assert one.current is not None
    earlier, current = (_access(side, one.line, at) for at, side in enumerate((one.earlier, one.current)))
    signature: Signature = (
        cast(Kind, one.kind), one.buffer, base_name(earlier.actor)[0], _simplified(earlier.root, fold), earlier.label,
        base_name(current.actor)[0], _simplified(current.root, fold), current.label,
    )  # fmt: skip
    return Report(
        cast(Kind, one.kind), one.buffer, -1, one.lo, one.hi, max(0, one.hi - one.lo), True, earlier, current,
        one.knows, one.needs, signature, signature, (None, None),
    )  # fmt: skip


def _access(side: ReportAccess, line: int, number: int) -> Access:
    root = side.tensor if side.root is None else side.root
    return Access(
        line, number, cast(Mode, side.mode), side.actor, side.clock, side.split, -1, 0, side.tensor, -1, root, -1,
        side.label, None,
    )  # fmt: skip


def _simplified(root: str | None, fold: bool) -> str | None:
    if root is None:
        return None
    return fold_layers(without_slot(root)) if fold else without_slot(root)
