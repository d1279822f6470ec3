"""Two sides compared by identity: new, fixed, persisting, moved, not exercised. Never by totals.

A race that is gone is called fixed only if the run that does not show it could have: the workload is comparable, and
both roots are still read and written there as they were.
"""

from __future__ import annotations

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.identity import identities
from hbtrace.compare.sides import Seen, Side, Workload
from hbtrace.replay.canonical import fold_layers, without_slot
from hbtrace.replay.races import Signature


def diff(base: Side, head: Side) -> Verdict:
    """What became of the races of `base` in `head`, and which are new there."""
    ids = identities(base.races.keys() | head.races.keys())
    reasons = incomparable(base.workload, head.workload)
    gone, new = base.races.keys() - head.races.keys(), head.races.keys() - base.races.keys()
    moved = _moved(base, head, gone, new)
    out = Verdict("diff", notes=reasons, comparable=not reasons)
    for canonical, seen in head.races.items():
        before = base.races.get(moved.get(canonical, canonical))
        state = "persisting" if canonical in base.races else "moved" if canonical in moved else "new"
        was = ids[moved[canonical]] if canonical in moved else None
        out.findings.append(_finding(ids[canonical], seen, state, before, seen, was))
    for canonical in gone - set(moved.values()):
        seen = base.races[canonical]
        untouched = lost_roots(canonical, base.workload, head.workload)
        state = "not exercised" if reasons or untouched else "fixed"
        out.notes += [] if reasons else [f"{ids[canonical]}: {why}" for why in untouched]
        out.findings.append(_finding(ids[canonical], seen, state, seen, None, None))
    out.findings.sort(key=lambda finding: finding.ident)
    out.notes.sort(key=lambda note: note.startswith("R-"))
    out.warnings = [*base.warnings, *head.warnings]
    return out


def _finding(ident: str, seen: Seen, state: str, base: Seen | None, head: Seen | None, was: str | None) -> Finding:
    return Finding(
        ident,
        seen.report,
        state,  # type: ignore[arg-type]  # one of State, by the two callers above
        base.occurrences if base is not None else None,
        head.occurrences if head is not None else None,
        seen.suppression,
        was,
    )


def incomparable(base: Workload, head: Workload) -> list[str]:
    """Why the two workloads cannot be compared; empty where they can."""
    reasons = []
    for name in ("ubatches", "tokens"):
        before, after = base.counters.get(name, 0), head.counters.get(name, 0)
        if before != after:
            how = "fell" if after < before else "rose"
            reasons.append(f"not comparable: {name} {how} from {before:,} to {after:,}")
    for name in ("direct_writes", "inferred_writes", "reuse", "computes"):
        before, after = base.counters.get(name, 0), head.counters.get(name, 0)
        if before and not after:
            reasons.append(f"not comparable: {name.replace('_', ' ')} fell from {before:,} to 0")
    names = [{dict(attributes)["name"] for attributes in side.backends} for side in (base, head)]
    if names[0] != names[1]:
        reasons.append(f"not comparable: backends {_listed(names[0])} against {_listed(names[1])}")
    return reasons


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def changed_backends(base: Workload, head: Workload) -> list[str]:
    """Attributes of a backend of the same name that differ: a device that now copies, say. No obstacle, but told."""
    out = []
    for name in sorted({dict(a)["name"] for a in base.backends} & {dict(a)["name"] for a in head.backends}):
        before, after = (
            {pair for attributes in side.backends if dict(attributes)["name"] == name for pair in attributes}
            for side in (base, head)
        )
        keys = sorted({key for key, _ in before ^ after})
        for key in keys:
            values = [", ".join(sorted(v for k, v in side if k == key)) or "not told" for side in (before, after)]
            out.append(f"backend {name}: {key} {values[0]} -> {values[1]}")
    return out


def lost_roots(canonical: Signature, base: Workload, head: Workload) -> list[str]:
    """Which of a race's roots are no longer touched as they were. The sides of a signature name roots."""
    out = []
    for root in dict.fromkeys((canonical[3], canonical[6])):
        had, has = (_touched(side.roots, root) for side in (base, head))
        if root is not None and had and had & ~has:
            out.append(f"{root} is no longer {'touched' if not has else 'both read and written'}")
    return out


def _touched(roots: dict[str, int], root: str | None) -> int:
    """READ and WRITTEN of a root, by its name in a signature, which may be folded."""
    if root is None:
        return 0
    if root in roots:
        return roots[root]
    touched = 0
    for name, bits in roots.items():
        if fold_layers(without_slot(name)) == root:
            touched |= bits
    return touched


def _moved(base: Side, head: Side, gone: set[Signature], new: set[Signature]) -> dict[Signature, Signature]:
    """New race -> the gone one that it is under another name: everything else equal, and at the same place.

    A name that both sides know is no new name: then these are two races. Where several would do, none is taken.
    """
    pairs: dict[Signature, Signature] = {}
    for now in new:
        alike = [then for then in gone if _is_renamed(then, now, base, head)]
        if len(alike) == 1 and sum(_is_renamed(alike[0], other, base, head) for other in new) == 1:
            pairs[now] = alike[0]
    return pairs


def _is_renamed(then: Signature, now: Signature, base: Side, head: Side) -> bool:
    if _nameless(then) != _nameless(now):
        return False
    for side in (3, 6):
        if then[side] == now[side]:
            continue
        if _touched(head.workload.roots, then[side]) or _touched(base.workload.roots, now[side]):
            return False
    before, after = base.races[then].report.places, head.races[now].report.places
    return before == after or None in (*before, *after)


def _nameless(canonical: Signature) -> tuple[object, ...]:
    """A signature without its roots; whether they are two or one stays."""
    return (*canonical[:3], canonical[3] is None, canonical[4:6], canonical[6] is None, canonical[7],
            canonical[3] == canonical[6])  # fmt: skip
