"""What a trace holds, found in one pass over its batches: counts, queues, schedulers, buffers, phases, times.

Column by column with numpy; Python sees definition rows and computes, nothing else. It is not a replay: no clocks, no
races, and no bytes but the sizes that definitions tell. Nothing here judges; `hazard` does.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.info.memory import Memory, Work
from hbtrace.info.records import FLAGS, Ints, Oddity, Phase, Queue, Runs, Scheduler, Touch
from hbtrace.trace import vocabulary as v
from hbtrace.trace.columns import ABSENT, Columns
from hbtrace.trace.problems import value_problems

_NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)
_PHASES: Final = ("warmup", "prefill", "decode", None)
_FLAGGED: Final = {**dict.fromkeys(v.DIRECT, "inferred"), "sched_prepare": "rotated"}
_OF_QUEUES: Final = [ev for ev, event in v.EVENTS.items() if event.role != "definition" and "backend" in event.needs]
_CHANGING: Final = v.DEFINITIONS - {"meta"} | {"buffer_free"}
"""Events that change what later work touches, with a method each."""


class Contents:
    """Give it every batch in order with `add`, then `finish`; then read the attributes."""

    def __init__(self) -> None:
        self.rows = 0
        self.events: Counter[str] = Counter()
        """Rows by event name as the trace has it, skipped ones included; a row without a name counts as ``?``."""
        self.queues: list[Queue] = []
        self.schedulers: list[Scheduler] = []
        self.memory = Memory()
        self.phases: dict[str | None, Phase] = {}
        self.ubatches = Runs()
        """Numbers that events carry."""
        self.threads = Runs()
        """Threads of accesses and edges."""
        self.times: tuple[int, int] | None = None
        """The first and the last."""
        self.flagged: Counter[str] = Counter()
        """By event: direct accesses that were inferred, inputs prepared that rotated."""
        self.skipped = Oddity("skipped: the event is unknown or lacks a key it cannot do without")
        self.values = Oddity("with a value of the wrong type or of no known meaning: its default counts instead")
        self.late_meta = Oddity("with a `meta` that is not the first event: it counts for nothing")
        self._of: dict[int, list[Queue]] = {}
        self._undefined: dict[int, Queue] = {}
        self._families: Counter[str] = Counter()
        self._in_force: dict[int, Scheduler] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the next batch of the canonical schema."""
        columns = Columns(batch)
        rows = self._events(columns)
        self._odd_values(batch, rows)
        self._walk(columns, rows)
        for ev in _OF_QUEUES:
            if ev in rows:
                self._queue_events(ev, columns, rows[ev])
        self._common(columns, rows)
        if "ubatch" in rows:
            self._ubatch_rows(columns, rows["ubatch"])
        for ev, key in _FLAGGED.items():
            if ev in rows:
                self.flagged[ev] += int(columns.numbers(key, 0)[rows[ev]].sum())
        self.rows += batch.num_rows

    def finish(self) -> None:
        """After the last batch: nothing depends on where batches were cut."""
        for sched in self.schedulers:
            for ident in sched.backends:
                self.alive(ident, sched.row)  # one that is never defined has a place among the queues, too
        self.queues.sort(key=lambda queue: (queue.row < 0, queue.row, queue.id))
        self.phases = {name: self.phases[name] for name in _PHASES if name in self.phases}

    def alive(self, queue: int, at: int) -> Queue:
        """The queue that an id means at a row; the next one defined if there is none yet."""
        found = self._of.get(queue, [])
        before = [q for q in found if q.row <= at]
        return before[-1] if before else found[0] if found else self._never(queue)

    @property
    def warnings(self) -> list[str]:
        """The sentences that `analyze` has for the same rows; it knows of more."""
        return [str(oddity) for oddity in (self.skipped, self.values, self.late_meta) if oddity.rows]

    # column by column

    def _events(self, columns: Columns) -> dict[str, Ints]:
        """Count the batch's events; the rows of each known event that has its keys."""
        rows: dict[str, Ints] = {}
        for word, found in columns.rows_by_event().items():
            self.events[word or "?"] += found.size
            if word not in v.EVENTS:
                detail = f"unknown event `{word}`" if word else "no `ev`"
                self.skipped.add(found.size, self.rows + int(found[0]), detail)
                continue
            for key in v.EVENTS[word].needs:
                there = _present(columns, key)[found]
                if not there.all():
                    lacking, found = found[~there], found[there]
                    self.skipped.add(lacking.size, self.rows + int(lacking[0]), f"`{word}` lacks `{key}`")
            if found.size:
                rows[word] = found
        return rows

    def _odd_values(self, batch: pa.RecordBatch, rows: dict[str, Ints]) -> None:
        late = {row for row in rows.get("meta", _NO_ROWS).tolist() if self.rows + row}
        if late:
            self.late_meta.add(len(late), self.rows + min(late), "`meta`")
        wrong: dict[int, str] = {}
        for row, problem in value_problems(batch):
            if row not in late:
                wrong.setdefault(row, problem)
        if wrong:
            row = min(wrong)
            self.values.add(len(wrong), self.rows + row, wrong[row])

    def _common(self, columns: Columns, rows: dict[str, Ints]) -> None:
        low, high = pc.min_max(columns.batch.column("time")).as_py().values()
        if low is not None:
            first, last = self.times or (low, high)
            self.times = min(low, first), max(high, last)
        numbers = columns.numbers("ubatch", -1)
        self.ubatches.add(numbers[numbers >= 0])
        acting = [found for ev, found in rows.items() if ev in v.ACCESSES or ev in v.EDGES]
        if acting:
            self.threads.add(columns.numbers("thread", 0)[np.concatenate(acting)])

    def _ubatch_rows(self, columns: Columns, rows: Ints) -> None:
        tokens, numbers = columns.numbers("tokens", 0), columns.numbers("n", -1)
        words, known = columns.strings("phase"), v.SETS["ubatch", "phase"]
        named = [words[row] if words[row] in known else None for row in rows.tolist()]
        for name in set(named):
            mine = rows[np.array([word == name for word in named])]
            phase = self.phases.setdefault(name, Phase(name))
            phase.ubatches += mine.size
            phase.tokens += int(tokens[mine].sum())
            phase.numbers.add(numbers[mine][numbers[mine] >= 0])

    def _queue_events(self, ev: str, columns: Columns, rows: Ints) -> None:
        ids, at = columns.numbers("backend", -1)[rows], rows + self.rows
        for ident in np.unique(ids).tolist():
            queues = self._of.get(ident, [])
            # 0 is before the first definition; the n-th queue of the id follows its n-th definition
            nth = np.searchsorted([queue.row for queue in queues], at[ids == ident], side="right")
            for n, number in enumerate(np.bincount(nth).tolist()):
                if number:
                    queue = queues[n - 1] if n else self._never(ident)
                    queue.work[ev] += number

    # definitions and computes, row by row

    def _walk(self, columns: Columns, rows: dict[str, Ints]) -> None:
        """Work is counted until the next definition, then looked up: it touches what lies there when it is issued."""
        handlers = {ev: getattr(self, f"_{ev}") for ev in _CHANGING & rows.keys()}
        backends, graphs = columns.ints("backend", -1), columns.ints("graph", -1)
        reads, writes = (columns.ranges(key) for key in ("reads", "writes"))
        works: dict[tuple[int, Work], int] = {}
        for row, of in sorted((row, ev) for ev in (v.COMPUTING | _CHANGING) & rows.keys() for row in rows[ev].tolist()):
            if of in handlers:
                if works:
                    self._touch(works)
                handlers[of](columns, row)
                continue
            key = (backends[row], graphs[row] if of == "compute" else (reads.key(row), writes.key(row)))
            works[key] = works.get(key, 0) + 1
        self._touch(works)

    def _touch(self, works: dict[tuple[int, Work], int]) -> None:
        for (ident, work), times in works.items():
            queue = self._current(ident)
            if queue.flags["synchronous"]:
                continue
            for name, (read, written) in self.memory.touched(work).items():
                touch = queue.touched.setdefault(name, Touch())
                touch.works += times
                touch.bytes_read += times * read
                touch.bytes_written += times * written
        works.clear()

    def _current(self, ident: int) -> Queue:
        found = self._of.get(ident)
        return found[-1] if found else self._never(ident)

    def _never(self, ident: int) -> Queue:
        """The stand-in for an id that is used before its definition."""
        queue = self._undefined.get(ident)
        if queue is None:
            queue = self._undefined[ident] = Queue(ident, f"?{ident}", f"?{ident}", -1)
            self.queues.append(queue)
        return queue

    def _backend(self, columns: Columns, row: int) -> None:
        said = {key: columns.batch.column(key)[row].as_py() for key in v.EVENTS["backend"].keys}
        ident, family = said["id"], said["name"] or ""
        nth = self._families[family]
        self._families[family] += 1
        accepts, drains = said["accepts"], said["drains"]
        queue = Queue(
            ident,
            f"{family}#{nth}" if nth else family,
            family,
            self.rows + row,
            said["device"],
            said["type"] if said["type"] in v.SETS["backend", "type"] else None,
            {flag: said[flag] for flag in FLAGS},
            None if accepts is None else [word for word in accepts if word is not None],
            None if drains is None else [word for word in drains if word in v.SETS["backend", "drains"]],
        )
        before = self._of.setdefault(ident, [])
        previous = before[-1] if before else self._undefined.get(ident)
        if previous is not None:
            previous.end = queue.row
        before.append(queue)
        self.queues.append(queue)

    def _backend_free(self, columns: Columns, row: int) -> None:
        self._current(columns.ints("backend", -1)[row]).freed = True

    def _sched(self, columns: Columns, row: int) -> None:
        said = {key: columns.batch.column(key)[row].as_py() for key in v.EVENTS["sched"].keys}
        backends = [number for number in said.pop("backends") or () if number is not None]
        sched = Scheduler(**said, row=self.rows + row, backends=backends)
        if (before := self._in_force.get(sched.id)) is not None:
            before.end = sched.row
        self._in_force[sched.id] = sched
        self.schedulers.append(sched)

    def _buffer(self, columns: Columns, row: int) -> None:
        name, usage = columns.strings("name")[row] or "", columns.strings("usage")[row]
        usage = usage if usage is not None and usage in v.SETS["buffer", "usage"] else "any"
        size = max(0, columns.ints("size", ABSENT)[row])
        self.memory.buffer(columns.ints("id", -1)[row], size, (name, usage, columns.flags("host", default=False)[row]))

    def _buffer_free(self, columns: Columns, row: int) -> None:
        self.memory.free(columns.ints("buffer", -1)[row])

    def _tensor(self, columns: Columns, row: int) -> None:
        keys = (("id", -1), ("buffer", -1), ("offset", 0), ("size", ABSENT))
        self.memory.tensor(*(columns.ints(key, default)[row] for key, default in keys))

    def _graph(self, columns: Columns, row: int) -> None:
        self.memory.graph(columns.ints("id", -1)[row], *columns.graph_ranges(row))


def _present(columns: Columns, key: str) -> npt.NDArray[np.bool_]:
    """Which rows have a key; an id of -1 is none."""
    is_id = v.COLUMNS[key] == v.ID
    there: npt.NDArray[np.bool_] = (
        columns.numbers(key, -1) != -1 if is_id else columns.batch.column(key).is_valid().to_numpy(zero_copy_only=False)
    )
    return there
