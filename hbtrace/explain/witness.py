"""A witness: a legal schedule in which the two sides of a race change places, and what is read then.

Everything recorded before the earlier side runs as it did; then only what the current side waits for, the current
side, the earlier one, and the rest in its order. The schedule is run on a machine that knows no clocks
(`schedule.py`), which refuses one that no machine takes; the claim is what that machine saw.
"""

from __future__ import annotations

from dataclasses import dataclass

from hbtrace.explain.recording import Recording
from hbtrace.explain.schedule import WHOLE, Lines, Machine, Seen, Turn, lines_of
from hbtrace.explain.victims import Finder, Site
from hbtrace.replay.program import HOST, QUEUE
from hbtrace.replay.races import Access, Report

Version = Site | None
"""The write that made it; None for what was there before the trace."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the drawing: what runs where. mark: `earlier`, `current` or nothing."""

    row: int
    actor: str
    mark: str


@dataclass(frozen=True)
class Witness:
    """reader: the access that sees another version, None where two writes change places and memory does.

    recorded, seen: its versions in the recorded order and in this one. lanes: the schedule from the first version on,
    as far as it differs. reordered: operations that run before the earlier side now and did not when recorded.
    """

    report: Report
    reader: Site | None
    recorded: list[Version]
    seen: list[Version]
    schedule: list[Turn]
    lanes: list[Lane]
    reordered: int

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
    needed = sorted(lines.ancestors(then, first))
    schedule = _swapped(lines, report, first, then, needed)
    before, after = machine.run(_recorded(lines)), machine.run(schedule)
    reader = _reader(report)
    return Witness(
        report, reader, _versions(before, reader), _versions(after, reader), schedule,
        _lanes(recording, lines, report, before, reader, needed), len(needed),
    )  # fmt: skip


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


def _swapped(lines: Lines, report: Report, first: int, then: int, needed: list[int]) -> list[Turn]:
    """Of both sides the accesses before the racing ones, too, run where they must."""
    moved = {first, then, *needed}
    early, late = report.earlier.access, report.current.access + 1
    order = [Turn(index, 0, WHOLE) for index in range(first)]
    order += [Turn(index, 0, WHOLE) for index in needed]
    if early:
        order.append(Turn(first, 0, early))
    order += [Turn(then, 0, late), Turn(first, early, WHOLE), Turn(then, late, WHOLE)]
    order += [Turn(index, 0, WHOLE) for index in range(first, len(lines.operations)) if index not in moved]
    return order


def _reader(report: Report) -> Site | None:
    if report.kind == "write-after-read":
        return report.earlier.row, report.earlier.access
    if report.kind == "read-after-write":
        return report.current.row, report.current.access
    return None


def _versions(seen: Seen, reader: Site | None) -> list[Version]:
    """What the reader saw, each version once, in the order of the bytes; without a reader what memory holds."""
    return list(dict.fromkeys(seen.memory if reader is None else seen.reads.get(reader, [])))


def _lanes(
    recording: Recording, lines: Lines, report: Report, before: Seen, reader: Site | None, needed: list[int]
) -> list[Lane]:
    lanes = []
    if reader == (report.earlier.row, report.earlier.access):
        for version in _versions(before, reader):
            if version is not None:
                actor = next(its.actor for its in lines.operations if its.row == version[0] and its.footprint >= 0)
                lanes.append(Lane(version[0], recording.actors[actor], "version"))
    for index in needed:
        its = lines.operations[index]
        lanes.append(Lane(its.row, recording.actors[its.actor], ""))
    lanes.append(Lane(report.current.row, report.current.actor, "current"))
    lanes.append(Lane(report.earlier.row, report.earlier.actor, "earlier"))
    return lanes
