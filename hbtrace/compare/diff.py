"""Two sides compared by identity: new, fixed, persisting, moved, not exercised. Never by totals.

A race that is gone is called fixed only if a run that does not show it could have: it did as much as one that showed
it, and both roots are still read and written there as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from hbtrace.compare.could_show import touched, united, why_not
from hbtrace.compare.findings import RaceFinding, State
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.sides import RaceOfSide, Side
from hbtrace.compare.workload import incomparable, obstacles
from hbtrace.races.identity import identities
from hbtrace.replay.canonical import is_unnamed
from hbtrace.replay.reports import Signature
from hbtrace.words import left_out


def diff(base: Side, head: Side, *, fail_on: str = "new") -> RaceResult:
    """What became of the races of `base` in `head`, and which are new there.

    Decided over all races; told are those of which the filters show a report on either side. So one that a filter
    hides on one side only is neither new nor fixed.
    """
    ids = identities([*base.races, *head.races])
    out = RaceResult("diff", fail_on, reasons=incomparable(base.workloads.values(), head.workloads.values()))
    gone, new = base.races.keys() - head.races.keys(), head.races.keys() - base.races.keys()
    moved = _moved(base, head, gone, new)
    for canonical, seen in head.races.items():
        before = base.races.get(moved.get(canonical, canonical))
        state: State = "persisting" if canonical in base.races else "moved" if canonical in moved else "new"
        was = ids[moved[canonical]] if canonical in moved else None
        _tell(out, ids[canonical], state, before, seen, was)
    for canonical in gone - set(moved.values()):
        lost = _why_not_fixed(canonical, base, head)
        told = _tell(out, ids[canonical], "fixed" if lost is None else "not exercised", base.races[canonical], None)
        out.notes += [f"{ids[canonical]}: {why}" for why in lost or () if told]
    out.findings.sort(key=lambda finding: finding.id)
    out.notes.sort()
    out.notes += _changed_backends(base, head)
    out.warnings = [*base.warnings, *head.warnings]
    out.demand("", [*base.unseen, *head.unseen])
    out.left_out = left_out_of(ids, out.findings)
    out.coverage = {"base": base.coverage, "head": head.coverage}
    out.workload = {name: (count, head.counters[name]) for name, count in base.counters.items()}
    return out


def left_out_of(races: Collection[object], told: Sequence[RaceFinding]) -> list[str]:
    """A sentence where filters hide races of all that there are."""
    return [left_out(len(races) - len(told), len(races), "distinct race")] if len(told) < len(races) else []


def _tell(
    out: RaceResult, ident: str, state: State, base: RaceOfSide | None, head: RaceOfSide | None, was: str | None = None
) -> bool:
    """Add a finding, unless the filters hide the race on both sides."""
    before, after = (seen.occurrences if seen is not None else None for seen in (base, head))
    shown = head if head is not None and head.occurrences is not None else base
    if shown is None or shown.occurrences is None:
        return False
    out.findings.append(
        RaceFinding(
            ident, report=shown.report, state=state, base=before, head=after, suppression=shown.suppression, was=was,
            fail_on=out.fail_on,
        )
    )  # fmt: skip
    return True


def _why_not_fixed(canonical: Signature, base: Side, head: Side) -> list[str] | None:
    """None for a fixed race; what is missing for one that was not exercised, as far as it is a thing of its own.

    Of the runs that did as much as one that showed it.
    """
    seen = base.races[canonical]
    showed = [base.workloads[key] for key in seen.workloads]
    clean = [run for run in head.workloads.values() if any(not obstacles(other, run) for other in showed)]
    if not clean:
        return []
    return why_not(seen.report.signature, clean) or None


def _changed_backends(base: Side, head: Side) -> list[str]:
    """Attributes of a backend of the same name that differ: a device that now copies, say. No obstacle, but told."""
    out = []
    for name in sorted({dict(a)["name"] for a in base.backends} & {dict(a)["name"] for a in head.backends}):
        before, after = (
            {pair for attributes in side.backends if dict(attributes)["name"] == name for pair in attributes}
            for side in (base, head)
        )
        for key in sorted({key for key, _ in before ^ after}):
            values = [" or ".join(sorted(v for k, v in side if k == key)) or "not told" for side in (before, after)]
            out.append(f"backend {name}: {key} {values[0]} -> {values[1]}")
    return out


def _moved(base: Side, head: Side, gone: set[Signature], new: set[Signature]) -> dict[Signature, Signature]:
    """New race -> the gone one that it is under another name: everything else equal, and at the same place.

    A name that both sides know is no new name: then these are two races. Where several would do, none is taken. Nor
    where the runs that show them cannot be compared: another workload has other tensors.
    """
    roots = [united(list(side.workloads.values())) for side in (base, head)]
    alike: dict[tuple[object, ...], tuple[list[Signature], list[Signature]]] = {}
    for number, (side, races) in enumerate(((base, gone), (head, new))):
        for canonical in races:
            alike.setdefault(_nameless(canonical, side.races[canonical]), ([], []))[number].append(canonical)
    pairs = [
        (then, now)
        for before, after in alike.values()
        for then in before
        for now in after
        if _is_renamed(base.races[then], head.races[now], *roots)
        and _comparable(base, base.races[then], head, head.races[now])
    ]
    befores, afters = Counter(then for then, _ in pairs), Counter(now for _, now in pairs)
    return {now: then for then, now in pairs if befores[then] == afters[now] == 1}


def _nameless(canonical: Signature, seen: RaceOfSide) -> tuple[object, ...]:
    """A race without the names of its roots; whether they are one or two stays."""
    roots = seen.report.signature[3], seen.report.signature[6]
    return *canonical[:3], roots[0] is None, *canonical[4:6], roots[1] is None, canonical[7], roots[0] == roots[1]


def _comparable(base: Side, then: RaceOfSide, head: Side, now: RaceOfSide) -> bool:
    """Whether a run that shows one race did as much as a run that shows the other, neither more nor less."""
    pairs = ((base.workloads[before], head.workloads[after]) for before in then.workloads for after in now.workloads)
    return any(not obstacles(*pair) and not obstacles(*reversed(pair)) for pair in pairs)


def _is_known(name: str | None, roots: dict[str, int]) -> bool:
    """Whether a name is one on this side. A number for want of a name is none: it means another tensor in each run."""
    return name is not None and not is_unnamed(name) and touched(roots, name) != 0


def _is_renamed(then: RaceOfSide, now: RaceOfSide, base: dict[str, int], head: dict[str, int]) -> bool:
    for side in (3, 6):
        before, after = then.report.signature[side], now.report.signature[side]
        if before != after and (_is_known(before, head) or _is_known(after, base)):
            return False
    places = zip(then.report.places, now.report.places, strict=True)
    return all(before == after or None in (before, after) for before, after in places)
