"""A replayed trace that is kept: its programs, its reports, and what rows were, for those who look at it again.

`Replay` forgets what cannot race any more; explanations go over the same steps several times. What is kept is the flat
program (40 bytes a step) and two columns, not the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hbtrace.replay.accesses import Template
from hbtrace.replay.kernel import Hit, Kernel
from hbtrace.replay.lower import Lowering
from hbtrace.replay.program import PIECE, STEP, Program
from hbtrace.replay.races import Naming, Report

NO_TIME: Final = -1

Piece = tuple[int, int, int, int, int]
"""(space, lo, hi, number, write)"""

Pair = tuple[int, int, int, int]
"""Row and number of the current access, then of the earlier one: what a report is known by in its trace."""


def pair_of(report: Report) -> Pair:
    """The key of a report within its trace."""
    return report.current.row, report.current.access, report.earlier.row, report.earlier.access


@dataclass(slots=True)
class Shape:
    """What a footprint's numbers do not say: which node each access is of, and which ranges are approximate."""

    nodes: list[int]
    approx: list[bool]


@dataclass(slots=True)
class Chunk:
    """The program of one batch, and the shapes of the footprints that are of a graph or have approximate ranges."""

    program: Program
    shapes: dict[int, Shape]
    first_row: int

    def steps(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(op, a, b, footprint, row), as `program.py` tells."""
        flat = iter(self.program.code)
        return zip(*[flat] * STEP, strict=True)

    def pieces(self) -> Iterator[tuple[int, list[Piece]]]:
        """The footprints that are used here for the first time."""
        program = self.program
        for index, number in enumerate(program.footprints):
            flat = iter(program.pieces[program.bounds[index] : program.bounds[index + 1]])
            yield number, list(zip(*[flat] * PIECE, strict=True))


@dataclass(slots=True)
class Settings:
    """How to replay, as `Replay` takes it."""

    threads: str | None = None
    skip_weights: bool = False
    strict: bool = False
    fold_layers: bool = False


@dataclass
class Recording:
    """One trace, replayed and kept."""

    chunks: list[Chunk] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    """What each row is; an empty text for a row without `ev`."""
    times: list[npt.NDArray[np.int64]] = field(default_factory=list)
    actors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rows: int = 0
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The `backend` row of each queue, by the actor's name."""
    renamed: dict[str, int] = field(default_factory=dict)
    """Of queues that were freed, or whose id was given to a later one: the row of that."""
    inputs: set[int] = field(default_factory=set)
    """Tensor ids that some row flags as an input."""
    closed: bool = True
    """Whether all host threads are one actor."""
    late: bool = False
    """Something was used that no row had defined: the recording began late."""

    @cached_property
    def time(self) -> npt.NDArray[np.int64]:
        """Nanoseconds of each row, -1 where it has none."""
        return np.concatenate(self.times) if self.times else np.empty(0, dtype=np.int64)

    def time_at(self, row: int) -> int:
        return int(self.time[row]) if 0 <= row < len(self.time) else NO_TIME

    def steps(self) -> Iterator[tuple[int, int, int, int, int]]:
        for chunk in self.chunks:
            yield from chunk.steps()


class Recorder:
    """Makes a recording, batch by batch. replay: false leaves out the kernel, hence the reports.

    After each batch its user must call `naming.keep` with what `remembered` says, and what else it must still name.
    """

    def __init__(self, settings: Settings, *, replay: bool = True) -> None:
        self.lowering = Lowering(
            strict=settings.strict, skip_weights=settings.skip_weights, threads=settings.threads
        )
        self.naming = Naming(self.lowering, fold=settings.fold_layers)
        self._replay = replay
        self._kernel: Kernel | None = None
        self._names: dict[str, int] = {}
        self._out = Recording()

    def take(self, batch: pa.RecordBatch) -> Program:
        """The next batch: its program, which is kept, too."""
        out, lowering = self._out, self.lowering
        first = lowering.rows
        program = lowering.lower(batch)
        out.chunks.append(Chunk(program, _shapes(lowering), first))
        out.events += _events(batch)
        out.times.append(batch.column("time").fill_null(NO_TIME).to_numpy(zero_copy_only=False).astype(np.int64))
        _note_definitions(out, batch, self._names, first)
        if self._replay:
            if self._kernel is None:  # the first row says whether threads are ordered
                self._kernel = Kernel(closed=not lowering.ordered)
            hits = self._kernel.run(program)
            out.hits += hits
            out.reports += map(self.naming.report, hits)
        return program

    def remembered(self) -> set[int]:
        """The rows whose accesses can still be met."""
        return set() if self._kernel is None else self._kernel.remembered()

    def finish(self) -> Recording:
        """There is no batch more."""
        out, lowering = self._out, self.lowering
        out.rows, out.actors = lowering.rows, list(lowering.names.actors)
        out.closed = not lowering.ordered
        out.warnings = lowering.findings.sentences()
        out.late = any("began late" in warning for warning in out.warnings)
        return out


def record(batches: Iterable[pa.RecordBatch], settings: Settings | None = None, *, replay: bool = True) -> Recording:
    """Replay a trace and keep it. replay: false leaves out the kernel, hence the reports."""
    recorder = Recorder(settings or Settings(), replay=replay)
    for batch in batches:
        recorder.take(batch)
        recorder.naming.keep(recorder.remembered())
    return recorder.finish()


def _events(batch: pa.RecordBatch) -> list[str]:
    column = batch.column("ev")
    if pa.types.is_dictionary(column.type):
        words = [*(word or "" for word in column.dictionary.to_pylist()), ""]
        codes = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False).tolist()
        return list(map(words.__getitem__, codes))
    return [ev or "" for ev in column.to_pylist()]


