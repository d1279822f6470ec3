"""A rule applied to the program instead of the rows: what it inserts, drops and moves, as steps.

A rule changes little of a trace, and lowering is most of what a replay costs. So the trace is lowered once, as it is;
the rule goes over the rows that it asks for (`wanted_rows.py`), and what it does to them is done to their steps
(`edits.py`). Steps keep the row of the recorded trace, inserted ones have that of the event they stand beside. A cut
graph stays one row: its parts are pieces of work with some of its accesses each, which keep their numbers and names in
the whole graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from hbtrace.replay.accesses import Template
from hbtrace.replay.kernel import Hit
from hbtrace.replay.lower import Lowering
from hbtrace.replay.objects import Backend
from hbtrace.replay.program import ALSO, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Program
from hbtrace.replay.session import Replayed
from hbtrace.replay.settings import Settings
from hbtrace.what_if.edits import HOME, OWN, Edits, Shift, Step, Steps
from hbtrace.what_if.rewriting import Rule, Wants, chained
from hbtrace.what_if.state import INSERTED, PART, TENSOR_ACCESSES, USES, Event, Span, Uses, tensors_used
from hbtrace.what_if.wanted_rows import BATCH_END, Feed


class CannotPatchError(Exception):
    """The rule did something that only its rows tell: the trace must be rewritten and lowered again."""


@dataclass
class Clone:
    """A buffer that a rule made like another one. like: the id of that one; home: its space, once it is known."""

    ident: int
    space: int
    size: int
    like: int = -1
    home: int = -1
    freed: bool = False


class Patch:
    """The patched programs of one trace under one set of rules, batch by batch."""

    _lowering: Lowering
    """It stands at the end of the batch."""

    def __init__(self, rules: Sequence[Rule], settings: Settings) -> None:
        wants = reduce(lambda a, b: a | b, (rule.wants for rule in rules), Wants())
        self._feed = Feed(wants)
        self._entries = chained(rules, iter(self._feed), settings.threads)
        self._moves = "tensor" in wants.events
        self._introduced = 0
        self._backends: dict[int, Backend] = {}
        self._homes = _Homes()
        self._numbers: dict[int, tuple[Template, dict[int, list[int]]]] = {}
        self._checked: set[tuple[int, Span]] = set()
        self._steps = Steps()
        self.stalled: set[int] = set()
        """Actors that a rule made synchronous."""

    def program(self, replayed: Replayed) -> list[Program]:
        """The program of a batch under the rules. Raises CannotPatchError."""
        if len(replayed.programs) != 1:
            raise CannotPatchError  # so many footprints that it was lowered in parts
        (program,) = replayed.programs
        self._lowering = replayed.lowering
        self._steps.begin(program)
        self._numbers.clear()  # templates are large: none is kept for longer than its batch
        self._checked.clear()
        self._feed.give(replayed.batch, replayed.first, self._lowering.template)
        edits = self._take()
        stalled = {backend.actor for backend in self._backends.values() if backend.synchronous} | self.stalled
        return [self._steps.apply(program, edits, stalled, self.stalled)]

    def finish(self) -> None:
        """There is no batch more: rules complain now of what they did not find."""
        self._feed.end()
        if any(True for _ in self._entries):
            raise CannotPatchError

    def home_of(self, hit: Hit) -> tuple[Hit, int]:
        """A hit with the space that its bytes have in the recorded trace, and the id of the buffer they were moved to,
        -1 if they were not."""
        clone = self._homes.by_space.get(hit.space)
        return (hit, -1) if clone is None else (hit._replace(space=clone.home), clone.ident)

    def _take(self) -> Edits:
        """Go over what the rules make of the batch."""
        edits, feed, done = Edits(dropped=set(self._feed.rows)), self._feed, BATCH_END
        for row, event in self._entries:
            if row == BATCH_END:
                break
            if row == INSERTED:
                behind = done == feed.row
                self._introduce(feed.row + behind)
                steps = self._inserted(event, feed.row)
                (edits.after if behind else edits.before).setdefault(feed.row, []).extend(steps)
                continue
            done = row
            edits.dropped.discard(row)
            if event is not feed.event and event != feed.event:
                self._changed(row, event, edits)
            elif self._moves:
                self._homes.pass_on(event)
            if self._homes.moved and event.get("ev") in TENSOR_ACCESSES and row not in edits.instead:
                shift = self._shift(row)
                if shift:
                    edits.shifts[row] = shift
        self._introduce(self._lowering.rows)
        return edits

    def _introduce(self, row: int) -> None:
        """Backends first met before a row have their actors."""
        found = self._lowering.introduced
        while self._introduced < len(found) and found[self._introduced][0] < row:
            _, ident, backend = found[self._introduced]
            self._backends[ident] = backend
            self._introduced += 1

    def _queue(self, ident: Any) -> Backend:
        if ident not in self._backends:
            raise CannotPatchError
        return self._backends[ident]

    def _actor(self, ident: Any) -> int:
        return self._queue(ident).actor

    def _inserted(self, event: Event, row: int) -> list[Step]:
        """The steps of an event that a rule puts in, as the lowering makes them."""
        ev, thread = event["ev"], self._lowering.host_actor(int(event.get("thread", 0)))
        if ev == "compute":
            return self._part(event, row)
        if ev == "synchronize":
            return [(JOIN, thread, self._actor(event["backend"]), 0, row)]
        if ev in ("event_record", "event_wait"):
            queue, op = self._actor(event["backend"]), RECORD if ev == "event_record" else WAIT
            return [(JOIN, queue, thread, 0, row), (op, queue, event["event"], 0, row)]
        if ev == "event_synchronize":
            return [(WAIT, thread, event["event"], 0, row)]
        if ev in ("release", "acquire"):
            actor = self._actor(event["backend"]) if "backend" in event else thread
            slot = OWN + int(event["object"].rpartition(" ")[2])
            return [(RELEASE if ev == "release" else WAIT, actor, slot, 0, row)]
        if ev == "buffer_free":
            clone = self._homes.free(event["buffer"])
            pieces = [(clone.space, 0, clone.size, 0, 1)] if clone.size else []
            return [(HOST, thread, 0, self._steps.footprint(pieces), row), (END, clone.space, 0, 0, row)]
        self._homes.define(event)
        return []

    def _changed(self, row: int, event: Event, edits: Edits) -> None:
        """A row that a rule changed."""
        ev, original = event.get("ev"), self._feed.event
        if ev == "copy_async":
            runs_on = event.get("runs_on")
            edits.copies[row] = (None if runs_on == original.get("runs_on") else runs_on), bool(event.get("after_dst"))
        elif ev == "compute":
            edits.instead[row] = self._part(event, row)
        elif ev == "backend":
            self._introduce(row + 1)
            self.stalled.add(self._actor(event.get("id", -1)))
        elif ev == "tensor":
            self._homes.pass_on(original)
            self._homes.define(event)
        elif ev != "sched":
            raise CannotPatchError

    def _part(self, event: Event, row: int) -> list[Step]:
        """The steps of a part of a row's graph."""
        template, span = self._lowering.template(row), event.get(PART)
        if template is None or span is None:
            raise CannotPatchError
        self._check(template, span, event[USES])
        queue, (thread, footprint) = self._queue(event["backend"]), self._steps.work(row)
        footprint, moved = self._steps.elsewhere(
            self._steps.part(footprint, *span[:2]), self._shift(row) if self._homes.moved else {}
        )
        steps: list[Step] = [(QUEUE, queue.actor, thread, footprint, row)]
        if moved >= 0:
            steps.append((ALSO, queue.actor, 0, moved, row))
        if queue.synchronous or queue.actor in self.stalled:
            steps.append((JOIN, thread, queue.actor, 0, row))
        return steps

    def _check(self, template: Template, span: Span, uses: Uses) -> None:
        """The rule counted accesses in the rows: it must have counted as the lowering did."""
        if (id(template), span) in self._checked:
            return
        first, end, count = span
        if count != len(template.accesses) or tensors_used(template.accesses[first:end]) != uses:
            raise CannotPatchError
        self._checked.add((id(template), span))

    def _shift(self, row: int) -> Shift:
        """Which accesses of a row are of moved tensors, and where these are."""
        template = self._lowering.template(row)
        if template is None:
            return {}
        found = self._numbers.get(id(template))
        if found is None:
            numbers: dict[int, list[int]] = {}
            for number, (_, its) in enumerate(template.accesses):
                numbers.setdefault(its.tensor, []).append(number)
            found = self._numbers[id(template)] = template, numbers
        shift: Shift = {}
        for tensor in found[1].keys() & self._homes.moved.keys():
            clone = self._homes.moved[tensor]
            if clone.freed != (clone.like in self._homes.freed):
                raise CannotPatchError  # one of the two is dead and the other is not
            for number in found[1][tensor]:
                shift[number] = clone.space
                if clone.home < 0 and (pieces := template.resolved[number].pieces):
                    clone.home = pieces[0][0]
        return shift


