"""Edits of a program: steps beside a row's own ones, rows without theirs, copies on another queue, bytes elsewhere."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from hbtrace.replay.program import ALSO, JOIN, PIECE, QUEUE, STEP, Program

OWN: Final = 1 << 41
"""Slots, spaces and footprints from here on are a rule's: the lowering counts its own from 0, and rules give out event
ids from 1 << 40 on."""

Step = tuple[int, int, int, int, int]
Piece = tuple[int, int, int, int, int]
Shift = dict[int, int]
"""By an access's number in its event: the space in which its pieces are now."""

Ints = npt.NDArray[np.int64]

Insert = tuple[int, int, int, list[Step]]
"""Where in the code, beside which row, what goes first there, and the steps."""

HOME: Final = -1
"""The space that the bytes have in the trace."""

_GONE: Final = -1


@dataclass
class Edits:
    """What is done to one batch. before, after: steps beside a row's own ones. instead: steps in place of these.
    shifts: rows that access moved bytes."""

    before: dict[int, list[Step]] = field(default_factory=dict)
    after: dict[int, list[Step]] = field(default_factory=dict)
    instead: dict[int, list[Step]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    copies: dict[int, tuple[str | None, bool]] = field(default_factory=dict)
    """Copies that run elsewhere: (the queue, None for as it was; after the destination's work)."""
    shifts: dict[int, Shift] = field(default_factory=dict)


class Steps:
    """Applies edits to the programs of one trace in order, and makes the footprints that they need."""

    def __init__(self) -> None:
        self._pieces: dict[int, Ints] = {}
        self._variants: dict[tuple[int, bool, tuple[tuple[int, int], ...]], tuple[int, int]] = {}
        self._rests: dict[tuple[int, bytes], int] = {}
        self._made = OWN
        self._new: list[tuple[int, Ints]] = []
        self._parts: dict[tuple[int, int, int], int] = {}
        self._program_now = Program()
        self._work: dict[int, tuple[int, int]] | None = None

    def begin(self, program: Program) -> None:
        """The next batch."""
        if program.forget_footprints:
            self._pieces.clear()
            self._variants.clear()
            self._rests.clear()
            self._parts.clear()
        self._program_now, self._work = program, None
        flat = np.frombuffer(program.pieces, dtype=np.int64).reshape(-1, PIECE)
        bounds = [bound // PIECE for bound in program.bounds]
        for index, number in enumerate(program.footprints):
            self._pieces[number] = flat[bounds[index] : bounds[index + 1]]

    def footprint(self, pieces: list[Piece]) -> int:
        """A new footprint, -1 for no bytes."""
        return self._emit(np.array(pieces, dtype=np.int64)) if pieces else -1

    def work(self, row: int) -> tuple[int, int]:
        """(thread, footprint) of the queued work of a row in this batch."""
        if self._work is None:
            code = np.frombuffer(self._program_now.code, dtype=np.int64).reshape(-1, STEP)
            work = code[code[:, 0] == QUEUE]
            self._work = {row: (thread, footprint) for _, _, thread, footprint, row in work.tolist()}
        return self._work[row]

    def part(self, footprint: int, first: int, end: int) -> int:
        """The footprint of accesses `first` to `end` of one, -1 if they have no bytes."""
        key = footprint, first, end
        if key not in self._parts:
            pieces = self._pieces[footprint] if footprint >= 0 else np.empty((0, PIECE), dtype=np.int64)
            pieces = pieces[(first <= pieces[:, 3]) & (pieces[:, 3] < end)]
            self._parts[key] = -1
            if len(pieces):
                made = self._parts[key] = self._emit(pieces)
                self._pieces[made] = pieces  # a shift may move some of them
        return self._parts[key]

    def elsewhere(self, footprint: int, shift: Shift) -> tuple[int, int]:
        """The footprint of the bytes that stay and that of those that a shift moves, -1 for none."""
        if not shift or footprint < 0:
            return footprint, -1
        key = footprint, False, tuple(sorted(shift.items()))
        if key not in self._variants:
            self._variants[key] = self._elsewhere(footprint, shift, whole=False)
        return self._variants[key]

    def _emit(self, pieces: Ints) -> int:
        self._made += 1
        self._new.append((self._made, pieces))
        return self._made

    def apply(self, program: Program, edits: Edits, synchronous: set[int], stalled: set[int]) -> Program:
        """The program with the edits. synchronous: actors whose work the caller waits for; stalled: those of them that
        the trace has asynchronous."""
        code = np.array(program.code, dtype=np.int64).reshape(-1, STEP)
        rows = code[:, 4]
        inserts = self._shift(code, edits)
        for row, steps in edits.before.items():
            inserts.append((int(np.searchsorted(rows, row)), row, 0, steps))
        for row, its in edits.copies.items():
            low, high = np.searchsorted(rows, (row, row + 1)).tolist()
            inserts.append((low, row, 1, self._copied(code[low:high].tolist(), *its, synchronous)))
            code[low:high, 0] = _GONE
        for row, steps in edits.instead.items():
            low, high = np.searchsorted(rows, (row, row + 1)).tolist()
            inserts.append((low, row, 1, steps))
            code[low:high, 0] = _GONE
        for row, steps in self._stalls(code, stalled):
            inserts.append((int(np.searchsorted(rows, row + 1)), row, 3, steps))
        for row, steps in edits.after.items():
            inserts.append((int(np.searchsorted(rows, row + 1)), row, 4, steps))
        if edits.dropped:
            code[np.isin(rows, list(edits.dropped)), 0] = _GONE
        inserts = sorted((insert for insert in inserts if insert[3]), key=lambda insert: insert[:3])
        if inserts:
            places = [place for place, _, _, steps in inserts for _ in steps]
            code = np.insert(code, places, [step for *_, steps in inserts for step in steps], axis=0)
        return self._program(program, code[code[:, 0] != _GONE])

    def _program(self, program: Program, code: Ints) -> Program:
        new, self._new = self._new, []
        if not new:
            return replace(program, code=array("q", code.tobytes()))
        footprints, bounds, pieces = program.footprints[:], program.bounds[:], program.pieces[:]
        for number, its in new:
            footprints.append(number)
            pieces.frombytes(its.tobytes())
            bounds.append(len(pieces))
        return replace(program, code=array("q", code.tobytes()), footprints=footprints, bounds=bounds, pieces=pieces)

    @staticmethod
    def _stalls(code: Ints, stalled: set[int]) -> list[tuple[int, list[Step]]]:
        """Behind each row with work of these queues its thread waits for them."""
        if not stalled:
            return []
        work = code[(code[:, 0] == QUEUE) & np.isin(code[:, 1], list(stalled))]
        return [(row, [(JOIN, thread, queue, 0, row)]) for _, queue, thread, _, row in work.tolist()]

    # bytes elsewhere

    def _shift(self, code: Ints, edits: Edits) -> list[Insert]:
        """Rows that access moved bytes: these go to a footprint of their own, the others stay as they are.

        Changes `code` in place; returns what is to be put in. The kernel is fast where a footprint comes back, as
        that of the bytes that stay does.
        """
        inserts: list[Insert] = []
        if not edits.shifts:
            return inserts
        keys = {row: tuple(sorted(shift.items())) for row, shift in edits.shifts.items()}
        touching = np.isin(code[:, 4], list(edits.shifts)) & (code[:, 0] <= QUEUE) & (code[:, 3] >= 0)
        for index in np.flatnonzero(touching).tolist():
            actor, footprint, row = code[index, [1, 3, 4]].tolist()
            whole = row in edits.copies
            key = footprint, whole, keys[row]
            if key not in self._variants:
                self._variants[key] = self._elsewhere(footprint, edits.shifts[row], whole=whole)
            code[index, 3], moved = self._variants[key]
            if moved >= 0:
                inserts.append((index + 1, row, 2, [(ALSO, actor, 0, moved, row)]))
        return inserts

    def _elsewhere(self, footprint: int, shift: Shift, *, whole: bool) -> tuple[int, int]:
        """The footprint of what stays and that of what is in other spaces, -1 for nothing. whole: both as one."""
        pieces = self._pieces[footprint].copy()
        moved = np.isin(pieces[:, 3], list(shift))
        if not moved.any():
            return footprint, -1
        spaces = np.array([shift[number] for number in pieces[moved, 3].tolist()])
        pieces[moved, 0] = np.where(spaces == HOME, pieces[moved, 0], spaces)
        if whole or moved.all():
            return self._emit(pieces), -1
        rest = self._rests.get((footprint, moved.tobytes()))
        if rest is None:
            rest = self._rests[footprint, moved.tobytes()] = self._emit(pieces[~moved])
        return rest, self._emit(pieces[moved])

    # copies

    def _copied(self, steps: list[list[int]], runs_on: str | None, after: bool, synchronous: set[int]) -> list[Step]:
        """The steps of a `copy_async` that runs on another queue than it did, as the lowering makes them."""
        if not steps:
            return []
        form, src, dst, work = _form(steps)
        form = runs_on or form
        thread, row = work[0][2], work[0][4]
        joined = (JOIN, dst, src, 0, row)
        if form == "both":  # no rule asks for it: it was so
            return [(op, a, b, f, r) for op, a, b, f, r in steps]
        footprint = work[0][3] if len(work) == 1 else self._joined([step[3] for step in work])
        if form == "dst":
            made: list[Step] = [joined, (QUEUE, dst, thread, footprint, row)]
        else:
            before: list[Step] = [(JOIN, src, dst, 0, row)] if after else []
            made = [*before, (QUEUE, src, thread, footprint, row), joined]
        queue = dst if form == "dst" else src
        return [*made, (JOIN, thread, queue, 0, row)] if queue in synchronous else made

    def _joined(self, footprints: list[int]) -> int:
        """The footprint of several accesses in one epoch."""
        found = [self._pieces[number] for number in footprints if number >= 0]
        return self._emit(np.concatenate(found)) if found else -1


def _form(steps: list[list[int]]) -> tuple[str, int, int, list[list[int]]]:
    """On which queue a copy ran, the actors of source and destination, and the steps that are its work."""
    work = [step for step in steps if step[0] == QUEUE]
    if len(work) == 2:
        return "both", work[0][1], work[1][1], work
    at = steps.index(work[0])
    queue, thread = work[0][1], work[0][2]
    behind = [step for step in steps[at + 1 :] if step[0] == JOIN and step[1] != thread]
    if behind:
        return "src", queue, behind[0][1], work
    return "dst", steps[at - 1][2], queue, work
