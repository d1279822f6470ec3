"""What filters name that no run has. A typing error would hide every race, and look like a clean run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase

from hbtrace.errors import UsageError
from hbtrace.races.filters import Filters, Span, is_id_of
from hbtrace.races.identity import identities, printed_names
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.exercise import Exercise
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Report, Signature
from hbtrace.words import nearest


@dataclass(slots=True)
class Nameable:
    """What filters can name of a run, or of several united, by the option."""

    tensor: set[str] = field(default_factory=set)
    buffer: set[str] = field(default_factory=set)
    actor: set[str] = field(default_factory=set)
    """As reports print them and as signatures have them."""
    label: set[str] = field(default_factory=set)
    split: set[int] = field(default_factory=set)
    ubatch: set[int] = field(default_factory=set)

    def add(self, other: Nameable) -> None:
        """Unite with another run's."""
        for one in fields(self):
            getattr(self, one.name).update(getattr(other, one.name))


def nameable(did: Exercise, actors: Iterable[str], reports: Iterable[Report]) -> Nameable:
    """What filters can name of a run: of what it did, its actors (by both names), and outputs' names for its tensors
    (`tensor_names`)."""
    printed = {name for r in reports for name in printed_names(r.signature, r.canonical) if name is not None}
    tensors = did.tensors | set(map(without_slot, did.tensors)) | printed
    return Nameable(
        tensors, set(did.buffers), set(actors), set(did.labels), set(did.splits), set(did.ubatch_numbers)
    )  # fmt: skip


def nameable_of_races(races: Iterable[Signature]) -> Nameable:
    """What filters can name of races that only a file knows."""
    out = Nameable()
    for _, buffer, *sides in races:
        for actor, tensor, label in (sides[:3], sides[3:]):
            for known, name in ((out.buffer, buffer), (out.actor, actor), (out.tensor, tensor), (out.label, label)):
                known.update(() if name is None else (name,))
    return out


def check_filters(filters: Filters, known: Nameable, *, several: bool = False) -> None:
    """Raises UsageError for all that matches no name of any run, with the nearest names. An id that is not there is
    none of this: a race may be gone (`absent_ids`). several: there was more than one run."""
    where = "any trace" if several else "the trace"
    if sentences := list(_unmatched(filters, known, where)):
        raise UsageError("; ".join(sentences))


def check_recording(filters: Filters | None, recording: Recording) -> None:
    """As `check_filters`, for one trace that is kept."""
    if filters:
        actors = [*recording.actors, *recording.families]
        check_filters(filters, nameable(recording.exercise, actors, recording.reports))


def _unmatched(filters: Filters, known: Nameable, where: str) -> Iterator[str]:
    for option in ("tensor", "buffer", "actor", "label"):
        names: Collection[str] = getattr(known, option)
        for glob in getattr(filters, option):
            if not any(fnmatchcase(name, glob) for name in names):
                near = nearest(glob.strip("*"), names, f"it has {_some(names)}" if names else "there is none")
                yield f"--{option} {glob}: matches no {option} of {where}; {near}"
    for option in ("split", "ubatch"):
        numbers: Collection[int] = getattr(known, option)
        for span in getattr(filters, option):
            if not any(span[0] <= number <= span[1] for number in numbers):
                there = f"they are {min(numbers)} to {max(numbers)}" if numbers else "there is none"
                yield f"--{option} {_spelled(span)}: matches no {option} of {where}; {there}"


def _some(names: Collection[str]) -> str:
    first = sorted(names)[:4]
    more = f" and {len(names) - len(first):,} more" if len(names) > len(first) else ""
    return ", ".join(f"`{name}`" for name in first) + more


def _spelled(span: Span) -> str:
    lo, hi = span
    return str(lo) if lo == hi else f"{lo}-{hi}"


def absent_ids(filters: Filters, races: Iterable[Signature]) -> list[str]:
    """A sentence for each id, or glob of ids, that none of these races has."""
    if not filters.ids:
        return []
    ids = identities(races)
    return [
        f"--id {value}: no race has this id, so it shows none"
        for value in filters.ids
        if not any(is_id_of(value, canonical, ident) for canonical, ident in ids.items())
    ]
