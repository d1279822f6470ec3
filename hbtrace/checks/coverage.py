"""Coverage: what a run exercised, and so what its clean verdict is worth.

A `Meter` looks on while a trace is replayed (`replay.session`) and counts; `Meter.coverage()` judges. It finds no race
and knows no rule. Two ways to measure nothing come from practice: a batch in one ubatch, and a graph that is rebuilt
each time so that the reuse path never runs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.replay import diagnostics
from hbtrace.replay.clocks import NOTHING
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import HOST, JOIN, QUEUE
from hbtrace.replay.session import Observer, Replayed, moments
from hbtrace.trace.columns import Columns
from hbtrace.trace.vocabulary import DIRECT, HOST_WAITS, HOST_WRITES

if TYPE_CHECKING:
    from hbtrace.strata.checks.coverage import Exerciser

Verdict = Literal["exercised", "partly", "not-exercised"]

COUNTERS: Final = (
    "ubatches", "open_windows", "direct_writes", "inferred_writes", "reuse", "prepare", "warmup", "prefill", "decode",
    "max_in_flight", "async_queues",
)  # fmt: skip
"""The names of `--require`."""

_LATE: Final = (diagnostics.BACKEND, diagnostics.BUFFER, diagnostics.TENSOR, diagnostics.GRAPH)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The verdict and what it stands on.

    counters: by the names of `COUNTERS`. more: what is counted besides. reasons: why it is not `exercised`. advice:
    what to change in the run. reports: races of the replay, `hidden` of which need a direct access to be seen at all.
    """

    verdict: Verdict
    counters: dict[str, int]
    more: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    todo: str = ""
    """What to change about the first reason."""
    reports: int = 0
    hidden: int = 0
    told: list[str] = field(default_factory=list)
    """What to know besides, of an engine that has more to say."""
    unended: int = 0
    """Requests that begin and do not end: the run was cut short."""

    def line(self) -> str:
        """One line for `analyze` and `diff`."""
        first = f": {self.reasons[0]}" if self.reasons else ""
        todo = f"; try {self.todo}" if self.todo else ""
        return f"coverage: {self.verdict}{first}{todo}"

    def hidden_line(self) -> str:
        """How much of what was reported hangs on direct accesses."""
        return f"without direct writes {self.hidden} of {self.reports} reports would have been invisible"

    def to_object(self) -> dict[str, Any]:
        """The `coverage` of JSON documents."""
        return {
            "verdict": self.verdict,
            **self.counters,
            **self.more,
            "reports": self.reports,
            "invisible_without_direct": self.hidden,
            "reasons": self.reasons,
            "advice": self.advice,
            **({"told": self.told} if self.told else {}),
        }


@dataclass(slots=True)
class _Queue:
    """The computes of one asynchronous queue."""

    pending: deque[int] = field(default_factory=deque)
    computes: int = 0
    most: int = 0
    at_once: int = 0
    """Computes that were waited for before the host or the queue did anything else."""
    fresh: bool = False


