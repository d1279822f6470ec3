"""`analyze` as a function: a path in, an outcome out. The command line and the Python API both call it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hbtrace import importers
from hbtrace.checks.coverage import Coverage, Meter
from hbtrace.checks.passage import Passage
from hbtrace.compare.select import Filters, Selection, select
from hbtrace.compare.suppressions import Suppressions
from hbtrace.errors import TraceError
from hbtrace.replay import Replay
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.races import Report
from hbtrace.source import ImportedTrace, Source, open_source


@dataclass(frozen=True, slots=True)
class Options:
    """How to replay, and what to keep: `limit` reports of each distinct race, None for every one."""

    threads: str | None = None
    skip_weights: bool = False
    strict: bool = False
    fold_layers: bool = False
    filters: Filters = field(default_factory=Filters)
    limit: int | None = None
    suppressions: Suppressions | None = None


@dataclass(slots=True)
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
    coverage: Coverage | None = None
    """What the run exercised, and so what a clean verdict is worth."""
    truncated: bool = False
    """Part of the trace could not be read."""

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
    """Find the races of a trace. Options are those of `Options`, by name.

    path: a trace (Arrow IPC or JSON Lines, `-` for standard input) or a log of the ggml scheduler sanitizer.
    Raises TraceError for what cannot be read, has no event, or (strict=True) breaks a rule.
    """
    return analyze_source(open_source(path), Options(**options))


def analyze_source(source: Source, options: Options) -> Outcome:
    """As `analyze`, for what is open already."""
    meter = Meter()
    replay = Passage(
        source.batches(),
        (meter,),
        threads=options.threads,
        skip_weights=options.skip_weights,
        strict=options.strict,
        fold_layers=options.fold_layers,
        whole=False,
    )
    checked = _CrossCheck(source)
    try:
        selection = select(checked.watch(replay), options.filters, options.limit, options.suppressions)
    except TraceError as error:
        if error.row is None:
            raise
        raise TraceError(f"{source.path}: {error} (strict)", row=error.row) from None
    return Outcome(
        source.path,
        replay.rows,
        source.dropped_bytes,
        selection,
        [*source.warnings, *replay.warnings, *checked.differences()],
        [] if selection.races else replay.exercise.remarks(),
        replay.exercise,
        replay.actors,
        meter.coverage(),
        truncated=bool(source.dropped_bytes or source.warnings),
    )


class _CrossCheck:
    """An imported sanitizer log has reports of its own: hold the replay's against them."""

    def __init__(self, source: Source) -> None:
        checkable = isinstance(source, ImportedTrace) and source.kind == importers.GGML_TRACE
        self._source: ImportedTrace | None = source if checkable else None  # type: ignore[assignment]
        self._seen: list[Report] = []

    def watch(self, reports: Replay) -> Iterator[Report]:
        for report in reports:
            if self._source is not None:
                self._seen.append(report)
            yield report

    def differences(self) -> list[str]:
        if self._source is None:
            return []
        from hbtrace.importers.ggml_sanitize import cross_check

        return cross_check(self._source.own_reports(), self._seen)
