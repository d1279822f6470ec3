"""What a trace holds, found in one pass over its batches: counts, queues, schedulers, buffers, phases, times.

Column by column with numpy; Python sees definition rows and computes, nothing else. It is not a replay: no clocks, no
races, and no bytes but the sizes that definitions tell. Nothing here judges; `hbtrace.info` does.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from hbtrace.info.batchview import NO_ROWS, BatchView, Ints
from hbtrace.info.demand import Demand, demand_of, graph_demand, range_bytes, weight
from hbtrace.info.records import FLAGS, BufferGroup, BufferLife, Oddity, Phase, Queue, Runs, Scheduler, Touch
from hbtrace.trace import vocabulary as v
from hbtrace.trace.columns import ABSENT
from hbtrace.trace.problems import value_problems

_NAMES: Final = tuple(v.EVENTS)
DEFINITIONS: Final = frozenset({"meta", "backend", "backend_free", "buffer", "tensor", "graph", "sched"})
MARKERS: Final = frozenset(_NAMES[_NAMES.index("sched_alloc") :])
_PHASES: Final = ("warmup", "prefill", "decode", None)
_QUEUE_EVENTS: Final = (
    "compute",
    "kernel",
    "set_async",
    "get_async",
    "copy_async",
    "synchronize",
    "event_record",
    "event_wait",
)
_WALKED: Final = (
    "backend",
    "backend_free",
    "buffer",
    "buffer_free",
    "tensor",
    "graph",
    "sched",
    "compute",
    "kernel",
)
"""Events whose order counts, with a method each."""
_GRAPH_BUDGET: Final = 1 << 20
"""Tensors of graphs remembered; beyond it the oldest graphs are forgotten, and `Contents.partial` is set."""
_PENDING: Final = 1 << 12
"""Different pieces of queued work counted before their ranges are looked up."""


class Contents:
    """Give it every batch in order with `add`, then `finish`; then read the attributes."""

    def __init__(self) -> None:
        self.rows = 0
        self.events: Counter[str] = Counter()
        """Rows by event name as the trace has it, skipped ones included; a row without a name counts as ``?``."""
        self.queues: list[Queue] = []
        self.schedulers: list[Scheduler] = []
        self.groups: dict[tuple[str, str, bool], BufferGroup] = {}
        self.live = self.peak = 0
        self.phases: dict[str | None, Phase] = {}
        self.ubatches = Runs()
        """Numbers that events carry."""
        self.threads: set[int] = set()
        """Threads of accesses and edges."""
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.inferred: Counter[str] = Counter()
        self.rotations = 0
        self.partial = False
        """Whether `Queue.touched` may miss work."""
        self.skipped, self.values, self.late_meta = Oddity(), Oddity(), Oddity()
        self._of: dict[int, list[Queue]] = {}
        self._undefined: dict[int, Queue] = {}
        self._families: Counter[str] = Counter()
        self._buffers: dict[int, BufferLife] = {}
        self._tensors: dict[int, tuple[int, int, int]] = {}
        self._graphs: dict[int, Demand] = {}
        self._graph_tensors = 0
        self._pending: dict[tuple[Queue, Any], int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the next batch of the canonical schema."""
        view = BatchView(batch)
        rows = self._events(view)
        self._walk(view, rows)
        for ev in _QUEUE_EVENTS:
            self._queue_events(ev, view, rows.get(ev, NO_ROWS))
        self._common(view, rows)
        self._ubatch_rows(view, rows.get("ubatch", NO_ROWS))
        for ev in ("set_direct", "get_direct"):
            self.inferred[ev] += view.true("inferred", rows.get(ev, NO_ROWS))
        self.rotations += view.true("rotated", rows.get("sched_prepare", NO_ROWS))
        self.rows += batch.num_rows
        if len(self._pending) > _PENDING:
            self.settle()

    def finish(self) -> None:
        """After the last batch: what waited is looked up, and nothing depends on where batches were cut."""
        self.settle()
        for sched in self.schedulers:
            for ident in sched.backends:
                self.alive(ident, sched.row)  # one that is never defined has a place among the queues, too
        self.queues.sort(key=lambda queue: (queue.row < 0, queue.row, queue.id))
        self.phases = {name: self.phases[name] for name in _PHASES if name in self.phases}

    def settle(self) -> None:
        """Look up what the queued work counted so far touched, with the addresses in force."""
        for (queue, what), works in self._pending.items():
            demand = self._graphs.get(what) if isinstance(what, int) else demand_of(*what)
            if demand is None:
                continue
            for name, (read, written) in self._touched(demand).items():
                touch = queue.touched.setdefault(name, Touch())
                touch.works += works
                touch.read += works * read
                touch.written += works * written
        self._pending.clear()

    def alive(self, queue: int, at: int) -> Queue:
        """The queue that an id means at a row; the next one defined if there is none yet."""
        found = self._of.get(queue, [])
        before = [q for q in found if q.row <= at]
        return before[-1] if before else found[0] if found else self._never(queue)

    def buffer_totals(self) -> tuple[int, int, int]:
        """Lives, lives that never had a byte, and bytes of all lives, of all buffers."""
        groups = self.groups.values()
        return sum(g.lives for g in groups), sum(g.empty for g in groups), sum(g.total for g in groups)

    # events

    def _events(self, view: BatchView) -> dict[str, Ints]:
        """Count the batch's events; the rows of each known event that has its keys."""
        rows: dict[str, Ints] = {}
        for word, found in view.rows_by_event():
            self.events[word or "?"] += found.size
            if word not in v.EVENTS:
                detail = f"unknown event `{word}`" if word else "no `ev`"
                self.skipped.add(found.size, self.rows + int(found[0]), detail)
                continue
            for key in v.EVENTS[word].needs:
                there = view.present(key, found)
                if not there.all():
                    lacking = found[~there]
                    self.skipped.add(lacking.size, self.rows + int(lacking[0]), f"`{word}` lacks `{key}`")
                    found = found[there]
            rows[word] = found
        late = [row for row in rows.get("meta", NO_ROWS).tolist() if self.rows + row]
        if late:
            self.late_meta.add(len(late), self.rows + late[0], "`meta`")
        wrong: dict[int, str] = {}
        for row, problem in value_problems(view.batch):
            if row not in late:
                wrong.setdefault(row, problem)
        if wrong:
            row = min(wrong)
            self.values.add(len(wrong), self.rows + row, wrong[row])
        return rows

    def _common(self, view: BatchView, rows: dict[str, Ints]) -> None:
        times = view.valid("time")
        if times.size:
            low, high = int(times.min()), int(times.max())
            self.first_time = low if self.first_time is None else min(low, self.first_time)
            self.last_time = high if self.last_time is None else max(high, self.last_time)
        numbers = view.valid("ubatch")
        self.ubatches.add(numbers[numbers >= 0])
        acting = [found for ev, found in rows.items() if ev not in DEFINITIONS and ev not in MARKERS]
        if acting:
            self.threads.update(np.unique(view.ints("thread", 0)[np.concatenate(acting)]).tolist())

    def _ubatch_rows(self, view: BatchView, rows: Ints) -> None:
        if not rows.size:
            return
        tokens, numbers = view.ints("tokens", 0)[rows], view.ints("n", -1)[rows]
        words, codes = view.coded("phase")
        codes = codes[rows]
        for code in np.unique(codes).tolist():
            name = words[code] if words[code] in v.SETS["ubatch", "phase"] else None
            phase = self.phases.setdefault(name, Phase(name))
            mine = codes == code
            phase.ubatches += int(mine.sum())
            phase.tokens += int(tokens[mine].sum())
            phase.numbers.add(numbers[mine & (numbers >= 0)])

    def _queue_events(self, ev: str, view: BatchView, rows: Ints) -> None:
        if not rows.size:
            return
        ids = view.ints("backend", -1)[rows]
        at = rows + self.rows
        for ident in np.unique(ids).tolist():
            queues = self._of.get(ident, [])
            # 0 is before the first definition; the n-th queue of the id follows its n-th definition
            nth = np.searchsorted([queue.row for queue in queues], at[ids == ident], side="right")
            for n, count in enumerate(np.bincount(nth).tolist()):
                if count:
                    queue = queues[n - 1] if n else self._never(ident)
                    queue.work[ev] += count

    # definitions and computes, row by row

    def _walk(self, view: BatchView, rows: dict[str, Ints]) -> None:
        mine = [(ev, found) for ev in _WALKED if (found := rows.get(ev, NO_ROWS)).size]
        if not mine:
            return
        order = sorted((row, ev) for ev, found in mine for row in found.tolist())
        handlers = {ev: getattr(self, f"_{ev}") for ev, _ in mine}
        for row, ev in order:
            handlers[ev](view, row)

    def _never(self, ident: int) -> Queue:
        """The stand-in for an id that is used before its definition."""
        queue = self._undefined.get(ident)
        if queue is None:
            queue = self._undefined[ident] = Queue(ident, f"?{ident}", f"?{ident}", -1)
            self.queues.append(queue)
        return queue

    def _current(self, ident: int) -> Queue:
        found = self._of.get(ident)
        return found[-1] if found else self._never(ident)

    def _backend(self, view: BatchView, row: int) -> None:
        columns = view.columns
        ident, family = columns.ints("id", -1)[row], columns.strings("name")[row] or ""
        nth = self._families[family]
        self._families[family] += 1
        batch, kind = columns.batch, columns.strings("type")[row]
        drains = batch.column("drains")[row].as_py()
        accepts = batch.column("accepts")[row].as_py()
        queue = Queue(
            ident,
            f"{family}#{nth}" if nth else family,
            family,
            self.rows + row,
            columns.strings("device")[row],
            kind if kind in v.SETS["backend", "type"] else None,
            {flag: batch.column(flag)[row].as_py() for flag in FLAGS},
            None if accepts is None else [word for word in accepts if word is not None],
            None if drains is None else [word for word in drains if word in v.SETS["backend", "drains"]],
        )
        before = self._of.setdefault(ident, [])
        previous = before[-1] if before else self._undefined.get(ident)
        if previous is not None:
            previous.end = queue.row
        before.append(queue)
        self.queues.append(queue)

    def _backend_free(self, view: BatchView, row: int) -> None:
        columns = view.columns
        self._current(columns.ints("backend", -1)[row]).freed = True

    def _sched(self, view: BatchView, row: int) -> None:
        columns = view.columns
        batch, ident = columns.batch, columns.ints("id", -1)[row]
        for other in self.schedulers:
            if other.id == ident and other.end is None:
                other.end = self.rows + row
        self.schedulers.append(
            Scheduler(
                ident,
                self.rows + row,
                [number for number in batch.column("backends")[row].as_py() or () if number is not None],
                batch.column("cpu_buffer_type")[row].as_py(),
                batch.column("copies")[row].as_py(),
                batch.column("ring")[row].as_py(),
            )
        )

    def _buffer(self, view: BatchView, row: int) -> None:
        columns = view.columns
        self.settle()
        usage = columns.strings("usage")[row]
        key = (
            columns.strings("name")[row] or "",
            usage if usage in v.SETS["buffer", "usage"] and usage else "any",
            columns.flags("host", default=False)[row],
        )
        ident, size = columns.ints("id", -1)[row], max(0, columns.ints("size", ABSENT)[row])
        group = self.groups.setdefault(key, BufferGroup(*key))
        old = self._buffers.get(ident)
        if old is not None and old.group is group:  # the life goes on
            self._resize(old, size)
            return
        if old is not None:  # and under another type: its bytes count there from now on
            self._resize(old, 0)
        self._buffers[ident] = new = BufferLife(group, 0, 0)
        group.lives += 1
        group.empty += 1
        self._resize(new, size)

    def _resize(self, buffer: BufferLife, size: int) -> None:
        group = buffer.group
        group.live += size - buffer.size
        self.live += size - buffer.size
        buffer.size = size
        if size > buffer.largest:
            group.empty -= buffer.largest == 0
            group.total += size - buffer.largest
            buffer.largest = size
        group.peak = max(group.peak, group.live)
        self.peak = max(self.peak, self.live)

    def _buffer_free(self, view: BatchView, row: int) -> None:
        columns = view.columns
        buffer = self._buffers.get(ident := columns.ints("buffer", -1)[row])
        if buffer is not None:
            self.settle()
            self._resize(buffer, 0)
            del self._buffers[ident]

    def _tensor(self, view: BatchView, row: int) -> None:
        columns = view.columns
        size = columns.ints("size", ABSENT)[row]
        # Where it lies matters only if its end is that of its buffer: a ring that re-points it changes nothing here.
        place = (columns.ints("buffer", -1)[row], size, columns.ints("offset", 0)[row] if size == ABSENT else 0)
        ident = columns.ints("id", -1)[row]
        if self._tensors.get(ident) != place:
            if self._pending:
                self.settle()
            self._tensors[ident] = place

    def _graph(self, view: BatchView, row: int) -> None:
        columns = view.columns
        if self._pending:
            self.settle()
        ident = columns.ints("id", -1)[row]
        self._graph_tensors -= weight(self._graphs.pop(ident, None))
        self._graphs[ident] = demand = graph_demand(columns.batch.column("nodes"), row)
        self._graph_tensors += weight(demand)
        while self._graph_tensors > _GRAPH_BUDGET and len(self._graphs) > 1:
            self._graph_tensors -= weight(self._graphs.pop(next(iter(self._graphs))))
            self.partial = True

    def _compute(self, view: BatchView, row: int) -> None:
        columns = view.columns
        queue = self._current(columns.ints("backend", -1)[row])
        if not queue.flags["synchronous"]:
            key = (queue, columns.ints("graph", -1)[row])
            self._pending[key] = self._pending.get(key, 0) + 1

    def _kernel(self, view: BatchView, row: int) -> None:
        queue = self._current(view.columns.ints("backend", -1)[row])
        if not queue.flags["synchronous"]:
            reads, writes = view.kernel_ranges()
            key = (queue, (reads.key(row), writes.key(row)))
            self._pending[key] = self._pending.get(key, 0) + 1

    # what queued work touched

    def _touched(self, demand: Demand) -> dict[str, list[int]]:
        """Bytes read and written of host buffers, by buffer type."""
        found: dict[str, list[int]] = {}
        buffers, tensors = self._buffers, self._tensors
        for ident, reads, writes in demand.tensors:
            place = tensors.get(ident)
            buffer = buffers.get(place[0]) if place else None
            if place and buffer is not None and buffer.group.host:
                size = max(0, place[1] if place[1] != ABSENT else buffer.size - place[2])
                if size:
                    totals = found.setdefault(buffer.group.type, [0, 0])
                    totals[0] += reads * size
                    totals[1] += writes * size
        for (ident, number, offset, size, rows, stride, _), write in demand.ranges:
            place = tensors.get(ident) if ident != -1 else (number, ABSENT, 0)
            buffer = buffers.get(place[0]) if place else None
            if place and buffer is not None and buffer.group.host:
                end = place[1] if place[1] != ABSENT else buffer.size - place[2]
                count = range_bytes(max(0, end - offset) if size == ABSENT else max(0, size), rows, stride)
                if count:
                    found.setdefault(buffer.group.type, [0, 0])[write] += count
        return found
