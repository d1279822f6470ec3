"""A baseline: the races a project knows of, in a file for git. A pure function of the findings and people's reasons.

No time, count, path or line number is in it, and it is sorted by id, so that two branches that add races merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

from hbtrace.compare.could_show import why_not
from hbtrace.compare.diff import left_out_of
from hbtrace.compare.findings import Known, RaceFinding, State
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.sides import Side
from hbtrace.errors import UsageError
from hbtrace.escape import as_text
from hbtrace.races.filters import Filters
from hbtrace.races.identity import SHORTEST, full_identity, identities
from hbtrace.races.tomlfile import TomlFile, Types, line
from hbtrace.replay.canonical import is_unnamed
from hbtrace.replay.reports import KINDS, Access, Report, Signature

FORMAT: Final = 1
_SIDE: Final = ("actor", "tensor", "label")
_TEXT: Final = ("id", "kind", "buffer", *(f"{side}_{key}" for side in ("earlier", "current") for key in _SIDE))
_REQUIRED: Final = tuple(key for key in _TEXT if not key.endswith("_tensor"))
_KEYS: Final[Types] = {**dict.fromkeys(_TEXT, (str,)), "reason": (str,), "expires": (date,)}


@dataclass(slots=True)
class Baseline:
    """The known races by canonical signature. `folded`: layers are not told apart in it."""

    races: dict[Signature, Known]
    folded: bool


def render(baseline: Baseline) -> str:
    """The file's text: races sorted by id, a key a line."""
    parts = [f"format = {FORMAT}\n{line('layers', 'folded' if baseline.folded else 'kept')}\n"]
    for known in sorted(baseline.races.values(), key=lambda k: (k.ident, k.canonical[:3])):
        kind, buffer, *sides = known.canonical
        lines = ["[[race]]", line("id", known.ident), line("kind", kind), line("buffer", buffer)]
        for side, values in (("earlier", sides[:3]), ("current", sides[3:])):
            lines += [line(f"{side}_{key}", v) for key, v in zip(_SIDE, values, strict=True) if v is not None]
        lines += [line("reason", known.reason)] if known.reason else []
        lines += [line("expires", known.expires)] if known.expires is not None else []
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def read(path: str) -> Baseline:
    """Read a baseline. Raises UsageError with the line of what is wrong."""
    file = TomlFile(path, "race", "" if path == "-" else f"make it with `hbtrace baseline write TRACE... -o {path}`")
    version = file.top.pop("format", None)
    if type(version) is not int or version != FORMAT:
        raise file.wrong_top("format", f"is no baseline of this version: its first line must be `format = {FORMAT}`")
    layers = file.top.pop("layers", None)
    if layers not in ("kept", "folded"):
        raise file.wrong_top("layers", '`layers` must be "kept" or "folded"')
    file.no_more_top_level_keys()
    file.check_keys(_KEYS, _REQUIRED)
    races: dict[Signature, Known] = {}
    for index, table in enumerate(file.tables):
        canonical: Signature = (
            table["kind"], table["buffer"], table["earlier_actor"], table.get("earlier_tensor"),
            table["earlier_label"], table["current_actor"], table.get("current_tensor"), table["current_label"],
        )  # fmt: skip
        ident = table["id"]
        if canonical[0] not in KINDS:
            raise file.wrong(index, f"{canonical[0]!r} is no kind of race", "kind")
        if canonical in races:
            raise file.wrong(index, f"{ident} stands here a second time")
        if len(ident) < SHORTEST or not full_identity(canonical).startswith(ident):
            raise file.wrong(index, f"{ident} is not the id of this race: the entry was changed or badly merged")
        races[canonical] = Known(ident, canonical, table.get("reason", ""), table.get("expires"), file.where(index))
    return Baseline(races, layers == "folded")


