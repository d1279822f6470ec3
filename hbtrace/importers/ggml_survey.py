"""The first of two passes over a level-2 log: who takes part, who is synchronous, how far buffers reach.

What it is: the facts that have to stand in the first rows of a trace but show only in the course of the log.
What it is not: a replay. It keeps one entry per actor, buffer name and reported view, so a log of any length
fits.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Final

from hbtrace.importers.ggml_lines import HOST, AccessLine, Copied, EdgeLine, SanitizerRecord, Unread, records
from hbtrace.importers.ggml_reports import ReportReader
from hbtrace.importers.logged import LoggedReport

SYNCHRONOUS_NAMES: Final = ("CPU", "BLAS", "Accelerate", "ZenDNN", "zDNN", "OpenVINO", "OPENVINO", "VirtGPU")
"""Backends of the tree that have no `synchronize` (August 2026); a device number may follow."""

_SYNCHRONOUS: Final = re.compile(rf"(?:{'|'.join(SYNCHRONOUS_NAMES)})\d*")
_NUMBERED: Final = re.compile(r"(.+)#(\d+)")


@dataclass
class LogFacts:
    """What the whole log says, before any event is made of it."""

    lines: int = 0
    records: int = 0
    unread: int = 0
    reports: int = 0
    actors: dict[str, None] = field(default_factory=dict)
    """Queues in the order first seen, by the name the log prints."""
    asynchronous: set[str] = field(default_factory=set)
    """Queues that did what a backend without `synchronize` cannot do."""
    extents: dict[str, int] = field(default_factory=dict)
    """Buffer type name to the end of its furthest access."""
    roots: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """(buffer, view) to its root, told by RACE blocks only; None where two of them disagree."""

    def synchronous(self, actor: str) -> bool:
        """Whether `actor`'s work counts as complete when its call returns.

        No line says so. Who records or waits for events, or is the earlier side of a reported race, is
        asynchronous for certain; for all others the backend's name decides. An `EDGE synchronize` decides
        nothing: the scheduler-only variant prints one for backends that have no `synchronize` too.
        """
        return actor not in self.asynchronous and _SYNCHRONOUS.fullmatch(base_name(actor)[0]) is not None


def base_name(actor: str) -> tuple[str, int]:
    """`ROCm0#2` as the backend's own name and its place among the backends of that name."""
    m = _NUMBERED.fullmatch(actor)
    return (m[1], int(m[2])) if m else (actor, 0)


def survey(lines: Iterable[bytes]) -> LogFacts:
    """Reads all of `lines` and keeps only the facts."""
    facts, reader = LogFacts(), ReportReader()
    for line in lines:
        facts.lines += 1
        for record in records(line):
            _note(facts, record)
        for report in reader.feed(line):
            _note_report(facts, report)
    return facts


def _note(facts: LogFacts, record: SanitizerRecord) -> None:
    if isinstance(record, Unread):
        facts.unread += 1
        return
    facts.records += 1
    actors = [record.actor]
    match record:
        case AccessLine():
            facts.extents[record.buffer] = max(facts.extents.get(record.buffer, 0), record.offset + record.size)
        case Copied():
            actors.insert(0, record.reader)
        case EdgeLine() if record.op in ("event_record", "event_wait"):
            facts.asynchronous.add(record.actor)
    for actor in actors:
        if actor != HOST:
            facts.actors.setdefault(actor)


def _note_report(facts: LogFacts, report: LoggedReport) -> None:
    facts.reports += report.complete
    if report.earlier is None or not report.complete:
        return
    # The host knows all that a synchronous backend did, and every later access knows what the host knows:
    # so the earlier side of a race was not done when its call returned.
    if report.earlier.actor != HOST:
        facts.asynchronous.add(report.earlier.actor)
    for side in (report.earlier, report.current):
        if side is not None and side.root is not None:
            key = (report.buffer, side.tensor or "")
            facts.roots[key] = side.root if facts.roots.get(key, side.root) == side.root else None


@contextmanager
def twice(lines: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    """`lines` as something that can be read twice: what can be read only once goes through a temporary file."""
    if iter(lines) is not lines:
        yield lines
        return
    with tempfile.TemporaryFile(prefix="hbtrace-") as spool:
        spool.writelines(line if line.endswith(b"\n") else line + b"\n" for line in lines)
        yield _Rewound(spool)


class _Rewound:
    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool

    def __iter__(self) -> Iterator[bytes]:
        self._spool.seek(0)
        return iter(self._spool)
