"""`placement`: a node that aliases a source belongs on the backend of the tensor whose bytes it writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hbtrace.checks.model import Tally
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.words import count

UNSUPPORTED: Final = "op_unsupported"
"""A `note` with `attrs` {backend, op}: that backend does not support the operation."""


class Placement(Rule):
    """Aliasing nodes on another backend than their root."""

    id = "placement"
    severity = "warning"
    title = "a node that aliases a source is placed on another backend than its root"
    needs = "`graph` with `nodes`, `tensor` with `view_of`, and `backend` or `device` of the root's buffer"
    why = "It writes another backend's memory, and copies that would not be needed are made to feed it."
    about = """\
A node whose result is a view of one of its sources, and which is no pure view (`SET_ROWS`, `CPY`, in-place
operations: it has `writes`), should run where its root lives: the backend that owns the root's buffer (or another
instance on its device), or else the one that made the root. `warning` for each node elsewhere, with the copies that
feed it from other backends, feed nothing that stays, and so would go. Left alone: a node whose root's backend does
not support the operation, where the trace knows (a `note` `op_unsupported` with `attrs` `{backend, op}`). Fix:
assign aliasing nodes with their root in every pass of the split, not only where unassigned."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._made: dict[int, int] = {}
        self._met: dict[tuple[str, str, int, int], int] = {}
        self._copies: set[str] = set()
        self._needed: set[str] = set()
        """Copies that a node reads which stays where it is."""
        self._unsupported: set[tuple[int, str]] = set()
        self._left: set[str] = set()
        self._looked: dict[int, tuple[int, int]] = {}
        self._homes = self._aliases = self._nodes = 0

    @on("note")
    def _note(self, at: DoneRow) -> None:
        attrs = at.event.get("attrs")
        if at.event.get("what") == UNSUPPORTED and isinstance(attrs, dict):
            self._unsupported.add((attrs.get("backend", -1), str(attrs.get("op"))))

    @on("compute")
    def _compute(self, at: DoneRow) -> None:
        graph = self.survey.tables.graphs.get(at.event.get("graph", -1))
        if graph is None:
            return
        key = at.event["graph"]
        if self._looked.get(key) == (id(graph), at.backend):
            return
        self._looked[key] = id(graph), at.backend
        for node in self.survey.tables.nodes(key):
            moves = False
            if node.get("writes"):
                self._nodes += 1
                moves = self._node(node, node.get("backend", at.backend), at.row)
            (self._copies if moves else self._needed).update(self._feeding(node))

    def _node(self, node: dict[str, Any], backend: int, row: int) -> bool:
        """Whether a node would move to its root."""
        tables, tensor = self.survey.tables, node.get("tensor", -1)
        root = tables.root(tensor)
        if root == tensor:
            self._made.setdefault(root, backend)
            return False
        self._aliases += 1
        home = self._home(root)
        if home is None:
            return False
        self._homes += 1
        if home == backend or self._same_device(home, backend):
            return False
        op = str(node.get("op", "?"))
        if (home, op) in self._unsupported:
            self._left.add(tables.name(tensor))
            return False
        self._met.setdefault((op, tables.name(tensor), backend, home), row)
        return True

    def _same_device(self, one: int, other: int) -> bool:
        """Whether two backends are instances on one device; without the key the name is the device's, as in `info`."""
        rows = [self.survey.tables.backends.get(backend, {}) for backend in (one, other)]
        devices = [row.get("device") or row.get("name") for row in rows]
        return devices[0] is not None and devices[0] == devices[1]

    def _home(self, root: int) -> int | None:
        """The backend of a root tensor: the owner of its buffer, its device's only queue, or who made it."""
        backends, buffer = self.survey.tables.backends, self.survey.tables.buffer_of(root)
        owner = buffer.get("backend", -1)
        if owner in backends:
            return int(owner)
        if buffer.get("device") is not None and not buffer.get("host"):
            scheduled = {b for sched in self.survey.tables.scheds.values() for b in sched.get("backends") or ()}
            same = [b for b in scheduled if backends.get(b, {}).get("device") == buffer["device"]]
            if len(same) == 1:
                return int(same[0])
        return self._made.get(root)

    def _feeding(self, node: dict[str, Any]) -> Iterator[str]:
        """Copies that the scheduler made for a node: `backend#tensor#slot`."""
        for read in node.get("reads") or ():
            name = self.survey.tables.name(read.get("tensor", -1))
            if name.count("#") >= 2:
                yield name

    def finish(self) -> None:
        if self._met:
            met = Tally()
            for (op, name, backend, home), row in self._met.items():
                names = self.survey.backend_name(backend), self.survey.backend_name(home)
                met.add([row], f"{op} {name} on {names[0]}, its root on {names[1]}")
            nodes = count(met.count, "aliasing node")
            gone = ", ".join(sorted(self._copies - self._needed))
            copies = f"; these copies would go: {gone}" if gone else ""
            whose = "its" if met.count == 1 else "their"
            self.find("warning", f"{nodes} would move to {whose} root: {met.names()}{copies}", met)
        if self._left:
            self.find(
                "info", f"left alone, for the root's backend does not support it: {', '.join(sorted(self._left))}"
            )

    def missing(self) -> str | None:
        if not self._nodes:
            return "`graph` with `nodes`"
        if not any(tensor.get("view_of", -1) != -1 for tensor in self.survey.tables.tensors.values()):
            return "`tensor` with `view_of`"
        return self.needs if self._aliases and not self._homes else None

    def seen(self) -> str:
        return f"{self._homes} aliasing nodes, each with its root"
