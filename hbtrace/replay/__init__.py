"""Replay: lower a trace to integers, run the kernel over them, name the races. See `Replay`.

The way of the data: `lower` (events to a flat program) -> `kernel` (clocks and shadow memory) -> `races` (names).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernel import Kernel
from hbtrace.replay.lower import Lowering
from hbtrace.replay.races import Naming, Report

__all__ = ["Replay", "Result", "analyze_events"]


class Replay:
    """One pass over a trace: iterate it for the reports, in order; then ask for the warnings.

    batches: canonical record batches (`Trace.batches()`). threads: `one` or `ordered`, None for the trace's own word.
    fold_layers: signatures do not tell layers apart. Raises TraceError in strict mode at the first breach.
    Memory is bounded by what can still race, not by the length of the trace.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        threads: str | None = None,
        skip_weights: bool = False,
        strict: bool = False,
        fold_layers: bool = False,
    ) -> None:
        self._batches = batches
        self._lowering = Lowering(strict=strict, skip_weights=skip_weights, threads=threads)
        self._naming = Naming(self._lowering, fold=fold_layers)

    def __iter__(self) -> Iterator[Report]:
        lowering, naming, kernel = self._lowering, self._naming, None
        for batch in self._batches:
            for program in lowering.programs(batch):
                if kernel is None:  # the first row says whether threads are ordered
                    kernel = Kernel(closed=not lowering.ordered)
                for hit in kernel.run(program):
                    yield naming.report(hit)
            if kernel is not None:
                naming.keep(kernel.remembered())

    @property
    def warnings(self) -> list[str]:
        """One sentence a kind, of what was met so far."""
        return self._lowering.findings.sentences()

    @property
    def exercise(self) -> Exercise:
        """What the run did, counted so far."""
        return self._lowering.exercise

    @property
    def actors(self) -> list[str]:
        """The names of all actors so far."""
        return self._lowering.names.actors

    @property
    def rows(self) -> int:
        return self._lowering.rows


@dataclass(slots=True)
class Result:
    """All reports of a trace and what was met beside them."""

    reports: list[Report] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rows: int = 0

    @property
    def distinct(self) -> int:
        """The number of distinct races: signatures."""
        return len({report.signature for report in self.reports})


def analyze_events(
    events: Iterable[dict[str, Any]],
    *,
    threads: str | None = None,
    skip_weights: bool = False,
    strict: bool = False,
    fold_layers: bool = False,
) -> Result:
    """Replay events given as the dicts of JSON Lines; for programs and tests that hold them in memory."""
    from hbtrace.trace.rows import batch_from_rows

    rows = list(events)
    replay = Replay(
        [batch_from_rows(rows)] if rows else [],
        threads=threads, skip_weights=skip_weights, strict=strict, fold_layers=fold_layers,
    )  # fmt: skip
    return Result(list(replay), replay.warnings, replay.rows)
