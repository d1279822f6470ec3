"""The scheduler of the model: splits by backend, input copies, events, the input ring, prepare, uids.

After ggml-backend.cpp with the input ring. One predicate decides both things: a tensor is copied for a split, and
waited for, only if the split's backend cannot use the buffer that it lies in. Faults are asked for by name where they
bite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hbtrace.simulate.config import Config
from hbtrace.simulate.graph import INPUTS, Intermediates, Layer, Plan, ShapedGraph, Split, build, take_memory
from hbtrace.simulate.machine import WORD
from hbtrace.simulate.tape import GgmlTape, ModelNode, ModelTensor

ID = 0
"""The only scheduler of a run."""


@dataclass(slots=True)
class Equipment:
    """What the scheduler works with: backend ids, in priority order with the CPU last, and their buffers."""

    backends: list[int]
    host: int
    """The host compute buffer: graph inputs, then copies for the CPU, then what CPU splits compute."""
    home: dict[int, int]
    """The compute buffer of each backend."""
    accepts: dict[int, set[int]]
    """Buffers that each backend computes on."""
    asynchronous: set[int]
    """Backends with a `synchronize`, whatever `caps.async` says: they disagree for some."""
    events: set[int]

    @property
    def cpu(self) -> int:
        return self.backends[-1]


@dataclass(slots=True)
class ModelScheduler:
    """`allocate` or `reuse` (and `prepare`), write the inputs, `compute`."""

    tape: GgmlTape
    config: Config
    site: Equipment
    plan: Plan
    slot: int = 0
    in_flight: bool = False
    """A compute was issued that nobody waited for since: what the ring rotates by."""
    current: ShapedGraph | None = None
    _behind: int = 0
    """How many slots behind the present one the graph reads its copies."""
    _shapes: dict[int, ShapedGraph] = field(default_factory=dict)
    _events: dict[tuple[int, int], int] = field(default_factory=dict)
    _pending_reads: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    """By bytes [lo, hi) of the host buffer, inputs left out: asynchronous backends that may still read them in place,
    each with the compute that does."""
    _computes: int = 0
    _uids: int = 0

    def __post_init__(self) -> None:
        slots = self.config.depth or (self.config.copies if self.config.copies > 1 else 0)
        for backend in self.site.backends:
            if backend in self.site.events:
                self._events.update({(backend, slot): self.tape.new_event() for slot in range(slots)})

    # the interface that the engine calls

    def synchronize(self) -> None:
        """Wait for all backends; nothing is in flight then."""
        for backend in self.site.backends:
            if backend in self.site.asynchronous:
                self._synchronize(backend)
                if self.config.fault == "redundant-wait":
                    self.tape.synchronize(backend)
        self.in_flight = False

    def allocate(self, tokens: int) -> ShapedGraph:
        """Split and allocate the graph for so many tokens. Enters the next slot of the ring, or of the copies."""
        shape = self._shapes.get(tokens) or self._new_shape(tokens)
        self._behind = 0
        rotated = self._next_slot()
        if self.config.fault == "alias-moved" and rotated:
            shape = self._new_shape(tokens)
        self._stamp(shape.splits)
        self.tape.row(
            "sched_alloc", sched=ID, graph_uid=shape.splits[0].uid, slot=self.slot, realloc=False,
            inputs=[tensor.id for tensor in shape.inputs.values()],
        )  # fmt: skip
        self._enter(shape, wait=rotated)
        self.current = shape
        if self.config.fault == "prepare-twice" and rotated:
            self.prepare(force=True)
        return shape

    def reuse(self) -> None:
        """The graph of the last compute is used again; nothing is split or allocated."""
        self.tape.row("sched_reuse", sched=ID)
        if self.config.fault == "stale-copy-slot":
            self._behind += self._next_slot()

    def prepare(self, *, force: bool = False, stamp: bool = True) -> None:
        """The rotation without the allocation. Nothing to do while no compute is in flight."""
        shape = self.current
        if shape is None or not self.config.depth:
            return
        rotated = self._next_slot(force=force)
        self.tape.row("sched_prepare", sched=ID, slot=self.slot, rotated=rotated)
        if rotated:
            if stamp:
                self._stamp(shape.splits)
            self._enter(shape, wait=True, define=stamp)

    def compute(self) -> None:
        """Issue the splits of the current graph, with what each must wait for and be fed with."""
        shape = self.current
        if shape is None:
            return
        self._computes += 1
        self.tape.row("sched_compute", sched=ID)
        for number, split in enumerate(shape.splits):
            self.tape.split = number
            self._feed(split)
            self._guard(split)
            self._run(split)
            if (split.backend, self.slot) in self._events:
                self.tape.event_record(split.backend, self._events[split.backend, self.slot])
            self._note_reads(split)
        self.tape.split = -1
        self.in_flight = True
        self.tape.row("sched_compute_end", sched=ID)

    # slots

    def _next_slot(self, *, force: bool = False) -> bool:
        """Move on to the next slot where that is due; whether it was."""
        slots = self.config.depth or self.config.copies
        if slots < 2 or (self.config.depth and not (self.in_flight or force)):
            return False
        self.slot = (self.slot + 1) % slots
        return True

    def _enter(self, shape: ShapedGraph, *, wait: bool, define: bool = True) -> None:
        """The slot's inputs become those of the graph, once its last compute is done."""
        if self.config.depth and wait and self.config.fault != "ring-wait-missing":
            for backend in sorted(self.site.asynchronous):
                event = self._events.get((backend, self.slot))
                if event is None:
                    self._synchronize(backend)
                elif self.tape.recorded(event):
                    self.tape.event_synchronize(event)
        if self.config.depth:
            for index, tensor in enumerate(shape.inputs.values()):
                place = (self.slot * len(INPUTS) + index) * self.config.ubatch * WORD
                if tensor.offset != place:
                    tensor.offset = place
                    self.tape.define(tensor)
        if define:
            for split in shape.splits:
                self.tape.graph(split.graph, split.uid, self._fed(split))

    def _stamp(self, splits: Iterable[Split]) -> None:
        for split in splits:
            self._uids += 1
            split.uid = self._uids

    # splits

    def _new_shape(self, tokens: int) -> ShapedGraph:
        """Build, split and place the graph for so many tokens."""
        tape, width = self.tape, self.config.ubatch
        inputs = {
            name: tape.tensor(name, 1 if name == "inp_out_ids" else tokens, self.site.host, index * width, input=True)
            for index, name in enumerate(INPUTS)
        }
        nodes, logits = build(tape, self.plan, inputs, tokens)
        start = {buffer: self.feed_words(buffer) for buffer in self.site.home.values()}
        take_memory(tape, nodes, Intermediates(self.site.home, start, self._quarantined))
        shape = ShapedGraph(tokens, inputs, nodes, logits)
        for node in nodes:
            if not shape.splits or shape.splits[-1].backend != node.backend:
                shape.splits.append(Split(node.backend, [], tape.new_graph()))
            shape.splits[-1].nodes.append(node)
        used: dict[int, int] = {}
        for split in shape.splits:
            self._make_feeds(split, used)
        self._shapes[tokens] = shape
        return shape

    def _quarantined(self, tensor: ModelTensor, readers: list[ModelNode]) -> bool:
        """Whether memory stays out of reuse: an asynchronous backend reads it in place."""
        if self.config.fault == "quarantine-off" or tensor.buffer != self.site.host:
            return False
        return any(r.backend in self.site.asynchronous and self._usable(tensor, r.backend) for r in readers)

    def _usable(self, tensor: ModelTensor, backend: int) -> bool:
        return tensor.buffer in self.site.accepts[backend]

    def feed_words(self, buffer: int) -> int:
        """Words in front of a compute buffer's intermediate tensors: inputs of all slots, copies of all slots."""
        inputs = max(self.config.depth, 1) * len(INPUTS) if buffer == self.site.host else 0
        return (inputs + self.config.copies * self.feeds_a_slot) * self.config.ubatch

    @property
    def feeds_a_slot(self) -> int:
        """Copies that one backend can need."""
        return len(INPUTS) + self.config.layers + 4

    def _make_feeds(self, split: Split, used: dict[int, int]) -> None:
        made = {node.out for node in split.nodes}
        buffer, width = self.site.home[split.backend], self.config.ubatch
        name = self.tape.names[split.backend]
        first = max(self.config.depth, 1) * len(INPUTS) if buffer == self.site.host else 0
        sources = dict.fromkeys(s for node in split.nodes for s in node.sources if s not in made)
        # what the graph makes goes first, then its inputs: as ggml walks the sources of the nodes
        for source in sorted(sources, key=lambda tensor: tensor.input):
            if self._usable(source, split.backend):
                continue
            index = used[split.backend] = used.get(split.backend, -1) + 1
            split.feeds[source] = [
                self.tape.tensor(
                    f"{name}#{source.name}#{slot}", source.words, buffer,
                    (first + slot * self.feeds_a_slot + index) * width,
                )
                for slot in range(self.config.copies)
            ]  # fmt: skip

    def _fed(self, split: Split) -> list[ModelNode]:
        """The nodes of a split, reading the copies of the slot that it was split with."""
        slot = (self.slot - self._behind) % self.config.copies
        return [
            replace(n, sources=[split.feeds[s][slot] if s in split.feeds else s for s in n.sources])
            for n in split.nodes
        ]

    def _feed(self, split: Split) -> None:
        """Copy what the split's backend cannot use where it is, each copy behind the slot's last reader."""
        tape, here, slot = self.tape, split.backend, self.slot % self.config.copies
        event = self._events.get((here, slot)) if self.config.copies > 1 else None
        for source, copies in split.feeds.items():
            if source.input:
                self._host_wait(here, event)
                tape.copy(source, copies[slot])
                continue
            owner = next(b for b, buffer in self.site.home.items() if buffer == source.buffer)
            if event is not None:
                tape.event_wait(here, event)
            else:
                self._synchronize(here)
            if {owner, here} <= self.site.asynchronous:
                tape.copy_async(owner, here, source, copies[slot], after_dst=self.config.fault != "copy-unordered")
                continue
            tape.row("note", what="copy_refused", attrs={"backend": here, "src_backend": owner})
            self._synchronize(owner)
            self._host_wait(here, event)
            tape.copy(source, copies[slot])

    def _host_wait(self, backend: int, event: int | None) -> None:
        if event is not None:
            self.tape.event_synchronize(event)
        else:
            self._synchronize(backend)

    def _guard(self, split: Split) -> None:
        """Before a CPU split: who of an earlier compute may still read in place where it computes. No ring does that.

        By bytes, for a graph of another shape has other tensors there. Within one compute it is the allocator's to
        keep apart what is read from what is written.
        """
        if split.backend != self.site.cpu or self.config.fault == "cpu-split-in-place":
            return
        for node in split.nodes:
            lo, hi = _span(node.out)
            readers = {
                backend
                for (start, end), by in self._pending_reads.items()
                if node.out.buffer == self.site.host and start < hi and lo < end
                for backend, compute in by.items()
                if compute < self._computes
            }
            for backend in sorted(readers):
                self._synchronize(backend)

    def _note_reads(self, split: Split) -> None:
        if split.backend not in self.site.asynchronous:
            return
        for node in split.nodes:
            for source in node.sources:
                if source not in split.feeds and source.buffer == self.site.host and not source.input:
                    self._pending_reads.setdefault(_span(source), {})[split.backend] = self._computes

    def _run(self, split: Split) -> None:
        tape, nodes = self.tape, self._fed(split)
        if not self.config.eval_callback:
            tape.compute(split.backend, split.graph, split.uid, nodes)
            return
        for node in nodes:  # the callback wants to see each node: views of the graph, which have no uid
            tape.graph(split.graph, 0, [node])
            tape.compute(split.backend, split.graph, 0, [node])
            self._synchronize(split.backend)

    def _synchronize(self, backend: int) -> None:
        if backend in self.site.asynchronous:
            self.tape.synchronize(backend)
            for readers in self._pending_reads.values():
                readers.pop(backend, None)


def _span(tensor: ModelTensor) -> tuple[int, int]:
    return tensor.offset, tensor.offset + tensor.words * WORD


def layer_backend(index: int, layers: int, devices: int) -> int:
    """Which of so many devices a layer is on: each has a run of them."""
    return index * devices // layers


__all__ = ["Equipment", "Layer", "ModelScheduler", "layer_backend"]
