"""Root causes: distinct races clustered by the order that they all lack.

A list of three thousand reports is often one bug. What makes two reports one cause is the missing order: the same pair
of program points (the host setting inputs, a queue running a ubatch, a copy into a slot, the allocator handing out
bytes) between two actors of the same names. What makes a cause one line is its nature, which also names the mend.

Nothing here decides whether something is a race.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hbtrace.explain.consequents import consequents
from hbtrace.explain.ways import WAYS, Way, way_between
from hbtrace.races.filters import Filters
from hbtrace.races.identity import identities
from hbtrace.races.natures import Key, Nature, ident_of, is_host, key_of, nature_of
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.program import JOIN, STEP
from hbtrace.replay.recording import NO_TIME, Pair, Recording, pair_of
from hbtrace.replay.reports import Report, Signature
from hbtrace.trace.vocabulary import HOST_SETS
from hbtrace.words import count

NO_TENSOR: Final = "-"
"""The name of bytes of no tensor."""


@dataclass(slots=True)
class Window:
    """How far apart the two accesses of one report were called: rows, and nanoseconds where both rows have a time."""

    events: int
    time: int | None


@dataclass(slots=True)
class Cause:
    """One root cause and what it comes to.

    ident: `C-` and digits; no address, clock, count, split or time is in it. earlier, current: the actors, without the
    `#n` of later ones where its reports are of several, but for actors of one name: then those of the first. point:
    labels of the first report's two sides. ubatches: of the current sides. windows: the narrowest and the widest.
    consequent: every report of it is only possible after another race.
    """

    ident: str
    nature: Nature
    earlier: str
    current: str
    point: tuple[str, str]
    reports: list[Report] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name of a buffer the interval that holds all conflicting bytes of no tensor."""
    pairs: set[tuple[str, str]] = field(default_factory=set)
    """The two actors of each report."""
    one_name: bool = False
    """Whether its actors differ in their `#n` alone."""
    signatures: dict[Signature, None] = field(default_factory=dict)
    ubatches: set[int] = field(default_factory=set)
    narrowest: Window | None = None
    widest: Window | None = None
    primary: int = 0
    """Reports that are possible without any other race."""
    live: int = 0
    dead: int = 0
    unknown: int = 0
    way: Way = "event"
    """The lightest way in which each current side could wait for its earlier one."""
    can_wait: bool = True
    """Whether each earlier side is a queue that can still be waited for when the current side happens."""
    sets: bool = True
    """Whether each current side is a call that sets a tensor, as the engine sets inputs."""
    fills: bool = False
    """Whether each current side is a copy that its source's queue runs, and each earlier one its destination's work."""

    @property
    def distinct(self) -> int:
        return len({report.signature for report in self.reports})

    @property
    def touched(self) -> list[str]:
        """What its reports are about: tensors, and bytes where no tensor is."""
        named = [name for name in self.tensors if name != NO_TENSOR]
        return named + [f"{buffer}[{lo}, {hi})" for buffer, (lo, hi) in self.spans.items()]

    @property
    def also(self) -> str:
        """What `earlier` and `current` leave out where all actors are of one name; mostly nothing."""
        more = len(self.pairs) - 1
        if not more or not self.one_name:
            return ""
        back = (self.current, self.earlier) in self.pairs
        return " and the other way round" if back and more == 1 else f" and {count(more, 'more pair')} of that name"

    @property
    def first_row(self) -> int:
        return min(report.current.row for report in self.reports)

    @property
    def consequence(self) -> str:
        """Of all its reports: live if any is, unknown if any could be."""
        return "live" if self.live else "unknown" if self.unknown else "dead"

    @property
    def steps(self) -> list[int]:
        """How many ubatches apart the two sides are, where both have one."""
        sides = ((r.earlier.ubatch, r.current.ubatch) for r in self.reports)
        return sorted({b - a for a, b in sides if a >= 0 and b >= 0})


