"""Consequence: does what a race can change reach anybody? (Contract, section 8.)

Forward from each victim of a race (`victims.py`): what its node writes is marked, what reads a mark passes it on, a
write that comes after in every schedule removes it. A mark that a host read meets, or that is left in memory at the
end, makes the race live; if all marks are gone it is dead. It is unknown where an approximate range decides, where
queued work reads a mark and lists no writes, or where the trace is cut or began late. A race called dead changes no
value that the host reads and none that is left, whatever the schedule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from hbtrace.consequence.marks import Mark, Marks, Spans, spans_of
from hbtrace.consequence.sources import each, ones, together
from hbtrace.consequence.victims import Finder, Reads, Victims
from hbtrace.consequence.work import Work
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import END, HOST, PIECE, QUEUE, STEP, Program
from hbtrace.replay.recording import Pair, Recording, pair_of, record
from hbtrace.replay.reports import Report, Signature
from hbtrace.replay.settings import Settings
from hbtrace.trace.vocabulary import COPIES

Verdict = Literal["live", "dead", "unknown"]

END_OF_TRACE: Final = -1

@dataclass(frozen=True, slots=True)
class Consequence:
    """What comes of a race. row: of the host read that a changed value reaches, -1 for none. why: a sentence."""

    verdict: Verdict
    why: str
    row: int = END_OF_TRACE


DEAD: Final = Consequence("dead", "all that it can change is overwritten before anybody reads it")
FREED: Final = Consequence("live", "its memory is freed while it may still be used: the bytes are somebody else's then")
UNLOOKED: Final = Consequence("unknown", "judging so many races costs too much: this one was given up")
DOUBTFUL: Final = Consequence("unknown", "an approximate range decides whether what it changes is read")


@dataclass(frozen=True, slots=True)
class Trail:
    """How far one report's values spread: (row, bytes that hold one after it), wherever that number changed.

    doubt: the first row of which an approximate range meets one, -1 for none.
    """

    sizes: list[tuple[int, int]]
    doubt: int


def consequences(
    batches: Iterable[pa.RecordBatch], reports: Iterable[Report], *, partial: bool = False, **settings: Any
) -> dict[Pair, Consequence]:
    """The consequence of each report of a trace, by `pair_of(report)`.

    batches: the canonical batches of the whole trace, again from its beginning. partial: something of it was lost.
    settings: those with which the reports were made (`threads`, `skip_weights`).
    """
    wanted = list(reports)
    if not wanted:
        return {}
    return judge(record(batches, Settings(**settings), replay=False), wanted, partial=partial)


def judge(
    recording: Recording, reports: list[Report] | None = None, *, partial: bool = False
) -> dict[Pair, Consequence]:
    """As `consequences`, of a recording that is kept; without `reports` of its own ones."""
    reports = recording.reports if reports is None else reports
    if not reports:
        return {}
    victims = Finder(recording, reports, work := Work()).find()
    flow = _Flow(recording, victims, work)
    flow.run()
    return {
        pair_of(report): FREED if report.ends else flow.verdict(report, its, partial=partial)
        for report, its in zip(reports, victims, strict=True)
    }


def judge_races(
    recording: Recording, reports: list[Report], *, partial: bool = False
) -> dict[Signature, Verdict]:
    """What each distinct race comes to, by canonical signature, of all its reports together.

    The sources of one race share a mark: it costs no more for many reports than for a few, and does not tell which of
    them is live. What shares memory with the marks of another race can pass for live in its company, here and in
    `judge`, so that the two can differ where they look at other reports; a race called dead is dead by itself.
    """
    labels = {key: label for label, key in enumerate(dict.fromkeys((r.canonical, r.approx) for r in reports))}
    victims = Finder(recording, reports, work := Work()).find()
    flow = _Flow(recording, victims, work, [labels[report.canonical, report.approx] for report in reports])
    flow.run()
    told: dict[Signature, list[Verdict]] = {}
    for (canonical, approx), label in labels.items():
        told.setdefault(canonical, []).append(flow.verdict_of(label, approx=approx, partial=partial).verdict)
    for report in reports:
        if report.ends:
            told[report.canonical].append("live")
    return {canonical: worst(verdicts) for canonical, verdicts in told.items()}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several reports of one race: live if any is, unknown if any could be."""
    among = set(verdicts)
    return "live" if "live" in among else "unknown" if "unknown" in among else "dead"


