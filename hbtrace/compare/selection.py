"""What filters, suppressions and limits leave of a run's reports, and what was left out. The replay never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hbtrace.races.filters import Filters
from hbtrace.races.identity import identities
from hbtrace.races.suppressions import Suppression, Suppressions
from hbtrace.replay.recording import pair_of
from hbtrace.replay.reports import Report, Signature
from hbtrace.words import left_out

if TYPE_CHECKING:
    from hbtrace.consequence.sampling import Judged


@dataclass(slots=True)
class Race:
    """A distinct race and its reports: how many, those kept for showing, the ubatches of their current sides."""

    signature: Signature
    canonical: Signature
    first_row: int
    suppression: Suppression | None = None
    reports: int = 0
    kept: list[Report] = field(default_factory=list)
    ubatches: set[int] = field(default_factory=set)
    ident: str = ""


@dataclass(slots=True)
class RaceOfRun:
    """A race by its identity: how many reports of it passed the filters, and the first of them.

    It is suppressed if all of these are; one that is not stands for it otherwise. Where none passed, the first report.
    """

    report: Report
    suppression: Suppression | None = None
    count: int = 0

    def add(self, report: Report, suppression: Suppression | None) -> None:
        """One more report that passed the filters."""
        if not self.count or (self.suppression is not None and suppression is None):
            self.report, self.suppression = report, suppression
        self.count += 1


@dataclass(slots=True)
class Selection:
    """The reports of a run after filters, suppressions and limits.

    races, distinct: before filters. shown: reports the filters let through, before limits; `suppressed` of these are.
    reports: after limits, in the order in which they came; `repeats` of each says how many it stands for.
    """

    races: int = 0
    distinct: int = 0
    shown: int = 0
    suppressed: int = 0
    reports: list[Report] = field(default_factory=list)
    """Those that are suppressed are not among them."""
    marked: list[tuple[Report, Suppression]] = field(default_factory=list)
    """The suppressed ones, limited in the same way."""
    groups: list[Race] = field(default_factory=list)
    ids: dict[Signature, str] = field(default_factory=dict)
    """By canonical signature."""
    known: dict[Signature, RaceOfRun] = field(default_factory=dict)
    """By canonical signature, all races; of those that the filters hide the count is 0."""
    judged: Judged | None = None
    """What the reports come to, if that was asked for and there are any."""

    @property
    def found(self) -> dict[Signature, RaceOfRun]:
        """Those that passed the filters."""
        return {canonical: found for canonical, found in self.known.items() if found.count}

    @property
    def filtered(self) -> int:
        return self.races - self.shown

    @property
    def left_out(self) -> list[str]:
        """A sentence where filters hide reports."""
        return [left_out(self.filtered, self.races, "report")] if self.filtered else []

    @property
    def limited(self) -> int:
        return self.shown - self.suppressed - len(self.reports)

    def all_marked(self) -> list[tuple[Report, Suppression | None]]:
        """Reports and suppressed reports together, in the order in which they came."""
        both: list[tuple[Report, Suppression | None]] = [*((report, None) for report in self.reports), *self.marked]
        return sorted(both, key=lambda pair: pair_of(pair[0]))

    @property
    def findings(self) -> int:
        """What counts for the exit code."""
        return self.shown - self.suppressed


def select(
    reports: Iterable[Report],
    filters: Filters,
    limit: int | None,
    suppressions: Suppressions | None = None,
    also: Callable[[Report], bool] | None = None,
) -> Selection:
    """Keep `limit` reports of each distinct race that passes the filters; None keeps every one.

    also: one filter more, asked of reports that pass the others (but for the filter by id).
    """
    out = Selection()
    groups: dict[tuple[Signature, int], Race] = {}
    seen: set[Signature] = set()
    for report in reports:
        out.races += 1
        seen.add(report.signature)
        known = out.known.get(report.canonical)
        if known is None:
            known = out.known[report.canonical] = RaceOfRun(report)
        suppression = suppressions.find(report) if suppressions is not None else None
        if not filters.accepts(report) or (also is not None and not also(report)):
            continue
        known.add(report, suppression)
        race = groups.get((report.signature, id(suppression)))
        if race is None:
            race = Race(report.signature, report.canonical, report.current.row, suppression)
            groups[report.signature, id(suppression)] = race
        race.reports += 1
        race.ubatches.add(report.current.ubatch)
        if limit is None or len(race.kept) < limit:
            race.kept.append(report)
    out.distinct = len(seen)
    out.ids = identities(out.known)
    _finish(out, groups.values(), filters)
    return out


def _finish(out: Selection, groups: Iterable[Race], filters: Filters) -> None:
    """What needs the ids: the filter by id, and the order."""
    for race in groups:
        race.ident = out.ids[race.canonical]
        if not filters.accepts_id(race.canonical, race.ident):
            out.known[race.canonical].count = 0
            continue
        out.shown += race.reports
        if race.suppression is None:
            out.groups.append(race)
            out.reports.extend(_standing_for_all(race))
        else:
            out.suppressed += race.reports
            out.marked.extend((report, race.suppression) for report in _standing_for_all(race))
    out.reports.sort(key=pair_of)
    out.marked.sort(key=lambda pair: pair_of(pair[0]))


def _standing_for_all(race: Race) -> list[Report]:
    """The kept reports; where some were cut, the first stands for those as well."""
    cut = race.reports - len(race.kept)
    return [replace(race.kept[0], repeats=1 + cut), *race.kept[1:]] if cut else race.kept
