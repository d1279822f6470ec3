"""The backend interface of the model: every call writes its row of the trace and the step that does it.

Row and step are made in one place, so that the trace tells what the machine does. What a call orders is the contract's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hbtrace.simulate.machine import POISON, WORD, Need, Store, StoreAction, Task, WordArray, WordSpan
from hbtrace.trace.vocabulary import TABLED, EventRow

_OUTSIDE: Final = TABLED | {"ubatch"}
"""What carries no number of a ubatch: definitions outlive it, and the marker has a key of its own."""


@dataclass(slots=True, eq=False)
class ModelTensor:
    """A tensor of the model; `buffer` and `offset` (bytes) change when it is re-pointed."""

    id: int
    name: str
    words: int
    buffer: int = -1
    offset: int = 0
    root: ModelTensor | None = None
    input: bool = False

    @property
    def place(self) -> WordSpan:
        return WordSpan(self.buffer, self.offset // WORD, self.words)

    @property
    def owner(self) -> ModelTensor:
        """The tensor whose bytes these are."""
        return self.root or self


@dataclass(slots=True)
class ModelNode:
    """One operation: `function` makes the output's words of its sources'; an aliasing node changes them in place."""

    op: str
    out: ModelTensor
    sources: list[ModelTensor]
    function: Callable[[WordArray, list[WordArray]], None]
    backend: int = -1

    @property
    def aliases(self) -> bool:
        return self.out.root is not None


@dataclass(slots=True)
class GgmlTape:
    """Rows and steps so far. Queues are numbered as their backends; events are known by their id."""

    rows: list[EventRow] = field(default_factory=list)
    steps: list[Task] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """Of the backends."""
    synchronous: list[bool] = field(default_factory=list)
    ubatch: int = -1
    split: int = -1
    freed: set[int] = field(default_factory=set)
    _drains: dict[int, frozenset[str]] = field(default_factory=dict)
    _owners: dict[int, int] = field(default_factory=dict)
    _tensors: int = 0
    _graphs: int = 0
    _events: int = 0
    _issued: list[int] = field(default_factory=list)
    _records: dict[int, Need] = field(default_factory=dict)
    _captured: dict[tuple[int, int], list[tuple[WordSpan, list[WordSpan]]]] = field(default_factory=dict)

    def row(self, ev: str, **keys: Any) -> EventRow:
        """Write a row; ubatch and split are added where they stand."""
        made = {"ev": ev, **keys}
        if self.ubatch >= 0 and ev not in _OUTSIDE:
            made["ubatch"] = self.ubatch
        if self.split >= 0 and ev not in ("tensor", "graph"):
            made["split"] = self.split
        self.rows.append(made)
        return made

    # definitions

    def backend(self, name: str, **attributes: Any) -> int:
        ident = len(self._issued)
        self._issued.append(0)
        self.names.append(name)
        self._drains[ident] = frozenset(attributes.get("drains", ()))
        self.synchronous.append(bool(attributes.get("synchronous")))
        self.row("backend", id=ident, name=name, **attributes)
        return ident

    def buffer(self, name: str, words: int, **attributes: Any) -> int:
        ident = len(self.sizes)
        self.sizes[ident] = words
        self._owners[ident] = attributes.get("backend", -1)
        self.row("buffer", id=ident, name=name, size=words * WORD, **attributes)
        return ident

    def tensor(self, name: str, words: int, buffer: int, word: int, **keys: Any) -> ModelTensor:
        """A new tensor, defined in the trace at once. `root`: what it is a view of; `input`: a graph input."""
        made = self.fresh(name, words)
        made.buffer, made.offset = buffer, word * WORD
        made.root, made.input = keys.get("root"), bool(keys.get("input"))
        self.define(made)
        return made

    def fresh(self, name: str, words: int) -> ModelTensor:
        """A tensor without memory, which the trace does not know yet."""
        self._tensors += 1
        return ModelTensor(self._tensors - 1, name, words)

    def define(self, tensor: ModelTensor) -> None:
        """Say where a tensor lies from here on."""
        keys: EventRow = {"offset": tensor.offset, "size": tensor.words * WORD}
        if tensor.root is not None:
            keys["view_of"] = tensor.root.id
        if tensor.input:
            keys["flags"] = ["input"]
        self.row("tensor", id=tensor.id, name=tensor.name, buffer=tensor.buffer, **keys)

    def new_graph(self) -> int:
        self._graphs += 1
        return self._graphs - 1

    def graph(self, ident: int, uid: int, nodes: Sequence[ModelNode]) -> None:
        listed = [
            {
                "op": node.op,
                "tensor": node.out.id,
                "backend": node.backend,
                "reads": [{"tensor": source.id} for source in node.sources],
                # which rows an aliasing node writes, its inputs say when it runs
                "writes": [{"tensor": node.out.id, "approx": True} if node.aliases else {"tensor": node.out.id}],
            }
            for node in nodes
        ]
        self.row("graph", id=ident, uid=uid, nodes=listed)

    def new_event(self) -> int:
        self._events += 1
        return self._events - 1

    # host accesses

    def set(self, tensor: ModelTensor, values: Callable[[Store], WordArray], *, direct: bool = False) -> None:
        """The host writes a tensor, by the interface or through `tensor->data`."""
        place = tensor.place
        self.row("set_direct" if direct else "tensor_set", tensor=tensor.id, size=place.words * WORD)

        def write(memory: Store) -> None:
            memory.view(place)[:] = values(memory)

        self._host(write, () if direct else self._drained(place.buffer, "set"))

    def read(self, tensor: ModelTensor, then: Callable[[Store, WordArray], None]) -> None:
        """The host reads a tensor through `tensor->data`."""
        place = tensor.place
        self.row("get_direct", tensor=tensor.id)
        self._host(lambda memory: then(memory, memory.view(place)))

    def copy(self, src: ModelTensor, dst: ModelTensor) -> None:
        """A blocking copy."""
        self.row("tensor_copy", src={"tensor": src.id}, dst={"tensor": dst.id})
        self._host(_moved(src.place, dst.place), self._drained(src.buffer, "get") + self._drained(dst.buffer, "set"))

    def clear(self, buffer: int) -> None:
        self.row("buffer_clear", buffer=buffer)
        self._host(lambda memory: memory.buffers[buffer].fill(0), self._drained(buffer, "set"))

    def free(self, buffer: int) -> None:
        self.row("buffer_free", buffer=buffer)
        self.freed.add(buffer)
        self._host(lambda memory: memory.buffers[buffer].fill(POISON))

    # queued work

    def compute(self, backend: int, graph: int, uid: int, nodes: Sequence[ModelNode]) -> None:
        """Run a graph. A backend captures the addresses of a uid when it first sees it, and trusts them afterwards."""
        self.row("compute", backend=backend, graph=graph)
        places = [(node.out.place, [source.place for source in node.sources]) for node in nodes]
        if uid:
            places = self._captured.setdefault((backend, uid), places)
        functions = [node.function for node in nodes]

        def work(memory: Store) -> None:
            for function, (out, sources) in zip(functions, places, strict=True):
                function(memory.view(out), [memory.view(source) for source in sources])

        self._issue(backend, work)

    def copy_async(
        self, src_backend: int, dst_backend: int, src: ModelTensor, dst: ModelTensor, *, after_dst: bool
    ) -> None:
        """A copy that runs on the source's queue; the destination's queue waits for it."""
        self.row(
            "copy_async", backend=dst_backend, src_backend=src_backend, src={"tensor": src.id}, dst={"tensor": dst.id},
            runs_on="src", after_dst=after_dst,
        )  # fmt: skip
        needs = ((dst_backend, self._issued[dst_backend]),) if after_dst else ()
        self._issue(src_backend, _moved(src.place, dst.place), needs)
        self._wait(dst_backend, (src_backend, self._issued[src_backend]))

    def get_async(self, backend: int, tensor: ModelTensor, into: ModelTensor) -> None:
        self.row("get_async", backend=backend, tensor=tensor.id, host_range={"tensor": into.id})
        self._issue(backend, _moved(tensor.place, into.place))

    # edges

    def synchronize(self, backend: int) -> None:
        self.row("synchronize", backend=backend)
        self._host(None, ((backend, self._issued[backend]),))

    def event_record(self, backend: int, event: int) -> None:
        self.row("event_record", backend=backend, event=event)
        self._records[event] = backend, self._issued[backend]

    def event_wait(self, backend: int, event: int) -> None:
        self.row("event_wait", backend=backend, event=event)
        if event in self._records:
            self._wait(backend, self._records[event])

    def event_synchronize(self, event: int) -> None:
        self.row("event_synchronize", event=event)
        if event in self._records:
            self._host(None, (self._records[event],))

    def event_free(self, event: int) -> None:
        self.row("event_free", event=event)
        self._records.pop(event, None)

    def recorded(self, event: int) -> bool:
        return event in self._records

    # inside

    def _host(self, action: StoreAction | None, needs: tuple[Need, ...] = ()) -> None:
        self.steps.append(Task(-1, action, needs))

    def _drained(self, buffer: int, kind: str) -> tuple[Need, ...]:
        """A blocking access waits for the queue that owns the buffer, if that drains."""
        owner = self._owners[buffer]
        return ((owner, self._issued[owner]),) if kind in self._drains.get(owner, ()) else ()

    def _wait(self, backend: int, need: Need) -> None:
        if need[0] != backend:
            self._issue(backend, None, (need,))

    def _issue(self, backend: int, action: StoreAction | None, needs: tuple[Need, ...] = ()) -> None:
        self.steps.append(Task(backend, action, needs))
        self._issued[backend] += 1
        if self.synchronous[backend]:
            self._host(None, ((backend, self._issued[backend]),))


def _moved(src: WordSpan, dst: WordSpan) -> StoreAction:
    def move(memory: Store) -> None:
        memory.view(dst)[:] = memory.view(src)

    return move
