"""From pairs of integers back to names: the reports of the contract's section 4.

Decides nothing about order. A report's text is rendered in `hbtrace.report`, from the fields found here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from hbtrace.replay.kernel import READ_AFTER_WRITE, WRITE_AFTER_WRITE, Hit
from hbtrace.replay.lower import Event, Lowering

Kind = Literal["read-after-write", "write-after-write", "write-after-read"]
Mode = Literal["read", "write"]
Signature = tuple[str, str, str, str | None, str, str, str | None, str]

KINDS: Final[tuple[Kind, ...]] = ("read-after-write", "write-after-write", "write-after-read")
"""By the kernel's number."""

_COPY_SIDES: Final = (" src", " dst")
_SCHED_COPY: Final = re.compile(r"([^#]*#.*)#[0-9]+", re.DOTALL)
_LAYER_ENDING: Final = re.compile(r"(-|_l)[0-9]+\Z")
_LAYER_BLOCK: Final = re.compile(r"blk\.[0-9]+\.")


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
        return self.root_id != self.tensor_id


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
    repeats: int = field(default=1, compare=False)
    """How many reports this one stands for."""


def fold_layers(name: str) -> str:
    """`*` for the number of a layer: in a `-N` or `_lN` ending, and in `blk.N.` anywhere."""
    return _LAYER_BLOCK.sub("blk.*.", _LAYER_ENDING.sub(r"\1*", name))


def without_slot(name: str) -> str:
    """A scheduler's copy is named `backend#tensor#slot`; its slot does not tell races apart."""
    copy = _SCHED_COPY.fullmatch(name)
    return copy[1] if copy else name


class Naming:
    """Names the kernel's hits. Keeps what it needs of rows whose accesses can still be met, and no others."""

    def __init__(self, lowering: Lowering, *, fold: bool) -> None:
        self._lowering = lowering
        self._fold = fold
        self._events: dict[int, Event] = {}
        self._sides: dict[tuple[int, int], tuple[str | None, int, str | None, int, str]] = {}
        self._simple: dict[str, str] = {}

    def keep(self, rows: set[int]) -> None:
        """After a batch: remember these rows, forget all others."""
        first = self._lowering.first_row
        events = self._events
        self._events = {row: self._lowering.event(row) if row >= first else events[row] for row in rows}
        self._sides.clear()
        self._lowering.names.forget_before(min(rows, default=self._lowering.rows))

    def report(self, hit: Hit) -> Report:
        names = self._lowering.names
        kind = KINDS[hit.kind]
        earlier_event, current_event = self._event(hit.earlier_row), self._event(hit.row)
        earlier_mode: Mode = "write" if hit.kind in (READ_AFTER_WRITE, WRITE_AFTER_WRITE) else "read"
        current_mode: Mode = "read" if hit.kind == READ_AFTER_WRITE else "write"
        earlier = self._access(
            earlier_event, hit.earlier_row, hit.earlier_number, earlier_mode, hit.earlier_actor, hit.earlier_clock
        )
        current = self._access(current_event, hit.row, hit.number, current_mode, hit.actor, hit.clock)
        buffer, buffer_id = names.buffer(hit.space, hit.row)
        approx = _approx(earlier_event, hit.earlier_number) or _approx(current_event, hit.number)
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
        return Report(
            kind, buffer, buffer_id, hit.lo, hit.hi, hit.bytes, approx, earlier, current, hit.knows,
            hit.earlier_clock, signature,
        )  # fmt: skip

    def _event(self, row: int) -> Event:
        found = self._events.get(row)
        if found is None:
            found = self._events[row] = self._lowering.event(row)
        return found

    def _access(self, event: Event, row: int, number: int, mode: Mode, actor: int, clock: int) -> Access:
        side = self._sides.get((row, number))
        if side is None:
            side = self._sides[row, number] = self._side(event, row, number)
        tensor, tensor_id, root, root_id, label = side
        return Access(
            row, number, mode, self._lowering.names.actors[actor], clock, event.split, event.ubatch, event.thread,
            tensor, tensor_id, root, root_id, label, event.site,
        )  # fmt: skip

    def _side(self, event: Event, row: int, number: int) -> tuple[str | None, int, str | None, int, str]:
        names = self._lowering.names
        label = event.label or event.ev
        if event.ev in ("copy_async", "tensor_copy"):
            label += _COPY_SIDES[number]
        accesses = event.template.accesses if event.template else []
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


def _approx(event: Event, number: int) -> bool:
    approx = event.template.approx if event.template else []
    return number < len(approx) and approx[number]
