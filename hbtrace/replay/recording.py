"""A replayed trace that is kept: its programs, their order, its reports, and what rows were.

A session forgets what cannot race any more; triage, explanations, what-if replays and consequences look at the same
steps again. What is kept is the flat program (40 bytes a step) and two columns, not the rows; what was known at each
step is told when somebody asks. A recording that would outgrow its limit is given up: then a verb that needs one reads
the trace again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hbtrace.errors import NothingToJudgeError
from hbtrace.replay.clocks import Order
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.kernel import Hit
from hbtrace.replay.kernels import new_clocks, new_kernel
from hbtrace.replay.program import STEP, Program
from hbtrace.replay.reports import Report
from hbtrace.replay.session import Observer, Replayed, Session, nothing_in
from hbtrace.replay.settings import Settings
from hbtrace.trace.columns import Columns

NO_TIME: Final = -1

STEP_COST: Final = 80
"""Bytes of a step with its order, about, which whoever judges its races asks for; a piece takes half of that, a row
`ROW_COST`."""
ROW_COST: Final = 12

Pair = tuple[int, int, int, int]
"""Row and number of the current access, then of the earlier one: what a report is known by in its trace."""


def pair_of(report: Report) -> Pair:
    """The key of a report within its trace."""
    return report.current.row, report.current.access, report.earlier.row, report.earlier.access


class Words(Sequence[str]):
    """A column of few words: codes, and what they stand for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._words: list[str] = []
        self._codes: list[npt.NDArray[np.int32]] = []
        self._joined: npt.NDArray[np.int32] | None = None

    def add(self, column: pa.Array) -> None:
        """The next rows of a dictionary column; absent is an empty text."""
        numbers = [self._number(word or "") for word in (*column.dictionary.to_pylist(), "")]
        places = column.indices.fill_null(len(numbers) - 1).to_numpy(zero_copy_only=False)
        self._codes.append(np.array(numbers, dtype=np.int32)[places])
        self._joined = None

    def _number(self, word: str) -> int:
        if word not in self._numbers:
            self._numbers[word] = len(self._words)
            self._words.append(word)
        return self._numbers[word]

    def __len__(self) -> int:
        return sum(map(len, self._codes))

    def __getitem__(self, row: Any) -> Any:
        return self._words[self._whole()[row]]

    def _whole(self) -> npt.NDArray[np.int32]:
        if self._joined is None:
            self._joined = np.concatenate(self._codes) if self._codes else np.empty(0, dtype=np.int32)
        return self._joined

    def among(self, words: Iterable[str]) -> npt.NDArray[np.bool_]:
        """By row, whether it is one of these."""
        chosen = set(words)
        wanted = np.array([word in chosen for word in self._words] or [False])
        return wanted[self._whole()]


@dataclass
class Recording:
    """One trace, replayed and kept."""

    programs: list[Program] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    events: Words = field(default_factory=Words)
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
    exercise: Exercise = field(default_factory=Exercise)
    """What the run did: counters, and the names that filters can match."""
    families: list[str] = field(default_factory=list)
    """Of each actor, its name as signatures have it."""
    nothing: str = ""
    """Why there is nothing to judge; empty where there is."""
    late: bool = False
    """Something was used that no row had defined: the recording began late."""

    @cached_property
    def time(self) -> npt.NDArray[np.int64]:
        """Nanoseconds of each row, -1 where it has none."""
        return np.concatenate(self.times) if self.times else np.empty(0, dtype=np.int64)

    def time_at(self, row: int) -> int:
        return int(self.time[row]) if 0 <= row < len(self.time) else NO_TIME

    def demand_accesses(self) -> None:
        """Raises NothingToJudgeError where no row made an access: such a trace is no clean run."""
        if self.nothing:
            raise NothingToJudgeError(self.nothing)

    @cached_property
    def orders(self) -> list[Order]:
        """What was known at each step, of each program: one pass of clocks for all who ask, and none where nobody does.
        Asked once the recording is finished."""
        clocks = new_clocks()
        return [clocks.order(program) for program in self.programs]

    def steps(self) -> Iterator[tuple[int, int, int, int, int]]:
        for program in self.programs:
            yield from program.steps()

    def without(self, rows: Iterable[int]) -> list[Hit]:
        """The races of the program without the steps of these rows."""
        kernel, gone = new_kernel(ordered=not self.closed), np.fromiter(rows, dtype=np.int64)
        hits: list[Hit] = []
        for program in self.programs:
            code = np.asarray(program.code, dtype=np.int64).reshape(-1, STEP)
            kept = code[~np.isin(code[:, 4], gone)]
            hits += kernel.run(replace(program, code=array("q", kept.tobytes())))
            kernel.remembered()
        return hits


