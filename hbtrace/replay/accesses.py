"""From the ranges an event lists to the bytes it touches, with the definitions in force at its row.

A `Template` is an interned list of accesses: a graph's, a kernel's, one call's. It is resolved once, and again only
for those of its accesses whose tensor or buffer was defined anew since. What a resolution found besides bytes (a cut
range, an id never defined) is kept and counted again at every use.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from hbtrace.replay import diagnostics
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.diagnostics import Diagnostics
from hbtrace.replay.exercise import READ, REREAD, REWRITTEN, WRITTEN, Exercise, no_tensor
from hbtrace.replay.names import Names
from hbtrace.replay.objects import Buffer, Tensor, Touched
from hbtrace.replay.picked import anything_picked, rows_between
from hbtrace.replay.program import Program, Shape
from hbtrace.trace.columns import ABSENT, Range

MAX_PIECES: Final = 1 << 17
"""Separate pieces of an event's ranges together; beyond, each range's span is one piece and marked approx."""

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
_TEMPLATE_COST: Final = 8
"""What a template with a footprint weighs beside its pieces."""

_FOLLOWED_AT_ONCE: Final = 1 << 18
"""Links from views to their roots after which a program ends, to be weighed."""
_FOOTPRINT_BUDGET: Final = 1 << 19
"""Pieces kept in interned footprints before all are forgotten and made again on demand."""

Piece = tuple[int, int, int]
"""(space, lo, hi)"""


Origin = tuple[str, int, int]
"""(operation, position of the operand, tensor of the node): which access of which node."""

Effect = tuple[str, str, int]
"""(kind of finding, detail, id)"""


@dataclass(slots=True)
class Resolved:
    """One access at its place. `buffer` is where it lies, None for a range of nothing."""

    buffer: Buffer | None = None
    pieces: tuple[Piece, ...] = ()
    effects: tuple[Effect, ...] = ()
    """Found again at each use."""
    needs: tuple[int, ...] = ()
    """What it depends on: 2 * id of a tensor, 2 * id + 1 of a buffer."""
    approx: bool | None = None
    """Whether it may be wider than what was touched; None: as the range says."""
    touches: bool = False
    """Whether there are bytes there, of a live buffer or a dead one, left out or not."""
    dense: bool = False
    """There were too many pieces: it is their span."""


class Template:
    """An interned list of accesses, numbered from 0: (write, range), and where they lie at present."""

    __slots__ = (
        "_nodes", "accesses", "approx", "chosen", "dense", "effects", "footprints", "generation", "issued", "needs",
        "origins", "parts", "read_roots", "resolved", "roots", "touching",
    )  # fmt: skip

    def __init__(self, accesses: list[tuple[bool, Range]], origins: list[Origin] | None = None) -> None:
        self.accesses = accesses
        self.origins = origins
        """For a graph: where in it each access stands."""
        self.approx = [bool(r.approx) for _, r in accesses]
        self.dense = False
        """Some range was its span for want of room: what it is depends on what others have."""
        self.chosen = frozenset(r.by for _, r in accesses if r.by != -1)
        """Index tensors that choose rows of its ranges."""
        self.roots: list[int] = []
        """The id of each access's root tensor, -1 for bytes of no tensor."""
        self.read_roots: frozenset[int] = frozenset()
        self.issued = -1
        self.resolved: list[Resolved] = []
        self.generation = -1
        self.needs: frozenset[int] = frozenset()
        self.effects: list[Effect] = []
        self.touching: list[tuple[Touched, Piece]] = []
        self.footprints: dict[tuple[tuple[Piece, ...], ...], int] = {}
        """Footprint by place: a tensor pointed back and forth finds its footprint again."""
        self.parts: dict[int, int] = {}
        """Footprint of one access alone, by its number; -1 in the key is all of them."""
        self._nodes: list[int] | None = None

    @property
    def nodes(self) -> list[int]:
        """The node of each access: all of them one where the event is no graph.

        Nodes are told apart by operation and result, and where the order of a node's accesses begins again. Two that
        cannot be told apart count as one, which makes writes depend on more and never on less.
        """
        if self._nodes is None:
            self._nodes = [0] * len(self.accesses) if self.origins is None else list(self._numbered(self.origins))
        return self._nodes

    def _numbered(self, origins: list[Origin]) -> Iterator[int]:
        node, before = 0, None
        for (write, _), (op, position, result) in zip(self.accesses, origins, strict=True):
            at = op, result, (write, position)
            node += before is not None and not (before[:2] == at[:2] and before[2] < at[2])
            yield node
            before = at