@dataclass
class _Homes:
    """Where rules have put tensors. The trace's own place of a tensor is its home."""

    moved: dict[int, Clone] = field(default_factory=dict)
    by_space: dict[int, Clone] = field(default_factory=dict)
    freed: set[int] = field(default_factory=set)
    """Buffers of the trace that are no more."""
    _clones: dict[int, Clone] = field(default_factory=dict)
    _tensors: dict[int, Event] = field(default_factory=dict)

    def pass_on(self, event: Event) -> None:
        """A row of the trace that no rule changed."""
        ev = event.get("ev")
        if ev == "tensor":
            self._tensors[event.get("id", -1)] = event
            self.moved.pop(event.get("id", -1), None)
        elif ev == "buffer":
            ident = event.get("id", -1)
            if ident not in self.freed and any(c.like == ident and not c.freed for c in self._clones.values()):
                raise CannotPatchError  # other attributes, and the clone keeps the old ones
            self.freed.discard(ident)
        elif ev == "buffer_free":
            self.freed.add(event.get("buffer", -1))

    def define(self, event: Event) -> None:
        """A definition that a rule puts in or changes: a clone, or a tensor pointed elsewhere."""
        ev = event["ev"]
        if ev == "buffer" and event.get("usage") != "weights":
            space = OWN + len(self.by_space)
            clone = Clone(event["id"], space, max(0, int(event.get("size", 0))))
            self._clones[event["id"]] = self.by_space[space] = clone
        elif ev == "tensor":
            self._point(event)
        elif ev not in ("graph", "sched_prepare"):
            raise CannotPatchError

    def _point(self, event: Event) -> None:
        ident = event.get("id", -1)
        home = self._tensors.get(ident, {})
        if event | {"buffer": 0} != home | {"buffer": 0}:
            raise CannotPatchError
        clone = self._clones.get(event.get("buffer", -1))
        if clone is None:
            if event.get("buffer", -1) != home.get("buffer", -1):
                raise CannotPatchError
            clone = Clone(-1, HOME, 0)  # back again: it stays apart, so that footprints are cut at the same places
        clone.like = home.get("buffer", -1)
        self.moved[ident] = clone

    def free(self, ident: int) -> Clone:
        """A rule frees a clone of its own."""
        clone = self._clones.get(ident)
        if clone is None:
            raise CannotPatchError
        clone.freed = True
        return clone