def causes_of(
    recording: Recording,
    filters: Filters | None = None,
    suppressed: Collection[Pair] = (),
    ids: Mapping[Signature, str] | None = None,
) -> list[Cause]:
    """The root causes of a recording's reports, by the row in which each first shows.

    Reports that the filters hide, or that are suppressed, count nowhere; which of the others are primary they still
    decide. ids: of the distinct races, by canonical signature, if they are known already.
    """
    later = consequents(recording)
    if ids is None:
        ids = identities({report.canonical for report in recording.reports}) if filters else {}
    found: dict[Key, Cause] = {}
    for index, report in enumerate(recording.reports):
        if filters and not filters.shows(report, ids):
            continue
        if suppressed and pair_of(report) in suppressed:
            continue
        key = key_of(report, recording)
        cause = found.get(key)
        if cause is None:
            earlier, current = report.earlier, report.current
            cause = found[key] = Cause(
                ident_of(key), nature_of(report, recording), earlier.actor, current.actor,
                (earlier.label, current.label),
            )  # fmt: skip
        _add(cause, report, recording, primary=index not in later)
    _note_fills([cause for cause in found.values() if cause.nature == "copy"], recording)
    return list(found.values())


def _note_fills(copies: list[Cause], recording: Recording) -> None:
    """Of copies from the source's queue the destination's is the one that joins it in their row."""
    rows = sorted({report.current.row for cause in copies for report in cause.reports})
    joins: dict[int, set[tuple[str, str]]] = {}
    for program in recording.programs if rows else ():
        steps = np.array(program.code, dtype=np.int64).reshape(-1, STEP)
        steps = steps[(steps[:, 0] == JOIN) & np.isin(steps[:, 4], rows)]
        for _, actor, other, _, row in steps.tolist():
            joins.setdefault(row, set()).add((recording.actors[actor], recording.actors[other]))
    for cause in copies:
        cause.fills = all(
            (report.earlier.actor, report.current.actor) in joins.get(report.current.row, ())
            for report in cause.reports
        )


def _add(cause: Cause, report: Report, recording: Recording, *, primary: bool) -> None:
    cause.reports.append(report)
    way = way_between(recording.queues, report.earlier.actor, report.current.actor)
    cause.way = max(cause.way, way, key=WAYS.index)
    cause.can_wait = cause.can_wait and _can_wait(report, recording)
    cause.sets = cause.sets and recording.events[report.current.row] in HOST_SETS
    cause.pairs.add((report.earlier.actor, report.current.actor))
    cause.one_name = report.canonical[2] == report.canonical[5]
    if not cause.one_name:
        cause.earlier = report.earlier.actor if cause.earlier == report.earlier.actor else report.canonical[2]
        cause.current = report.current.actor if cause.current == report.current.actor else report.canonical[5]
    cause.signatures.setdefault(report.canonical)
    cause.primary += primary
    for side in (report.earlier, report.current):
        name = NO_TENSOR if side.root is None else without_slot(side.root)
        if name not in cause.tensors:
            cause.tensors.append(name)
        if side.root is None:
            lo, hi = cause.spans.get(report.buffer, (report.lo, report.hi))
            cause.spans[report.buffer] = min(lo, report.lo), max(hi, report.hi)
    cause.ubatches.add(report.current.ubatch)
    window = window_of(report, recording)
    if cause.narrowest is None or window.events < cause.narrowest.events:
        cause.narrowest = window
    if cause.widest is None or window.events > cause.widest.events:
        cause.widest = window


def _can_wait(report: Report, recording: Recording) -> bool:
    """A queue that was freed, or whose id another has, has no name to wait for it by; a synchronous one is done."""
    queue = report.earlier.actor
    named = report.current.row <= recording.renamed.get(queue, report.current.row)
    return named and not is_host(queue) and recording.queues.get(queue, {}).get("synchronous") is not True


def window_of(report: Report, recording: Recording) -> Window:
    begin, end = recording.time_at(report.earlier.row), recording.time_at(report.current.row)
    span = end - begin if begin != NO_TIME and end != NO_TIME else None
    return Window(report.current.row - report.earlier.row, span)
