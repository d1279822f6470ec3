"""A witness: a legal schedule in which the two sides of a race change places, and what is read then.

Everything recorded before the earlier side runs as it did; then only what the current side waits for, the current
side, the earlier one, and the rest in its order. Where no read sees another version then, as a third write hides both,
the earlier side runs only before what waits for it, or the current one before all that it does not wait for. The
schedule is run on a machine that knows no clocks (`schedule.py`), which refuses one that no machine takes; the claim
is what that machine saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hbtrace.consequence.victims import Finder, Site
from hbtrace.explain.schedule import WHOLE, Lines, Machine, Seen, Turn, lines_of
from hbtrace.replay.program import HOST, QUEUE
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Access, Report

Version = Site | None
"""The write that made it; None for what was there before the trace."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the drawing: what runs where. mark: `version`, `earlier`, `current`, `reader` or nothing."""

    row: int
    actor: str
    mark: str


@dataclass(frozen=True)
class Witness:
    """reader: the access that sees another version: of the two sides, or the first one later, as after two writes that
    change places. None where no access does and only memory may.

    recorded, seen: its versions in the recorded order and in this one. lanes: the schedule from the first version on,
    as far as it differs.
    """

    report: Report
    reader: Site | None
    recorded: list[Version]
    seen: list[Version]
    schedule: list[Turn]
    lanes: list[Lane]

    @property
    def differs(self) -> bool:
        return self.recorded != self.seen


def witness(recording: Recording, report: Report, lines: Lines | None = None) -> Witness:
    """The witness of a report, executed. Raises IllegalError if the schedule is none, which would be our fault."""
    lines = lines or lines_of(recording)
    finder = Finder(recording, [report])
    finder.find()
    machine = Machine(recording, lines, finder.spaces[0], report.lo, report.hi)
    first = _operation(recording, lines, report.earlier)
    then = _operation(recording, lines, report.current)
    before = machine.run(_recorded(lines))
    needed = sorted(lines.ancestors(then, first))
    for schedule in _schedules(lines, report, first, then, needed):
        after = machine.run(schedule)
        reader = _reader(report, before, after)
        recorded, seen = _told(_at(before, reader), _at(after, reader))
        if recorded != seen:
            break
    lanes = _lanes(recording, lines, report, before, reader, needed)
    return Witness(report, reader, recorded, seen, schedule, lanes)


def _operation(recording: Recording, lines: Lines, access: Access) -> int:
    """The operation of an access: that of its row and actor; of the host's several in a row, by their order."""
    actor = recording.actors.index(access.actor)
    clock = 0
    for index, its in enumerate(lines.operations):
        if its.actor == actor and its.op in (HOST, QUEUE):
            clock += 1
            if clock == access.clock:
                return index
    raise AssertionError("an access has an operation")


def _recorded(lines: Lines) -> list[Turn]:
    return [Turn(index, 0, WHOLE) for index in range(len(lines.operations))]


def _schedules(lines: Lines, report: Report, first: int, then: int, needed: list[int]) -> Iterator[list[Turn]]:
    """Schedules in which the two change places, the plainest first. needed: what must then run before the earlier."""
    for end in (first, _first_waiter(lines, first, then)):
        yield _swapped(lines, report, first, then, needed, end)
    before = sorted(lines.ancestors(then, 0))
    known = {then, *before}
    order = [*before, then, *(index for index in range(len(lines.operations)) if index not in known)]
    yield [Turn(index, 0, WHOLE) for index in order]


def _first_waiter(lines: Lines, first: int, then: int) -> int:
    """The first operation that waits for the earlier side."""
    count = len(lines.operations)
    return next((at for at in range(first + 1, count) if at != then and first in lines.operations[at].waits), count)


def _swapped(lines: Lines, report: Report, first: int, then: int, needed: list[int], end: int) -> list[Turn]:
    """Of both sides the accesses before the racing ones, too, run where they must. end: the operation before which the
    earlier side runs; of the current side what is behind the racing access runs at once if others run in between."""
    moved = {first, then, *needed}
    early, late = report.earlier.access, report.current.access + 1
    rest = [index for index in range(first, len(lines.operations)) if index not in moved]
    order = [Turn(index, 0, WHOLE) for index in range(first)]
    order += [Turn(index, 0, WHOLE) for index in needed]
    if early:
        order.append(Turn(first, 0, early))
    order.append(Turn(then, 0, late))
    between = [Turn(index, 0, WHOLE) for index in rest if index < end]
    ends = [Turn(first, early, WHOLE), Turn(then, late, WHOLE)]
    order += [ends[1], *between, ends[0]] if between else ends
    order += [Turn(index, 0, WHOLE) for index in rest if index >= end]
    return order


def _reader(report: Report, before: Seen, after: Seen) -> Site | None:
    own = next((side for side in (report.earlier, report.current) if side.mode == "read"), None)
    if own is not None:
        return own.row, own.access
    return min((site for site in after.reads if _at(before, site) != _at(after, site)), default=None)


def _at(seen: Seen, reader: Site | None) -> list[Version]:
    """What the reader saw, by stretches of bytes; without a reader what memory holds."""
    return seen.memory if reader is None else seen.reads.get(reader, [])


def _told(before: list[Version], after: list[Version]) -> tuple[list[Version], list[Version]]:
    """Each version once, in the order of the bytes; of those bytes that differ, where this would hide that any do."""
    recorded, seen = list(dict.fromkeys(before)), list(dict.fromkeys(after))
    if recorded != seen or before == after:
        return recorded, seen
    pairs = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    return list(dict.fromkeys(old for old, _ in pairs)), list(dict.fromkeys(new for _, new in pairs))


def _lanes(
    recording: Recording, lines: Lines, report: Report, before: Seen, reader: Site | None, needed: list[int]
) -> list[Lane]:
    sides = {(side.row, side.access) for side in (report.earlier, report.current)}
    later = None if reader is None or reader in sides else reader[0]
    lanes = []
    if reader == (report.earlier.row, report.earlier.access):
        rows = [version[0] for version in dict.fromkeys(_at(before, reader)) if version is not None]
        lanes += [Lane(row, _actor(recording, lines, row), "version") for row in rows]
    for index in needed:
        its = lines.operations[index]
        lanes.append(Lane(its.row, recording.actors[its.actor], "reader" if its.row == later else ""))
    lanes.append(Lane(report.current.row, report.current.actor, "current"))
    lanes.append(Lane(report.earlier.row, report.earlier.actor, "earlier"))
    if later is not None and all(lane.row != later for lane in lanes):
        lanes.append(Lane(later, _actor(recording, lines, later), "reader"))
    return lanes


def _actor(recording: Recording, lines: Lines, row: int) -> str:
    return recording.actors[next(its.actor for its in lines.operations if its.row == row and its.footprint >= 0)]
