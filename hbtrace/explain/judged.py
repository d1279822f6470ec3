"""Consequences for a verb that keeps no trace: which reports are judged, in a second pass, and what stands for others.

What it is: the bound on what that costs, the same as in `triage`. What it is not: the decision (`consequence.py`).
A trace without a report is not read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from hbtrace.explain import triage
from hbtrace.explain.causes import cause_of
from hbtrace.explain.consequence import Consequence, Verdict, judge
from hbtrace.explain.recording import Pair, Settings, pair_of, record
from hbtrace.replay.races import Report, Signature

MOST_JUDGED: Final = triage.MOST_JUDGED
OF_EACH: Final = 2
"""Reports of each distinct race that are judged where there are more than `MOST_JUDGED`."""
MOST_ROWS: Final = 4_000_000
"""Rows that are looked at: about 60 bytes of memory each."""


class Sample:
    """The reports to judge, taken as they come: all of them, or of very many the first of each distinct race."""

    def __init__(self) -> None:
        self.seen = 0
        self._all: list[Report] | None = []
        self._first: dict[Signature, list[Report]] = {}
        self._points: dict[tuple[Any, ...], Report] = {}

    def add(self, report: Report) -> None:
        """The next report."""
        self.seen += 1
        if self._all is not None:
            self._all.append(report)
            if self.seen > MOST_JUDGED:
                self._all = None
        first = self._first.setdefault(report.canonical, [])
        if len(first) < OF_EACH:
            first.append(report)
        earlier, current = report.earlier, report.current
        point = (report.canonical, earlier.actor, earlier.split, current.actor, current.split)
        self._points.setdefault(point, report)

    @property
    def reports(self) -> list[Report]:
        """Those to judge."""
        return self._all if self._all is not None else [report for its in self._first.values() for report in its]


    @property
    def points(self) -> Iterable[Report]:
        """One of each distinct race at each pair of program points: they have all causes that there are."""
        return self._points.values()


@dataclass(frozen=True)
class _Named:
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    inputs: set[int] = field(default_factory=set)


@dataclass
class Judged:
    """What came of the reports that were judged. left: how many were not."""

    by_pair: dict[Pair, Consequence] = field(default_factory=dict)
    races: dict[Signature, Verdict] = field(default_factory=dict)
    """By canonical signature: live if one of its reports is, unknown if one could be."""
    left: int = 0
    named: _Named = field(default_factory=_Named)
    causes: dict[Signature, set[str]] = field(default_factory=dict)
    """By canonical signature: the ids of the root causes of its reports."""

    def cause(self, report: Report) -> str:
        """The id of the root cause that a report belongs to, judged or not."""
        return cause_of(report, self.named)

    def of(self, report: Report) -> Consequence | None:
        """Of a report; None where it was not judged."""
        return self.by_pair.get(pair_of(report))

    def verdict(self, report: Report) -> Verdict | None:
        """Of a report; that of its distinct race where it was not judged itself."""
        own = self.of(report)
        return own.verdict if own is not None else self.races.get(report.canonical)

    def sentences(self) -> list[str]:
        """What a reader must know of reports that were not judged."""
        if not self.left:
            return []
        return [
            f"{self.left:,} of {self.left + len(self.by_pair):,} reports were not judged for their consequence: the"
            f" first {OF_EACH} of each distinct race stand for the others"
        ]


def judge_again(
    batches: Iterable[pa.RecordBatch], sample: Sample, rows: int, *, partial: bool, **settings: Any
) -> Judged:
    """Judge a sample in a second pass over its trace, which had `rows` rows in the first.

    batches: from the beginning. partial: something of the trace was lost. settings: those of `consequences`.
    """
    again = _Again(batches, min(rows, MOST_ROWS))
    reports = sample.reports
    within = [report for report in reports if report.current.row < MOST_ROWS]
    recording = record(again, Settings(**settings), replay=False)
    found = judge(recording, within, partial=partial or rows > MOST_ROWS)
    if within and again.missing:
        changed = Consequence("unknown", "the trace could not be read a second time as it was the first")
        found = {pair_of(report): changed for report in within}
    beyond = Consequence("unknown", f"the trace is looked at up to row {MOST_ROWS:,} only")
    found |= {pair_of(report): beyond for report in reports if report.current.row >= MOST_ROWS}
    named = _Named(recording.queues, recording.inputs)
    causes: dict[Signature, set[str]] = {}
    for report in sample.points:
        causes.setdefault(report.canonical, set()).add(cause_of(report, named))
    return Judged(found, _of_races(reports, found), sample.seen - len(reports), named, causes)


def _of_races(reports: Iterable[Report], found: dict[Pair, Consequence]) -> dict[Signature, Verdict]:
    told: dict[Signature, set[Verdict]] = {}
    for report in reports:
        told.setdefault(report.canonical, set()).add(found[pair_of(report)].verdict)
    return {canonical: worst(verdicts) for canonical, verdicts in told.items()}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several reports of one race: live if any is, unknown if any could be."""
    among = set(verdicts)
    return "live" if "live" in among else "unknown" if "unknown" in among else "dead"


class _Again:
    """The first rows of the batches; `missing` of them did not come."""

    def __init__(self, batches: Iterable[pa.RecordBatch], rows: int) -> None:
        self._batches = batches
        self.missing = rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            part = batch.slice(0, self.missing)
            self.missing -= part.num_rows
            yield part
            if not self.missing:
                return
