"""`triage` as a function: a path in, root causes out. The command line and the Python API both call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any, cast

from hbtrace.consequence.sampling import MOST_JUDGED, OF_EACH
from hbtrace.consequence.taint import DEAD, Consequence, Verdict, judge, judge_races, worst
from hbtrace.errors import UsageError, in_trace
from hbtrace.explain.causes import Cause, causes_of
from hbtrace.explain.mends import Advice, advice
from hbtrace.importers import REPORTS
from hbtrace.importers.source import ReportLog, Source, open_source
from hbtrace.races.filters import Filters, is_id_of
from hbtrace.races.firsts import Tell, told
from hbtrace.races.identity import identities, is_row
from hbtrace.races.logged import read_reports
from hbtrace.races.suppressions import Suppressions
from hbtrace.races.unmatched import absent_ids, check_recording
from hbtrace.replay.recording import Pair, Recorder, Recording, Words, pair_of
from hbtrace.replay.reports import Report, Signature
from hbtrace.replay.session import Session
from hbtrace.replay.settings import Settings


@dataclass
class Triage:
    """A trace's root causes. Iterate it for them."""

    path: str
    recording: Recording
    causes: list[Cause]
    consequences: dict[Pair, Consequence]
    warnings: list[str] = field(default_factory=list)
    ids: dict[Signature, str] = field(default_factory=dict)
    """Of the distinct races, by canonical signature."""
    left_out: int = 0
    """Reports that the filters hide."""
    suppressed: int = 0
    """Reports that the filters let through and suppressions leave out."""
    truncated: bool = False
    reported: str = ""
    """Of a log that holds only reports, what a reader must know: nothing was replayed, no rule can be tried on it."""

    @property
    def reports(self) -> list[Report]:
        return [report for cause in self.causes for report in cause.reports]

    @property
    def unseen(self) -> list[str]:
        """A sentence where the recorder could not see all of the run: no verdict is a clean one then."""
        return [self.recording.exercise.unseen] if self.recording.exercise.unseen else []

    @property
    def races(self) -> int:
        return len(self.recording.reports)

    @property
    def distinct(self) -> int:
        return len({report.signature for report in self.recording.reports})

    @property
    def shown_distinct(self) -> int:
        """As `distinct`, of what the filters let through. One race can be of several causes, by its callers."""
        return len({report.signature for report in self.reports})

    def judged(self, cause: Cause) -> int:
        """Of how many of a cause's reports the consequence is known: where there are very many not of all."""
        return cause.live + cause.dead + cause.unknown

    def __iter__(self) -> Iterator[Cause]:
        return iter(self.causes)

    def consequence_of(self, report: Report) -> Consequence:
        """Of a report. Where there are very many of a race only the first are judged; others are when asked for."""
        pair = pair_of(report)
        if self.reported:
            return Consequence("unknown", self.reported)
        if pair not in self.consequences:
            self.consequences |= judge(self.recording, [report], partial=self.truncated)
        return self.consequences[pair]

    def judge_worst(self, reports: list[Report]) -> None:
        """Judge more of these, where their worst is not among those that are judged: by halves, each as a whole."""
        left = [report for report in reports if pair_of(report) not in self.consequences]
        known = worst(self.effects_of(reports))
        bad = self._worst_of(left) if left and known != "live" else known
        while bad != known and len(left) > MOST_JUDGED:
            half = left[: len(left) // 2]
            left = half if self._worst_of(half) == bad else left[len(half) :]
        if bad != known:
            self.consequences |= judge(self.recording, left, partial=self.truncated)

    def _worst_of(self, reports: list[Report]) -> Verdict:
        return worst(judge_races(self.recording, reports, partial=self.truncated).values())

    def effects_of(self, reports: list[Report]) -> Counter[Verdict]:
        """How many of these come to what, of those that are judged."""
        return Counter(found.verdict for r in reports if (found := self.consequences.get(pair_of(r))) is not None)

    def advice(self, cause: Cause) -> Advice:
        """The mend of a cause, by name."""
        found = advice(cause)
        return replace(found, rules=()) if self.reported else found


def triage(
    path: str, *, filters: Filters | None = None, suppressions: Suppressions | None = None, **settings: Any
) -> Triage:
    """The root causes of a trace's races. settings: those of `Settings`, by name.

    Raises TraceError for what cannot be read, has no event or no access, or (strict=True) breaks a rule; UsageError for
    a filter that matches no name of the trace.
    """
    return triage_source(open_source(path), Settings(**settings), filters, suppressions)


def triage_source(
    source: Source, settings: Settings, filters: Filters | None = None, suppressions: Suppressions | None = None,
    tell: Tell | None = None,
) -> Triage:  # fmt: skip
    """As `triage`, for what is open already. tell: the first report of each distinct race, when it is found."""
    if source.kind in REPORTS:
        return _triage_reported(cast(ReportLog, source), settings, filters, suppressions)
    with in_trace(source.path):
        recorder = Recorder()
        for _ in told(Session(source.batches(), settings, [recorder]), tell):
            pass
        recording = recorder.finish()
        recording.demand_accesses()
    check_recording(filters, recording)
    truncated = source.partial
    out = triage_recording(recording, source.path, filters, suppressions, partial=truncated)
    out.warnings = [*source.warnings, *recording.warnings]
    if filters:
        out.warnings += absent_ids(filters, out.ids)
    return out


class _Labels(Words):
    """What the rows of a log of reports are: by line, the label of the report's current side."""

    def __init__(self, reports: list[Report]) -> None:
        super().__init__()
        self._by_line = {report.current.row: report.current.label for report in reports}

    def __getitem__(self, row: Any) -> Any:
        return self._by_line.get(row, "")


def _triage_reported(
    source: ReportLog, settings: Settings, filters: Filters | None, suppressions: Suppressions | None
) -> Triage:
    """The causes of reports that another program wrote, as far as their own lines tell."""
    found = read_reports(source, fold=settings.fold_layers)
    recording = Recording(reports=found.reports, events=_Labels(found.reports), rows=found.lines)
    ids = identities({report.canonical for report in found.reports})
    hidden = _suppressed(found.reports, suppressions)
    causes = causes_of(recording, filters, hidden, ids)
    suppressed = sum(not filters or filters.shows(report, ids) for report in hidden.values())
    for cause in causes:
        cause.unknown, cause.narrowest, cause.widest = len(cause.reports), None, None
    left_out = len(found.reports) - suppressed - sum(len(cause.reports) for cause in causes)
    return Triage(
        source.path, recording, causes, {}, found.warnings, ids, left_out, suppressed, found.partial, found.sentence()
    )


def triage_recording(
    recording: Recording,
    path: str,
    filters: Filters | None = None,
    suppressions: Suppressions | None = None,
    *,
    partial: bool = False,
) -> Triage:
    """The causes of what was replayed. Filters and suppressions hide reports; whether one is live or primary they
    never change."""
    ids = identities({report.canonical for report in recording.reports})
    verdicts, races = _judged(recording, partial=partial)
    hidden = _suppressed(recording.reports, suppressions)
    causes = causes_of(recording, filters, hidden, ids)
    suppressed = sum(not filters or filters.shows(report, ids) for report in hidden.values())
    left_out = len(recording.reports) - suppressed - sum(len(cause.reports) for cause in causes)
    verdicts |= judge(recording, _second_look(causes, verdicts, races), partial=partial)
    out = Triage(path, recording, causes, verdicts, [], ids, left_out, suppressed, partial)
    for cause in causes:
        told = out.effects_of(cause.reports)
        cause.live, cause.dead, cause.unknown = told["live"], told["dead"], told["unknown"]
        if not cause.live and not cause.unknown:  # those that nobody judged could be
            cause.unknown = len(cause.reports) - cause.dead
    return out


def _suppressed(reports: list[Report], suppressions: Suppressions | None) -> dict[Pair, Report]:
    """All that are, whether filters hide them or not: a suppression that is used is no dead one."""
    if suppressions is None:
        return {}
    return {pair_of(report): report for report in reports if suppressions.find(report) is not None}


def _judged(
    recording: Recording, *, partial: bool
) -> tuple[dict[Pair, Consequence], dict[Signature, Verdict]]:
    """Of all reports, or of the first few of each race and of all that are dead; and of very many also the races."""
    reports = recording.reports
    if len(reports) <= MOST_JUDGED:
        return judge(recording, reports, partial=partial), {}
    races = judge_races(recording, reports, partial=partial)
    seen: Counter[Signature] = Counter()
    kept = []
    for report in reports:
        seen[report.canonical] += 1
        if seen[report.canonical] <= OF_EACH:
            kept.append(report)
    dead = {pair_of(report): DEAD for report in reports if races[report.canonical] == "dead"}
    return dead | judge(recording, kept, partial=partial), races


def _second_look(
    causes: list[Cause], known: dict[Pair, Consequence], races: dict[Signature, Verdict]
) -> list[Report]:
    """More to judge: of live races in causes of which no report judged so far is live, spread over the run."""
    left = []
    for cause in causes:
        found = [known.get(pair_of(report)) for report in cause.reports]
        if not any(one is not None and one.verdict == "live" for one in found):
            unjudged = (report for report, one in zip(cause.reports, found, strict=True) if one is None)
            left.append([report for report in unjudged if races.get(report.canonical) == "live"])
    left = [its for its in left if its]
    each = max(1, MOST_JUDGED // max(1, len(left)))
    return [report for its in left for report in its[:: -(-len(its) // each)]]


def find(found: Triage, wanted: str) -> list[Report]:
    """The reports that an id means: a race's `R-…`, a cause's `C-…`, or the row of a current access."""
    for cause in found.causes:
        if cause.ident == wanted:
            return cause.reports
    if is_row(wanted):
        its = [report for report in found.reports if report.current.row == int(wanted)]
    else:
        its = [report for report in found.reports if is_id_of(wanted, report.canonical, found.ids[report.canonical])]
    return sorted(its, key=pair_of)  # they can be of several causes


def worst_of(found: Triage, reports: list[Report]) -> int:
    """The place of the first report whose effect is the worst of these, as far as they are judged."""
    found.judge_worst(reports)
    bad = worst(found.effects_of(reports))
    judged = ((place, found.consequences.get(pair_of(report))) for place, report in enumerate(reports))
    return next((place for place, its in judged if its is not None and its.verdict == bad), 0)


def check_wanted(wanted: str) -> None:
    """Raises UsageError for what no trace can have as an id."""
    if not is_row(wanted) and not wanted.startswith(("R-", "C-")) and not set(wanted) & set("*?["):
        raise UsageError(f"{wanted!r} is no id: give a race's R-..., a root cause's C-..., or the row of an access")


def wanted_of(found: Triage, wanted: str) -> list[Report]:
    """As `find`. Raises UsageError where no race has the id."""
    reports = find(found, wanted)
    if not reports:
        raise UsageError(f"{found.path}: no race {wanted}; `hbtrace triage {quote(found.path)} -v` lists them")
    return reports
