"""Which reports of a run are judged for their consequence, and what stands for the others.

What it is: the bound on what that costs, the same in `analyze` and `triage`. What it is not: the decision (`taint.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from hbtrace.consequence.taint import FREED, UNLOOKED, Consequence, Verdict, judge, judge_races, worst
from hbtrace.races.natures import cause_of
from hbtrace.replay.recording import Pair, Recording, pair_of
from hbtrace.replay.reports import Report, Signature
from hbtrace.words import sampled

MOST_JUDGED: Final = 2_000
"""Reports whose consequence is looked at, each; of more, each distinct race's as a whole."""
OF_EACH: Final = 2
"""Reports of each distinct race that are judged one by one where there are more than `MOST_JUDGED`."""
MOST_TOGETHER: Final = 50_000
"""Reports of which then at least each distinct race is judged: about 2 kB of memory each."""
MOST_ROWS: Final = 4_000_000
"""Rows that are looked at: about 60 bytes of memory each."""


class Sample:
    """The reports to judge, taken as they come: all of them, or of very many the first of each distinct race."""

    def __init__(self) -> None:
        self.seen = 0
        self.kept: list[Report] = []
        """The first `MOST_TOGETHER`, each."""
        self.beyond: Counter[Signature] = Counter()
        """How many of each distinct race are not among them."""
        self._first: dict[Signature, list[Report]] = {}
        self._points: dict[tuple[Any, ...], Report] = {}

    def add(self, report: Report) -> None:
        """The next report."""
        self.seen += 1
        if len(self.kept) < MOST_TOGETHER:
            self.kept.append(report)
        else:
            self.beyond[report.canonical] += 1
        first = self._first.setdefault(report.canonical, [])
        if len(first) < OF_EACH:
            first.append(report)
        earlier, current = report.earlier, report.current
        point = (report.canonical, earlier.actor, earlier.site, current.actor, current.site)
        self._points.setdefault(point, report)

    @property
    def reports(self) -> list[Report]:
        """Those to judge one by one."""
        if self.seen <= MOST_JUDGED:
            return self.kept
        return [report for its in self._first.values() for report in its]

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
    """What came of the reports that were judged. left: how many were not judged one by one, beyond: nor together."""

    by_pair: dict[Pair, Consequence] = field(default_factory=dict)
    races: dict[Signature, Verdict] = field(default_factory=dict)
    """By canonical signature: live if one of its reports is, unknown if one could be."""
    left: int = 0
    beyond: int = 0
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
        given_up = sum(found is UNLOOKED for found in self.by_pair.values())
        told = []
        if given_up:
            told.append(f"{given_up:,} reports are of unknown effect because judging all of them would cost too much")
        if not self.left:
            return told
        told.append(
            f"{sampled(len(self.by_pair), self.left + len(self.by_pair))}: of the other reports what all reports of a"
            " distinct race together come to stands"
        )
        if self.beyond:
            told.append(
                f"{self.beyond:,} reports were not judged at all, only the first {MOST_TOGETHER:,} are: their distinct"
                " races are unknown unless another report makes them visible"
            )
        return told


def judge_sample(recording: Recording, sample: Sample, rows: int, *, partial: bool) -> Judged:
    """Judge a sample by a recording of its trace, which has `rows` rows. partial: something of the trace was lost."""
    reports = sample.reports
    partial = partial or rows > MOST_ROWS
    missing = recording.rows < min(rows, MOST_ROWS)
    found = judge(recording, _within(reports), partial=partial)
    together: dict[Signature, Verdict] = {}
    if sample.seen > len(reports) and not missing:
        together = judge_races(recording, _within(sample.kept), partial=partial)
    if missing:
        changed = Consequence("unknown", "the trace could not be read a second time as it was the first")
        found = {pair_of(report): changed for report in reports}
    beyond = Consequence("unknown", f"the trace is looked at up to row {MOST_ROWS:,} only")
    found |= {pair_of(report): beyond for report in reports if report.current.row >= MOST_ROWS}
    found |= {pair_of(report): FREED for report in reports if report.ends}  # whatever comes of the value
    races = _of_races(sample, found, together)
    named = _Named(recording.queues, recording.inputs)
    causes: dict[Signature, set[str]] = {}
    for report in sample.points:
        causes.setdefault(report.canonical, set()).add(cause_of(report, named))
    return Judged(found, races, sample.seen - len(reports), sample.beyond.total(), named, causes)


def first_rows(batches: Iterable[pa.RecordBatch], rows: int = MOST_ROWS) -> Iterator[pa.RecordBatch]:
    """No more rows than are looked at."""
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _within(reports: list[Report]) -> list[Report]:
    return [report for report in reports if report.current.row < MOST_ROWS]


def _of_races(
    sample: Sample, found: dict[Pair, Consequence], together: dict[Signature, Verdict]
) -> dict[Signature, Verdict]:
    """Of each distinct race, of its reports one by one and together; those that nobody looked at could be live."""
    told: dict[Signature, set[Verdict]] = {}
    for report in sample.reports:
        told.setdefault(report.canonical, set()).add(found[pair_of(report)].verdict)
    for canonical, verdict in together.items():
        told[canonical].add(verdict)
    unseen = set(sample.beyond) | {report.canonical for report in sample.kept if report.current.row >= MOST_ROWS}
    for canonical in unseen:
        told[canonical].add("unknown")
    return {canonical: worst(verdicts) for canonical, verdicts in told.items()}
