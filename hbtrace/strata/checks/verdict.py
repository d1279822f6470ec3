"""The coverage of a trace of Strata: what it undid, settled and rotated. The scheduler's counters stay beside."""

from __future__ import annotations

from hbtrace.checks.coverage import Coverage, CoverageVerdict
from hbtrace.checks.meter import Meter
from hbtrace.strata.checks.coverage import StrataCoverage


def judge(meter: Meter, found: StrataCoverage) -> Coverage:
    """`partly` as well where the recording began late: what was before it is in no counter."""
    lacks = found.lacks() + (["the recording began late: ids are used that were never defined"] if meter.late else [])
    verdict: CoverageVerdict = "partly" if lacks and found.verdict == "exercised" else found.verdict
    advice = found.advice()
    return Coverage(
        verdict, {**found.counters(), "async_queues": meter.async_queues}, {**meter.counters(), **meter.more()}, lacks,
        advice, next(iter(advice), ""), meter.reports, meter.hidden, found.told(),
        found.unended, found.units(),
    )  # fmt: skip
