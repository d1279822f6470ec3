"""The meter: looks on while a trace is replayed (`replay.session`) and counts what the run exercised.

It finds no race, knows no rule and judges nothing. Two ways to measure nothing come from practice: a batch in one
ubatch, and a graph that is rebuilt each time so that the reuse path never runs.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hbtrace import engines
from hbtrace.checks.coverage import COUNTERS
from hbtrace.engines import Engine, Exerciser
from hbtrace.replay.clocks import NOTHING
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE
from hbtrace.replay.session import Observer, Replayed
from hbtrace.trace.columns import Columns
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import DIRECT, HOST_WAITS, HOST_WRITES


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
    """Counts while a session replays a trace; `verdict.judge` makes the coverage of it."""

    ordered = True

    def __init__(self) -> None:
        self.exercise = Exercise()
        self.windows = self.open_windows = 0
        self.events: Counter[str] = Counter()
        self.phases: dict[str, int] = {}
        self.reports = self.hidden = 0
        self.late = False
        self.rings: set[int] = set()
        self._known: dict[int, Clock] = {}
        """What each actor knows of others."""
        self._queues: dict[int, _Queue] = {}
        self._issued = False
        self._direct: set[int] = set()
        self._chunks_of_split: dict[int, int] = {}
        self._per_node = 0
        self.engine: Engine | None = None
        """Whose trace it is, if that engine has a coverage of its own."""
        self.exerciser: Exerciser | None = None
        """Of such a trace: what its notes show."""

    def take(self, replayed: Replayed) -> None:
        columns = Columns(replayed.batch)
        evs = columns.strings("ev")
        self._markers(replayed, columns, evs)
        self._notes(replayed, columns)
        self.exercise = replayed.lowering.exercise
        self.late = replayed.lowering.diagnostics.late
        splits = columns.ints("split", -1)
        first, learnt = replayed.first, self._known
        for program, order in zip(replayed.programs, replayed.orders, strict=True):
            steps = zip(program.steps(), order.ticks, order.known, strict=True)
            for (op, actor, other, footprint, row), tick, known in steps:
                if op == HOST:
                    learnt[actor] = known
                    self._host(actor, evs[row - first], splits[row - first], footprint)
                elif op == QUEUE:
                    learnt[actor] = known
                    self._queued((actor, tick), other, evs[row - first], splits[row - first])
                elif op not in (DROP, END):
                    learnt[actor] = known
                    if op == JOIN and evs[row - first] in HOST_WAITS:
                        self._waited(other)
        for report in replayed.reports:
            self.reports += 1
            self.hidden += report.current.row in self._direct or report.earlier.row in self._direct

    def keep(self, rows: set[int]) -> None:
        self._direct &= rows

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

    def more(self) -> dict[str, Any]:
        """What is counted besides."""
        events = self.events
        return {
            "windows": self.windows,
            "rebuilt": events.get("sched_alloc", 0) - events.get("reserve", 0),
            "computes": self.exercise.computes,
            "serial_queues": self.serial_queues,
            "waited_at_once": self.waited_queues,
            "eval_callback": self.serialized,
            "recording_late": self.late,
        }

    # inside

    def _notes(self, replayed: Replayed, columns: Columns) -> None:
        """Notes are decoded for an engine that counts them, and for no other."""
        if not replayed.first and columns.length:
            self.engine = engines.named(columns.strings("engine")[0])
            self.exerciser = self.engine.exerciser() if self.engine is not None else None
        if self.exerciser is not None:
            kind = replayed.batch.column("ev").cast(pa.string())
            for event in rows_from_batch(replayed.batch.filter(pc.equal(kind, "note")), fitting=True):
                self.exerciser.feed(event)

    def _markers(self, replayed: Replayed, columns: Columns, evs: list[str | None]) -> None:
        found = Counter(ev or "" for ev in evs)
        self.events.update(found)
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
