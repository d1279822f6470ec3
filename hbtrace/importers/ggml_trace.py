"""A level-2 log of the ggml scheduler sanitizer as events of a trace.

What it is: `GGML_SCHED_SANITIZE=2` text in, event dictionaries out, in the log's order, so that a replay finds
the races that the sanitizer itself reported. Two passes, because backends and buffers are defined before
their first use; memory is bounded by the largest graph, not by the log. What it is not: a checker. What the log
cannot tell (buffer identity, frees, accesses to weights) is not made up; `meta` says so in `notes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

from hbtrace.errors import TraceError
from hbtrace.importers.ggml_lines import (
    HOST,
    AccessLine,
    Computed,
    Copied,
    EdgeLine,
    SanitizerRecord,
    SplitMark,
    Unread,
    records,
)
from hbtrace.importers.ggml_survey import LogFacts, base_name, survey, twice
from hbtrace.importers.ggml_tensors import Tensors
from hbtrace.trace.vocabulary import EventRow
from hbtrace.words import count

_GRAPHS: Final = 256
"""Graphs kept by content; a decode loop needs a handful, and an id in use may be defined anew."""

_WRITERS: Final = 65536
"""Places whose last writing queue is remembered, to guess whose work a copy out of host memory followed."""

_SHOWN: Final = 200
"""Characters of a damaged line that are kept."""

_EDGES: Final = {
    "synchronize": "synchronize",
    "event_record": "event_record",
    "event_wait": "event_wait",
    "event_sync": "event_synchronize",
}


def events(lines: Iterable[bytes], warnings: list[str] | None = None) -> Iterator[EventRow]:
    """The events of a level-2 log. `lines` is read twice; an iterator is kept in a temporary file meanwhile.

    warnings: what is missing in it is added when all was read. A damaged line is a row that no replay knows, so that
    every verb counts it as skipped. Raises `TraceError` where no line is a level-2 line.
    """
    with twice(lines) as source:
        facts = survey(source)
        if not facts.records:
            raise TraceError("no level-2 line of the ggml scheduler sanitizer (`san [split ...`) in this log")
        writer = _Writer(facts)
        yield from writer.all(source)
    if writer.incomplete and warnings is not None:
        computes = count(writer.incomplete, "compute")
        warnings.append(f"lines are missing in this log: {computes} with other accesses than its last line counts")


def _notes(facts: LogFacts) -> str:
    said = [
        "Made from the text of GGML_SCHED_SANITIZE=2.",
        "Buffers are known by their type's name only: several of one type are one buffer here, as large as its"
        " furthest access, and never freed.",
        "Accesses to weights have no line, so clocks may be lower than the log's.",
    ]
    if taken := [name for name in facts.actors if facts.synchronous(name)]:
        said.append(f"Taken to be synchronous by name: {', '.join(taken)}.")
    if facts.unread:
        said.append(f"{facts.unread} damaged level-2 lines stand as rows `damaged_line`.")
    return " ".join(said)


class _Writer:
    """The second pass: one record at a time, accesses of one operation held back until its last line."""

    def __init__(self, facts: LogFacts) -> None:
        self._facts = facts
        self._backends: dict[str, int] = {}
        self._buffers: dict[str, int] = {}
        self._tensors = Tensors(facts.roots)
        self._graphs: dict[bytes, int] = {}
        self._writers: dict[tuple[str, int], str] = {}
        self._compute: list[AccessLine] = []
        self._copy: list[AccessLine] = []
        self.incomplete = 0
        """Computes of which lines are missing."""

    def all(self, source: Iterable[bytes]) -> Iterator[EventRow]:
        yield from self._definitions()
        for line in source:
            for record in records(line):
                yield from self._record(record)
        yield from self._flush()

    def _definitions(self) -> Iterator[EventRow]:
        producer = "hbtrace importer of the ggml scheduler sanitizer"
        yield {"ev": "meta", "version": 1, "producer": producer, "engine": "ggml", "notes": _notes(self._facts)}
        lowest: dict[str, int] = {}
        for name in self._facts.actors:
            base, n = base_name(name)
            lowest[base] = max(lowest.get(base, 0), n)
        for base, last in lowest.items():
            # A replay numbers backends of one name in row order. One that the log never shows (it touched only
            # weights) still gets its row, or `ROCm0#1` would print as `ROCm0`.
            for n in range(last + 1):
                name = base if n == 0 else f"{base}#{n}"
                self._backends[name] = number = len(self._backends)
                row: EventRow = {"ev": "backend", "id": number, "name": base}
                if self._facts.synchronous(name):
                    row |= {"async": False, "synchronous": True}
                yield row
        for name, size in self._facts.extents.items():
            yield self._buffer(name, size)

    def _buffer(self, name: str, size: int) -> EventRow:
        self._buffers[name] = number = len(self._buffers)
        row: EventRow = {"ev": "buffer", "id": number, "name": name, "size": size}
        if _is_host(name):
            row["host"] = True
        return row

    def _record(self, record: SanitizerRecord) -> Iterator[EventRow]:
        match record:
            case AccessLine(what="compute") if record.actor != HOST:
                last = self._compute[-1] if self._compute else record
                if self._copy or (last.actor, last.split) != (record.actor, record.split):
                    yield from self._flush()
                self._compute.append(record)
            case AccessLine(what="cpy_async src", mode="read") if record.actor != HOST:
                yield from self._flush()
                self._copy = [record]
            case AccessLine(what="cpy_async dst", mode="write") if record.actor != HOST:
                if self._compute or [held.mode for held in self._copy] != ["read"]:
                    yield from self._flush()
                self._copy.append(record)
            case Computed():
                yield from self._computed(record)
            case Copied():
                yield from self._copied(record)
            case Unread():
                yield {"ev": "damaged_line", "x_text": record.text[:_SHOWN]}
            case _:
                yield from self._flush()
                yield from self._simple(record)

    def _simple(self, record: AccessLine | EdgeLine | SplitMark) -> Iterator[EventRow]:
        if isinstance(record, AccessLine):
            yield from self._lone(record)
        elif isinstance(record, SplitMark):
            note: EventRow = {"ev": "note", "what": "split_without_inputs"}
            yield _with_split(note | {"attrs": {"actor": record.actor}}, record.split)
        else:
            row: EventRow = {"ev": _EDGES[record.op]}
            if record.op != "event_sync":
                row["backend"] = self._backends[record.actor]
            if record.event >= 0:
                row["event"] = record.event
            yield _with_split(row, record.split)

    def _lone(self, access: AccessLine) -> Iterator[EventRow]:
        """One access with a tick of its own: the host's, or a transfer that a queue carries out."""
        self._tensors.begin()
        where, rows = self._locate(access)
        yield from rows
        row: EventRow = {"ev": "host_access"}
        if access.actor != HOST:
            row = {"ev": "kernel", "backend": self._backends[access.actor]}
        row["label"] = access.what
        row["reads" if access.mode == "read" else "writes"] = [where]
        yield _with_split(row, access.split)

    def _computed(self, record: Computed) -> Iterator[EventRow]:
        others = [held for held in self._compute if (held.actor, held.split) != (record.actor, record.split)]
        if others or self._copy:
            yield from self._flush()
        reads = sum(access.mode == "read" for access in self._compute)
        writes = len(self._compute) - reads
        if (reads, writes) != (record.reads, record.writes):
            attrs = {"actor": record.actor, "said": [record.reads, record.writes], "found": [reads, writes]}
            self.incomplete += 1
            yield {"ev": "note", "what": "log_lines_missing", "attrs": attrs}
        yield from self._emit_compute(record.actor, record.split)

    def _emit_compute(self, actor: str, split: int) -> Iterator[EventRow]:
        """All of a graph compute in one epoch, its nodes in order: `kernel` would read before it writes.

        A node ends at its write. A node whose write has no line (weights) joins the next one, which changes no
        order: its reads still come first.
        """
        self._tensors.begin()
        nodes: list[EventRow] = []
        reads: list[EventRow] = []
        for access in self._compute:
            where, rows = self._locate(access)
            yield from rows
            if access.mode == "read":
                reads.append(where)
            else:
                nodes.append({"tensor": where["tensor"], "reads": reads, "writes": [where]})
                reads = []
        if reads:
            nodes.append({"reads": reads, "writes": []})
        self._compute = []
        number, known = self._graph(nodes)
        if not known:
            yield {"ev": "graph", "id": number, "nodes": nodes}
        yield _with_split({"ev": "compute", "backend": self._backends[actor], "graph": number}, split)

    def _graph(self, nodes: list[EventRow]) -> tuple[int, bool]:
        key = blake2b(repr(nodes).encode(), digest_size=16).digest()
        number = self._graphs.pop(key, None)
        known = number is not None
        if number is None:
            number = len(self._graphs)
            if number >= _GRAPHS:
                number = self._graphs.pop(next(iter(self._graphs)))
        self._graphs[key] = number
        return number, known

    def _copied(self, record: Copied) -> Iterator[EventRow]:
        if self._compute or (self._copy and self._copy[-1].actor not in (record.actor, record.reader)):
            yield from self._flush()
        yield from self._emit_copy(record.reader, record.actor, record.split)

    def _emit_copy(self, reader: str, writer: str, split: int) -> Iterator[EventRow]:
        """One asynchronous copy. The sanitizer reads on the source's queue, or on the destination's if the source
        is host memory; in that case source and destination share an epoch, and the log does not say whose
        work the copy followed: most likely that of the queue which wrote the source.
        """
        self._tensors.begin()
        src, dst = (next((a for a in self._copy if a.mode == mode), None) for mode in ("read", "write"))
        row: EventRow = {"ev": "copy_async", "backend": self._backends[writer], "label": "cpy_async"}
        if reader != writer:
            row |= {"src_backend": self._backends[reader], "runs_on": "both"}
        else:
            row["runs_on"] = "dst"
            # Not out of host memory: then both ends are the same backend, and there is nothing to guess.
            followed = self._writers.get((src.buffer, src.offset)) if src and _is_host(src.buffer) else None
            if followed and followed != writer:
                row["src_backend"] = self._backends[followed]
        for side, access in (("src", src), ("dst", dst)):
            if access is None:
                # Weights: the copy ticks and orders, and touches nothing that is tracked.
                if "(untracked)" not in self._buffers:
                    yield self._buffer("(untracked)", 0)
                row[side] = {"buffer": self._buffers["(untracked)"], "offset": 0, "size": 0}
            else:
                row[side], rows = self._locate(access)
                yield from rows
        self._copy = []
        yield _with_split(row, split)

    def _flush(self) -> Iterator[EventRow]:
        """Ends what its own last line did not end: the process aborted, or lines are missing."""
        if self._compute:
            yield from self._emit_compute(self._compute[0].actor, self._compute[0].split)
        if len(self._copy) == 2:
            yield from self._emit_copy(self._copy[0].actor, self._copy[1].actor, self._copy[1].split)
        elif self._copy:
            access, self._copy = self._copy[0], []
            yield from self._lone(access)

    def _locate(self, access: AccessLine) -> tuple[EventRow, list[EventRow]]:
        key = (access.buffer, access.offset)
        if access.mode == "write":
            self._writers.pop(key, None)
            if access.actor != HOST:
                self._writers[key] = access.actor
                if len(self._writers) > _WRITERS:
                    del self._writers[next(iter(self._writers))]
        whole = access.what == "compute" or access.what.endswith((" src", " dst"))
        return self._tensors.locate(access, self._buffers[access.buffer], whole)


def _is_host(buffer: str) -> bool:
    """Whether ggml calls memory of this type host memory: `CPU`, `CPU_Mapped`, `CUDA_Host`, `ROCm_Host`."""
    return buffer in ("CPU", "CPU_Mapped") or buffer.endswith("_Host")


def _with_split(row: EventRow, split: int) -> EventRow:
    return row if split == -1 else row | {"split": split}
