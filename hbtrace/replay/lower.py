"""Lowering: event rows to the flat program of `program.py`, one batch at a time.

All rules on what an event accesses and which edges it gives (contract section 3) stand here and in `accesses.py`;
what happens to bytes and clocks then is the kernel's. Names leave the data's way here: they stay behind in `Names`
and come back in `reports.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from hbtrace.replay import diagnostics
from hbtrace.replay.accesses import Template
from hbtrace.replay.definitions import READS, WRITES, Definitions
from hbtrace.replay.memo import COUNTED, Definition, Memo, NativeWindows, learnable, new_memo
from hbtrace.replay.objects import Backend, Buffer, Tensor
from hbtrace.replay.program import DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Program
from hbtrace.replay.settings import Settings
from hbtrace.replay.windows import Windows
from hbtrace.trace.budget import Budget
from hbtrace.trace.columns import Columns, Run, Stretches
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import EVENTS, Event
from hbtrace.trace.wrong_files import wrong_rows

BLIND: Final = "blind"
"""The `note` of a recorder that could not see some calls."""

_CACHED_ACCESSES: Final = 1 << 16
"""Of interned templates, each template counting as one more."""
_STEPS_BY_ACTORS: Final = 1 << 22
"""A step can copy a clock, which has an entry an actor: where there are many a program ends early, to be weighed."""
_CACHED_GRAPHS: Final = 64
_CACHED_PICKS: Final = 64
"""Templates of graphs and kernels with the rows that were picked: each is as large as its graph."""


@dataclass(slots=True)
class Call:
    """What a report says of one row with accesses."""

    ev: str
    label: str | None
    split: int
    ubatch: int
    thread: int
    site: str | None
    template: Template | None


class Lowering(Definitions):
    """Lowers the batches of one trace in order. `names` and `call` serve the reports afterwards.

    Raises TraceError at the first breach where the settings are strict.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._memo = new_memo()
        self._windows: Windows | NativeWindows = Windows()
        if self._memo is not None:
            self._windows, self._accesses.changes = self._memo.windows, self._memo.noted
        self._slots: dict[tuple[str, int | str], int] = {}
        self._free_slots: list[int] = []
        self._slot_count = 0
        self._interned: dict[tuple[bytes, bytes], Template] = {}
        self._interned_size = 0
        self.budget = Budget()
        """Of the trace: what it may cost."""
        self._picked: dict[tuple[Template, tuple[tuple[int, tuple[Run, ...]], ...]], Template] = {}
        self._buffer_template = Template([])
        self._code: list[int] = []
        """Steps of rows that were lowered here,"""
        self._done = array("q")
        """behind those of rows before them."""
        self._slots_used: list[tuple[str, int | str]] = []
        """Those that the newest row named."""
        self._templates: dict[int, Template] = {}
        self._handlers: dict[str | None, Callable[[int], None]] = {
            ev: self._handler(ev, event) for ev, event in EVENTS.items()
        }

    def _handler(self, ev: str, event: Event) -> Callable[[int], None]:
        """What lowers an event's rows: a method of its name, or the one for its kind of work."""
        if (own := getattr(self, f"_{ev}", None)) is not None:
            return own  # type: ignore[no-any-return]
        if event.runner is None:
            assert event.role != "edge", f"no handler orders what `{ev}` does"
            return self._nothing
        work = self._queue_work if event.runner == "queue" else self._whole_buffer if event.whole else self._host_work
        return partial(work, event)

    def programs(self, batch: pa.RecordBatch) -> Iterator[Program]:
        """The program of the next batch, in as many parts as it takes to keep the footprints in hand few."""
        self._load(batch)
        self.budget.follow(batch)
        self._templates = {}
        self._slots_used.clear()
        last, problem = self._breach or (self._columns.length, "")
        lacking = self._lacking()
        done = 0
        if self._memo is not None and self._memo.take(batch, self._first):
            done = yield from self._remembered(self._memo, last, lacking)
        yield from self._lowered(range(done, last), lacking)
        if self._breach is not None:
            self.diagnostics.add(diagnostics.KEY, self._first + last, problem)
        yield self._end()

    def _lowered(self, rows: range, lacking: dict[int, str]) -> Iterator[Program]:
        """Rows of the batch, one by one."""
        if not rows:
            return
        accesses, actors, evs = self._accesses, self.names.actors, self._columns.strings("ev")
        for row in rows:
            handler = self._handlers.get(evs[row])
            if handler is None or row in lacking:
                self._skip(row, evs[row], lacking.get(row))
                continue
            handler(row)
            if accesses.due or (len(self._done) + len(self._code)) * len(actors) > _STEPS_BY_ACTORS:
                yield self._take()

    def _remembered(self, memo: Memo, last: int, lacking: dict[int, str]) -> Generator[Program, None, int]:
        """Rows of the batch up to `last`, those that the memo knows by it. Returns how many: where it knows few, the
        rest is better lowered without it."""
        batch, first, rows = self._columns, self._first, Stretches(self._columns)
        row = 0
        while row < last:
            row = memo.replay(row, last, _STEPS_BY_ACTORS // len(self.names.actors) - len(self._done), self._done)
            due = self._long
            if row < last and not due:
                stretch, start = rows.around(row)
                self._turn_to(stretch, first + start)
                self._catch_up(memo)
                self._teach(memo, row, lacking)
                row += 1
                due = self._accesses.due or self._long
            if due:
                self._turn_to(batch, first)
                self._catch_up(memo)
                yield self._take()
            if memo.poor():
                break
        self._turn_to(batch, first)
        self._catch_up(memo)
        return row

    def _catch_up(self, memo: Memo) -> None:
        """Define what known rows defined: each name from its row on, of each id the newest place."""
        newest: dict[int, Tensor] = {}
        for row, (ident, thing, name) in memo.defined():
            if isinstance(thing, Template):
                self._graphs[ident] = thing
            else:
                self.names.put_tensor(ident, row, name, thing.view_of)
                newest[ident] = thing
        for ident, tensor in newest.items():
            self._accesses.define_tensor(ident, tensor)

    @property
    def _long(self) -> bool:
        """Whether the program has so many steps that it is to be weighed."""
        return (len(self._done) + len(self._code)) * len(self.names.actors) > _STEPS_BY_ACTORS

    def _turn_to(self, columns: Columns, first: int) -> None:
        """Look at these rows, if they are others: the batch, or a stretch of it, which alone is decoded then."""
        if columns is not self._columns:
            self._look_at(columns, first)

    def _teach(self, memo: Memo, row: int, lacking: dict[int, str]) -> None:
        """Lower a row that the memo does not know, and tell it what came of it if that can be repeated."""
        at = row - (self._first - self._batch_first)
        ev = self._columns.strings("ev")[at]
        handler = self._handlers.get(ev)
        if handler is None or row in lacking:
            self._skip(at, ev, lacking.get(row))
            return
        before = self._told(), self._accesses.unmet, self._counted()
        memo.windows.begin()
        self._slots_used.clear()
        handler(at)
        event = EVENTS[ev or ""]
        template = self._templates.get(self._batch_first + row)
        code, self._code = self._code, []
        self._done.extend(code)
        if self._told() != before[0] or not learnable(event) or (template is not None and template.dense):
            return
        needs = self._needed(event, at, template)
        counts = (now - old for now, old in zip(self._counted(), before[2], strict=True))
        unmet = self._accesses.unmet != before[1]
        definition = self._defined(ev or "", at) if event.role == "definition" else None
        memo.learn(row, code, needs, template, counts, until_noted=unmet, definition=definition)

    def _defined(self, ev: str, at: int) -> Definition:
        """What a row has just defined, so that a row like it can do it again."""
        ident = self._columns.ints("id", -1)[at]
        if ev == "graph":
            return ident, self._graphs[ident], ""
        return ident, self._accesses.tensors[ident], self._columns.strings("name")[at] or ""

    def _needed(self, event: Event, at: int, template: Template | None) -> list[tuple[str, int | str]]:
        """All that can be defined anew and would change what a row means; backends void the memo as a whole."""
        needs: list[tuple[str, int | str]] = [("slot " + table, name) for table, name in self._slots_used]
        if template is not None:
            needs += [("buffer" if need & 1 else "tensor", need >> 1) for need in template.needs]
            needs += [("tensor", ident) for ident in self._accesses.unresolved(template)]
        if "graph" in event.keys:
            needs.append(("graph", self._columns.ints("graph", -1)[at]))
        return needs

    def _told(self) -> tuple[int, int]:
        """What is told of single rows, and not repeated."""
        return self.diagnostics.added, len(self.exercise.blind)

    def _counted(self) -> tuple[int, ...]:
        return tuple(getattr(self.exercise, name) for name in COUNTED)

    def _skip(self, row: int, ev: str | None, lacks: str | None) -> None:
        """A row that cannot be replayed, and why."""
        strange = f"unknown event `{ev}`" if ev else self._stranger(row)
        detail = f"`{ev}` lacks `{lacks}`" if lacks else strange
        self.diagnostics.add(diagnostics.SKIPPED, self._first + row, detail)

    def _stranger(self, row: int) -> str:
        """What is told of a row without `ev`; of the first one also whose it is, as far as its keys tell."""
        if self.diagnostics.count(diagnostics.SKIPPED):
            return "no `ev`"
        (stranger,) = rows_from_batch(self._columns.batch.slice(row, 1))
        known = wrong_rows(stranger)
        return f"no `ev`: this is {known.what}" if known else "no `ev`"

    def _note(self, row: int) -> None:
        """A marker. What the recorder could not see is said of every verdict on the run."""
        if self._columns.strings("what")[row] == BLIND:
            (note,) = rows_from_batch(self._columns.batch.slice(row, 1), fitting=True)
            attrs = note.get("attrs")
            told = [str(attrs[key]) for key in ("calls", "why") if key in attrs] if isinstance(attrs, dict) else []
            self.exercise.blind.append(": ".join(told) or f"row {self._first + row}")

    def _end(self) -> Program:
        self.rows += self._columns.length
        self._bound_caches()
        self.exercise.windows = self._windows.count
        return self._take()

    def _take(self) -> Program:
        self._done.extend(self._code)
        self._accesses.program.code = self._done
        self._code, self._done = [], array("q")
        if self._memo is not None:
            for name, more in zip(COUNTED, self._memo.counts(), strict=True):
                setattr(self.exercise, name, getattr(self.exercise, name) + more)
            if self._accesses.full:
                self._memo.forget()  # its footprints are void
        return self._accesses.take_program()

    def _bound_caches(self) -> None:
        """Interned templates are made again on demand."""
        if self._interned_size > _CACHED_ACCESSES:
            self._interned.clear()
            self._interned_size = 0
            self._forget()
        if len(self._graph_templates) > _CACHED_GRAPHS:
            self._graph_templates.clear()
            self._picked.clear()
            self._windows.forget_graphs()
            self._forget()

    def _forget(self) -> None:
        """The memo holds templates that are made again from now on."""
        if self._memo is not None:
            self._memo.forget()

    @property
    def followed(self) -> int:
        """Links from views to their roots that were followed so far."""
        return self._accesses.followed

    def template(self, row: int) -> Template | None:
        """What a row of the newest batch accesses; None for a row without accesses."""
        found = self._templates.get(row)
        return self._memo.template(row - self._first) if found is None and self._memo is not None else found

    def call(self, row: int) -> Call:
        """What a report says of a row of the newest batch."""
        columns, index = self._columns, row - self._first
        return Call(
            columns.strings("ev")[index] or "",
            columns.strings("label")[index] or None,
            columns.ints("split", -1)[index],
            columns.ints("ubatch", -1)[index],
            self._thread[index],
            columns.strings("site")[index],
            self.template(row),
        )

    def _template(self, row: int, event: Event) -> Template:
        """The template of the ranges that an event lists, reads before writes, brought up to date."""
        lists = self._lists
        reads = None if event.reads is None else lists[event.reads]
        writes = None if event.writes is None else lists[event.writes]
        key = b"" if reads is None else reads.key(row), b"" if writes is None else writes.key(row)
        found = self._interned.get(key)
        if found is None:
            accesses = [] if reads is None else [(READS, r) for r in reads.get(row)]
            accesses += [] if writes is None else [(WRITES, r) for r in writes.get(row)]
            found = self._interned[key] = Template(accesses)
            self._interned_size += 1 + len(accesses)
        if found.chosen:
            found = self._with_picked(found, row)
        at = self._first + row
        self._templates[at] = found
        self._accesses.use(found, at)
        return found

    def _with_picked(self, template: Template, row: int) -> Template:
        """A template whose ranges have the rows that the event says were picked (contract, section 10)."""
        picked = self._columns.picked(row) if "picked" in EVENTS[self._columns.strings("ev")[row] or ""].keys else {}
        said = tuple((by, picked[by]) for by in sorted(template.chosen) if by in picked)
        if not said:
            return template
        found = self._picked.get((template, said))
        if found is None:
            if len(self._picked) >= _CACHED_PICKS:
                self._picked.clear()
                self._forget()
            accesses = [
                (write, r if r.by == -1 else r._replace(picked=picked.get(r.by))) for write, r in template.accesses
            ]
            found = self._picked[template, said] = Template(accesses, template.origins)
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

    # work: one handler for each kind of runner

    def _host_work(self, event: Event, row: int) -> None:
        """Accesses of the calling thread, each in a step of its own; a blocking one waits for who drains its buffer."""
        template = self._template(row, event)
        drained = event.accesses if event.blocks and self._draining else ()
        for number in range(len(template.accesses)):
            if drained and (kind := drained[number].drains) is not None:
                self._drain(row, template.resolved[number].buffer, kind)
            self._host(row, template, number)

    def _set_direct(self, row: int) -> None:
        if self._columns.flags("inferred", default=False)[row]:
            self.exercise.inferred_writes += 1
        else:
            self.exercise.direct_writes += 1
        self._host_work(EVENTS["set_direct"], row)

    def _whole_buffer(self, event: Event, row: int) -> None:
        """Write a whole buffer. Of a dead one it is a use after free: to end it always, else if there are bytes."""
        at, footprint = self._first + row, -1
        buffer = self._accesses.buffer(self._buffer_id[row], at)
        queue = self._queue(row) if "backend" in event.keys and self._backend_id[row] != -1 else None
        if (drains := event.accesses[0].drains) is not None:
            self._drain(row, buffer, drains)
        self._templates[at] = self._buffer_template
        pieces = self._accesses.whole(buffer)
        self.exercise.touched |= bool(pieces)
        self._accesses.meets_whole(buffer, at)
        if not self._accesses.skips(buffer):
            if buffer.touched is not None:
                self.diagnostics.add(diagnostics.BUFFER, at, f"buffer {buffer.ident}", buffer.ident)
            if not buffer.dead:
                footprint = self._accesses.passing_footprint(pieces, write=WRITES)
            elif pieces or event.ends:
                self.diagnostics.add(diagnostics.USE_AFTER_FREE, at, f"buffer {buffer.ident}", buffer.ident)
        if queue is None:
            self._code += (HOST, self._thread_actor(row), 0, footprint, at)
        else:  # ordered on a queue, as work of its own
            self._queued(row, queue, footprint)
            self._settle(row, queue)
        if event.ends and not buffer.dead:
            buffer.dead = True
            self._accesses.buffer_changed(buffer.ident)
            self._buffer_is(buffer)
            self._code += (END, buffer.space, 0, 0, at)

    def _queue_work(self, event: Event, row: int) -> None:
        """Work of a queue, whose accesses share one epoch."""
        queue = self._queue(row)
        template = self._template(row, event)
        self._note_issue(event, template, row)
        self._queued(row, queue, self._accesses.footprint(template))
        if queue.synchronous:
            self._settle(row, queue)

    def _note_issue(self, event: Event, template: Template, row: int) -> None:
        """Count work for coverage; what carries bytes may write what the host wrote before it was mended."""
        self.exercise.issued += 1
        if event.moves:
            for number, (write, _) in enumerate(template.accesses):
                if write:
                    self._accesses.meets(template, number, self._first + row)
        if template.read_roots:
            self._windows.issue(template, self._first + row)

    def _compute(self, row: int) -> None:
        self.exercise.computes += 1
        ident, at = self._columns.ints("graph", -1)[row], self._first + row
        queue = self._queue(row)
        template = self._graphs.get(ident)
        footprint = -1
        if template is None:
            self.exercise.issued += 1
            self.diagnostics.add(diagnostics.GRAPH, at, f"graph {ident}", ident)
        else:
            template = self._with_picked(template, row) if template.chosen else template
            self._templates[at] = template
            self._accesses.use(template, at)
            self._note_issue(EVENTS["compute"], template, row)
            footprint = self._accesses.footprint(template)
        self._queued(row, queue, footprint)
        self._settle(row, queue)

    def _copy_async(self, row: int) -> None:
        """Which queue runs a copy is its own to say; the other one waits (contract, section 3)."""
        event = EVENTS["copy_async"]
        dst = self._queue(row)
        src = self._queue(row, "src_backend") if self._columns.ints("src_backend", -1)[row] != -1 else dst
        template = self._template(row, event)
        self._note_issue(event, template, row)
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

    # edges

    def _slot(self, table: str, name: int | str) -> int:
        if self._memo is not None:
            self._slots_used.append((table, name))
        slot = self._slots.get((table, name))
        if slot is None:
            if self._free_slots:
                slot = self._free_slots.pop()
            else:
                slot, self._slot_count = self._slot_count, self._slot_count + 1
            self._slots[table, name] = slot
            if self._memo is not None:
                self._memo.changed(("slot " + table, name), slot)
        return slot

    def _event_slot(self, row: int) -> int:
        return self._slot("event", self._columns.ints("event", -1)[row])

    def _synchronize(self, row: int) -> None:
        self._join(row, self._thread_actor(row), self._queue(row).actor)

    def _event_record(self, row: int) -> None:
        queue = self._queue(row).actor
        self._join(row, queue, self._thread_actor(row))
        self._code += (RECORD, queue, self._event_slot(row), 0, self._first + row)

    def _event_wait(self, row: int) -> None:
        queue = self._queue(row).actor
        self._join(row, queue, self._thread_actor(row))
        self._code += (WAIT, queue, self._event_slot(row), 0, self._first + row)

    def _event_synchronize(self, row: int) -> None:
        self._code += (WAIT, self._thread_actor(row), self._event_slot(row), 0, self._first + row)

    def _event_free(self, row: int) -> None:
        event = self._columns.ints("event", -1)[row]
        slot = self._slots.pop(("event", event), None)
        if slot is not None:
            if self._memo is not None:
                self._memo.changed(("slot event", event), None)
            self._free_slots.append(slot)
            self._code += (DROP, 0, slot, 0, self._first + row)

    def _release(self, row: int) -> None:
        self._object(row, RELEASE)

    def _acquire(self, row: int) -> None:
        self._object(row, WAIT)

    def _object(self, row: int, op: int) -> None:
        actor = self._queue(row).actor if self._backend_id[row] != -1 else self._thread_actor(row)
        slot = self._slot("object", self._columns.strings("object")[row] or "")
        self._code += (op, actor, slot, 0, self._first + row)