def _note_definitions(out: Recording, batch: pa.RecordBatch, names: dict[str, int], first: int) -> None:
    """What `backend` and `tensor` rows say that the replay has no use for."""
    mask = pc.is_in(pc.cast(batch.column("ev"), pa.string()), value_set=pa.array(["backend", "backend_free"]))
    places = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    for place, event in zip(places.tolist(), _rows(batch, mask), strict=True):
        ident = event.get("backend", -1) if event["ev"] == "backend_free" else event.get("id", -1)
        for actor, its in out.queues.items():
            if its["id"] == ident:
                out.renamed.setdefault(actor, first + place)
        if event["ev"] == "backend" and isinstance(name := event.get("name"), str) and ident != -1:
            count = names[name] = names.get(name, -1) + 1
            out.queues[f"{name}#{count}" if count else name] = event
    flagged = batch.column("flags")
    if flagged.null_count < len(flagged):
        tensors = (e for e in _rows(batch, flagged.is_valid()) if e.get("ev") == "tensor" and "id" in e)
        out.inputs.update(e["id"] for e in tensors if "input" in e["flags"])


def _rows(batch: pa.RecordBatch, mask: pa.Array) -> list[dict[str, Any]]:
    """The rows that a mask chooses, with only the columns that definitions have here."""
    found = batch.filter(mask)
    keys = ("ev", "id", "backend", "name", "device", "type", "synchronous", "drains", "flags")
    columns = [found.column(key).to_pylist() for key in keys]
    return [{k: v for k, v in zip(keys, values, strict=True) if v is not None} for values in zip(*columns, strict=True)]


def _shapes(lowering: Lowering) -> dict[int, Shape]:
    """Of the templates used in the newest batch those that need one."""
    shapes: dict[int, Shape] = {}
    distinct = {id(template): template for template in lowering.templates.values()}
    for template in distinct.values():
        if template.origins is None and not any(template.approx):
            continue
        shape = Shape(_nodes(template), list(template.approx))
        shapes.update(dict.fromkeys(template.footprints.values(), shape))
    return shapes


def _nodes(template: Template) -> list[int]:
    """The node of each access: all of them one where the event is no graph.

    Nodes are told apart by operation and result, and where the order of a node's accesses begins again. Two that
    cannot be told apart count as one, which makes writes depend on more and never on less.
    """
    if template.origins is None:
        return [0] * len(template.accesses)
    nodes: list[int] = []
    before: tuple[str, int, bool, int] | None = None
    for (write, _), (op, position, result) in zip(template.accesses, template.origins, strict=True):
        same = before is not None and before[:2] == (op, result) and before[2:] < (write, position)
        nodes.append(nodes[-1] + (not same) if nodes else 0)
        before = op, result, write, position
    return nodes
