"""Filters, suppressions and limits: which reports are shown, and what was left out. The replay never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hbtrace.compare.identity import SHORTEST, full_identity, identities, tensor_names
from hbtrace.compare.suppressions import Suppression, Suppressions
from hbtrace.errors import UsageError
from hbtrace.replay.races import KINDS, Access, Report, Signature

if TYPE_CHECKING:
    from hbtrace.explain.judged import Judged

Span = tuple[int, int]
"""Inclusive numbers, lowest and highest."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Of one option any value may match; different options must all match. Globs; spans for numbers.

    A tensor, actor, label, split or ubatch option looks at both sides; a tensor option at name and root, and at what
    outputs call them.
    One glob, number or span may stand without its tuple. Raises UsageError for what would silently match nothing.
    """

    tensor: tuple[str, ...] = ()
    buffer: tuple[str, ...] = ()
    actor: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    split: tuple[Span, ...] = ()
    ubatch: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            whole = _spans if one.name in ("split", "ubatch") else _texts
            object.__setattr__(self, one.name, whole(one.name, getattr(self, one.name)))
        for kind in self.kind:
            if kind not in KINDS and not set(kind) & set("*?["):
                raise UsageError(f"Filters: kind {kind!r} is none of {', '.join(KINDS)} (or a glob)")

    def accepts(self, report: Report) -> bool:
        """All options but `ids`, which are known only when all signatures are."""
        sides = (report.earlier, report.current)
        return (
            _globs(self.tensor, lambda: tensor_names(report))
            and _globs(self.buffer, lambda: (report.buffer,))
            and _globs(self.actor, lambda: (a.actor for a in sides))
            and _globs(self.label, lambda: (a.label for a in sides))
            and _globs(self.kind, lambda: (report.kind,))
            and _within(self.split, sides, "split")
            and _within(self.ubatch, sides, "ubatch")
        )

    def accepts_id(self, canonical: Signature, ident: str) -> bool:
        """An id that is whole, or longer by digits of a collision elsewhere, names the same race in every run."""
        return not self.ids or any(is_id_of(pattern, canonical, ident) for pattern in self.ids)

    def shows(self, report: Report, ids: Mapping[Signature, str]) -> bool:
        """All options. ids: of the distinct races, by canonical signature."""
        return self.accepts(report) and self.accepts_id(report.canonical, ids[report.canonical])

    def used(self) -> list[str]:
        """The options that were given, as they are spelled."""
        return [one.name.replace("ids", "id") for one in fields(self) if getattr(self, one.name)]

    def __bool__(self) -> bool:
        return bool(self.used())


def _texts(name: str, given: Any) -> tuple[str, ...]:
    """A text by itself would be taken for its letters."""
    texts = (given,) if isinstance(given, str) else _elements(name, given, "a glob, or a tuple of globs")
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"Filters: {name} is a glob, or a tuple of globs, not {given!r}")
    return texts


def _spans(name: str, given: Any) -> tuple[Span, ...]:
    """A number is the span of only this, and two numbers are one span."""
    what = "a span such as (2, 5), or a tuple of spans"
    if _is_number(given):
        return ((given, given),)
    spans = _elements(name, given, what)
    if len(spans) == 2 and all(map(_is_number, spans)):
        spans = (spans,)
    for span in spans:
        if not (isinstance(span, (tuple, list)) and len(span) == 2 and all(map(_is_number, span))):
            raise UsageError(f"Filters: {name} is {what}, not {given!r}")
        if span[1] < span[0]:
            raise UsageError(f"Filters: {name} {span!r} ends before it begins")
    return tuple((lo, hi) for lo, hi in spans)


def _is_number(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _elements(name: str, given: Any, what: str) -> tuple[Any, ...]:
    try:
        return tuple(given)
    except TypeError:
        raise UsageError(f"Filters: {name} is {what}, not {given!r}") from None


def is_id_of(pattern: str, canonical: Signature, ident: str) -> bool:
    """Whether a glob, or an id of six digits or more, means this race."""
    return fnmatchcase(ident, pattern) or (len(pattern) >= SHORTEST and full_identity(canonical).startswith(pattern))


def _globs(patterns: tuple[str, ...], values: Callable[[], Iterable[str | None]]) -> bool:
    return not patterns or any(fnmatchcase(v, p) for v in values() if v is not None for p in patterns)


def _within(spans: tuple[Span, ...], sides: tuple[Access, ...], key: str) -> bool:
    return not spans or any(lo <= getattr(a, key) <= hi for a in sides for lo, hi in spans)


@dataclass(slots=True)
class Race:
    """A distinct race and its reports: how many, those kept for showing, the ubatches of their current sides."""

    signature: Signature
    canonical: Signature
    first_row: int
    suppression: Suppression | None = None
    reports: int = 0
    kept: list[Report] = field(default_factory=list)
    ubatches: set[int] = field(default_factory=set)
    ident: str = ""


@dataclass(slots=True)
class Found:
    """A race by its identity: how many reports of it passed the filters, and the first of them.

    It is suppressed if all of these are; one that is not stands for it otherwise. Where none passed, the first report.
    """

    report: Report
    suppression: Suppression | None = None
    count: int = 0

    def add(self, report: Report, suppression: Suppression | None) -> None:
        """One more report that passed the filters."""
        if not self.count or (self.suppression is not None and suppression is None):
            self.report, self.suppression = report, suppression
        self.count += 1


@dataclass(slots=True)
class Selection:
    """The reports of a run after filters, suppressions and limits.

    races, distinct: before filters. shown: reports the filters let through, before limits; `suppressed` of these are.
    reports: after limits, in the order in which they came; `repeats` of each says how many it stands for.
    """

    races: int = 0
    distinct: int = 0
    shown: int = 0
    suppressed: int = 0
    reports: list[Report] = field(default_factory=list)
    """Those that are suppressed are not among them."""
    marked: list[tuple[Report, Suppression]] = field(default_factory=list)
    """The suppressed ones, limited in the same way."""
    groups: list[Race] = field(default_factory=list)
    ids: dict[Signature, str] = field(default_factory=dict)
    """By canonical signature."""
    known: dict[Signature, Found] = field(default_factory=dict)
    """By canonical signature, all races; of those that the filters hide the count is 0."""
    judged: Judged | None = None
    """What the reports come to, if that was asked for and there are any."""

    @property
    def found(self) -> dict[Signature, Found]:
        """Those that passed the filters."""
        return {canonical: found for canonical, found in self.known.items() if found.count}

    @property
    def filtered(self) -> int:
        return self.races - self.shown

    @property
    def limited(self) -> int:
        return self.shown - self.suppressed - len(self.reports)

    def all_marked(self) -> list[tuple[Report, Suppression | None]]:
        """Reports and suppressed reports together, in the order in which they came."""
        both: list[tuple[Report, Suppression | None]] = [*((report, None) for report in self.reports), *self.marked]
        return sorted(both, key=lambda pair: _order(pair[0]))

    @property
    def findings(self) -> int:
        """What counts for the exit code."""
        return self.shown - self.suppressed


def select(
    reports: Iterable[Report],
    filters: Filters,
    limit: int | None,
    suppressions: Suppressions | None = None,
    also: Callable[[Report], bool] | None = None,
) -> Selection:
    """Keep `limit` reports of each distinct race that passes the filters; None keeps every one.

    also: one filter more, asked of reports that pass the others (but for the filter by id).
    """
    out = Selection()
    groups: dict[tuple[Signature, int], Race] = {}
    seen: set[Signature] = set()
    for report in reports:
        out.races += 1
        seen.add(report.signature)
        known = out.known.get(report.canonical)
        if known is None:
            known = out.known[report.canonical] = Found(report)
        suppression = suppressions.find(report) if suppressions is not None else None
        if not filters.accepts(report) or (also is not None and not also(report)):
            continue
        known.add(report, suppression)
        race = groups.get((report.signature, id(suppression)))
        if race is None:
            race = Race(report.signature, report.canonical, report.current.row, suppression)
            groups[report.signature, id(suppression)] = race
        race.reports += 1
        race.ubatches.add(report.current.ubatch)
        if limit is None or len(race.kept) < limit:
            race.kept.append(report)
    out.distinct = len(seen)
    out.ids = identities(out.known)
    _finish(out, groups.values(), filters)
    return out


def _finish(out: Selection, groups: Iterable[Race], filters: Filters) -> None:
    """What needs the ids: the filter by id, and the order."""
    for race in groups:
        race.ident = out.ids[race.canonical]
        if not filters.accepts_id(race.canonical, race.ident):
            out.known[race.canonical].count = 0
            continue
        out.shown += race.reports
        if race.suppression is None:
            out.groups.append(race)
            out.reports.extend(_standing_for_all(race))
        else:
            out.suppressed += race.reports
            out.marked.extend((report, race.suppression) for report in _standing_for_all(race))
    out.reports.sort(key=_order)
    out.marked.sort(key=lambda pair: _order(pair[0]))


def _order(report: Report) -> tuple[int, ...]:
    return report.current.row, report.current.access, report.earlier.row, report.earlier.access


def _standing_for_all(race: Race) -> list[Report]:
    """The kept reports; where some were cut, the first stands for those as well."""
    cut = race.reports - len(race.kept)
    return [replace(race.kept[0], repeats=1 + cut), *race.kept[1:]] if cut else race.kept
