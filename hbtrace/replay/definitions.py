"""Definitions: what ids of backends, buffers, tensors and graphs mean from their row on; markers that are counted.

The middle layer of the lowering. An id never defined gets a stand-in here or in `accesses.py`, and is counted.
"""

from __future__ import annotations

from typing import Final

from hbtrace.replay import diagnostics
from hbtrace.replay.accesses import Accesses, Template
from hbtrace.replay.batchrows import BatchRows
from hbtrace.replay.memo import Memo
from hbtrace.replay.names import HOST_NAME, Names
from hbtrace.replay.objects import Backend, Buffer, Tensor
from hbtrace.replay.settings import Settings
from hbtrace.trace.columns import ABSENT, Nodes

READS: Final = False
WRITES: Final = True


class Definitions(BatchRows):
    """Keeps what definitions say. One method `_<ev>` for each event that defines or marks something."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.names = Names()
        self.meta_threads = "one"
        self._accesses = Accesses(self.names, self.diagnostics, self.exercise, skip_weights=settings.skip_weights)
        self._backends: dict[int, Backend] = {}
        self._draining: list[tuple[int, Backend]] = []
        self._undefined_backends: set[int] = set()
        self._graphs: dict[int, Template] = {}
        self._graph_templates: dict[bytes, Template] = {}
        self._hosts = {0: self.names.new_actor(HOST_NAME)}
        self.introduced: list[tuple[int, int, Backend]] = []
        """Every backend in the order of its first row: (row, id, what it is)."""
        self._memo: Memo | None = None
        """Of a lowering that remembers what rows meant: it must hear of all that this can change."""
        self.synchronous: set[int] = set()
        """The actors of those whose work is complete when the call returns. What an actor is never changes."""

    @property
    def ordered(self) -> bool:
        """Whether each host thread is an actor of its own."""
        return (self.settings.threads or self.meta_threads) == "ordered"

    def _thread_actor(self, row: int) -> int:
        thread = self._thread[row]
        return self.host_actor(thread) if thread else 0

    def host_actor(self, thread: int) -> int:
        """The actor of a host thread."""
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
            self._put_backend(row, ident, backend)
        if ident in self._undefined_backends:
            self.diagnostics.add(diagnostics.BACKEND, self._first + row, f"backend {ident}", ident)
        if not backend.live:
            self.diagnostics.add(diagnostics.FREED_BACKEND, self._first + row, f"backend {ident}", ident)
        return backend

    def _nothing(self, row: int) -> None:
        """A marker: the replay does not look at it."""

    def _ubatch(self, row: int) -> None:
        self.exercise.ubatches += 1
        self.exercise.tokens += self._columns.ints("tokens", 0)[row]

    def _sched_reuse(self, row: int) -> None:
        self.exercise.reuse += 1

    def _meta(self, row: int) -> None:
        if self._first + row:
            self.diagnostics.add(diagnostics.LATE_META, self._first + row, "`meta`")
        elif self._known("meta", "threads", row) == "ordered":
            self.meta_threads = "ordered"

    def _backend(self, row: int) -> None:
        columns = self._columns
        name = columns.strings("name")[row] or ""
        if name == HOST_NAME:
            self.diagnostics.add(diagnostics.HOST_NAME, self._first + row, "a backend is named HOST")
        self._undefined_backends.discard(ident := columns.ints("id", -1)[row])
        before = self._backends.get(ident)
        if before is not None:
            before.live = False
        self.exercise.backends.add(columns.attributes("backend", row))
        self._put_backend(
            row,
            ident,
            Backend(
                self.names.new_queue(name),
                columns.strings("device")[row] or None,
                columns.flags("synchronous", default=False)[row],
                frozenset(columns.words("drains", row)),
            ),
        )

    def _put_backend(self, row: int, ident: int, backend: Backend) -> None:
        self._backends_changed()
        self._backends[ident] = backend
        self.introduced.append((self._first + row, ident, backend))
        if backend.synchronous:
            self.synchronous.add(backend.actor)
        self._draining = [pair for pair in self._draining if pair[1].live]
        if backend.drains:
            self._draining.append((ident, backend))

    def _backend_free(self, row: int) -> None:
        self._queue(row).live = False
        self._backends_changed()

    def _backends_changed(self) -> None:
        """Who drains a buffer, and who is freed, is asked by rows that do not name them."""
        if self._memo is not None:
            self._memo.forget()

    def _buffer(self, row: int) -> None:
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
        self._buffer_is(buffer, name)

    def _tensor(self, row: int) -> None:
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
        if self._memo is not None:
            self._memo.changed(("tensor", ident), (place.buffer, place.offset, place.size, view_of, name))

    def _buffer_is(self, buffer: Buffer, name: str = "") -> None:
        """Tell the memo what a buffer is from now on."""
        if self._memo is not None:
            what = (buffer.space, buffer.size, buffer.host, buffer.owner, buffer.device, buffer.weights, buffer.dead)
            self._memo.changed(("buffer", buffer.ident), (*what, name))

    def _graph(self, row: int) -> None:
        ident, template = self._columns.ints("id", -1)[row], self._graph_template(self._columns.nodes(row))
        self._graphs[ident] = template
        if self._memo is not None:
            self._memo.changed(("graph", ident), self._memo.number(template))

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
