"""Lowering: event rows to the flat program of `program.py`, one batch at a time.

All rules on what an event accesses and which edges it gives (contract section 3) stand here and in `accesses.py`;
what happens to bytes and clocks then is the kernel's. Names leave the data's way here: they stay behind in `Names`
and come back in `races.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hbtrace.replay import findings
from hbtrace.replay.accesses import Accesses, Template
from hbtrace.replay.definitions import HOST_NAME, Backend, Buffer, Names, Tensor
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.findings import Findings
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Program
from hbtrace.replay.windows import Windows
from hbtrace.trace.columns import ABSENT, Columns, Nodes, Ranges
from hbtrace.trace.problems import value_problems
from hbtrace.trace.vocabulary import EVENTS, SETS

READS: Final = False
WRITES: Final = True
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


class Lowering:
    """Lowers the batches of one trace in order. `names` and `events` serve the reports afterwards.

    threads: `one` (all host threads are one actor) or `ordered`; None takes the trace's own word.
    Raises TraceError at the first breach when `strict`.
    """

    def __init__(self, *, strict: bool = False, skip_weights: bool = False, threads: str | None = None) -> None:
        self.names = Names()
        self.findings = Findings(strict=strict)
        self.exercise = Exercise()
        self.threads = threads
        self.meta_threads = "one"
        self.rows = 0
        self._accesses = Accesses(self.names, self.findings, self.exercise, skip_weights=skip_weights)
        self._windows = Windows()
        self._backends: dict[int, Backend] = {}
        self._draining: list[tuple[int, Backend]] = []
        self._undefined_backends: set[int] = set()
        self._graphs: dict[int, Template] = {}
        self._hosts = {0: self.names.new_actor(HOST_NAME)}
        self._slots: dict[tuple[str, int | str], int] = {}
        self._free_slots: list[int] = []
        self._slot_count = 0
        self._interned: dict[tuple[bytes, bytes], Template] = {}
        self._graph_templates: dict[bytes, Template] = {}
        self._buffer_template = Template([])
        self._code: list[int] = []
        self._templates: dict[int, Template] = {}
        self._first = 0
        self._handlers: dict[str, Callable[[int], None]] = {
            ev: getattr(self, f"_{ev}", self._nothing) for ev in EVENTS
        }

    @property
    def ordered(self) -> bool:
        """Whether each host thread is an actor of its own."""
        return (self.threads or self.meta_threads) == "ordered"

    def lower(self, batch: pa.RecordBatch) -> Program:
        """The program of the next batch."""
        self._columns = columns = Columns(batch)
        self._first = self.rows
        self._templates = {}
        self._load(columns)
        self._value_findings(batch)
        self.exercise.splits.update(columns.distinct("split"))
        self.exercise.ubatch_numbers.update(columns.distinct("ubatch"))
        handlers, row, first = self._handlers, 0, self._first
        for row, ev in enumerate(columns.strings("ev")):
            handler = handlers.get(ev or "")
            if handler is None:
                self.findings.add(findings.SKIPPED, first + row, f"unknown event `{ev}`" if ev else "no `ev`")
            else:
                handler(row)
        self.rows += columns.length
        self._accesses.program.code = array("q", self._code)
        self._code = []
        if len(self._interned) > _CACHED_TEMPLATES:
            self._interned.clear()
        if len(self._graph_templates) > _CACHED_GRAPHS:
            self._graph_templates.clear()
            self._windows.forget_graphs()
        self.exercise.windows = self._windows.count
        return self._accesses.take_program()

    @property
    def first_row(self) -> int:
        """The first row of the newest batch."""
        return self._first

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

    # the batch's columns that every kind of event needs; the others are decoded on first use

    def _load(self, columns: Columns) -> None:
        self._thread = columns.ints("thread", 0)
        self._backend_id = columns.ints("backend", -1)
        self._buffer_id = columns.ints("buffer", -1)
        self._tensor_id = columns.ints("tensor", -1)
        self._ranges: dict[str, Ranges] = {}

    def _list(self, name: str) -> Ranges:
        found = self._ranges.get(name)
        if found is None:
            columns = self._columns
            found = self._ranges[name] = (
                columns.own()
                if name == "own"
                else columns.ranges(name)
                if name in ("reads", "writes")
                else columns.single(name)
            )
        return found

    def _value_findings(self, batch: pa.RecordBatch) -> None:
        events = self._columns.strings("ev")
        for row, problem in value_problems(batch):
            if events[row] == "meta" and self._first + row:
                continue  # it counts for nothing, and so do its values
            self.findings.add(findings.VALUE, self._first + row, problem)

    def _lacks(self, row: int, *keys: str) -> bool:
        """Whether the row is skipped for want of a key; integers are ids here, of which -1 is none."""
        for key in keys:
            if key in ("name", "object"):
                absent = self._columns.strings(key)[row] is None
            elif key in ("src", "dst"):
                present = self._list(key).present
                absent = present is not None and not present[row]
            elif key == "size":
                absent = self._columns.ints("size", ABSENT)[row] == ABSENT
            else:
                absent = self._columns.ints(key, -1)[row] == -1
            if absent:
                ev = self._columns.strings("ev")[row]
                self.findings.add(findings.SKIPPED, self._first + row, f"`{ev}` lacks `{key}`")
                return True
        return False

    # definitions

    def _nothing(self, row: int) -> None:
        """A marker: the replay does not look at it."""

    def _ubatch(self, row: int) -> None:
        self.exercise.ubatches += 1
        self.exercise.tokens += self._columns.ints("tokens", 0)[row]

    def _sched_reuse(self, row: int) -> None:
        self.exercise.reuse += 1

    def _meta(self, row: int) -> None:
        if self._first + row:
            self.findings.add(findings.LATE_META, self._first + row, "`meta`")
        elif self._known("meta", "threads", row) == "ordered":
            self.meta_threads = "ordered"

    def _known(self, ev: str, key: str, row: int) -> str | None:
        """A value of a named set; an unknown one is as absent."""
        value = self._columns.strings(key)[row]
        return value if value in SETS[ev, key] else None

    def _backend(self, row: int) -> None:
        if self._lacks(row, "id", "name"):
            return
        columns = self._columns
        name = columns.strings("name")[row] or ""
        if name == HOST_NAME:
            self.findings.add(findings.HOST_NAME, self._first + row, "a backend is named HOST")
        self._undefined_backends.discard(ident := columns.ints("id", -1)[row])
        before = self._backends.get(ident)
        if before is not None:
            before.live = False
        self.exercise.backends.add(columns.attributes("backend", row))
        self._put_backend(
            ident,
            Backend(
                self.names.new_queue(name),
                columns.strings("device")[row] or None,
                columns.flags("synchronous", default=False)[row],
                frozenset(columns.words("drains", row)),
            ),
        )

    def _put_backend(self, ident: int, backend: Backend) -> None:
        self._backends[ident] = backend
        self._draining = [pair for pair in self._draining if pair[1].live]
        if backend.drains:
            self._draining.append((ident, backend))

    def _backend_free(self, row: int) -> None:
        if not self._lacks(row, "backend"):
            self._queue(row).live = False

    def _buffer(self, row: int) -> None:
        if self._lacks(row, "id", "name", "size"):
            return
        columns, accesses, at = self._columns, self._accesses, self._first + row
        ident, name = columns.ints("id", -1)[row], columns.strings("name")[row] or ""
        old = accesses.buffers.get(ident)
        if old is None or old.dead:
            buffer = Buffer(ident, accesses.new_space(at, name, ident))
        else:
            buffer = old  # the life goes on
            self.names.put_space(buffer.space, at, name, ident)
        self.exercise.buffers.add(name)
        buffer.touched = None
        buffer.size = max(0, columns.ints("size", ABSENT)[row])
        buffer.host = columns.flags("host", default=False)[row]
        buffer.owner = self._backend_id[row]
        buffer.device = columns.strings("device")[row] or None
        buffer.weights = columns.strings("usage")[row] == "weights"
        accesses.define_buffer(ident, buffer)

    def _tensor(self, row: int) -> None:
        if self._lacks(row, "id", "name"):
            return
        columns = self._columns
        ident, view_of = columns.ints("id", -1)[row], columns.ints("view_of", -1)[row]
        size = columns.ints("size", ABSENT)[row]
        place = Tensor(
            self._buffer_id[row], columns.ints("offset", 0)[row], None if size == ABSENT else max(0, size), view_of
        )
        self._accesses.define_tensor(ident, place)
        name = columns.strings("name")[row] or ""
        self.names.put_tensor(ident, self._first + row, name, view_of)
        self.exercise.tensors.add(name)

    def _graph(self, row: int) -> None:
        if not self._lacks(row, "id"):
            nodes = self._columns.nodes(row)
            self._graphs[self._columns.ints("id", -1)[row]] = self._graph_template(nodes)

    def _graph_template(self, nodes: Nodes) -> Template:
        found = self._graph_templates.get(nodes.key)
        if found is None:
            listed = [
                ((write, r), (op, position, out))
                for op, out, reads, writes in nodes.nodes
                for write, ranges in ((READS, reads), (WRITES, writes))
                for position, r in enumerate(ranges)
            ]
            found = Template([access for access, _ in listed], [origin for _, origin in listed])
            self._graph_templates[nodes.key] = found
        return found

    # accesses

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

    def _thread_actor(self, row: int) -> int:
        thread = self._thread[row]
        if not thread or not self.ordered:
            return 0
        actor = self._hosts.get(thread)
        if actor is None:
            actor = self._hosts[thread] = self.names.new_actor(HOST_NAME, f"#{thread}")
        return actor

    def _queue(self, row: int, key: str = "backend") -> Backend:
        """The backend a row names; one never defined is asynchronous and drains nothing."""
        ident = self._columns.ints(key, -1)[row]
        backend = self._backends.get(ident)
        if backend is None:
            self._undefined_backends.add(ident)
            backend = Backend(self.names.new_actor(f"?{ident}"))
            self._put_backend(ident, backend)
        if ident in self._undefined_backends:
            self.findings.add(findings.BACKEND, self._first + row, f"backend {ident}", ident)
        if not backend.live:
            self.findings.add(findings.FREED_BACKEND, self._first + row, f"backend {ident}", ident)
        return backend

    def _host(self, row: int, template: Template, number: int) -> None:
        actor = self._thread_actor(row)
        footprint = self._accesses.footprint(template, number)
        self.exercise.hosts.add(actor)
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
            self._issue(row, self._template(row, read, written))

    def _kernel(self, row: int) -> None:
        if self._backend_id[row] == -1:
            self._lacks(row, "backend")
            return
        self._issue(row, self._template(row, "reads", "writes"))

    def _issue(self, row: int, template: Template) -> None:
        """Queue work whose accesses share one epoch."""
        queue = self._queue(row)
        self._windows.issue(template, self._first + row)
        self._queued(row, queue, self._accesses.footprint(template))
        self._settle(row, queue)

    def _compute(self, row: int) -> None:
        if self._lacks(row, "backend", "graph"):
            return
        self.exercise.computes += 1
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
