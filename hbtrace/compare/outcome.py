"""`analyze` as a function: a path in, an outcome out. The command line and the Python API both call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from hbtrace import importers
from hbtrace.checks.coverage import Coverage
from hbtrace.checks.meter import Meter
from hbtrace.checks.verdict import judge
from hbtrace.compare.logged import actors_in, named_in, select_reported
from hbtrace.compare.race_text import block, details
from hbtrace.compare.selection import Selection, select
from hbtrace.errors import TraceError, UsageError, in_trace
from hbtrace.importers.source import ImportedTrace, ReportLog, Rereadable, Source, open_source
from hbtrace.races.filters import Filters
from hbtrace.races.firsts import Tell, told
from hbtrace.races.logged import read_reports
from hbtrace.races.suppressions import Suppressions
from hbtrace.races.unmatched import Nameable, absent_ids, check_filters, nameable
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.recording import Recorder, Recording, record
from hbtrace.replay.reports import Report
from hbtrace.replay.session import Observer, Session
from hbtrace.replay.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from hbtrace.consequence.sampling import Judged, Sample
    from hbtrace.consequence.taint import Consequence


CONSEQUENCES: Final = frozenset({"live", "dead", "unknown"})
"""What a race can come to."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to replay, and what to keep: `limit` reports of each distinct race, None for every one.

    consequence: judge what the reports come to, in a second pass if there are any. only: keep those that come to one
    of these (`live`, `dead`, `unknown`); it judges in any case.
    """

    threads: str | None = None
    skip_weights: bool = False
    strict: bool = False
    fold_layers: bool = False
    filters: Filters = field(default_factory=Filters)
    limit: int | None = None
    suppressions: Suppressions | None = None
    consequence: bool = False
    only: frozenset[str] = frozenset()

    @property
    def settings(self) -> Settings:
        """How to replay."""
        return Settings(self.threads, self.skip_weights, self.strict, self.fold_layers)

    def __post_init__(self) -> None:
        if self.limit is not None and (not isinstance(self.limit, int) or self.limit < 1):
            raise UsageError(f"limit is a number of reports from 1, or None for every one, not {self.limit!r}")
        if not isinstance(self.filters, Filters):
            raise UsageError(f"filters is a hbtrace.Filters, not {self.filters!r}")
        if isinstance(self.only, str) or not set(self.only) <= CONSEQUENCES:
            raise UsageError(f"only is a set of {', '.join(sorted(CONSEQUENCES))}, not {self.only!r}")


@dataclass(slots=True, repr=False)
class Outcome:
    """One analyzed trace. Iterate it for the reports that were kept."""

    path: str
    rows: int
    dropped_bytes: int
    selection: Selection
    warnings: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What a reader of a clean verdict must know: why this run could have shown nothing. Empty where it raced."""
    exercise: Exercise = field(default_factory=Exercise)
    """What the run did: counters, and the names that filters can match."""
    actors: list[str] = field(default_factory=list)
    """As reports print them, and as signatures have them."""
    coverage: Coverage | None = None
    """What the run exercised, and so what a clean verdict is worth."""
    unseen: str = ""
    """What the recorder could not see: why no verdict on this run is a clean one; empty where it saw all."""
    truncated: bool = False
    """Part of the trace could not be read."""
    reported: str = ""
    """Of a log that holds only reports, whose: nothing was replayed, `rows` are its lines. Empty for a trace."""

    def __repr__(self) -> str:
        sizes = f"rows={self.rows}, races={self.races}, distinct={self.distinct}, reports={len(self.reports)}"
        return f"<Outcome of {self.path}: {sizes}>"

    def id_of(self, report: Report) -> str:
        """The id of a report's distinct race, `R-...`. Raises UsageError for a report of another run."""
        try:
            return self.selection.ids[report.canonical]
        except KeyError:
            raise UsageError(f"{self.path}: this report is none of this outcome's") from None

    def cause_of(self, report: Report) -> str | None:
        """The id of a report's root cause, `C-...`; None where nothing was judged."""
        judged = self.selection.judged
        return None if judged is None else judged.cause(report)

    def text_of(self, report: Report, *, verbose: bool = False) -> str:
        """A report as `analyze` prints it, four lines without a newline at the end; verbose: what `-v` adds, too."""
        more = details(report, self.id_of(report), self.selection.judged, reported=bool(self.reported))
        return "\n".join([block(report), *(more if verbose else [])])

    def consequence_of(self, report: Report) -> Consequence | None:
        """What a report comes to; None where it was not judged."""
        judged = self.selection.judged
        return None if judged is None else judged.of(report)

    @property
    def nameable(self) -> Nameable:
        """What filters can name of this run."""
        reports = (race.report for race in self.selection.known.values())
        return nameable(self.exercise, self.actors, reports)

    @property
    def reports(self) -> list[Report]:
        return self.selection.reports

    @property
    def races(self) -> int:
        """All reports, before filters and limits."""
        return self.selection.races

    @property
    def distinct(self) -> int:
        """All distinct races, before filters."""
        return self.selection.distinct

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports)


def analyze(path: str, **options: Any) -> Outcome:
    """Find the races of a trace, and what each comes to. Options are those of `Options`, by name.

    path: a trace (Arrow IPC or JSON Lines), or a log of a known kind; `-` is standard input.
    Raises TraceError for what cannot be read, has no event or no access, or (strict=True) breaks a rule; UsageError for
    an option, and for a filter that matches no name of the trace.
    """
    asked = Options(**{"consequence": True, **options})
    outcome = analyze_source(open_source(path), asked)
    if asked.filters:
        check_filters(asked.filters, outcome.nameable)
        outcome.remarks += absent_ids(asked.filters, outcome.selection.known)
    return outcome


