"""The only loop that drives a trace through the replay: lower, run the kernel, name the races, show it to observers.

The way of the data: `lower` (events to a flat program) -> `kernel` (clocks and shadow memory) -> `reports` (names).
Whoever wants to see more of a run (coverage, checks, a recording) is an observer; nobody else reads or lowers a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hbtrace.errors import NothingToJudgeError
from hbtrace.replay.clocks import Order
from hbtrace.replay.diagnostics import SKIPPED
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernel import Hit
from hbtrace.replay.kernels import AnyKernel, new_clocks, new_kernel
from hbtrace.replay.lower import Lowering
from hbtrace.replay.program import Program
from hbtrace.replay.reports import Naming, Report
from hbtrace.replay.settings import Settings
from hbtrace.trace.budget import FOLLOWED, KEPT, KNOWN, REPORTED, VISITED


@dataclass(slots=True)
class Replayed:
    """One batch that was replayed. `first` is its first row; `lowering` and `naming` stand at its end.

    programs: its steps, in as many parts as kept the footprints in hand few; orders: of each part, if an observer
    asked for it. reports: of the hits, in the same order.
    """

    batch: pa.RecordBatch
    first: int
    lowering: Lowering
    naming: Naming
    programs: list[Program] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)


class Observer:
    """Looks at a trace while it is replayed; changes nothing."""

    ordered = False
    """Whether it asks for `Replayed.orders`."""

    def take(self, replayed: Replayed) -> None:
        """The next batch."""

    def remembered(self) -> set[int]:
        """Rows of which it may still ask for a report, beside those that can still race."""
        return set()

    def keep(self, rows: set[int]) -> None:
        """Behind a batch: of all rows so far, only the accesses of these can still race."""


class Session:
    """One pass over a trace: iterate it for the reports, in order; then ask for the warnings.

    batches: canonical record batches (`Trace.batches()`). kernel: False leaves out memory, hence the reports. Before a
    batch's reports are handed on, every observer has seen that batch. Raises TraceError in strict mode at the first
    breach. Memory is bounded by what can still race, not by the length of the trace.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        settings: Settings | None = None,
        observers: Sequence[Observer] = (),
        *,
        kernel: bool = True,
    ) -> None:
        settings = settings or Settings()
        self._batches = batches
        self._observers = observers
        self._lowering = Lowering(settings)
        self._naming = Naming(self._lowering, fold=settings.fold_layers)
        self._kernel: AnyKernel | None = None
        self._remembers = kernel
        self._clocks = new_clocks() if any(observer.ordered for observer in observers) else None

    def __iter__(self) -> Iterator[Report]:
        for batch in self._batches:
            replayed = self._replay(batch)
            for observer in self._observers:
                observer.take(replayed)
            yield from replayed.reports
            self._keep()

    def run(self) -> None:
        """The whole pass, for its observers alone."""
        for _ in self:
            pass

    def _replay(self, batch: pa.RecordBatch) -> Replayed:
        lowering, naming = self._lowering, self._naming
        out = Replayed(batch, lowering.rows, lowering, naming)
        for program in lowering.programs(batch):
            if self._observers:
                out.programs.append(program)
            lowering.budget.check(FOLLOWED, lowering.followed)
            if self._clocks is not None:
                out.orders.append(self._clocks.order(program))
            if self._remembers:
                if self._kernel is None:  # the first row says whether threads are ordered
                    self._kernel = new_kernel(ordered=lowering.ordered)
                hits = self._run(self._kernel, program)
                out.hits += hits
                out.reports += map(naming.report, hits)
        return out

    def _run(self, kernel: AnyKernel, program: Program) -> list[Hit]:
        """The races of one program, in what the budget of the trace leaves."""
        budget, before = self._lowering.budget, kernel.visited
        budget.spend(VISITED, program.overlaps())
        hits = kernel.run(program, visits=budget.left(VISITED), races=budget.left(REPORTED))
        budget.spend(REPORTED, len(hits))
        budget.spend(VISITED, kernel.visited - before)
        budget.check(KEPT, kernel.cells)
        budget.check(KNOWN, kernel.known)
        return hits

    def _keep(self) -> None:
        """Behind a batch: what can still race is kept by name, all else is forgotten."""
        racing = self._kernel.remembered() if self._kernel is not None else set()
        self._naming.keep(racing.union(*(observer.remembered() for observer in self._observers)))
        for observer in self._observers:
            observer.keep(racing)

    @property
    def warnings(self) -> list[str]:
        """One sentence a kind, of what was met so far."""
        return self._lowering.diagnostics.sentences()

    @property
    def nothing(self) -> str:
        """Why there is nothing to judge: no row made an access. Empty where there is (contract, section 10)."""
        return nothing_in(self._lowering)

    def demand_accesses(self) -> None:
        """Raises NothingToJudgeError where no row made an access: such a trace is no clean run."""
        if self.nothing:
            raise NothingToJudgeError(self.nothing)

    @property
    def exercise(self) -> Exercise:
        """What the run did, counted so far."""
        return self._lowering.exercise

    @property
    def all_names(self) -> list[str]:
        """The names of all actors so far, as reports print them and as signatures have them."""
        names = self._lowering.names
        return list(dict.fromkeys([*names.actors, *names.families]))

    @property
    def rows(self) -> int:
        return self._lowering.rows


def nothing_in(lowering: Lowering) -> str:
    """Why there is nothing to judge in what was lowered, empty where there is."""
    if lowering.exercise.touched:
        return ""
    skipped = lowering.diagnostics.count(SKIPPED)
    told = f"; {skipped:,} skipped ({lowering.diagnostics.first(SKIPPED)})" if skipped else ""
    rows = "its one row makes" if lowering.rows == 1 else f"none of its {lowering.rows:,} rows makes"
    return f"nothing to judge: {rows} {'no' if lowering.rows == 1 else 'an'} access{told}"


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
    batches = [batch_from_rows(rows)] if rows else []
    session = Session(batches, Settings(threads, skip_weights, strict, fold_layers))
    return Result(list(session), session.warnings, session.rows)