def make(side: Side, old: Baseline | None, *, folded: bool) -> Baseline:
    """The baseline of what was found; reasons and dates that people gave stay.

    What is suppressed or hidden by filters is left out. Raises UsageError where the reasons would be lost, since the
    two tell layers apart differently.
    """
    if old is not None and old.folded != folded:
        which = "folds layers" if old.folded else "tells layers apart"
        way = "give --fold-layers as well" if old.folded else "leave out --fold-layers"
        raise UsageError(f"the baseline that is there {which}; its reasons would be lost: {way}, or remove it first")
    found = [c for c, seen in side.races.items() if seen.occurrences is not None and seen.suppression is None]
    ids = identities(found)
    before = old.races if old is not None else {}
    return Baseline({c: _renamed(before.get(c), ids[c], c) for c in found}, folded)


def _renamed(known: Known | None, ident: str, canonical: Signature) -> Known:
    return Known(ident, canonical, known.reason if known else "", known.expires if known else None)


def check(
    baseline: Baseline, side: Side, today: date, filters: Filters | None = None, fail_on: str = "new"
) -> RaceResult:
    """What of a side is new, persists, is fixed. A known race whose tensors are no longer touched is not exercised.

    Decided over the whole baseline; told is what the filters show. Filters by numbers of splits or ubatches show no
    race that is gone, for the file holds no numbers.
    """
    filters = filters or Filters()
    ids = identities([*baseline.races, *side.races])
    out = RaceResult("baseline check", fail_on, warnings=list(side.warnings), coverage={"head": side.coverage})
    for canonical, seen in side.races.items():
        if seen.occurrences is None:
            continue
        known = baseline.races.get(canonical)
        state: State = "new" if known is None else "expired" if known.expired(today) else "persisting"
        if known is not None and state == "expired":
            at = f"{known.place}: " if known.place is not None else ""
            out.notes.append(f"{at}{ids[canonical]}: its entry in the baseline expired on {known.expires}")
        out.findings.append(
            RaceFinding(
                ids[canonical], report=seen.report, state=state, head=seen.occurrences, suppression=seen.suppression,
                known=known, fail_on=fail_on,
            )
        )  # fmt: skip
    for canonical in baseline.races.keys() - side.races.keys():
        gone = _stand_in(canonical)
        if not filters.shows(gone, ids):
            continue
        lost = _why_not_fixed(canonical, side)
        out.notes += [f"{ids[canonical]}: {why}" for why in lost]
        state = "not exercised" if lost else "fixed"
        known = baseline.races[canonical]
        out.findings.append(RaceFinding(ids[canonical], report=gone, state=state, known=known, fail_on=fail_on))
    out.findings.sort(key=lambda finding: finding.id)
    out.notes.sort()
    out.left_out = left_out_of(ids, out.findings)
    out.demand("", side.unseen)
    out.notes += [
        as_text(f"{path} {limit}") for run in side.workloads.values() for limit in run.limits for path in run.paths
    ]
    return out


def _why_not_fixed(canonical: Signature, side: Side) -> list[str]:
    """What is missing for a race that is gone to be fixed; empty if nothing is.

    A file holds no counters to compare with: every run counts that is whole and could race at all.
    """
    able = [run for run in side.workloads.values() if not run.limits]
    if not able:
        return list(dict.fromkeys(f"the run {limit}" for run in side.workloads.values() for limit in run.limits))
    if any(name is not None and is_unnamed(name) for name in (canonical[3], canonical[6])):
        return ["a tensor without a name cannot be known again: its number may be another one's in this run"]
    return why_not(canonical, able)


def prune(baseline: Baseline, result: RaceResult) -> Baseline:
    """The baseline without what is fixed."""
    fixed = {finding.report.canonical for finding in result.findings if finding.state == "fixed"}
    return Baseline({c: known for c, known in baseline.races.items() if c not in fixed}, baseline.folded)


def _stand_in(canonical: Signature) -> Report:
    """A report for a race that only the file knows, without numbers."""
    kind, buffer, *rest = canonical
    current_mode, earlier_mode = kind.split("-after-")
    sides = [
        Access(-1, -1, mode, actor or "", 0, -1, -1, 0, tensor, -1, tensor, -1, label or "", None)  # type: ignore[arg-type]
        for mode, (actor, tensor, label) in zip((earlier_mode, current_mode), (rest[:3], rest[3:]), strict=True)
    ]
    return Report(kind, buffer, -1, 0, 0, 0, False, sides[0], sides[1], 0, 0, canonical, canonical, (None, None))  # type: ignore[arg-type]
