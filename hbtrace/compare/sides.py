"""One side of a comparison: the races of one run or several, united by identity, and what these runs did."""

from __future__ import annotations

import gc
import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

from hbtrace.compare.findings import Occurrences, RaceFinding
from hbtrace.compare.outcome import Options, Outcome, analyze_source
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.selection import RaceOfRun
from hbtrace.compare.side_coverage import Worth
from hbtrace.compare.workload import Key, Workload, workload_of
from hbtrace.errors import StoppedError, TraceError, UsageError
from hbtrace.escape import as_text
from hbtrace.importers.source import Source, open_source
from hbtrace.races.filters import Filters
from hbtrace.races.suppressions import Suppression
from hbtrace.races.unmatched import Nameable, absent_ids, nameable_of_races
from hbtrace.races.unmatched import check_filters as check_names
from hbtrace.replay.reports import Report, Signature
from hbtrace.trace.vocabulary import SUFFIXES
from hbtrace.words import count, left_out

See = Callable[[Source], Source]


@dataclass(slots=True)
class RaceOfSide:
    """A race on a side: a report of it, how often, and in runs of which workloads it is.

    occurrences: None if filters hide all its reports. suppression: None unless all that they show are suppressed.
    """

    report: Report
    suppression: Suppression | None = None
    occurrences: Occurrences | None = None
    workloads: set[Key] = field(default_factory=set)
    path: str = ""
    """The run that the report is of."""

    def add(self, found: RaceOfRun, path: str) -> None:
        """One more run that has it."""
        if not found.count:
            return
        if self.occurrences is None:
            self.report, self.suppression, self.path = found.report, found.suppression, path
            self.occurrences = Occurrences(found.count, found.count)
            return
        self.occurrences.add(found.count)
        if self.suppression is not None and found.suppression is None:  # seen unsuppressed once, it counts
            self.report, self.suppression, self.path = found.report, None, path


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
    unseen: list[str] = field(default_factory=list)
    """Of runs that the recorder did not see whole: what it missed."""
    nameable: Nameable = field(default_factory=Nameable)
    """What filters can name of its runs."""

    @property
    def left_out(self) -> list[str]:
        """A sentence where filters hide races."""
        hidden = sum(seen.occurrences is None for seen in self.races.values())
        return [left_out(hidden, len(self.races), "distinct race")] if hidden else []

    def add(self, outcome: Outcome) -> None:
        """One more run."""
        workload = workload_of(outcome)
        known = self.workloads.setdefault(workload.key, workload)
        if known is not workload:
            known.add(workload)
        for name, number in outcome.exercise.counters().items():
            self.counters[name] = max(number, self.counters.get(name, 0))
        self.backends |= outcome.exercise.backends
        self.coverage.add(outcome.coverage)
        for canonical, found in outcome.selection.known.items():
            seen = self.races.setdefault(canonical, RaceOfSide(found.report))
            seen.add(found, outcome.path)
            seen.workloads.add(workload.key)
        path = f"{outcome.path}: "
        self.warnings += [as_text(path + warning.removeprefix(path)) for warning in outcome.warnings]
        self.unseen += [as_text(path + outcome.unseen)] if outcome.unseen else []
        self.nameable.add(outcome.nameable)


def traces_of(place: str) -> list[str]:
    """The traces that a command line names by a path, a folder or a glob (`**` is any number of folders).

    Raises UsageError for a glob that matches none, TraceError for a place that is not there, a folder that holds none,
    and what has the name of a trace and is no file.
    """
    if place == "-" or (not os.path.isdir(place) and os.path.lexists(place)):
        return [place]
    if os.path.isdir(place):
        found = sorted(str(path) for path in Path(place).iterdir() if _is_named_as_trace(path) and not path.is_dir())
        for path in found:
            if not os.path.isfile(path):
                raise TraceError(f"{path}: cannot be opened: it has the name of a trace and is no file")
        if not found:
            raise TraceError(f"{place}: this folder holds no trace ({', '.join(SUFFIXES)})")
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


def load_side(
    places: Sequence[str], options: Options, *, allow_partial: bool, see: See = lambda source: source
) -> Side:
    """Analyze the runs of a side, one after the other; no trace and no report but one of each race is kept.

    A trace that several places name is one run. Raises TraceError for one that cannot be read, or only in part unless
    `allow_partial`, or holds no access at all, and UsageError for a place that names none. see: a look at each source;
    one that it gives a `cut` was ended early: StoppedError, for half a side is no side.
    """
    side = Side(list(dict.fromkeys(path for place in places for path in traces_of(place))))
    for number, path in enumerate(side.paths):
        try:
            outcome = _outcome(path, replace(options, limit=1), see)
        except StoppedError as error:
            told = (("read whole", side.paths[:number]), ("not read", side.paths[number + 1 :]))
            rest = "".join(f"; {what}: {', '.join(paths)}" for what, paths in told if paths)
            raise StoppedError(f"{error}{rest}") from None
        if outcome.truncated and not allow_partial:
            raise TraceError(f"{path}: is truncated, and a gate judges whole runs only (--allow-partial lifts that)")
        side.add(outcome)
        del outcome
        gc.collect()  # a replay is one great cycle, and the next one begins now
    side.counters = {"runs": len(side.paths), **side.counters}
    side.warnings += [sentence for place in places for sentence in _left_out(place)]
    for seen in side.races.values():
        if seen.occurrences is not None:
            seen.occurrences.of = len(side.paths)
    return side


def load_sides(
    base: str, head: str, options: Options, *, allow_partial: bool, see: See = lambda source: source
) -> list[Side]:
    """Both sides of a comparison. One that was ended early says what there is of the other one."""
    try:
        first = load_side([base], options, allow_partial=allow_partial, see=see)
    except StoppedError as error:
        raise StoppedError(f"base: {error}; head not read: {head}") from None
    try:
        return [first, load_side([head], options, allow_partial=allow_partial, see=see)]
    except StoppedError as error:
        seen = sum(race.occurrences is not None for race in first.races.values())
        raise StoppedError(f"head: {error}; base read whole: {base}, {count(seen, 'distinct race')}") from None


def _outcome(path: str, options: Options, see: See) -> Outcome:
    source = see(open_source(path))
    outcome = analyze_source(source, options)
    if cut := getattr(source, "cut", ""):
        ids = ", ".join(sorted(outcome.selection.ids.values()))
        raise StoppedError(f"{cut}, nothing compared; distinct races until there: {ids or 'none'}")
    return outcome


def check_filters(filters: Filters, sides: Sequence[Side], known: Iterable[Signature] = ()) -> None:
    """A filter that matches no name of any side would make the gate green for ever. Raises UsageError.

    Of an id that no side has, and of several filters that match but show no race together, the last side warns. known:
    races of a baseline, which is a side, too.
    """
    if not filters:
        return
    known = list(known)
    names = nameable_of_races(known)
    for side in sides:
        names.add(side.nameable)
    check_names(filters, names, several=True)
    sides[-1].warnings += absent_ids(filters, [*known, *(canonical for side in sides for canonical in side.races)])
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


def next_command(result: RaceResult, head: Side) -> str:
    """What to type next: for the first race that fails, else for a run that proves too little; empty for neither."""
    for finding in result.findings:
        if finding.severity == "error":
            path = head.races[finding.report.canonical].path
            return "" if path == "-" else f"hbtrace explain {quote(path)} {finding.id}"
    worth = result.coverage["head"].of
    poor = result.demands or (worth is not None and worth.verdict == "not-exercised")
    return f"hbtrace check {quote(head.paths[0])}" if poor and head.paths[0] != "-" else ""
