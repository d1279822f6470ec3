"""One side of a comparison: the races of one run or several, united by identity, and what these runs did."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from hbtrace.analysis import Options, Outcome, analyze_source
from hbtrace.compare.select import Filters, Found
from hbtrace.compare.suppressions import Suppression
from hbtrace.errors import TraceError, UsageError
from hbtrace.replay.races import Report, Signature
from hbtrace.source import open_source

_SUFFIXES: Final = (".arrow", ".arrows", ".jsonl")


@dataclass(slots=True)
class Occurrences:
    """How often a race was reported in the runs of a side in which it occurred."""

    min: int
    max: int
    runs: int = 1

    def add(self, count: int) -> None:
        self.min, self.max, self.runs = min(self.min, count), max(self.max, count), self.runs + 1


@dataclass(slots=True)
class Seen:
    """A race on a side: its first report, and how often."""

    report: Report
    suppression: Suppression | None
    occurrences: Occurrences


@dataclass(slots=True)
class Workload:
    """What the runs of a side did. Counters are the most that one run did."""

    counters: dict[str, int] = field(default_factory=dict)
    backends: set[tuple[tuple[str, str], ...]] = field(default_factory=set)
    roots: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        did = outcome.exercise
        for name, count in did.counters().items():
            self.counters[name] = max(count, self.counters.get(name, 0))
        self.backends |= did.backends
        for name, touched in did.roots.items():
            self.roots[name] = self.roots.get(name, 0) | touched


@dataclass(slots=True)
class Side:
    """The runs of one side. Races are by canonical signature."""

    paths: list[str]
    races: dict[Signature, Seen] = field(default_factory=dict)
    workload: Workload = field(default_factory=Workload)
    warnings: list[str] = field(default_factory=list)
    truncated: list[str] = field(default_factory=list)
    unmatched: dict[str, set[str]] = field(default_factory=dict)
    """By filter option, the values that match nothing of any run of this side."""

    def add(self, outcome: Outcome, filters: Filters) -> None:
        for canonical, found in outcome.selection.found.items():
            self._add_race(canonical, found)
        self.workload.add(outcome)
        self.warnings += [f"{outcome.path}: {w.removeprefix(outcome.path + ': ')}" for w in outcome.warnings]
        if outcome.truncated:
            self.truncated.append(outcome.path)
        unmatched = _unmatched(filters, outcome)
        if len(self.unmatched) or self.paths[0] != outcome.path:
            unmatched = {key: values & self.unmatched.get(key, set()) for key, values in unmatched.items()}
        self.unmatched = unmatched

    def _add_race(self, canonical: Signature, found: Found) -> None:
        seen = self.races.get(canonical)
        if seen is None:
            self.races[canonical] = Seen(found.report, found.suppression, Occurrences(found.count, found.count))
        else:
            seen.occurrences.add(found.count)
            seen.suppression = seen.suppression and found.suppression  # seen unsuppressed once, it counts


def traces_of(place: str) -> list[str]:
    """The traces that a command line names by a path, a folder or a glob. Raises UsageError where there are none."""
    if place == "-" or (not os.path.isdir(place) and os.path.lexists(place)):
        return [place]
    if os.path.isdir(place):
        found = sorted(str(path) for path in Path(place).iterdir() if path.suffix in _SUFFIXES)
        if not found:
            raise UsageError(f"{place}: this folder holds no trace ({', '.join(_SUFFIXES)})")
        return found
    if glob.has_magic(place):
        found = sorted(path for path in glob.glob(place) if not os.path.isdir(path))
        if not found:
            raise UsageError(f"{place}: matches no file")
        return found
    raise TraceError(f"{place}: cannot be opened: no such file or folder")


def load_side(places: Sequence[str], options: Options, *, allow_partial: bool) -> Side:
    """Analyze the runs of a side, one after the other; no trace and no report but the first of each race is kept.

    Raises TraceError for a trace that cannot be read, or only in part unless `allow_partial`.
    """
    paths = [path for place in places for path in traces_of(place)]
    side = Side(paths)
    for path in paths:
        outcome = analyze_source(open_source(path), replace(options, limit=1))
        if outcome.truncated and not allow_partial:
            raise TraceError(f"{path}: is truncated, and a gate judges whole runs only (--allow-partial lifts that)")
        side.add(outcome, options.filters)
    return side


def check_filters(filters: Filters, sides: Iterable[Side]) -> None:
    """A filter that matches nothing of any side would make the gate green for ever. Raises UsageError."""
    sides = list(sides)
    for key, first in sides[0].unmatched.items():
        nowhere = first.intersection(*(side.unmatched.get(key, set()) for side in sides[1:]))
        for value in sorted(nowhere):
            raise UsageError(f"--{key} {value}: matches no {key} of any trace, so nothing would be compared")


def _unmatched(filters: Filters, outcome: Outcome) -> dict[str, set[str]]:
    did = outcome.exercise
    named = {
        "tensor": (filters.tensor, did.tensors),
        "buffer": (filters.buffer, did.buffers),
        "actor": (filters.actor, outcome.actors),
    }
    out = {
        key: {glob for glob in globs if not any(fnmatchcase(name, glob) for name in names)}
        for key, (globs, names) in named.items()
    }
    for key, spans, numbers in (
        ("split", filters.split, did.splits),
        ("ubatch", filters.ubatch, did.ubatch_numbers),
    ):
        out[key] = {
            str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in spans if not any(lo <= n <= hi for n in numbers)
        }
    return out