class Recorder(Observer):
    """Makes a recording, batch by batch. limit: about so many bytes are kept; of a longer trace nothing is, then
    `whole` is false."""

    def __init__(self, *, limit: int | None = None) -> None:
        self.whole = True
        self._limit = limit
        self._bytes = 0
        self._names: dict[str, int] = {}
        self._in_force: dict[int, str] = {}
        """By backend id, the actor that its newest `backend` row made."""
        self._out = Recording()
        self._last: Replayed | None = None

    def take(self, replayed: Replayed) -> None:
        """The next batch: its programs are kept, and two columns of its rows."""
        if not self.whole:
            return
        out, batch = self._out, replayed.batch
        self._bytes += ROW_COST * batch.num_rows + sum(
            STEP_COST * len(program.code) // STEP + 4 * len(program.pieces) for program in replayed.programs
        )
        if self._limit is not None and self._bytes > self._limit:
            self.whole, self._out = False, Recording()
            return
        out.programs += replayed.programs
        out.events.add(batch.column("ev"))
        out.times.append(batch.column("time").fill_null(NO_TIME).to_numpy(zero_copy_only=False).astype(np.int64))
        _note_definitions(out, batch, self._names, self._in_force, replayed.first)
        out.hits += replayed.hits
        out.reports += replayed.reports
        self._last = replayed

    def finish(self) -> Recording:
        """There is no batch more."""
        out = self._out
        if self._last is not None:
            lowering = self._last.lowering
            out.rows, out.actors = lowering.rows, list(lowering.names.actors)
            out.closed = not lowering.ordered
            out.warnings = lowering.diagnostics.sentences()
            out.late = lowering.diagnostics.late
            out.exercise, out.families = lowering.exercise, list(lowering.names.families)
            out.nothing = nothing_in(lowering)
        return out


def record(batches: Iterable[pa.RecordBatch], settings: Settings | None = None, *, replay: bool = True) -> Recording:
    """Replay a trace and keep it. replay: false leaves out the kernel, hence the reports."""
    recorder = Recorder()
    Session(batches, settings, [recorder], kernel=replay).run()
    return recorder.finish()


def _note_definitions(
    out: Recording, batch: pa.RecordBatch, names: dict[str, int], in_force: dict[int, str], first: int
) -> None:
    """What `backend` and `tensor` rows say that the replay has no use for."""
    columns = Columns(batch)
    words, numbers = columns.words_of("ev")
    places = np.flatnonzero(np.array([word in ("backend", "backend_free") for word in words])[numbers])
    for place, event in zip(places.tolist(), _rows(batch, places), strict=True):
        ident = event.get("backend", -1) if event["ev"] == "backend_free" else event.get("id", -1)
        if (actor := in_force.get(ident)) is not None:
            out.renamed.setdefault(actor, first + place)
        if event["ev"] == "backend" and isinstance(name := event.get("name"), str) and ident != -1:
            count = names[name] = names.get(name, -1) + 1
            in_force[ident] = actor = f"{name}#{count}" if count else name
            out.queues[actor] = event
    out.inputs |= _flagged_inputs(columns, np.array([word == "tensor" for word in words])[numbers])


def _flagged_inputs(columns: Columns, tensors: npt.NDArray[np.bool_]) -> set[int]:
    """The ids of those tensors that their row flags as an input. tensors: which rows are of one."""
    flags = columns.batch.column("flags")
    if flags.null_count == len(flags):
        return set()
    lengths = flags.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(flags)), lengths)  # of each flag
    named = np.array([flag == "input" for flag in flags.flatten().to_pylist()], dtype=bool)
    found = rows[named & tensors[rows]]
    ids = columns.batch.column("id")
    return set(ids.take(pa.array(found)).drop_null().to_pylist())


_KEYS: Final = ("ev", "id", "backend", "name", "device", "registry", "type", "synchronous", "events", "drains")


def _rows(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """These rows, with only the columns that definitions have here."""
    if not places.size:
        return []
    values = zip(*(batch.column(key).take(pa.array(places)).to_pylist() for key in _KEYS), strict=True)
    return [{k: v for k, v in zip(_KEYS, row, strict=True) if v is not None} for row in values]
