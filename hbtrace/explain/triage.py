"""`triage` as a function: a path in, root causes out. The command line and the Python API both call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hbtrace.compare.identity import identities
from hbtrace.compare.select import Filters, is_id_of
from hbtrace.errors import TraceError
from hbtrace.explain.causes import Cause, causes_of
from hbtrace.explain.consequence import Consequence, judge
from hbtrace.explain.mending import Advice, advice
from hbtrace.explain.recording import Pair, Recording, Settings, pair_of, record
from hbtrace.explain.rules import is_row
from hbtrace.replay.races import Report, Signature
from hbtrace.source import Source, open_source, partial

MOST_JUDGED: Final = 2_000
"""Reports whose consequence is looked at, each."""
OF_EACH: Final = 2


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
    truncated: bool = False

    @property
    def reports(self) -> list[Report]:
        return [report for cause in self.causes for report in cause.reports]

    @property
    def races(self) -> int:
        return len(self.recording.reports)

    @property
    def distinct(self) -> int:
        return len({report.signature for report in self.recording.reports})

    def judged(self, cause: Cause) -> int:
        """Of how many of a cause's reports the consequence is known: where there are very many not of all."""
        return cause.live + cause.dead + cause.unknown

    def __iter__(self) -> Iterator[Cause]:
        return iter(self.causes)

    def consequence_of(self, report: Report) -> Consequence:
        """Of a report. Where there are very many of a race only the first are judged; others are when asked for."""
        pair = pair_of(report)
        if pair not in self.consequences:
            self.consequences |= judge(self.recording, [report], partial=self.truncated)
        return self.consequences[pair]

    def advice(self, cause: Cause) -> Advice:
        """The mend of a cause, by name."""
        return advice(cause)


def triage(path: str, *, filters: Filters | None = None, **settings: Any) -> Triage:
    """The root causes of a trace's races. settings: those of `Settings`, by name.

    Raises TraceError for what cannot be read, has no event, or (strict=True) breaks a rule.
    """
    return triage_source(open_source(path), Settings(**settings), filters)


def triage_source(source: Source, settings: Settings, filters: Filters | None = None) -> Triage:
    """As `triage`, for what is open already."""
    try:
        recording = record(source.batches(), settings)
    except TraceError as error:
        if error.row is None:
            raise
        raise TraceError(f"{source.path}: {error} (strict)", row=error.row) from None
    truncated = partial(source)
    out = triage_recording(recording, source.path, filters, partial=truncated)
    out.warnings = [*source.warnings, *recording.warnings]
    return out


def triage_recording(
    recording: Recording, path: str, filters: Filters | None = None, *, partial: bool = False
) -> Triage:
    """The causes of what was replayed. Filters hide reports; they never change what is a cause's nature or order."""
    ids = identities({report.canonical for report in recording.reports})
    verdicts = judge(recording, _sample(recording.reports), partial=partial)
    causes = causes_of(recording)
    left_out = 0
    if filters:
        for cause in causes:
            accepted = filter(filters.accepts, cause.reports)
            kept = [report for report in accepted if filters.accepts_id(report.canonical, ids[report.canonical])]
            left_out += len(cause.reports) - len(kept)
            cause.reports = kept
        causes = [cause for cause in causes if cause.reports]
    for cause in causes:
        for report in cause.reports:
            verdict = verdicts.get(pair_of(report))
            if verdict is not None:
                setattr(cause, verdict.verdict, getattr(cause, verdict.verdict) + 1)
    return Triage(path, recording, causes, verdicts, [], ids, left_out, partial)


def _sample(reports: list[Report]) -> list[Report]:
    """All reports, of very many the first few of each distinct race: whether a race is live they tell as well."""
    if len(reports) <= MOST_JUDGED:
        return reports
    seen: Counter[Signature] = Counter()
    kept = []
    for report in reports:
        seen[report.canonical] += 1
        if seen[report.canonical] <= OF_EACH:
            kept.append(report)
    return kept


def find(found: Triage, wanted: str) -> list[Report]:
    """The reports that an id means: a race's `R-…`, a cause's `C-…`, or the row of a current access."""
    if is_row(wanted):
        return [report for report in found.reports if report.current.row == int(wanted)]
    for cause in found.causes:
        if cause.ident == wanted:
            return cause.reports
    return [report for report in found.reports if is_id_of(wanted, report.canonical, found.ids[report.canonical])]
