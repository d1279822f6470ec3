"""One side of a comparison: the races of one run or several, united by identity, and what these runs did."""

from __future__ import annotations

import gc
import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from hbtrace.compare.findings import Occurrences, RaceFinding
from hbtrace.compare.outcome import Options, Outcome, analyze_source
from hbtrace.compare.selection import RaceOfRun
from hbtrace.compare.side_coverage import Worth
from hbtrace.compare.unmatched import Unmatched, in_none
from hbtrace.compare.workload import Key, Workload, workload_of
from hbtrace.errors import TraceError, UsageError
from hbtrace.escape import as_text
from hbtrace.importers.source import open_source
from hbtrace.races.filters import Filters, is_id_of
from hbtrace.races.identity import identities
from hbtrace.races.suppressions import Suppression
from hbtrace.replay.reports import KINDS, Report, Signature
from hbtrace.trace.vocabulary import SUFFIXES


@dataclass(slots=True)
class RaceOfSide:
    """A race on a side: a report of it, how often, and in runs of which workloads it is.

    occurrences: None if filters hide all its reports. suppression: None unless all that they show are suppressed.
    """

    report: Report
    suppression: Suppression | None = None
    occurrences: Occurrences | None = None
    workloads: set[Key] = field(default_factory=set)

    def add(self, found: RaceOfRun) -> None:
        """One more run that has it."""
        if not found.count:
            return
        if self.occurrences is None:
            self.report, self.suppression = found.report, found.suppression
            self.occurrences = Occurrences(found.count, found.count)
            return
        self.occurrences.add(found.count)
        if self.suppression is not None and found.suppression is None:  # seen unsuppressed once, it counts
            self.report, self.suppression = found.report, None


@dataclass(slots=True)
class Side:
    """The runs of one side. Races are by canonical signature, those that filters hide among them."""

    paths: list[str]
    races: dict[Signature, RaceOfSide] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    """How many runs there are, and the most that one of them did."""
    backends: set[tuple[tuple[str, str], ...]] = field(default_factory=set)
    """The attributes of each backend, as sorted pairs of words."""
    workloads: dict[Key, Workload] = field(default_factory=dict)
    coverage: Worth = field(default_factory=Worth)
    warnings: list[str] = field(default_factory=list)
    unmatched: list[Unmatched] = field(default_factory=list)
    """What the filters name that a run does not have, for each run."""

    def add(self, outcome: Outcome, filters: Filters) -> None:
        """One more run."""
        workload = workload_of(outcome)
        known = self.workloads.setdefault(workload.key, workload)
        if known is not workload:
            known.add(workload)
        for name, count in outcome.exercise.counters().items():
            self.counters[name] = max(count, self.counters.get(name, 0))
        self.backends |= outcome.exercise.backends
        self.coverage.add(outcome.coverage)
        for canonical, found in outcome.selection.known.items():
            seen = self.races.setdefault(canonical, RaceOfSide(found.report))
            seen.add(found)
            seen.workloads.add(workload.key)
        path = f"{outcome.path}: "
        self.warnings += [as_text(path + warning.removeprefix(path)) for warning in outcome.warnings]
        self.unmatched.append(outcome.unmatched(filters))


def traces_of(place: str) -> list[str]:
    """The traces that a command line names by a path, a folder or a glob (`**` is any number of folders).

    Raises UsageError where there are none, TraceError for what has the name of a trace and is no file.
    """
    if place == "-" or (not os.path.isdir(place) and os.path.lexists(place)):
        return [place]
    if os.path.isdir(place):
        found = sorted(str(path) for path in Path(place).iterdir() if _is_named_as_trace(path) and not path.is_dir())
        for path in found:
            if not os.path.isfile(path):
                raise TraceError(f"{path}: cannot be opened: it has the name of a trace and is no file")
        if not found:
            raise UsageError(f"{place}: this folder holds no trace ({', '.join(SUFFIXES)})")
        return found
    if glob.has_magic(place):
        found = sorted(path for path in glob.glob(place, recursive=True) if not os.path.isdir(path))
        if not found:
            raise UsageError(f"{place}: matches no file")
        return found
    raise TraceError(f"{place}: cannot be opened: no such file or folder")


