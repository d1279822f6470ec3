"""Filters and limits: which reports are shown, and what was left out. The replay itself never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from hbtrace.compare.identity import identities
from hbtrace.replay.races import Access, Report, Signature

Span = tuple[int, int]
"""Inclusive numbers, lowest and highest."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Of one option any value may match; different options must all match. Globs; spans for numbers.

    A tensor, actor, label, split or ubatch option looks at both sides; a tensor option at name and root.
    """

    tensor: tuple[str, ...] = ()
    buffer: tuple[str, ...] = ()
    actor: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    split: tuple[Span, ...] = ()
    ubatch: tuple[Span, ...] = ()

    def accepts(self, report: Report) -> bool:
        """All options but `ids`, which are known only when all signatures are."""
        sides = (report.earlier, report.current)
        return (
            _globs(self.tensor, lambda: (n for a in sides for n in (a.tensor, a.root)))
            and _globs(self.buffer, lambda: (report.buffer,))
            and _globs(self.actor, lambda: (a.actor for a in sides))
            and _globs(self.label, lambda: (a.label for a in sides))
            and _globs(self.kind, lambda: (report.kind,))
            and _within(self.split, sides, "split")
            and _within(self.ubatch, sides, "ubatch")
        )

    def accepts_id(self, ident: str) -> bool:
        return _globs(self.ids, lambda: (ident,))

    def __bool__(self) -> bool:
        return any((self.tensor, self.buffer, self.actor, self.label, self.kind, self.ids, self.split, self.ubatch))


def _globs(patterns: tuple[str, ...], values: Callable[[], Iterable[str | None]]) -> bool:
    return not patterns or any(fnmatchcase(v, p) for v in values() if v is not None for p in patterns)


def _within(spans: tuple[Span, ...], sides: tuple[Access, ...], key: str) -> bool:
    return not spans or any(lo <= getattr(a, key) <= hi for a in sides for lo, hi in spans)


@dataclass(slots=True)
class Race:
    """A distinct race and its reports: how many, those kept for showing, the ubatches of their current sides."""

    signature: Signature
    first_row: int
    reports: int = 0
    kept: list[Report] = field(default_factory=list)
    ubatches: set[int] = field(default_factory=set)
    ident: str = ""


@dataclass(slots=True)
class Selection:
    """The reports of a run after filters and limits.

    races, distinct: before filters. shown: reports the filters let through, before limits.
    reports: after limits, in the order in which they came; `repeats` of each says how many it stands for.
    """

    races: int = 0
    distinct: int = 0
    shown: int = 0
    reports: list[Report] = field(default_factory=list)
    groups: list[Race] = field(default_factory=list)
    ids: dict[Signature, str] = field(default_factory=dict)

    @property
    def filtered(self) -> int:
        return self.races - self.shown

    @property
    def limited(self) -> int:
        return self.shown - len(self.reports)


def select(reports: Iterable[Report], filters: Filters, limit: int | None) -> Selection:
    """Keep `limit` reports of each distinct race that passes the filters; None keeps every one."""
    out = Selection()
    groups: dict[Signature, Race] = {}
    seen: set[Signature] = set()
    for report in reports:
        out.races += 1
        seen.add(report.signature)
        if not filters.accepts(report):
            continue
        race = groups.get(report.signature)
        if race is None:
            race = groups[report.signature] = Race(report.signature, report.current.row)
        race.reports += 1
        race.ubatches.add(report.current.ubatch)
        if limit is None or len(race.kept) < limit:
            race.kept.append(report)
    out.distinct = len(seen)
    out.ids = identities(seen)
    for race in groups.values():
        race.ident = out.ids[race.signature]
        if filters.accepts_id(race.ident):
            out.groups.append(race)
            out.shown += race.reports
            out.reports.extend(_standing_for_all(race))
    out.reports.sort(key=lambda r: (r.current.row, r.current.access, r.earlier.row, r.earlier.access))
    return out


def _standing_for_all(race: Race) -> list[Report]:
    """The kept reports; where some were cut, the first stands for those as well."""
    cut = race.reports - len(race.kept)
    return [replace(race.kept[0], repeats=1 + cut), *race.kept[1:]] if cut else race.kept