def analyze_source(source: Source, options: Options, tell: Tell | None = None) -> Outcome:
    """As `analyze`, for what is open already; consequences only if they are asked for. tell: the first report of each
    distinct race, when it is found."""
    if source.kind in importers.REPORTS:
        return _reported(cast(ReportLog, source), options)
    meter = Meter()
    judging = _Judging(source, options)
    session = Session(judging.batches(), options.settings, (meter, *judging.observers))
    checked = _CrossCheck(source)
    with in_trace(source.path):
        selection = judging.select(checked.watch(told(session, tell)), session)
        session.demand_accesses()
    return Outcome(
        source.path,
        session.rows,
        source.dropped_bytes,
        selection,
        [*source.warnings, *session.warnings, *checked.differences(), *judging.sentences()],
        [] if selection.races else session.exercise.remarks(),
        session.exercise,
        session.all_names,
        judge(meter),
        unseen=session.exercise.unseen,
        truncated=source.partial,
    )


def _reported(source: ReportLog, options: Options) -> Outcome:
    """The outcome of a log of reports. Nothing tells what else the run did, so no coverage is judged."""
    found = read_reports(source, fold=options.fold_layers)
    selection = select_reported(found, options.filters, options.limit, options.suppressions, options.only)
    return Outcome(
        source.path,
        found.lines,
        0,
        selection,
        found.warnings,
        [found.sentence()],
        named_in(found),
        actors_in(found),
        truncated=found.partial,
        reported=found.of,
    )


RECORDED_BYTES: Final = 96 << 20
"""What may be kept of a trace so that its reports are judged without another reading; a longer one is read again."""


class _Judging:
    """Selects reports, and judges them by a recording of the same pass; where that became too large, of another one."""

    def __init__(self, source: Source, options: Options) -> None:
        self._options = options
        self._wanted = options.consequence or bool(options.only)
        self._source = Rereadable(source, keep=False) if self._wanted else source
        self._recorder = Recorder(limit=RECORDED_BYTES) if self._wanted else None
        self._left: Counter[str] = Counter()
        self._judged: Judged | None = None

    @property
    def observers(self) -> tuple[Observer, ...]:
        return () if self._recorder is None else (self._recorder,)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The trace; what cannot be read again is kept."""
        return self._source.batches()

    def select(self, reports: Iterator[Report], session: Session) -> Selection:
        """Filters, suppressions, limits. By consequence, too, if so asked: of very many reports none is kept for that,
        they are made anew."""
        if not self._wanted:
            return self._select(reports)
        from hbtrace.consequence.sampling import MOST_JUDGED, Sample

        sample, by_consequence = Sample(), bool(self._options.only)
        every: list[Report] = []

        def watched() -> Iterator[Report]:
            for number, report in enumerate(reports):
                if self._options.filters.accepts(report):
                    sample.add(report)
                if by_consequence and number <= MOST_JUDGED:
                    every.append(report)
                yield report

        if not by_consequence:
            selection = self._select(watched())
            if selection.shown:
                selection.judged = self._judge(sample, session.rows)
            return selection
        many = sum(1 for _ in watched()) > MOST_JUDGED
        found = self._judge(sample, session.rows) if sample.seen else None
        selection = self._select(self._all_again() if many else every, self._comes_to_wanted)
        selection.judged = found
        return selection

    def _select(self, reports: Iterable[Report], also: Callable[[Report], bool] | None = None) -> Selection:
        options = self._options
        return select(reports, options.filters, options.limit, options.suppressions, also)

    def _all_again(self) -> Iterable[Report]:
        if self._recorder is not None and self._recorder.whole:
            return self._recorder.finish().reports
        return Session(self._source.batches(), replace(self._options.settings, strict=False))

    def _judge(self, sample: Sample, rows: int) -> Judged:
        from hbtrace.consequence.sampling import judge_sample

        self._judged = judge_sample(self._recording(rows), sample, rows, partial=self._source.partial)
        return self._judged

    def _recording(self, rows: int) -> Recording:
        from hbtrace.consequence.sampling import MOST_ROWS, first_rows

        if self._recorder is not None and self._recorder.whole and rows <= MOST_ROWS:
            return self._recorder.finish()
        return record(first_rows(self._again()), replace(self._options.settings, strict=False), replay=False)

    def _again(self) -> Iterator[pa.RecordBatch]:
        """The trace once more; nothing where it could not be kept, which is said of the reports."""
        try:
            yield from self._source.batches()
        except TraceError:
            return

    def _comes_to_wanted(self, report: Report) -> bool:
        verdict = self._judged.verdict(report) if self._judged is not None else None
        if verdict in self._options.only:
            return True
        self._left[verdict or "unknown"] += 1
        return False

    def sentences(self) -> list[str]:
        """What was not judged, and what a gate on consequence may have let through."""
        told = self._judged.sentences() if self._judged is not None else []
        if doubtful := self._left["unknown"]:
            told.append(f"reports left out whose effect is unknown: {doubtful:,} (--only unknown shows them)")
        return told


class _CrossCheck:
    """An imported sanitizer log has reports of its own: hold the replay's against them."""

    def __init__(self, source: Source) -> None:
        self._source = cast(ImportedTrace, source) if source.kind == importers.GGML_TRACE else None
        self._seen: list[Report] = []

    def watch(self, reports: Iterable[Report]) -> Iterator[Report]:
        for report in reports:
            if self._source is not None:
                self._seen.append(report)
            yield report

    def differences(self) -> list[str]:
        if self._source is None:
            return []
        from hbtrace.importers.ggml_sanitize import cross_check

        return cross_check(self._source.own_reports(), self._seen)
