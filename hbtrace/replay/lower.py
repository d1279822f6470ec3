"""Lowering: event rows to the flat program of `program.py`, one batch at a time.

All rules on what an event accesses and which edges it gives (contract section 3) stand here and in `accesses.py`;
what happens to bytes and clocks then is the kernel's. Names leave the data's way here: they stay behind in `Names`
and come back in `races.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hbtrace.replay import findings
from hbtrace.replay.accesses import Template
from hbtrace.replay.define import READS, WRITES, Definitions
from hbtrace.replay.definitions import Backend, Buffer
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Program
from hbtrace.replay.windows import Windows
from hbtrace.trace.vocabulary import EVENTS

_CACHED_TEMPLATES: Final = 1 << 15
_CACHED_GRAPHS: Final = 64


@dataclass(slots=True)
class Event:
    """What a report says of one row with accesses."""

    ev: str
    label: str | None
    split: int
    ubatch: int
    thread: int
    site: str | None
    template: Template | None


class Lowering(Definitions):
    """Lowers the batches of one trace in order. `names` and `event` serve the reports afterwards.

    threads: `one` (all host threads are one actor) or `ordered`; None takes the trace's own word.
    Raises TraceError at the first breach when `strict`.
    """

    def __init__(self, *, strict: bool = False, skip_weights: bool = False, threads: str | None = None) -> None:
        super().__init__(strict=strict, skip_weights=skip_weights, threads=threads)
        self._windows = Windows()
        self._slots: dict[tuple[str, int | str], int] = {}
        self._free_slots: list[int] = []
        self._slot_count = 0
        self._interned: dict[tuple[bytes, bytes], Template] = {}
        self._buffer_template = Template([])
        self._code: list[int] = []
        self._templates: dict[int, Template] = {}
        self._handlers: dict[str, Callable[[int], None]] = {
            ev: getattr(self, f"_{ev}", self._nothing) for ev in EVENTS
        }

    def lower(self, batch: pa.RecordBatch) -> Program:
        """The program of the next batch, whole."""
        self._begin(batch)
        for row, ev in enumerate(self._columns.strings("ev")):
            self._lower_row(row, ev)
        return self._end()

    def programs(self, batch: pa.RecordBatch) -> Iterator[Program]:
        """The program of the next batch, in as many parts as it takes to keep the footprints in hand few."""
        self._begin(batch)
        for row, ev in enumerate(self._columns.strings("ev")):
            self._lower_row(row, ev)
            if self._accesses.full:
                yield self._take()
        yield self._end()

    def _begin(self, batch: pa.RecordBatch) -> None:
        self._load(batch)
        self._templates = {}

    def _lower_row(self, row: int, ev: str | None) -> None:
        handler = self._handlers.get(ev or "")
        if handler is None:
            self.findings.add(findings.SKIPPED, self._first + row, f"unknown event `{ev}`" if ev else "no `ev`")
        else:
            handler(row)

    def _end(self) -> Program:
        self.rows += self._columns.length
        self._bound_caches()
        self.exercise.windows = self._windows.count
        return self._take()

    def _take(self) -> Program:
        self._accesses.program.code = array("q", self._code)
        self._code = []
        return self._accesses.take_program()

    def _bound_caches(self) -> None:
        """Interned templates are made again on demand."""
        if len(self._interned) > _CACHED_TEMPLATES:
            self._interned.clear()
        if len(self._graph_templates) > _CACHED_GRAPHS:
            self._graph_templates.clear()
            self._windows.forget_graphs()

    @property
    def templates(self) -> dict[int, Template]:
        """What the rows of the newest batch access, by row; rows without accesses are absent."""
        return self._templates

    def event(self, row: int) -> Event:
        """What a report says of a row of the newest batch."""
        columns, index = self._columns, row - self._first
        return Event(
            columns.strings("ev")[index] or "",
            columns.strings("label")[index] or None,
            columns.ints("split", -1)[index],
            columns.ints("ubatch", -1)[index],
            self._thread[index],
            columns.strings("site")[index],
            self._templates.get(row),
        )

    def _template(self, row: int, read: str | None, written: str | None) -> Template:
        """The template of an event that reads one list of ranges, then writes another, brought up to date.

        The lists are named by their columns; `own` is the range that the event's own keys are.
        """
        key = (
            b"" if read is None else self._list(read).key(row),
            b"" if written is None else self._list(written).key(row),
        )
        found = self._interned.get(key)
        if found is None:
            accesses = [] if read is None else [(READS, r) for r in self._list(read).get(row)]
            accesses += [] if written is None else [(WRITES, r) for r in self._list(written).get(row)]
            found = self._interned[key] = Template(accesses)
        at = self._first + row
        self._templates[at] = found
        self._accesses.use(found, at)
        return found

    def _host(self, row: int, template: Template, number: int) -> None:
        actor = self._thread_actor(row)
        footprint = self._accesses.footprint(template, number)
        self.exercise.hosts.add(actor)
        self._accesses.meets(template, number, self._first + row)
        if template.accesses[number][0] and template.roots[number] != -1:
            self._windows.host_write(template.roots[number], self._first + row)
        self._code += (HOST, actor, 0, footprint, self._first + row)

    def _queued(self, row: int, queue: Backend, footprint: int) -> None:
        if footprint >= 0:
            (self.exercise.synchronous if queue.synchronous else self.exercise.queues).add(queue.actor)
        self._code += (QUEUE, queue.actor, self._thread_actor(row), footprint, self._first + row)

    def _join(self, row: int, into: int, of: int) -> None:
        self._code += (JOIN, into, of, 0, self._first + row)

    def _settle(self, row: int, *ticked: Backend) -> None:
        """Work of a synchronous backend is complete when the call returns."""
        for queue in ticked:
            if queue.synchronous:
                self._join(row, self._thread_actor(row), queue.actor)

    def _drain(self, row: int, buffer: Buffer | None, kind: str) -> None:
        """A blocking access waits for every live queue that drains the buffer."""
        if buffer is None:
            return
        for ident, queue in self._draining:
            same_device = buffer.device is not None and queue.device == buffer.device
            if queue.live and kind in queue.drains and (ident == buffer.owner or same_device):
                self._join(row, self._thread_actor(row), queue.actor)

    def _tensor_set(self, row: int) -> None:
        self._blocking(row, WRITES, "set")

    _tensor_memset = _tensor_set

    def _tensor_get(self, row: int) -> None:
        self._blocking(row, READS, "get")

    def _set_direct(self, row: int) -> None:
        if self._columns.flags("inferred", default=False)[row]:
            self.exercise.inferred_writes += 1
        else:
            self.exercise.direct_writes += 1
        self._blocking(row, WRITES, None)

    def _get_direct(self, row: int) -> None:
        self._blocking(row, READS, None)

    def _blocking(self, row: int, write: bool, drain: str | None) -> None:
        if self._tensor_id[row] == -1:
            self._lacks(row, "tensor")
            return
        template = self._template(row, None, "own") if write else self._template(row, "own", None)
        if drain is not None and self._draining:
            self._drain(row, template.resolved[0].buffer, drain)
        self._host(row, template, 0)

    def _tensor_copy(self, row: int) -> None:
        if self._lacks(row, "src", "dst"):
            return
        template = self._template(row, "src", "dst")
        for number, kind in enumerate(("get", "set")):
            self._drain(row, template.resolved[number].buffer, kind)
            self._host(row, template, number)

    def _buffer_clear(self, row: int) -> None:
        if not self._lacks(row, "buffer"):
            buffer = self._accesses.buffer(self._buffer_id[row], self._first + row)
            self._drain(row, buffer, "set")
            self._whole(row, buffer, always=False)

    def _buffer_free(self, row: int) -> None:
        if not self._lacks(row, "buffer"):
            buffer = self._accesses.buffer(self._buffer_id[row], self._first + row)
            self._whole(row, buffer, always=True)
            if not buffer.dead:
                buffer.dead = True
                self._accesses.buffer_changed(buffer.ident)
                self._code += (END, buffer.space, 0, 0, self._first + row)

    def _whole(self, row: int, buffer: Buffer, *, always: bool) -> None:
        """Write a whole buffer; of a dead one it is a use after free, `always` or if there were bytes."""
        at, footprint = self._first + row, -1
        self._templates[at] = self._buffer_template
        if not self._accesses.skips(buffer):
            pieces = self._accesses.whole(buffer)
            if buffer.touched is not None:
                self.findings.add(findings.BUFFER, at, f"buffer {buffer.ident}", buffer.ident)
            if not buffer.dead:
                footprint = self._accesses.passing_footprint(pieces, write=WRITES)
            elif pieces or always:
                self.findings.add(findings.USE_AFTER_FREE, at, f"buffer {buffer.ident}", buffer.ident)
        self._code += (HOST, self._thread_actor(row), 0, footprint, at)

    def _set_async(self, row: int) -> None:
        self._transfer(row, "host_range", "own")

    def _get_async(self, row: int) -> None:
        self._transfer(row, "own", "host_range")

    def _transfer(self, row: int, read: str, written: str) -> None:
        if not self._lacks(row, "backend", "tensor"):
            template = self._template(row, read, written)
            self._written_again(row, template)
            self._issue(row, template)

    def _written_again(self, row: int, template: Template) -> None:
        """A transfer may write what the host wrote before it was mended."""
        for number, (write, _) in enumerate(template.accesses):
            if write:
                self._accesses.meets(template, number, self._first + row)

    def _kernel(self, row: int) -> None:
        if self._backend_id[row] == -1:
            self._lacks(row, "backend")
            return
        self._issue(row, self._template(row, "reads", "writes"))

    def _issue(self, row: int, template: Template) -> None:
        """Queue work whose accesses share one epoch."""
        queue = self._queue(row)
        self.exercise.issued += 1
        if template.read_roots:
            self._windows.issue(template, self._first + row)
        self._queued(row, queue, self._accesses.footprint(template))
        if queue.synchronous:
            self._settle(row, queue)

    def _compute(self, row: int) -> None:
        if self._lacks(row, "backend", "graph"):
            return
        self.exercise.computes += 1
        self.exercise.issued += 1
        ident, at = self._columns.ints("graph", -1)[row], self._first + row
        queue = self._queue(row)
        template = self._graphs.get(ident)
        footprint = -1
        if template is None:
            self.findings.add(findings.GRAPH, at, f"graph {ident}", ident)
        else:
            self._templates[at] = template
            self._accesses.use(template, at)
            self._windows.issue(template, at)
            footprint = self._accesses.footprint(template)
        self._queued(row, queue, footprint)
        self._settle(row, queue)

    def _copy_async(self, row: int) -> None:
        if self._lacks(row, "backend", "src", "dst"):
            return
        dst = self._queue(row)
        src = self._queue(row, "src_backend") if self._columns.ints("src_backend", -1)[row] != -1 else dst
        template = self._template(row, "src", "dst")
        self.exercise.issued += 1
        self._written_again(row, template)
        self._windows.issue(template, self._first + row)
        place = template.resolved[0].buffer
        runs_on = self._known("copy_async", "runs_on", row) or ("dst" if place is not None and place.host else "src")
        if runs_on == "both":
            self._queued(row, src, self._accesses.footprint(template, 0))
            self._join(row, dst.actor, src.actor)
            self._queued(row, dst, self._accesses.footprint(template, 1))
            self._settle(row, src, dst)
        elif runs_on == "dst":
            self._join(row, dst.actor, src.actor)
            self._queued(row, dst, self._accesses.footprint(template))
            self._settle(row, dst)
        else:
            if self._columns.flags("after_dst", default=False)[row]:
                self._join(row, src.actor, dst.actor)
            self._queued(row, src, self._accesses.footprint(template))
            self._join(row, dst.actor, src.actor)
            self._settle(row, src)

    def _host_access(self, row: int) -> None:
        template = self._template(row, "reads", "writes")
        for number in range(len(template.accesses)):
            self._host(row, template, number)

    # edges

    def _slot(self, table: str, name: int | str) -> int:
        slot = self._slots.get((table, name))
        if slot is None:
            if self._free_slots:
                slot = self._free_slots.pop()
            else:
                slot, self._slot_count = self._slot_count, self._slot_count + 1
            self._slots[table, name] = slot
        return slot

    def _event_slot(self, row: int) -> int:
        return self._slot("event", self._columns.ints("event", -1)[row])

    def _synchronize(self, row: int) -> None:
        if not self._lacks(row, "backend"):
            self._join(row, self._thread_actor(row), self._queue(row).actor)

    def _event_record(self, row: int) -> None:
        if not self._lacks(row, "backend", "event"):
            queue = self._queue(row).actor
            self._join(row, queue, self._thread_actor(row))
            self._code += (RECORD, queue, self._event_slot(row), 0, self._first + row)

    def _event_wait(self, row: int) -> None:
        if not self._lacks(row, "backend", "event"):
            queue = self._queue(row).actor
            self._join(row, queue, self._thread_actor(row))
            self._code += (WAIT, queue, self._event_slot(row), 0, self._first + row)

    def _event_synchronize(self, row: int) -> None:
        if not self._lacks(row, "event"):
            self._code += (WAIT, self._thread_actor(row), self._event_slot(row), 0, self._first + row)

    def _event_free(self, row: int) -> None:
        if not self._lacks(row, "event"):
            key = "event", self._columns.ints("event", -1)[row]
            slot = self._slots.pop(key, None)
            if slot is not None:
                self._free_slots.append(slot)
                self._code += (DROP, 0, slot, 0, self._first + row)

    def _release(self, row: int) -> None:
        self._object(row, RELEASE)

    def _acquire(self, row: int) -> None:
        self._object(row, WAIT)

    def _object(self, row: int, op: int) -> None:
        if self._lacks(row, "object"):
            return
        actor = self._queue(row).actor if self._backend_id[row] != -1 else self._thread_actor(row)
        slot = self._slot("object", self._columns.strings("object")[row] or "")
        self._code += (op, actor, slot, 0, self._first + row)
