"""What filters name that a run does not have. A typing error would hide every race, and look like a clean run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from hbtrace.compare.selection import RaceOfRun
from hbtrace.races.filters import Filters
from hbtrace.races.identity import printed_names
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.exercise import Exercise

Unmatched = Mapping[str, set[str]]
"""By filter option, the values that match nothing."""


def unmatched(filters: Filters, did: Exercise, actors: Iterable[str], races: Iterable[RaceOfRun]) -> Unmatched:
    """What matches nothing of a run: of what it did, its actors and its races."""
    named: dict[str, tuple[tuple[str, ...], Iterable[str]]] = {
        "tensor": (filters.tensor, _tensors(did, races) if filters.tensor else ()),
        "buffer": (filters.buffer, did.buffers),
        "actor": (filters.actor, actors),
        "label": (filters.label, did.labels),
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


def _tensors(did: Exercise, races: Iterable[RaceOfRun]) -> set[str]:
    """All names that tensors of a run go by, those that outputs have for them among them (`tensor_names`)."""
    reports = (race.report for race in races)
    printed = {name for r in reports for name in printed_names(r.signature, r.canonical) if name is not None}
    return did.tensors | set(map(without_slot, did.tensors)) | printed


def in_none(of_runs: Iterable[Unmatched]) -> Unmatched:
    """What matches nothing of any run; of no run at all, nothing is known."""
    out: dict[str, set[str]] | None = None
    for found in of_runs:
        out = {key: values & found[key] for key, values in (found if out is None else out).items()}
    return out or {}