def _is_named_as_trace(path: Path | str) -> bool:
    return Path(path).suffix.lower() in SUFFIXES


def _left_out(place: str) -> list[str]:
    """A sentence if folders of a folder hold traces: these are no runs of the side."""
    if not os.path.isdir(place):
        return []
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(place) if folder != place for name in names)
    first = min(filter(_is_named_as_trace, inside), default=None)
    if first is None:
        return []
    every = os.path.join(glob.escape(place), "**", f"*{Path(first).suffix}")
    return [as_text(f"{first}: not read, for it is in a folder of {place}; '{every}' names such traces as well")]


def load_side(places: Sequence[str], options: Options, *, allow_partial: bool) -> Side:
    """Analyze the runs of a side, one after the other; no trace and no report but one of each race is kept.

    A trace that several places name is one run. Raises TraceError for one that cannot be read, or only in part unless
    `allow_partial`, or holds no access at all, and UsageError for a place that names none.
    """
    side = Side(list(dict.fromkeys(path for place in places for path in traces_of(place))))
    for path in side.paths:
        outcome = analyze_source(open_source(path), replace(options, limit=1))
        if outcome.truncated and not allow_partial:
            raise TraceError(f"{path}: is truncated, and a gate judges whole runs only (--allow-partial lifts that)")
        if outcome.exercise.idle and not outcome.reported:
            raise TraceError(f"{path}: no event in it accesses live memory, so a gate would be green in any case")
        side.add(outcome, options.filters)
        del outcome
        gc.collect()  # a replay is one great cycle, and the next one begins now
    side.counters = {"runs": len(side.paths), **side.counters}
    side.warnings += [sentence for place in places for sentence in _left_out(place)]
    for seen in side.races.values():
        if seen.occurrences is not None:
            seen.occurrences.of = len(side.paths)
    return side


def check_filters(filters: Filters, sides: Sequence[Side], known: Iterable[Signature] = ()) -> None:
    """A filter that matches nothing of any side would make the gate green for ever. Raises UsageError.

    Several that match, but no race together, are warned of. known: races of a baseline, which an id may mean as well.
    """
    for key, nowhere in in_none(found for side in sides for found in side.unmatched).items():
        for value in sorted(nowhere):
            raise UsageError(f"--{key} {value}: matches no {key} of any trace, so nothing would be compared")
    for value in filters.kind:
        if not any(fnmatchcase(kind, value) for kind in KINDS):
            raise UsageError(f"--kind {value}: matches no kind of race, so nothing would be compared")
    ids = identities([*known, *(canonical for side in sides for canonical in side.races)])
    for value in filters.ids:
        if not any(is_id_of(value, canonical, ident) for canonical, ident in ids.items()):
            raise UsageError(f"--id {value}: is no race of either side, so nothing would be compared")
    races = [seen for side in sides for seen in side.races.values()]
    if len(used := filters.used()) > 1 and races and all(seen.occurrences is None for seen in races):
        together = " and ".join(f"--{option}" for option in used)
        sides[-1].warnings.append(f"{together} together show no race of any trace, and without them there are some")


def unproved(side: Side, findings: Iterable[RaceFinding]) -> list[str]:
    """What the runs were to show and did not: sentences, none if each run and each known race was exercised."""
    limited = sum(len(run.paths) for run in side.workloads.values() if run.limits)
    out = [f"{limited} of {len(side.paths)} runs could not show every race"] if limited else []
    gone = [finding.id for finding in findings if finding.state == "not exercised"]
    return out + ([f"not exercised: {', '.join(gone)}"] if gone else [])
