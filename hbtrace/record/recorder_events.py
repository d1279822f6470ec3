"""A method for each event of the vocabulary: what `Recorder` can be told. Nothing is checked or written here.

Names are the contract's (docs: `hbtrace docs format`), in its order: a method is an event, a parameter is a key.
`async` is a word of Python's own: its parameter is `async_`. None, the default, leaves a key out, and the default of
the contract holds. Every method returns the event's row, the number by which reports name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack


class Range(TypedDict, total=False):
    """Bytes: of a `tensor` from its start, or of a `buffer` from its start; all of it without `size`.

    With `by` it is the rows of the tensor that the content of tensor `by` names: row r is `size` bytes at `offset` +
    r * `pitch`. Which rows, the event says that runs it (`picked`).
    """

    tensor: int
    buffer: int
    offset: int
    size: int
    rows: int
    stride: int
    approx: bool
    by: int
    pitch: int


class Run(TypedDict, total=False):
    """Rows: `first` + j * `step` + i for 0 <= i < `count` and 0 <= j < `repeat`. Only `first` is needed."""

    first: int
    count: int
    repeat: int
    step: int


class Pick(TypedDict, total=False):
    """The rows that the content of an index tensor named when the event was issued. Without runs: none."""

    tensor: int
    runs: Sequence[Run | Mapping[str, Any]]


class Node(TypedDict, total=False):
    """One node of a graph: what it reads, then what it writes. With neither it is a pure view, or skipped."""

    op: str
    tensor: int
    backend: int
    reads: Sequence[Range]
    writes: Sequence[Range]


class Module(TypedDict, total=False):
    """A file that is loaded, so that addresses in `frames` can be told by name later."""

    path: str
    build_id: str
    base: int
    size: int


class Common(TypedDict, total=False):
    """Keys that every event may carry. `thread` and `time` are filled in where they are not given.

    `frames` are who called, innermost first: addresses, or texts such as `file.cpp:12 function`.
    """

    thread: int | None
    split: int | None
    ubatch: int | None
    time: int | None
    duration: int | None
    site: str | None
    frames: Iterable[int | str] | None
    label: str | None


class Span(TypedDict, total=False):
    """Which bytes of the tensor: `rows` pieces of `size` bytes, `stride` apart, the first at `offset`."""

    offset: int | None
    size: int | None
    rows: int | None
    stride: int | None
    approx: bool | None


class SpanCommon(Span, Common, total=False):
    """The keys of a span, and those of every event."""


Ranges = Iterable[Range | Mapping[str, Any]]
Picks = Iterable[Pick | Mapping[str, Any]]


class Events:
    """The vocabulary as methods. Each raises TypeError or ValueError, naming event and key, and then has no effect."""

    def _event(self, ev: str, /, **given: Any) -> int:
        raise NotImplementedError

    # definitions

    def meta(
        self, *, version: int | None = None, producer: str | None = None, engine: str | None = None,
        engine_version: str | None = None, command: Iterable[str] | None = None, env: Mapping[str, Any] | None = None,
        started_at: str | None = None, threads: str | None = None, notes: str | None = None,
        modules: Iterable[Module | Mapping[str, Any]] | None = None, **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """The run. Only as the first event; without it the recorder writes one of its own."""
        return self._event(
            "meta", version=version, producer=producer, engine=engine, engine_version=engine_version, command=command,
            env=env, started_at=started_at, threads=threads, notes=notes, modules=modules, **common,
        )  # fmt: skip

    def backend(
        self, id: int, name: str, *, device: str | None = None, type: str | None = None, async_: bool | None = None,
        events: bool | None = None, integrated: bool | None = None, host_buffer: bool | None = None,
        accepts: Iterable[str] | None = None, synchronous: bool | None = None, drains: Iterable[str] | None = None,
        registry: str | None = None, queue_of: int | None = None, **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """One in-order queue: a backend instance, a stream. An id in use: that queue ends, this is a new one.

        `queue_of` is the backend that this queue is inside of: a name, it orders nothing.
        """
        given = {
            "id": id, "name": name, "device": device, "type": type, "async": async_, "events": events,
            "integrated": integrated, "host_buffer": host_buffer, "accepts": accepts, "synchronous": synchronous,
            "drains": drains, "registry": registry, "queue_of": queue_of,
        }  # fmt: skip
        return self._event("backend", **given, **common)

    def backend_free(self, backend: int, **common: Unpack[Common]) -> int:
        """The queue ends."""
        return self._event("backend_free", backend=backend, **common)

    def buffer(
        self, id: int, name: str, size: int, *, host: bool | None = None, backend: int | None = None,
        device: str | None = None, usage: str | None = None, **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A piece of memory of `size` bytes; `name` is its type's, `id` its identity."""
        return self._event(
            "buffer", id=id, name=name, size=size, host=host, backend=backend, device=device, usage=usage, **common
        )

    def tensor(
        self, id: int, name: str, *, buffer: int | None = None, offset: int | None = None, size: int | None = None,
        view_of: int | None = None, flags: Iterable[str] | None = None, type: str | None = None,
        ne: Iterable[int] | None = None, nb: Iterable[int] | None = None, **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A name for bytes of a buffer. `view_of` is the root tensor. An id in use is re-pointed; its views are not."""
        return self._event(
            "tensor", id=id, name=name, buffer=buffer, offset=offset, size=size, view_of=view_of, flags=flags,
            type=type, ne=ne, nb=nb, **common,
        )  # fmt: skip

    def graph(
        self, id: int, *, uid: int | None = None, nodes: Iterable[Node | Mapping[str, Any]] | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """What one `compute` runs; an id in use: replaced from here on."""
        return self._event("graph", id=id, uid=uid, nodes=nodes, **common)

    def sched(
        self, id: int, *, backends: Iterable[int] | None = None, cpu_buffer_type: str | None = None,
        copies: int | None = None, ring: int | None = None, **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A scheduler; `backends` are ids in the order of priority, the CPU last."""
        return self._event(
            "sched", id=id, backends=backends, cpu_buffer_type=cpu_buffer_type, copies=copies, ring=ring, **common
        )

    # the host's accesses

    def tensor_set(self, tensor: int, **more: Unpack[SpanCommon]) -> int:
        """The host writes, blocking."""
        return self._event("tensor_set", tensor=tensor, **more)

    def tensor_memset(self, tensor: int, **more: Unpack[SpanCommon]) -> int:
        """The host fills, blocking."""
        return self._event("tensor_memset", tensor=tensor, **more)

    def tensor_get(self, tensor: int, **more: Unpack[SpanCommon]) -> int:
        """The host reads, blocking."""
        return self._event("tensor_get", tensor=tensor, **more)

    def set_direct(self, tensor: int, *, inferred: bool | None = None, **more: Unpack[SpanCommon]) -> int:
        """The host writes by pointer, without a call. `inferred`: found by comparing contents, not seen."""
        return self._event("set_direct", tensor=tensor, inferred=inferred, **more)

    def get_direct(self, tensor: int, *, inferred: bool | None = None, **more: Unpack[SpanCommon]) -> int:
        """The host reads by pointer, without a call."""
        return self._event("get_direct", tensor=tensor, inferred=inferred, **more)

    def tensor_copy(self, src: Range, dst: Range, **common: Unpack[Common]) -> int:
        """The host copies, blocking."""
        return self._event("tensor_copy", src=src, dst=dst, **common)

    def buffer_clear(self, buffer: int, **common: Unpack[Common]) -> int:
        """The host writes all of a buffer."""
        return self._event("buffer_clear", buffer=buffer, **common)

    def buffer_free(self, buffer: int, *, backend: int | None = None, **common: Unpack[Common]) -> int:
        """All of a buffer is written, then its life ends; on a queue (`cudaFreeAsync`) if `backend` is given."""
        return self._event("buffer_free", buffer=buffer, backend=backend, **common)

    def host_access(
        self, *, reads: Ranges | None = None, writes: Ranges | None = None, picked: Picks | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """Any other work of the host; a `label` tells what."""
        return self._event("host_access", reads=reads, writes=writes, picked=picked, **common)

    # the queues' accesses

    def set_async(
        self, backend: int, tensor: int, *, host_range: Range | None = None, **more: Unpack[SpanCommon]
    ) -> int:
        """The queue writes a tensor, and reads `host_range` if that is given."""
        return self._event("set_async", backend=backend, tensor=tensor, host_range=host_range, **more)

    def get_async(
        self, backend: int, tensor: int, *, host_range: Range | None = None, **more: Unpack[SpanCommon]
    ) -> int:
        """The queue reads a tensor, and writes `host_range` if that is given."""
        return self._event("get_async", backend=backend, tensor=tensor, host_range=host_range, **more)

    def copy_async(
        self, backend: int, src: Range, dst: Range, *, src_backend: int | None = None, runs_on: str | None = None,
        after_dst: bool | None = None, **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A copy between queues' memories. `backend` is the destination's; `runs_on` is whose queue does it."""
        return self._event(
            "copy_async", backend=backend, src_backend=src_backend, src=src, dst=dst, runs_on=runs_on,
            after_dst=after_dst, **common,
        )  # fmt: skip

    def compute(self, backend: int, graph: int, *, picked: Picks | None = None, **common: Unpack[Common]) -> int:
        """The queue runs a graph. `picked`: which rows its ranges with `by` are, this time."""
        return self._event("compute", backend=backend, graph=graph, picked=picked, **common)

    def kernel(
        self, backend: int, *, reads: Ranges | None = None, writes: Ranges | None = None, picked: Picks | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """Any other work of a queue; a `label` tells what."""
        return self._event("kernel", backend=backend, reads=reads, writes=writes, picked=picked, **common)

    # what orders them

    def synchronize(self, backend: int, **common: Unpack[Common]) -> int:
        """The host has waited for a queue: to be recorded when the call has returned."""
        return self._event("synchronize", backend=backend, **common)

    def event_record(self, backend: int, event: int, **common: Unpack[Common]) -> int:
        """A queue records an event."""
        return self._event("event_record", backend=backend, event=event, **common)

    def event_wait(self, backend: int, event: int, **common: Unpack[Common]) -> int:
        """A queue waits for an event."""
        return self._event("event_wait", backend=backend, event=event, **common)

    def event_synchronize(self, event: int, **common: Unpack[Common]) -> int:
        """The host has waited for an event: to be recorded when the call has returned."""
        return self._event("event_synchronize", event=event, **common)

    def event_free(self, event: int, **common: Unpack[Common]) -> int:
        """The event is gone."""
        return self._event("event_free", event=event, **common)

    def release(self, object: str, *, backend: int | None = None, **common: Unpack[Common]) -> int:
        """A lock is given up, a doorbell rung, a thread started; by a queue if `backend` is given."""
        return self._event("release", object=object, backend=backend, **common)

    def acquire(self, object: str, *, backend: int | None = None, **common: Unpack[Common]) -> int:
        """The other side of `release`: to be recorded when the lock is held, the thread joined."""
        return self._event("acquire", object=object, backend=backend, **common)

    # markers

    def sched_alloc(
        self, sched: int | None = None, *, graph_uid: int | None = None, slot: int | None = None,
        reserve: bool | None = None, realloc: bool | None = None, inputs: Iterable[int] | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A graph was allocated."""
        return self._event(
            "sched_alloc", sched=sched, graph_uid=graph_uid, slot=slot, reserve=reserve, realloc=realloc,
            inputs=inputs, **common,
        )  # fmt: skip

    def sched_reuse(self, sched: int | None = None, **common: Unpack[Common]) -> int:
        """The last graph again: nothing is split or allocated."""
        return self._event("sched_reuse", sched=sched, **common)

    def sched_prepare(
        self, sched: int | None = None, *, slot: int | None = None, rotated: bool | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """Inputs are made ready without allocating."""
        return self._event("sched_prepare", sched=sched, slot=slot, rotated=rotated, **common)

    def sched_compute(self, sched: int | None = None, **common: Unpack[Common]) -> int:
        """The scheduler's compute begins."""
        return self._event("sched_compute", sched=sched, **common)

    def sched_compute_end(self, sched: int | None = None, **common: Unpack[Common]) -> int:
        """The scheduler's compute has returned."""
        return self._event("sched_compute_end", sched=sched, **common)

    def ubatch(
        self, sched: int | None = None, *, n: int | None = None, tokens: int | None = None, phase: str | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A ubatch begins."""
        return self._event("ubatch", sched=sched, n=n, tokens=tokens, phase=phase, **common)

    def note(
        self, what: str | None = None, *, attrs: Mapping[str, Any] | None = None, sched: int | None = None,
        **common: Unpack[Common],
    ) -> int:  # fmt: skip
        """A step of the engine's own protocol."""
        return self._event("note", what=what, attrs=attrs, sched=sched, **common)


for _name, _method in list(vars(Events).items()):
    if not _name.startswith("_"):  # Python's own errors name a method by this: `Recorder.ubatch() takes ...`
        _method.__qualname__ = f"Recorder.{_name}"
