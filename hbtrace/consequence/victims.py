"""Whose value a race can change: the accesses that can see another version if its two sides change places.

A report names a pair. Shadow memory remembers only the newest read of each actor, and nothing before a write; but a
write that is unordered with the newest read is unordered with older ones as well. All reads of the racing bytes that
the later write does not know can see it, so all of them are victims. Of a race of two writes the memory is one, too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from hbtrace.consequence.work import Work
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import HOST, QUEUE, STEP, Piece, Program
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Report

Site = tuple[int, int]
"""Row and number of an access."""


@dataclass(slots=True)
class Reads:
    """The reads that one actor made of one stretch of racing bytes, in order; clocks never fall."""

    clocks: list[int] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)


@dataclass(slots=True)
class Memory:
    """Bytes left by two unordered writes, from the later's access on."""

    site: Site
    space: int
    lo: int
    hi: int
    writers: frozenset[tuple[int, int]]


@dataclass(slots=True)
class Victims:
    """reads: slices of read lists, shared by reports that have the same. own: the current access itself, a read.
    memory: what two writes left."""

    reads: list[tuple[Reads, int, int]] = field(default_factory=list)
    own: Site | None = None
    memory: Memory | None = None


Stretch = tuple[int, int, int]
"""(space, lo, hi)"""


class Finder:
    """Goes over a recording once and finds the victims of each report, in the order of `reports`.

    Where the work is gone it has not found all of them.
    """

    def __init__(self, recording: Recording, reports: list[Report], work: Work | None = None) -> None:
        self._recording = recording
        self._work = work or Work()
        self._reports = reports
        self._by_site: dict[Site, list[int]] = {}
        for index, report in enumerate(reports):
            self._by_site.setdefault((report.current.row, report.current.access), []).append(index)
        self.victims = [Victims() for _ in reports]
        self.spaces = [-1] * len(reports)
        self._stretches: dict[int, list[tuple[int, int]]] = {}
        self._lists: dict[Stretch, dict[int, Reads]] = {}
        """By stretch and actor."""
        self._newest: tuple[tuple[int, int, Stretch], list[tuple[Reads, int, int]]] = (-1, -1, (-1, 0, 0)), []

    def find(self) -> list[Victims]:
        self._locate()
        self._merge()
        table: dict[int, list[tuple[int, bool, Stretch]]] = {}
        last = max((row for row, _ in self._by_site), default=-1)
        for program, order in zip(self._recording.programs, self._recording.orders, strict=True):
            if program.first_row > last or self._work.gone:
                break
            self._load(table, program)
            code = np.asarray(program.code, dtype=np.int64).reshape(-1, STEP)
            touching = (code[:, 0] <= QUEUE) & np.isin(code[:, 3], list(table))
            places = np.flatnonzero(touching)
            for at, (_, actor, _, footprint, row) in zip(places.tolist(), code[places].tolist(), strict=True):
                self._visit(table[footprint], actor, order.known[at], order.ticks[at], row)
        return self.victims

    def _locate(self) -> None:
        """The space of each report's bytes: its current access has a piece there."""
        table: dict[int, list[Piece]] = {}
        rows = np.array(sorted({row for row, _ in self._by_site}), dtype=np.int64)
        for program in self._recording.programs:
            if program.forget_footprints:
                table.clear()
            table.update(program.defined())
            code = np.asarray(program.code, dtype=np.int64).reshape(-1, STEP)
            for op, _, _, footprint, row in code[np.isin(code[:, 4], rows)].tolist():
                if op in (HOST, QUEUE) and footprint >= 0:
                    self._locate_in(table[footprint], row)

    def _locate_in(self, pieces: list[Piece], row: int) -> None:
        for space, lo, hi, number, _ in pieces:
            for index in self._by_site.get((row, number), ()):
                report = self._reports[index]
                if lo < report.hi and report.lo < hi:
                    self.spaces[index] = space

    def _merge(self) -> None:
        """Racing bytes as few stretches: a victim is one of the whole stretch."""
        for space, report in zip(self.spaces, self._reports, strict=True):
            self._stretches.setdefault(space, []).append((report.lo, report.hi))
        for space, spans in self._stretches.items():
            merged: list[tuple[int, int]] = []
            for lo, hi in sorted(set(spans)):
                if merged and lo < merged[-1][1]:
                    merged[-1] = (merged[-1][0], max(merged[-1][1], hi))
                else:
                    merged.append((lo, hi))
            self._stretches[space] = merged

    def _load(self, table: dict[int, list[tuple[int, bool, Stretch]]], program: Program) -> None:
        """Which accesses of each footprint meet racing bytes."""
        if program.forget_footprints:
            table.clear()
        for number, pieces in program.defined():
            met = [
                (access, bool(write), (space, *span))
                for space, lo, hi, access, write in pieces
                if space in self._stretches
                for span in self._between(space, lo, hi)
            ]
            if met:
                table[number] = sorted(set(met))

    def _between(self, space: int, lo: int, hi: int) -> list[tuple[int, int]]:
        """The stretches of a space that meet [lo, hi): they are in order and apart."""
        spans = self._stretches[space]
        first = bisect_right(spans, lo, key=lambda span: span[1])
        return spans[first : max(first, bisect_left(spans, hi, key=lambda span: span[0]))]

    def _visit(self, met: list[tuple[int, bool, Stretch]], actor: int, known: Clock, tick: int, row: int) -> None:
        self._work.spend(len(met))
        for access, write, stretch in met:
            for index in self._by_site.get((row, access), ()):
                if self._in(index, stretch):
                    self._judge(index, write, stretch, (actor, tick), known)
            if not write:
                reads = self._lists.setdefault(stretch, {}).setdefault(actor, Reads())
                reads.clocks.append(tick)
                reads.sites.append((row, access))

    def _in(self, index: int, stretch: Stretch) -> bool:
        report = self._reports[index]
        return self.spaces[index] == stretch[0] and stretch[1] <= report.lo and report.hi <= stretch[2]

    def _judge(self, index: int, write: bool, stretch: Stretch, epoch: tuple[int, int], known: Clock) -> None:
        report, victims = self._reports[index], self.victims[index]
        if not write:
            victims.own = (report.current.row, report.current.access)
            return
        if self._work.gone:
            return
        self._work.spend(len(self._lists.get(stretch, ())))
        key = report.current.row, report.current.access, stretch
        if self._newest[0] != key:  # all races of an access with one stretch have the same
            self._newest = key, self._unknown(stretch, epoch[0], known)
        victims.reads = [*victims.reads, *self._newest[1]] if victims.reads else self._newest[1]
        if report.kind == "write-after-write":
            earlier = self._recording.actors.index(report.earlier.actor)
            writers = frozenset({epoch, (earlier, report.earlier.clock)})
            site = report.current.row, report.current.access
            victims.memory = Memory(site, stretch[0], report.lo, report.hi, writers)

    def _unknown(self, stretch: Stretch, actor: int, known: Clock) -> list[tuple[Reads, int, int]]:
        """The reads of others that somebody with this knowledge does not know."""
        found = []
        for other, reads in self._lists.get(stretch, {}).items():
            first = bisect_right(reads.clocks, known.get(other, 0))
            if other != actor and first < len(reads.clocks):
                found.append((reads, first, len(reads.clocks)))
        return found
