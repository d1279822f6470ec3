"""Could this race have shown in these runs? Asked of every race that is gone, of a side and of a baseline alike.

Decided by what each side of the race is and does, whatever its nature: who it is, what it accesses and how. A run that
has all of that and does not show the race has mended it; one that lacks it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hbtrace.compare.workload import Workload
from hbtrace.races.natures import is_host
from hbtrace.replay.canonical import fold_layers, without_slot
from hbtrace.replay.exercise import READ, REREAD, REWRITTEN, WRITTEN, no_tensor
from hbtrace.replay.reports import Signature

_WAYS: Final = {
    READ: "both read and written",
    WRITTEN: "both read and written",
    REWRITTEN: "written again after it is read",
    REREAD: "read by the host after it is written",
}


def why_not(race: Signature, runs: Sequence[Workload]) -> list[str]:
    """What keeps all these runs from showing a race, none if one could. race: its roots are named as the runs name
    theirs."""
    for current, actor in enumerate((race[2], race[5])):
        runs, lacks = _with(runs, actor, current=bool(current))
        if not runs:
            return [lacks]
    if is_host(race[2]):  # what the issuing thread did before, a queue knows
        runs = [run for run in runs if run.hosts > 1]
        if not runs:
            return ["no run has two host threads"]
    return _lost(_needs(race), united(runs))


def united(runs: Sequence[Workload]) -> dict[str, int]:
    """What several runs touch."""
    out: dict[str, int] = {}
    for run in runs:
        for name, bits in run.roots.items():
            out[name] = out.get(name, 0) | bits
    return out


def touched(roots: dict[str, int], root: str) -> int:
    """How a root is touched, by its name in a signature, which may be folded."""
    if root in roots or "*" not in root:
        return roots.get(root, 0)
    found = 0
    for name, bits in roots.items():
        if fold_layers(without_slot(name)) == root:
            found |= bits
    return found


def _with(runs: Sequence[Workload], actor: str, *, current: bool) -> tuple[Sequence[Workload], str]:
    """The runs that have an actor, and what is said where none has. The earlier side must go on when its call has
    returned; the current one need not. A mend may take away all that one of them did here, so it need not work."""
    if is_host(actor):
        return runs, ""
    if current:
        return [run for run in runs if actor in run.backends], f"no run has a backend {actor}"
    return [run for run in runs if actor in run.queues], f"no run has an asynchronous backend {actor}"


def _needs(race: Signature) -> dict[str, int]:
    """What a run must touch, and how: the kind says who reads and who writes. Where both sides are one place and the
    host comes second, it must come back to it: else there is no second access to race."""
    current, earlier = race[0].split("-after-")
    places = [no_tensor(race[1]) if root is None else root for root in (race[3], race[6])]
    out: dict[str, int] = {}
    for place, mode in zip(places, (earlier, current), strict=True):
        out[place] = out.get(place, 0) | (WRITTEN if mode == "write" else READ)
    if places[0] == places[1] and is_host(race[5]):
        out[places[0]] |= {"write-after-read": REWRITTEN, "read-after-write": REREAD}.get(race[0], 0)
    return out


def _lost(needs: dict[str, int], has: dict[str, int]) -> list[str]:
    """Which places are no longer touched as it takes."""
    out = []
    for place, ways in needs.items():
        found = touched(has, place)
        if lost := ways & ~found:
            how = next(words for bit, words in _WAYS.items() if lost & bit) if found else "touched"
            out.append(f"{place or 'a tensor without a name'} is no longer {how}")
    return out
