"""The meter: looks on while a trace is replayed (`replay.session`) and counts what the run exercised.

It finds no race, knows no rule and judges nothing. Two ways to measure nothing come from practice: a batch in one
ubatch, and a graph that is rebuilt each time so that the reuse path never runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbtrace import engines
from hbtrace.checks.coverage import COUNTERS
from hbtrace.checks.native_steps import NativeSteps
from hbtrace.checks.steps import BatchKinds, Steps, kinds_of
from hbtrace.checks.windows import WINDOWS, WindowNature
from hbtrace.engines import Engine, Exerciser
from hbtrace.replay.diagnostics import SKIPPED
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernels import reason
from hbtrace.replay.session import Observer, Replayed
from hbtrace.trace.columns import Columns
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import DIRECT, UNASKED_WRITES


@dataclass(slots=True)
class WindowCounts:
    """Windows by nature: all of them, and those that were open."""

    all: dict[WindowNature, int]
    open: dict[WindowNature, int]


class Meter(Observer):
    """Counts while a session replays a trace; `verdict.judge` makes the coverage of it."""

    def __init__(self) -> None:
        self.exercise = Exercise()
        self.skipped = 0
        """Rows that count for nothing."""
        self.events: Counter[str] = Counter()
        self.phases: dict[str, int] = {}
        self.reports = self.hidden = 0
        self.late = False
        self.rings: set[int] = set()
        self._steps: Steps | NativeSteps = NativeSteps() if reason() is None else Steps()
        self._direct: set[int] = set()
        """Rows that write or read through `tensor->data`, of those that can still race,"""
        self._newly_direct: list[int] = []
        """and those of the newest batch."""
        self._named: str | None = None
        """The engine, as the trace has it."""
        self.engine: Engine | None = None
        """Whose trace it is, if that engine has a coverage of its own."""
        self.exerciser: Exerciser | None = None
        """Of such a trace: what its notes show."""

    def take(self, replayed: Replayed) -> None:
        events = _Events(Columns(replayed.batch))
        self._markers(events)
        self._notes(replayed, events)
        self.exercise = replayed.lowering.exercise
        self.late = replayed.lowering.diagnostics.late
        self.skipped = replayed.lowering.diagnostics.count(SKIPPED)
        batch = BatchKinds(replayed.first, events.each(kinds_of(events.words)), events.columns.numbers("split", -1))
        self._steps.take(replayed.programs, batch, replayed.lowering.synchronous)
        direct = (replayed.first + events.rows(DIRECT)).tolist()
        if replayed.reports:
            self._direct.update(direct)
        for report in replayed.reports:
            self.reports += 1
            self.hidden += report.current.row in self._direct or report.earlier.row in self._direct
        self._newly_direct = direct

    def keep(self, rows: set[int]) -> None:
        self._direct &= rows
        self._direct |= rows.intersection(self._newly_direct)

    @property
    def windows(self) -> WindowCounts:
        """Where races can be (`checks/windows.py`)."""
        counted = self._steps.counted()
        return WindowCounts(
            dict(zip(WINDOWS, counted.windows, strict=True)), dict(zip(WINDOWS, counted.open, strict=True))
        )

    @property
    def async_queues(self) -> int:
        """Asynchronous queues that computed; where nothing was computed, those that accessed memory."""
        return self._steps.counted().queues or len(self.exercise.queues)

    @property
    def max_in_flight(self) -> int:
        return self._steps.counted().max_in_flight

    @property
    def serial_queues(self) -> int:
        """Asynchronous queues that never had two computes in flight."""
        return self._steps.counted().serial_queues

    @property
    def waited_queues(self) -> int:
        """Queues declared asynchronous that were waited for at once after each of their computes."""
        return self._steps.counted().waited_queues

    @property
    def announced(self) -> bool:
        """Whether the trace tells of any write of the host that is no call of a backend."""
        did = self.exercise
        return bool(did.direct_writes or did.inferred_writes or any(self.events.get(ev) for ev in UNASKED_WRITES))

    @property
    def scheduled(self) -> bool:
        """Whether a ggml scheduler, and so graphs and ubatches, are to be expected."""
        return self._named in engines.LLAMA or any(ev.startswith("sched") or ev == "ubatch" for ev in self.events)

    @property
    def llama(self) -> bool:
        """Whether the run is one that llama.cpp's options change."""
        return self._named in engines.LLAMA or (not self._named and self.scheduled)

    @property
    def serialized(self) -> bool:
        """An eval callback, or something like it: each split computed piece by piece, with a wait behind each."""
        counted = self._steps.counted()
        return counted.per_node > 0 and counted.waited_queues == counted.queues

    def counters(self) -> dict[str, int]:
        counted = self.exercise.counters()
        values = {
            **{name: counted[name] for name in ("ubatches", "direct_writes", "inferred_writes", "reuse")},
            **{phase: self.phases.get(phase, 0) for phase in ("warmup", "prefill", "decode")},
            "open_windows": self.windows.open["input"],
            "prepare": self.events.get("sched_prepare", 0),
            "max_in_flight": self.max_in_flight,
            "async_queues": self.async_queues,
        }
        return {name: values[name] for name in COUNTERS}

    def more(self) -> dict[str, Any]:
        """What is counted besides."""
        events, windows = self.events, self.windows
        return {
            "windows": windows.all["input"],
            "natures": {name: {"windows": windows.all[name], "open": windows.open[name]} for name in WINDOWS},
            "rebuilt": events.get("sched_alloc", 0) - events.get("reserve", 0),
            "computes": self.exercise.computes,
            "serial_queues": self.serial_queues,
            "waited_at_once": self.waited_queues,
            "eval_callback": self.serialized,
            "recording_late": self.late,
            "skipped": self.skipped,
        }

    # inside

    def _notes(self, replayed: Replayed, events: _Events) -> None:
        """Notes are decoded for an engine that counts them, and for no other."""
        if not replayed.first and events.columns.length:
            self._named = replayed.batch.column("engine")[0].as_py()
            self.engine = engines.named(self._named)
            self.exerciser = self.engine.exerciser() if self.engine is not None else None
        if self.exerciser is not None and (notes := events.rows({"note"})).size:
            for event in rows_from_batch(replayed.batch.take(notes), fitting=True):
                self.exerciser.feed(event)

    def _markers(self, events: _Events) -> None:
        columns, found = events.columns, events.found()
        self.events.update(found)
        if "ubatch" in found:
            phases, numbers = columns.words_of("phase")
            for phase, count in zip(phases, _each_counted(numbers[events.rows({"ubatch"})], phases), strict=True):
                if phase is not None and count:
                    self.phases[phase] = self.phases.get(phase, 0) + count
        if "sched" in found:
            self.rings.update(columns.numbers("ring", 0)[events.rows({"sched"})].tolist())
        if "sched_alloc" in found:
            reserve = columns.numbers("reserve", 0)[events.rows({"sched_alloc"})]
            self.events["reserve"] = self.events.get("reserve", 0) + int(reserve.sum())


def _each_counted(numbers: npt.NDArray[np.int64], words: list[str | None]) -> list[int]:
    """Of each word, how often its place is among these numbers."""
    counts: list[int] = np.bincount(numbers, minlength=len(words)).tolist()
    return counts


class _Events:
    """What the rows of a batch are. A dictionary may hold a word twice, or one that no row has."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.words, self._numbers = columns.words_of("ev")

    def each(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """By row, the value that its word has."""
        return values[self._numbers]

    def found(self) -> Counter[str]:
        """How many rows there are of each event, of those that have any; an empty text is none."""
        found: Counter[str] = Counter()
        for word, count in zip(self.words, _each_counted(self._numbers, self.words), strict=True):
            if count:
                found[word or ""] += count
        return found

    def rows(self, evs: Set[str]) -> npt.NDArray[np.int64]:
        """The rows of these events, in order."""
        chosen = np.array([word in evs for word in self.words])
        return np.flatnonzero(self.each(chosen)) if chosen.any() else np.empty(0, dtype=np.int64)