class Accesses:
    """Resolves templates; hands out footprints and writes them into the program."""

    def __init__(self, names: Names, found: Diagnostics, did: Exercise, *, skip_weights: bool) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.buffers: dict[int, Buffer] = {}
        self.program = Program()
        self._names = names
        self._diagnostics = found
        self._exercise = did
        self._skip_weights = skip_weights
        self._own: dict[int, Buffer] = {}
        self._generation = 0
        self._changed: dict[int, int] = {}
        self._spaces = 0
        self._footprints = 0
        self.followed = 0
        self._pieces = 0
        self.full = False
        """Whether the footprints given out are more than is to be kept."""
        self.due = False
        """Whether a program should end here: it is full, or what it cost is to be weighed."""
        self._weighed = 0
        self._templates: list[Template] = []
        self._noted: set[tuple[int, bool]] = set()
        """Roots, and whether it is a write, of which `meets` has nothing more to say."""
        self.unmet = 0
        """Times that `meets` had nothing to note yet."""
        self.changes: Callable[[], object] = _nothing
        """Called when something new was noted of a place."""

    # definitions

    def define_tensor(self, ident: int, tensor: Tensor) -> None:
        self.tensors[ident] = tensor
        self._noted -= {(ident, False), (ident, True)}  # it may have another name now
        self._generation += 1
        self._changed[2 * ident] = self._generation

    def define_buffer(self, ident: int, buffer: Buffer) -> None:
        self.buffers[ident] = buffer
        self.buffer_changed(ident)

    def buffer_changed(self, ident: int) -> None:
        self._generation += 1
        self._changed[2 * ident + 1] = self._generation

    def new_space(self, row: int, name: str, ident: int) -> int:
        self._spaces += 1
        self._names.put_space(self._spaces - 1, row, name, ident)
        return self._spaces - 1

    def buffer(self, ident: int, row: int) -> Buffer:
        """The buffer in force; an id never defined gets a life without bounds."""
        found = self.buffers.get(ident)
        if found is None:
            space = self.new_space(row, f"?{ident}", ident)
            found = self.buffers[ident] = Buffer(ident, space, touched=Touched())
        return found

    # uses

    def use(self, template: Template, row: int) -> None:
        """Bring a template up to date for its use in `row`, and count what that use meets."""
        if template.generation != self._generation:
            self._refresh(template, row)
        for kind, detail, ident in template.effects:
            self._diagnostics.add(kind, row, detail, ident)
        for touched, (_, lo, hi) in template.touching:
            touched.add(lo, hi)

    def unresolved(self, template: Template) -> list[int]:
        """Tensors of accesses without bytes, and the tensors that these are views of: nothing else depends on them."""
        found: dict[int, None] = {}
        for (_, asked), resolved in zip(template.accesses, template.resolved, strict=True):
            ident = -1 if resolved.pieces else asked.tensor
            while ident != -1 and ident not in found:
                found[ident] = None
                ident = tensor.view_of if (tensor := self.tensors.get(ident)) is not None else -1
        return list(found)

    def footprint(self, template: Template, number: int = -1) -> int:
        """The footprint of all accesses of a template in use, or of one alone; -1 if it has no bytes."""
        found = template.parts.get(number)
        if found is None:
            found = template.parts[number] = self._intern(template, number)
        return found

    def meets(self, template: Template, number: int, row: int) -> None:
        """Note an access of a template in use that comes after one of the other mode: there a race can be."""
        root, write = template.roots[number], template.accesses[number][0]
        if root == -1:
            if (buffer := template.resolved[number].buffer) is not None:
                self._again(no_tensor(self._names.buffer(buffer.space, row)[0]), write=write)
        elif (root, write) not in self._noted and self._again(
            without_slot(self._names.tensor(root, row)[0]), write=write
        ):
            self._noted.add((root, write))

    def meets_whole(self, buffer: Buffer, row: int) -> None:
        """Note that a whole buffer is written, behind all that was done in it."""
        name = no_tensor(self._names.buffer(buffer.space, row)[0])
        self._note(name, WRITTEN)
        self._again(name, write=True)

    def _again(self, name: str, *, write: bool) -> bool:
        """Whether a place is accessed after an access of the other mode; noted then."""
        if not self._exercise.roots.get(name, 0) & (READ if write else WRITTEN):
            self.unmet += 1
            return False
        self._note(name, REWRITTEN if write else REREAD)
        return True

    def _note(self, name: str, flag: int) -> None:
        """Note of a place what is done there in this run."""
        touched = self._exercise.roots
        if (before := touched.get(name, 0)) | flag != before:
            touched[name] = before | flag
            self.changes()

    def skips(self, buffer: Buffer) -> bool:
        """Whether accesses of this buffer are left out."""
        return self._skip_weights and buffer.weights

    def whole(self, buffer: Buffer) -> list[Piece]:
        """All bytes of a buffer; of one never defined exactly those touched so far."""
        if buffer.touched is not None and buffer.size is None:
            return [(buffer.space, lo, hi) for lo, hi in buffer.touched.spans]
        return [(buffer.space, 0, buffer.size)] if buffer.size else []

    def passing_footprint(self, pieces: list[Piece], *, write: bool) -> int:
        """A footprint that is no template's: access number 0 over these pieces."""
        return self._emit([(space, lo, hi, 0, write) for space, lo, hi in pieces])

    def take_program(self) -> Program:
        """The program so far; a new one begins."""
        program, self.program = self.program, Program()
        self.due, self._weighed = False, self.followed
        if self.full:
            self.program.forget_footprints = True
            self._footprints = self._pieces = 0
            self.full = False
            for template in self._templates:
                template.footprints.clear()
                template.parts.clear()
            self._templates.clear()
        return program

    # inside

    def _refresh(self, template: Template, row: int) -> None:
        since, changed = template.generation, self._changed
        if since < 0:
            template.resolved = self._resolve_all(template, row)
            template.roots = [-1] * len(template.accesses)
            self._note_roots(template, range(len(template.accesses)), row)
        elif any(changed.get(key, 0) > since for key in template.needs):
            numbers = [
                number
                for number, old in enumerate(template.resolved)
                if any(changed.get(key, 0) > since for key in old.needs)
            ]
            for number in numbers:
                template.resolved[number] = self._resolve(template.accesses[number][1], row, MAX_PIECES)
            if sum(map(_spread, template.resolved)) > MAX_PIECES or any(r.dense for r in template.resolved):
                template.resolved = self._resolve_all(template, row)
            self._note_roots(template, numbers, row)
        else:
            template.generation = self._generation
            return
        resolved = template.resolved
        template.generation = self._generation
        template.dense |= any(r.dense for r in resolved)
        template.parts.clear()
        template.needs = frozenset(key for r in resolved for key in r.needs)
        template.effects = [effect for r in resolved for effect in r.effects]
        self._exercise.touched |= any(r.touches or r.pieces for r in resolved)
        template.approx = [
            bool(a.approx) if r.approx is None else r.approx
            for (_, a), r in zip(template.accesses, resolved, strict=True)
        ]
        template.touching = [
            (r.buffer.touched, piece)
            for r in resolved
            if r.buffer is not None and r.buffer.touched is not None
            for piece in r.pieces
        ]

    def _note_roots(self, template: Template, numbers: Iterable[int], row: int) -> None:
        """Whose bytes the accesses are, and that these tensors are read or written in this run."""
        for number in numbers:
            write, asked = template.accesses[number]
            if asked.tensor != -1:
                root = self._names.tensor(asked.tensor, row)[1]
                template.roots[number] = root
                name = without_slot(self._names.tensor(root, row)[0])
            elif (buffer := template.resolved[number].buffer) is not None:
                name = no_tensor(self._names.buffer(buffer.space, row)[0])
            else:
                continue
            self._note(name, WRITTEN if write else READ)
        reads = (root for root, (write, _) in zip(template.roots, template.accesses, strict=True) if not write)
        template.read_roots = frozenset(reads) - {-1}

    def _resolve_all(self, template: Template, row: int) -> list[Resolved]:
        """All of its accesses; where they have too many pieces together, each range as its span."""
        found, left = [], MAX_PIECES
        for _, asked in template.accesses:
            found.append(resolved := self._resolve(asked, row, max(1, left)))
            if resolved.dense:
                return [self._resolve(asked, row, 1) for _, asked in template.accesses]
            left -= _spread(resolved)
        return found

    def _resolve(self, asked: Range, row: int, limit: int) -> Resolved:
        """Section 2's ranges with the fine print of section 9: where the bytes are, in the order told there.

        limit: pieces; of more the span is taken.
        """
        out = Resolved()
        place = self._place(asked, row, out)
        if place is None:
            return out
        out.buffer, base, end = place
        self._fill(out, out.buffer, base, end, asked, limit)
        if self.skips(out.buffer):
            out.touches |= bool(out.pieces)
            out.effects, out.pieces = (), ()
        return out

    def _fill(self, out: Resolved, buffer: Buffer, base: int, end: int | None, asked: Range, limit: int) -> None:
        """Fill in the bytes of a range in a buffer, and whom they name."""
        if asked.by != -1:
            if asked.picked is None:  # the event does not say which rows: somewhere in the tensor
                out.approx, asked = True, asked._replace(offset=0, size=ABSENT)
            else:
                out.approx = False
                self._pick(out, buffer, base + asked.offset, asked, limit)
                if out.pieces or out.touches:
                    self._name_roots(asked.tensor, out)
                return
        lo = base + asked.offset
        if asked.size != ABSENT:
            size = asked.size
        elif end is not None:
            size = end - lo
        else:
            size = 0
        if size <= 0:
            return
        rows, stride = (asked.rows, asked.stride) if asked.rows > 1 and asked.stride >= 1 else (1, 1)
        if buffer.dead:
            out.touches = True
            out.effects += ((diagnostics.USE_AFTER_FREE, f"buffer {buffer.ident}", buffer.ident),)
        else:
            self._cut(out, buffer, lo, size, (rows, stride), limit)
        if asked.tensor != -1 and (out.pieces or buffer.dead):
            self._name_roots(asked.tensor, out)

    def _place(self, asked: Range, row: int, out: Resolved) -> tuple[Buffer, int, int | None] | None:
        """(buffer, offset in it, end of the tensor or buffer if it has one), None for a range of nothing."""
        base, extent, ident = 0, None, asked.buffer
        if asked.tensor != -1:
            out.needs += (2 * asked.tensor,)
            tensor = self.tensors.get(asked.tensor)
            if tensor is None:
                out.effects += ((diagnostics.TENSOR, f"tensor {asked.tensor}", asked.tensor),)
                return self._own_buffer(asked.tensor, row), 0, None
            base, extent, ident = tensor.offset, tensor.size, tensor.buffer
        if ident == -1:
            what = f"tensor {asked.tensor} has no buffer" if asked.tensor != -1 else "neither tensor nor buffer"
            out.effects += ((diagnostics.NOTHING, what, 0),)
            return None
        out.needs += (2 * ident + 1,)
        buffer = self.buffer(ident, row)
        if buffer.touched is not None and buffer.size is None:
            out.effects += ((diagnostics.BUFFER, f"buffer {ident}", ident),)
        return buffer, base, base + extent if extent is not None else buffer.size

    def _own_buffer(self, ident: int, row: int) -> Buffer:
        """The buffer of its own in which a tensor never defined lies; it prints as the tensor does."""
        if ident not in self._own:
            space = self.new_space(row, f"?{ident}", -1)
            self._own[ident] = Buffer(-1, space, touched=Touched())
        return self._own[ident]

    def _cut(self, out: Resolved, buffer: Buffer, lo: int, size: int, spread: tuple[int, int], limit: int) -> None:
        """Fill in the pieces, cut to the buffer. spread: rows and stride."""
        rows, stride = spread
        least, most = (_LOWEST, _HIGHEST) if buffer.size is None else (0, buffer.size)
        hi = lo + (rows - 1) * stride + size
        if lo < least or hi > most:
            detail = f"[{lo}, {hi}) of buffer {buffer.ident}, which is [0, {buffer.size})"
            out.effects += ((diagnostics.CUT, detail, 0),)
        if stride <= size:
            rows, size = 1, hi - lo  # the pieces meet: one span, exactly
        first = max(0, (least - lo - size) // stride + 1) if rows > 1 else 0
        last = min(rows - 1, (most - lo - 1) // stride) if rows > 1 else 0
        if last - first >= limit:
            out.effects += ((diagnostics.DENSE, f"{rows} pieces", 0),)
            out.approx = out.dense = True
            lo, size, first, last = lo + first * stride, (last - first) * stride + size, 0, 0
        spans = ((lo + k * stride, lo + k * stride + size) for k in range(first, last + 1))
        cut = ((max(start, least), min(end, most)) for start, end in spans)
        out.pieces = tuple((buffer.space, start, end) for start, end in cut if start < end)

    def _pick(self, out: Resolved, buffer: Buffer, base: int, asked: Range, limit: int) -> None:
        """The rows that an index named: of each `size` bytes, `pitch` apart (contract, section 10)."""
        if not anything_picked(asked):
            return
        if buffer.dead:
            out.touches = True
            out.effects += ((diagnostics.USE_AFTER_FREE, f"buffer {buffer.ident}", buffer.ident),)
            return
        least, most = (_LOWEST, _HIGHEST) if buffer.size is None else (0, buffer.size)
        found = rows_between(asked, base, least, most, limit)
        if found.dense:
            out.effects += ((diagnostics.DENSE, "rows that were picked", 0),)
            out.approx = out.dense = True
        if found.outside is not None:
            lo, hi = found.outside
            detail = f"[{lo}, {hi}) of buffer {buffer.ident}, which is [0, {buffer.size})"
            out.effects += ((diagnostics.CUT, detail, 0),)
        cut = ((max(lo, least), min(hi, most)) for lo, hi in found.spans)
        out.pieces = tuple((buffer.space, lo, hi) for lo, hi in cut if lo < hi)

    def _name_roots(self, ident: int, out: Resolved) -> None:
        """A view's root counts as used where the view's bytes are."""
        seen = {ident: None}
        while (tensor := self.tensors.get(ident)) is not None and (ident := tensor.view_of) != -1:
            if ident in seen:
                break
            seen[ident] = None
        self.followed += len(seen) - 1
        self.due |= self.followed - self._weighed > _FOLLOWED_AT_ONCE
        out.needs += tuple(2 * link for link in islice(seen, 1, None))
        if tensor is None:
            out.effects += ((diagnostics.TENSOR, f"tensor {ident}, root of a view", ident),)

    def _intern(self, template: Template, number: int) -> int:
        chosen = range(len(template.resolved)) if number < 0 else (number,)
        key = tuple(template.resolved[n].pieces if n in chosen else () for n in range(len(template.resolved)))
        found = template.footprints.get(key)
        if found is None:
            if not template.footprints:
                self._templates.append(template)
                self._weigh(_TEMPLATE_COST)
            found = self._emit(
                [
                    (space, lo, hi, n, template.accesses[n][0])
                    for n in chosen
                    for space, lo, hi in template.resolved[n].pieces
                ]
            )
            if template.origins is not None or any(template.approx):
                self.program.shapes[found] = Shape(template.nodes, list(template.approx))
            template.footprints[key] = found
        return found

    def _weigh(self, pieces: int) -> None:
        self._pieces += pieces
        self.full = self._pieces > _FOOTPRINT_BUDGET
        self.due |= self.full

    def _emit(self, pieces: list[tuple[int, int, int, int, bool]]) -> int:
        if not pieces:
            return -1
        program = self.program
        number = self._footprints
        self._footprints += 1
        self._weigh(len(pieces))
        program.footprints.append(number)
        program.pieces.extend(array("q", [value for piece in pieces for value in piece]))
        program.bounds.append(len(program.pieces))
        return number


def _nothing() -> None:
    pass


def _spread(resolved: Resolved) -> int:
    """Its pieces, if there are several: one is its span already."""
    return len(resolved.pieces) if len(resolved.pieces) > 1 else 0