def trail(recording: Recording, report: Report) -> Trail:
    """How far one report's values spread."""
    flow = _Flow(recording, Finder(recording, [report], work := Work()).find(), work)
    flow.run()
    return Trail(flow.trail, flow.doubt)


@dataclass(slots=True)
class _Node:
    """What depends on what within a footprint: `reads` and `writes` are (number, space, lo, hi, approx)."""

    reads: list[tuple[int, int, int, int, bool]]
    writes: list[tuple[int, int, int, int, bool]]


@dataclass(slots=True)
class _Print:
    """A footprint: its nodes in order, and the bytes of all of them. missed: the state of the marks in which none of
    them was marked, -1 for none."""

    nodes: list[_Node]
    spans: dict[int, Spans]
    missed: int = -1


class _Flow:
    """Carries marks over the program. labels: of each report a number, and sources of the same labels share a mark."""

    def __init__(
        self, recording: Recording, victims: list[Victims], work: Work, labels: Sequence[int] | None = None
    ) -> None:
        self._recording = recording
        self._work = work
        self._sources = each(victims) if labels is None else together(victims, labels)
        self._read_spaces = _read_spaces(recording)
        self._rows = {row for row, _ in (*self._sources.bits, *self._sources.memories)}
        self._marks: dict[int, Marks] = {}
        self._carried = (-1, 0, 0)
        self._state = 0
        """Counts visits: where there was none, marks are as they were, or fewer."""
        self._open = (1 << self._sources.count) - 1
        self._live_rows: dict[int, int] = {}
        self._maybe = 0
        self._untold = 0
        self._summaries: dict[int, list[tuple[list[int], list[int]]]] = {}
        self._of_slices: dict[tuple[int, int], list[int]] = {}
        self.trail: list[tuple[int, int]] = []
        """(row, bytes marked after it), wherever that changed; kept for a single report only."""
        self.doubt = END_OF_TRACE
        """The first row of which an approximate range meets a mark."""
        self._told = len(victims) == 1

    def run(self) -> None:
        """Over the whole program, or until every source is known to be live, or the work is gone."""
        table: dict[int, _Print] = {}
        for program, order in zip(self._recording.programs, self._recording.orders, strict=True):
            _load(table, program)
            code = np.asarray(program.code, dtype=np.int64).reshape(-1, STEP)
            looked_at = (code[:, 0] <= QUEUE) & (code[:, 3] >= 0) | (code[:, 0] == END)
            places = np.flatnonzero(looked_at)
            for at, (op, actor, _, footprint, row) in zip(places.tolist(), code[places].tolist(), strict=True):
                if op == END:
                    self._marks.pop(actor, None)
                elif (
                    row in self._rows
                    or row == self._carried[0]  # a copy's other end
                    or (self._marks and self._meets(table[footprint]))
                ):
                    self._visit(op == HOST, table[footprint].nodes, (actor, order.whole(at, actor)), row)
                    self._state += 1
                if self._work.gone:
                    return
            if not self._open:
                return
        for marks in list(self._marks.values()):
            sure, maybe = marks.all()
            self._maybe |= maybe
            self._reach(sure, 0, END_OF_TRACE)

    def _meets(self, footprint: _Print) -> bool:
        """Whether any byte of a footprint is marked: else there is nothing to pass on and nothing to remove."""
        if footprint.missed == self._state:
            return False
        for space, marks in self._marks.items():
            if (spans := footprint.spans.get(space)) is not None and marks.meet(spans):
                return True
        footprint.missed = self._state
        return False

    def _visit(self, host: bool, nodes: list[_Node], who: tuple[int, Clock], row: int) -> None:
        self._work.spend(len(nodes))
        for node in nodes:
            sure, maybe = self._seen(node, row)
            ev = self._recording.events[row]
            if host and node.reads and ev not in COPIES:  # a copy passes a value on and looks at none
                self._reach(sure, maybe, row)
            elif ev == "get_async" and not any(write[1] in self._read_spaces for write in node.writes):
                self._reach(sure, maybe, row)  # what reads its other end is not recorded: the host does, by pointer
            elif not node.writes and ev in COPIES:
                self._carried = (row, sure, maybe)
            elif not node.writes:
                self._untold |= sure | maybe
            elif not node.reads and self._carried[0] == row:
                _, sure, maybe = self._carried
            for write in node.writes:
                self._write(write, sure & self._open, maybe & self._open, who, row)
        if self._told:
            size = sum(marks.size() for marks in self._marks.values())
            if not self.trail or self.trail[-1][1] != size:
                self.trail.append((row, size))

    def _seen(self, node: _Node, row: int) -> tuple[int, int]:
        """The marks of what a node reads, and the node as a source itself."""
        sure = maybe = 0
        for number, space, lo, hi, approx in node.reads:
            marks = self._marks.get(space)
            some, perhaps = marks.read(lo, hi) if marks else (0, 0)
            if (bit := self._sources.bits.get((row, number))) is not None:
                some |= 1 << bit
            maybe |= perhaps | some if approx else perhaps
            sure |= 0 if approx else some
            if approx and some and self.doubt == END_OF_TRACE:
                self.doubt = row
        return sure, maybe

    def _write(
        self, write: tuple[int, int, int, int, bool], sure: int, maybe: int, who: tuple[int, Clock], row: int
    ) -> None:
        number, space, lo, hi, approx = write
        marks = self._marks.get(space)
        new = None
        if sure or maybe:
            writers = frozenset({(who[0], who[1][who[0]])})
            new = Mark(0, sure | maybe, writers) if approx else Mark(sure, maybe, writers)
            if approx and sure and self.doubt == END_OF_TRACE:
                self.doubt = row
        if marks is None:
            if new is None and (row, number) not in self._sources.memories:
                return
            marks = self._marks[space] = Marks(self._work, self._sources.count)
        marks.write(lo, hi, new, who[1], surely=not approx)
        for bit, memory in self._sources.memories.get((row, number), ()):
            if memory.space == space and self._open >> bit & 1:
                left = Mark(0, 1 << bit, memory.writers) if approx else Mark(1 << bit, 0, memory.writers)
                marks.write(max(lo, memory.lo), min(hi, memory.hi), left, {}, surely=False)
        if not marks:
            del self._marks[space]

    def _reach(self, sure: int, maybe: int, row: int) -> None:
        """Somebody has the values: their sources are judged. What only may have been met is judged when nothing sure
        of it is left."""
        self._maybe |= maybe
        news = sure & self._open
        if news:
            for bit in ones(news):
                self._live_rows[bit] = row
            self._forget(news)
        doubtful = self._maybe & self._open
        if maybe & doubtful:
            held = 0
            for marks in self._marks.values():
                held |= marks.all()[0]
            self._forget(self._visited(doubtful & maybe & ~held, row))

    def _visited(self, bits: int, row: int) -> int:
        """Those of the sources whose own rows are behind: no mark of theirs is still to come."""
        return sum(1 << bit for bit in ones(bits) if self._sources.last_row.get(bit, -1) < row)

    def _forget(self, decided: int) -> None:
        self._open &= ~decided
        if not decided:
            return
        for space, marks in list(self._marks.items()):
            marks.forget(decided)
            if not marks:
                del self._marks[space]

    # what came of it

    def verdict(self, report: Report, its: Victims, *, partial: bool) -> Consequence:
        """The consequence of a report, from its victims."""
        return self._come_to(
            [row for row in (*self._of_reads(its, 0), *self._of_bits(its, self._live_rows)) if row is not None],
            any(row is not None for row in (*self._of_reads(its, 1), *self._of_bits(its, self._doubtful_rows))),
            any(row is not None for row in (*self._of_reads(its, 2), *self._of_bits(its, self._untold_rows))),
            approx=report.approx,
            partial=partial,
        )

    @cached_property
    def _doubtful_rows(self) -> dict[int, int]:
        return dict.fromkeys(ones(self._maybe), 0)

    @cached_property
    def _untold_rows(self) -> dict[int, int]:
        return dict.fromkeys(ones(self._untold), 0)

    def verdict_of(self, label: int, *, approx: bool, partial: bool) -> Consequence:
        """The consequence of all reports of a label together. approx: theirs."""
        bits = self._sources.of_label.get(label, ())
        rows = [self._live_rows[bit] for bit in bits if bit in self._live_rows]
        doubtful, untold = (any(told >> bit & 1 for bit in bits) for told in (self._maybe, self._untold))
        return self._come_to(rows, doubtful, untold, approx=approx, partial=partial)

    def _come_to(
        self, rows: list[int], doubtful: bool, untold: bool, *, approx: bool, partial: bool
    ) -> Consequence:
        reached = min((row for row in rows if row >= 0), default=None)
        if reached is not None or END_OF_TRACE in rows:
            if approx:
                return Consequence("unknown", "its bytes are approximate: the two sides may not have met")
            if reached is not None:
                return Consequence("live", f"the host reads what depends on it in row {reached}", reached)
            if partial:
                return Consequence("unknown", "what it changes was in memory where the trace is cut")
            return Consequence("live", "what it changes is in memory at the end of the trace")
        if self._work.gone:
            return UNLOOKED
        if doubtful:
            return DOUBTFUL
        if untold:
            return Consequence("unknown", "the trace does not tell what is computed from it: a node lists no writes")
        if self._recording.late:
            return Consequence("unknown", "the recording began late: what was used before is not known whole")
        return DEAD

    def _of_bits(self, its: Victims, rows: dict[int, int]) -> list[int | None]:
        bits = [self._sources.bits.get(its.own)] if its.own is not None else []
        bits += [self._sources.memory_bits[id(its.memory)]] if its.memory is not None else []
        return [rows.get(bit) for bit in bits if bit is not None]

    def _of_reads(self, its: Victims, which: int) -> list[int]:
        """Of each slice of reads the value of its first judged source: by bisection, long slices cost nothing."""
        key = id(its.reads), which
        if key not in self._of_slices:
            found: list[int | None] = []
            for reads, first, last in its.reads:
                places, values = self._summary(reads)[which]
                at = bisect_left(places, first)
                found.append(values[at] if at < len(places) and places[at] < last else None)
            self._of_slices[key] = [value for value in found if value is not None]
        return self._of_slices[key]

    def _summary(self, reads: Reads) -> list[tuple[list[int], list[int]]]:
        """(places, values) of live reads with their rows, of doubtful ones, and of those whose use is not told."""
        found = self._summaries.get(id(reads))
        if found is None:
            bits = [self._sources.bits.get(site, -1) for site in reads.sites]
            live = [(k, self._live_rows[bit]) for k, bit in enumerate(bits) if bit in self._live_rows]
            doubt = [k for k, bit in enumerate(bits) if bit in self._doubtful_rows]
            untold = [k for k, bit in enumerate(bits) if bit in self._untold_rows]
            found = [
                ([k for k, _ in live], [row for _, row in live]), (doubt, [0] * len(doubt)),
                (untold, [0] * len(untold)),
            ]  # fmt: skip
            self._summaries[id(reads)] = found
        return found


def _read_spaces(recording: Recording) -> set[int]:
    """The spaces that some recorded access reads."""
    flat = [np.asarray(program.pieces, dtype=np.int64).reshape(-1, PIECE) for program in recording.programs]
    return {int(space) for pieces in flat for space in np.unique(pieces[pieces[:, 4] == 0, 0])}


def _load(table: dict[int, _Print], program: Program) -> None:
    """The footprints that a program defines."""
    if program.forget_footprints:
        table.clear()
    for footprint, pieces in program.defined():
        shape = program.shapes.get(footprint)
        nodes: dict[int, _Node] = {}
        for space, lo, hi, number, write in pieces:
            at, approx = (0, False) if shape is None else (shape.nodes[number], shape.approx[number])
            node = nodes.setdefault(at, _Node([], []))
            (node.writes if write else node.reads).append((number, space, lo, hi, approx))
        table[footprint] = _Print(list(nodes.values()), spans_of(pieces))
