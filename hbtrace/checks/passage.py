"""The replay, with others looking on: each batch, its program and its reports are shown to observers as they pass.

One pass over the trace serves races, rule checks and the coverage verdict; standard input can be read only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hbtrace.replay import Replay
from hbtrace.replay.kernel import Kernel
from hbtrace.replay.lower import Lowering
from hbtrace.replay.program import Program
from hbtrace.replay.races import Report


@dataclass(frozen=True, slots=True)
class Chunk:
    """One batch that was replayed. `first` is its first row; `lowering` stands at its end."""

    batch: pa.RecordBatch
    program: Program
    lowering: Lowering
    reports: list[Report]
    first: int


class Observer(Protocol):
    """Looks at a trace while it is replayed; changes nothing."""

    def take(self, chunk: Chunk) -> None:
        """The next batch."""

    def keep(self, rows: set[int]) -> None:
        """Behind a batch: of all rows so far, only the accesses of these can still race."""


class Passage(Replay):
    """As `Replay`, and before a batch's reports are handed on, every observer has seen that batch."""

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        observers: Sequence[Observer],
        *,
        threads: str | None = None,
        skip_weights: bool = False,
        strict: bool = False,
        fold_layers: bool = False,
        whole: bool = True,
    ) -> None:
        """whole: observers get each batch's program with its footprints; otherwise its code alone, and a batch of
        many footprints takes no more memory than in `Replay`."""
        super().__init__(
            batches, threads=threads, skip_weights=skip_weights, strict=strict, fold_layers=fold_layers
        )  # fmt: skip
        self._observers = observers
        self._whole = whole

    def __iter__(self) -> Iterator[Report]:
        lowering, naming, kernel = self._lowering, self._naming, None
        for batch in self._batches:
            first = lowering.rows
            reports: list[Report] = []
            together = Program()
            for program in [lowering.lower(batch)] if self._whole else lowering.programs(batch):
                if kernel is None:
                    kernel = Kernel(closed=not lowering.ordered)
                reports += [naming.report(hit) for hit in kernel.run(program)]
                if self._whole:
                    together = program
                else:
                    together.code.extend(program.code)
            chunk = Chunk(batch, together, lowering, reports, first)
            for observer in self._observers:
                observer.take(chunk)
            yield from reports
            remembered = kernel.remembered() if kernel is not None else set()
            naming.keep(remembered)
            for observer in self._observers:
                observer.keep(remembered)