class Meter(Observer):
    """Counts while a session replays a trace; then ask it for the `coverage`."""

    ordered = True

    def __init__(self) -> None:
        self.exercise = Exercise()
        self.windows = self.open_windows = 0
        self.events: dict[str, int] = {}
        self.phases: dict[str, int] = {}
        self.reports = self.hidden = 0
        self.late = 0
        self.rings: set[int] = set()
        self._known: dict[int, Clock] = {}
        """What each actor knows of others."""
        self._queues: dict[int, _Queue] = {}
        self._issued = False
        self._direct: set[int] = set()
        self._chunks_of_split: dict[int, int] = {}
        self._per_node = 0
        self.strata: Exerciser | None = None
        """Of a trace of Strata what its notes show; its coverage is another one."""

    def take(self, replayed: Replayed) -> None:
        columns = Columns(replayed.batch)
        evs = columns.strings("ev")
        self._markers(replayed, columns, evs)
        self._notes(replayed, columns)
        self.exercise = replayed.lowering.exercise
        self.late = sum(replayed.lowering.diagnostics.count(kind) for kind in _LATE)
        splits = columns.ints("split", -1)
        for op, actor, other, footprint, row, tick, known in moments(replayed):
            self._known[actor] = known
            ev = evs[row - replayed.first]
            if op == QUEUE:
                self._queued((actor, tick), other, ev, splits[row - replayed.first])
            elif op == HOST:
                self._host(actor, ev, splits[row - replayed.first], footprint)
            elif op == JOIN and ev in HOST_WAITS:
                self._waited(other)
        for report in replayed.reports:
            self.reports += 1
            self.hidden += report.current.row in self._direct or report.earlier.row in self._direct

    def keep(self, rows: set[int]) -> None:
        self._direct &= rows

    def coverage(self) -> Coverage:
        """The verdict on everything taken so far."""
        from hbtrace.checks.verdict import judge, judge_strata

        return judge(self) if self.strata is None else judge_strata(self, self.strata.coverage)

    @property
    def async_queues(self) -> int:
        """Asynchronous queues that computed; where nothing was computed, those that accessed memory."""
        return len(self._queues) or len(self.exercise.queues)

    @property
    def max_in_flight(self) -> int:
        return max((queue.most for queue in self._queues.values()), default=0)

    @property
    def serial_queues(self) -> int:
        """Asynchronous queues that never had two computes in flight."""
        return sum(queue.most < 2 for queue in self._queues.values())

    @property
    def waited_queues(self) -> int:
        """Queues declared asynchronous that were waited for at once after each of their computes."""
        return sum(queue.computes > 1 and queue.at_once == queue.computes for queue in self._queues.values())

    @property
    def serialized(self) -> bool:
        """An eval callback, or something like it: each split computed piece by piece, with a wait behind each."""
        return self._per_node > 0 and self.waited_queues == len(self._queues)

    def counters(self) -> dict[str, int]:
        counted = self.exercise.counters()
        values = {
            **{name: counted[name] for name in ("ubatches", "direct_writes", "inferred_writes", "reuse")},
            **{phase: self.phases.get(phase, 0) for phase in ("warmup", "prefill", "decode")},
            "open_windows": self.open_windows,
            "prepare": self.events.get("sched_prepare", 0),
            "max_in_flight": self.max_in_flight,
            "async_queues": self.async_queues,
        }
        return {name: values[name] for name in COUNTERS}

    # inside

    def _notes(self, replayed: Replayed, columns: Columns) -> None:
        """Strata's notes, decoded in its own traces only."""
        from hbtrace.strata.checks.races import ENGINE

        if not replayed.first and columns.strings("engine")[:1] == [ENGINE]:
            from hbtrace.strata.checks.coverage import Exerciser

            self.strata = Exerciser()
        if self.strata is not None:
            from hbtrace.checks.sound import sound_rows
            from hbtrace.strata.checks.notes import is_sound

            kind = replayed.batch.column("ev").cast(pa.string())
            for event in sound_rows(replayed.batch.filter(pc.equal(kind, "note"))):
                attrs = event.get("attrs")
                if isinstance(attrs, dict) and is_sound(str(event.get("what")), attrs):
                    self.strata.feed(event)

    def _markers(self, replayed: Replayed, columns: Columns, evs: list[str | None]) -> None:
        names, counts = np.unique(np.array([ev or "" for ev in evs], dtype=object).astype(str), return_counts=True)
        found = dict(zip(names.tolist(), counts.tolist(), strict=True))
        for ev, count in found.items():
            self.events[ev] = self.events.get(ev, 0) + count
        if "ubatch" in found:
            for ev, phase in zip(evs, columns.strings("phase"), strict=True):
                if ev == "ubatch" and phase is not None:
                    self.phases[phase] = self.phases.get(phase, 0) + 1
        if "sched" in found:
            rings = columns.ints("ring", 0)
            self.rings.update(ring for ev, ring in zip(evs, rings, strict=True) if ev == "sched")
        if "sched_alloc" in found:
            reserve = columns.flags("reserve", default=False)
            self.events["reserve"] = self.events.get("reserve", 0) + sum(
                r for ev, r in zip(evs, reserve, strict=True) if ev == "sched_alloc"
            )
        if not DIRECT.isdisjoint(found):
            self._direct.update(replayed.first + k for k, ev in enumerate(evs) if ev in DIRECT)

    def _queued(self, epoch: tuple[int, int], host: int, ev: str | None, split: int) -> None:
        actor, tick = epoch
        if actor in self.exercise.synchronous:
            return
        if ev != "compute":
            if actor in self._queues:
                self._queues[actor].fresh = False
            return
        queue = self._queues.setdefault(actor, _Queue())
        self._drop_known(actor, queue, host)
        queue.pending.append(tick)
        queue.most = max(queue.most, len(queue.pending))
        queue.computes += 1
        queue.fresh = True
        self._issued = True
        if split >= 0:
            self._chunks_of_split[split] = self._chunks_of_split.get(split, 0) + 1

    def _host(self, actor: int, ev: str | None, split: int, footprint: int) -> None:
        for queue in self._queues.values():
            queue.fresh = False
        if ev not in HOST_WRITES or split != -1 or footprint < 0:
            return
        self._per_node += any(count > 1 for count in self._chunks_of_split.values())
        self._chunks_of_split.clear()
        if not self._issued:
            return
        self._issued = False
        self.windows += 1
        for number, queue in self._queues.items():
            self._drop_known(number, queue, actor)
        self.open_windows += any(queue.pending for queue in self._queues.values())

    def _waited(self, actor: int) -> None:
        queue = self._queues.get(actor)
        if queue is not None and queue.fresh:
            queue.at_once += 1
            queue.fresh = False

    def _drop_known(self, actor: int, queue: _Queue, host: int) -> None:
        known = self._known.get(host, NOTHING).get(actor, 0)
        while queue.pending and queue.pending[0] <= known:
            queue.pending.popleft()
