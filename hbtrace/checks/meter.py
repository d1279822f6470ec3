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
from hbtrace.checks.windows import WINDOWS, Windows
from hbtrace.engines import Engine, Exerciser
from hbtrace.replay.clocks import NOTHING
from hbtrace.replay.diagnostics import SKIPPED
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE
from hbtrace.replay.session import Observer, Replayed
from hbtrace.trace.columns import Columns
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import COMPUTING, DIRECT, HOST_WAITS, HOST_WRITES, UNASKED_WRITES


@dataclass(slots=True)
class _Queue:
    """The computes and kernels of one asynchronous queue."""

    pending: deque[int] = field(default_factory=deque)
    computes: int = 0
    most: int = 0
    at_once: int = 0
    """Those that were waited for before the host or the queue did anything else."""
    fresh: bool = False


class Meter(Observer):
    """Counts while a session replays a trace; `verdict.judge` makes the coverage of it."""

    ordered = True

    def __init__(self) -> None:
        self.exercise = Exercise()
        self.windows = Windows()
        self.skipped = 0
        """Rows that count for nothing."""
        self.events: Counter[str] = Counter()
        self.phases: dict[str, int] = {}
        self.reports = self.hidden = 0
        self.late = False
        self.rings: set[int] = set()
        self._known: dict[int, Clock] = {}
        """What each actor knows of others."""
        self._queues: dict[int, _Queue] = {}
        self._direct: set[int] = set()
        self._chunks_of_split: dict[int, int] = {}
        self._per_node = 0
        self._named: str | None = None
        """The engine, as the trace has it."""
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
        self.skipped = replayed.lowering.diagnostics.count(SKIPPED)
        waits = replayed.lowering.synchronous
        splits = columns.ints("split", -1)
        first, learnt = replayed.first, self._known
        for program, order in zip(replayed.programs, replayed.orders, strict=True):
            self.windows.define(program)
            steps = zip(program.steps(), order.ticks, order.known, strict=True)
            for (op, actor, other, footprint, row), tick, known in steps:
                if op == HOST:
                    learnt[actor] = known
                    ev, split = evs[row - first], splits[row - first]
                    self._host(ev, split, footprint)
                    if footprint >= 0:
                        self.windows.host(ev, split, footprint, known)
                elif op == QUEUE:
                    learnt[actor] = known
                    ev, goes_on = evs[row - first], actor not in waits
                    if footprint >= 0:
                        issuer = learnt.get(other, NOTHING)
                        self.windows.issued(actor, tick, ev, footprint, issuer, goes_on=goes_on)
                    if goes_on:
                        self._queued((actor, tick), other, ev, splits[row - first])
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
        return self._per_node > 0 and self.waited_queues == len(self._queues)

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
        events = self.events
        return {
            "windows": self.windows.all["input"],
            "natures": {name: {"windows": self.windows.all[name], "open": self.windows.open[name]} for name in WINDOWS},
            "rebuilt": events.get("sched_alloc", 0) - events.get("reserve", 0),
            "computes": self.exercise.computes,
            "serial_queues": self.serial_queues,
            "waited_at_once": self.waited_queues,
            "eval_callback": self.serialized,
            "recording_late": self.late,
            "skipped": self.skipped,
        }

    # inside

    def _notes(self, replayed: Replayed, columns: Columns) -> None:
        """Notes are decoded for an engine that counts them, and for no other."""
        if not replayed.first and columns.length:
            self._named = columns.strings("engine")[0]
            self.engine = engines.named(self._named)
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
        if ev not in COMPUTING:
            if actor in self._queues:
                self._queues[actor].fresh = False
            return
        queue = self._queues.setdefault(actor, _Queue())
        known = self._known.get(host, NOTHING).get(actor, 0)
        while queue.pending and queue.pending[0] <= known:
            queue.pending.popleft()
        queue.pending.append(tick)
        queue.most = max(queue.most, len(queue.pending))
        queue.computes += 1
        queue.fresh = True
        if split >= 0:
            self._chunks_of_split[split] = self._chunks_of_split.get(split, 0) + 1

    def _host(self, ev: str | None, split: int, footprint: int) -> None:
        for queue in self._queues.values():
            queue.fresh = False
        if ev in HOST_WRITES and split == -1 and footprint >= 0:
            self._per_node += any(count > 1 for count in self._chunks_of_split.values())
            self._chunks_of_split.clear()

    def _waited(self, actor: int) -> None:
        queue = self._queues.get(actor)
        if queue is not None and queue.fresh:
            queue.at_once += 1
            queue.fresh = False
