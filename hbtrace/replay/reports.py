"""From pairs of integers back to names: the reports of the contract's section 4.

Decides nothing about order, and makes no text of a report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from hbtrace.replay.accesses import Template
from hbtrace.replay.canonical import fold_layers, is_unnamed, without_slot
from hbtrace.replay.exercise import COPY_SIDES
from hbtrace.replay.kernel import READ_AFTER_WRITE, WRITE_AFTER_WRITE, Hit
from hbtrace.replay.lower import Call, Lowering
from hbtrace.trace.vocabulary import COPIES, ENDS

Kind = Literal["read-after-write", "write-after-write", "write-after-read"]
Mode = Literal["read", "write"]
Signature = tuple[str, str, str, str | None, str, str, str | None, str]

KINDS: Final[tuple[Kind, ...]] = ("read-after-write", "write-after-write", "write-after-read")
"""By the kernel's number."""

_NOWHERE: Final = (None, None)


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a race. `root` is the tensor that owns the bytes, the tensor itself where it is no view."""

    row: int
    access: int
    mode: Mode
    actor: str
    clock: int
    split: int
    ubatch: int
    thread: int
    tensor: str | None
    tensor_id: int
    root: str | None
    root_id: int
    label: str
    site: str | None

    @property
    def is_view(self) -> bool:
        return (self.root_id, self.root) != (self.tensor_id, self.tensor)


@dataclass(frozen=True, slots=True)
class Report:
    """One race: a pair of accesses with no happens-before edge. [lo, hi) holds all conflicting bytes."""

    kind: Kind
    buffer: str
    buffer_id: int
    lo: int
    hi: int
    bytes: int
    approx: bool
    earlier: Access
    current: Access
    knows: int
    needs: int
    signature: Signature
    """What makes two reports the same distinct race."""
    canonical: Signature
    """The signature with a place in the graph for each root that has no name: equal over runs and versions.

    Where no graph tells a place, the number stays: two races must not become one.
    """
    places: tuple[str | None, str | None] = field(compare=False)
    """Where in the graph the two roots stand, as far as a graph tells."""
    ends: bool = field(default=False, compare=False)
    """The later side ends the life of the memory: a free."""
    repeats: int = field(default=1, compare=False)
    """How many reports this one stands for."""

    def touched(self, side: Access) -> str:
        """What a side touched: its tensor, by name; where no tensor is, the bytes in conflict."""
        return self.bytes_touched if side.tensor is None else side.tensor

    @property
    def bytes_touched(self) -> str:
        """The bytes in conflict by their buffer, without numbers for a race of which no run is at hand."""
        return f"{self.buffer}[{self.lo}, {self.hi})" if self.hi > self.lo else f"bytes of {self.buffer}"


class Naming:
    """Names the kernel's hits. Keeps what it needs of rows whose accesses can still be met, and no others."""

    def __init__(self, lowering: Lowering, *, fold: bool) -> None:
        self._lowering = lowering
        self._fold = fold
        self._calls: dict[int, Call] = {}
        self._accesses: dict[tuple[int, int, Mode, int, int], Access] = {}
        """Those named since the last `keep`: an access that races often is one object."""
        self._simple: dict[str, str] = {}
        self._known_places: dict[tuple[int, int], str | None] = {}

    def keep(self, rows: set[int]) -> None:
        """After a batch: remember these rows, forget all others."""
        first = self._lowering.first_row
        calls = self._calls
        self._calls = {row: self._lowering.call(row) if row >= first else calls[row] for row in rows}
        self._accesses.clear()
        self._known_places.clear()
        self._lowering.names.forget_before(min(rows, default=self._lowering.rows))

    def report(self, hit: Hit) -> Report:
        names = self._lowering.names
        kind = KINDS[hit.kind]
        earlier_call, current_call = self._call(hit.earlier_row), self._call(hit.row)
        earlier_mode: Mode = "write" if hit.kind in (READ_AFTER_WRITE, WRITE_AFTER_WRITE) else "read"
        current_mode: Mode = "read" if hit.kind == READ_AFTER_WRITE else "write"
        earlier = self._access(
            earlier_call, hit.earlier_row, hit.earlier_number, earlier_mode, hit.earlier_actor, hit.earlier_clock
        )
        current = self._access(current_call, hit.row, hit.number, current_mode, hit.actor, hit.clock)
        buffer, buffer_id = names.buffer(hit.space, hit.row)
        approx = _approx(earlier_call, hit.earlier_number) or _approx(current_call, hit.number)
        families = names.families
        signature = (
            kind,
            buffer,
            families[hit.earlier_actor],
            self._simplified(earlier.root),
            earlier.label,
            families[hit.actor],
            self._simplified(current.root),
            current.label,
        )
        places = self._places(earlier, earlier_call.template, current, current_call.template)
        canonical = signature
        if places != _NOWHERE:
            roots = _known_by(signature[3], places[0]), _known_by(signature[6], places[1])
            canonical = (*signature[:3], roots[0], *signature[4:6], roots[1], signature[7])
        return Report(
            kind, buffer, buffer_id, hit.lo, hit.hi, hit.bytes, approx, earlier, current, hit.knows,
            hit.earlier_clock, signature, canonical, places,
            current_call.ev in ENDS,
        )  # fmt: skip

    def _places(
        self, earlier: Access, first: Template | None, current: Access, second: Template | None
    ) -> tuple[str | None, str | None]:
        """Each root's place in its own side's graph; where that side is none, in the other's."""
        if (first is None or first.origins is None) and (second is None or second.origins is None):
            return _NOWHERE
        before = self._place(first, earlier) or self._place(second, earlier)
        after = self._place(second, current) or self._place(first, current)
        if earlier.root == current.root:  # one tensor, made anew under its number: one place
            return before or after, after or before
        return before, after

    def _place(self, template: Template | None, access: Access) -> str | None:
        """`OPERATION[operand] of NODE <- producer`, of the first node that reads the root; or what writes it."""
        if template is None or template.origins is None or access.root_id == -1:
            return None
        key = (id(template), access.root_id)
        if key not in self._known_places:
            self._known_places[key] = self._find_place(template, access.root_id, access.row)
        return self._known_places[key]

    def _find_place(self, template: Template, root: int, row: int) -> str | None:
        reader, producer = None, "host"
        origins = template.origins or []
        for (write, _), of, (op, position, out) in zip(template.accesses, template.roots, origins, strict=True):
            if of != root:
                continue
            if write:
                producer = op if producer == "host" else producer
            elif reader is None:
                reader = f"{op}[{position}] of {self._node_name(out, row)}"
        if reader is None and producer == "host":
            return None
        return f"{reader or 'unread'} <- {producer}"

    def _node_name(self, tensor: int, row: int) -> str:
        """The root of what a node makes, if it has a name of its own."""
        if tensor == -1:
            return "-"
        name = self._simplified(self._lowering.names.tensor(self._lowering.names.tensor(tensor, row)[1], row)[0])
        return "-" if name is None or is_unnamed(name) else name

    def _call(self, row: int) -> Call:
        found = self._calls.get(row)
        if found is None:
            found = self._calls[row] = self._lowering.call(row)
        return found

    def _access(self, call: Call, row: int, number: int, mode: Mode, actor: int, clock: int) -> Access:
        key = row, number, mode, actor, clock
        found = self._accesses.get(key)
        if found is None:
            tensor, tensor_id, root, root_id, label = self._side(call, row, number)
            found = self._accesses[key] = Access(
                row, number, mode, self._lowering.names.actors[actor], clock, call.split, call.ubatch, call.thread,
                tensor, tensor_id, root, root_id, label, call.site,
            )  # fmt: skip
        return found

    def _side(self, call: Call, row: int, number: int) -> tuple[str | None, int, str | None, int, str]:
        names = self._lowering.names
        label = call.label or call.ev
        if call.ev in COPIES:
            label += COPY_SIDES[number]
        accesses = call.template.accesses if call.template else []
        ident = accesses[number][1].tensor if number < len(accesses) else -1
        if ident == -1:
            return None, -1, None, -1, label
        name, root_id = names.tensor(ident, row)
        return name, ident, names.tensor(root_id, row)[0], root_id, label

    def _simplified(self, root: str | None) -> str | None:
        if root is None:
            return None
        found = self._simple.get(root)
        if found is None:
            found = without_slot(root)
            found = self._simple[root] = fold_layers(found) if self._fold else found
        return found


def _known_by(root: str | None, place: str | None) -> str | None:
    """What a root is called in a canonical signature."""
    return place if root is not None and place is not None and is_unnamed(root) else root


def _approx(call: Call, number: int) -> bool:
    approx = call.template.approx if call.template else []
    return number < len(approx) and approx[number]
