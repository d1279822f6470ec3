"""The reports of a log against those of its replay: where they differ, in sentences.

What it is: the cross-check of an imported trace. What it is not: a diff of two traces; both sides speak of the
same run, so a difference is something that the log does not tell, or a fault of ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hbtrace.importers.logged import LoggedReport

SideKey = tuple[str, str, int, str, str]
"""Mode, actor, split, tensor, label: an access but for its clock."""
PairKey = tuple[str, str, SideKey, SideKey]
"""Kind, buffer, earlier side, current side. The root is left out: level-2 lines do not print it."""
ClockPair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Pair:
    """One pair of accesses. The log prints a block for each piece of it, a replay makes one report of it."""

    key: PairKey
    clocks: ClockPair
    lo: int
    hi: int


def cross_check(log_reports: Sequence[LoggedReport], replay_reports: Iterable[Any]) -> list[str]:
    """What differs between the two; empty if they tell of the same pairs.

    Compared are kind, buffer and both sides' mode, actor, clock, split, tensor and label. The sanitizer
    prints a block for every piece of its shadow memory and with it the current access's whole range, so
    repeated blocks count once, and a replay's range must only lie within the printed one. `replay_reports`
    are the replay's own (`kind`, `buffer`, `lo`, `hi`, and `earlier` and `current` with `mode`, `actor`,
    `clock`, `split`, `tensor`, `label`). Pairs that agree in all but their clocks are one sentence.
    """
    whole = [report for report in log_reports if report.complete]
    logged = [_pair(report) for report in whole]
    replayed = [_pair(report) for report in replay_reports]
    ours, theirs = _first(replayed), _first(logged)
    only_ours = [pair for which, pair in ours.items() if which not in theirs]
    only_theirs = [pair for which, pair in theirs.items() if which not in ours]
    shifted = _shifted(only_theirs, only_ours)
    only_theirs, only_ours = _without(only_theirs, shifted), _without(only_ours, shifted)

    said = _ranges(logged, replayed)
    if count := shifted.total():
        said.append(
            f"{_times(count, 'pair')} of accesses agree in all but the clocks: accesses to weights tick in the "
            "sanitizer and print no line."
        )
    said += [f"Only in the log: {text}." for text in _list(only_theirs)]
    said += _ours(log_reports, logged, only_ours)
    if (cut := len(log_reports) - len(whole)) > 0:
        said.append(f"{_times(cut, 'block')} of the log could not be compared: cut off or without a first line.")
    announced = getattr(log_reports, "announced", None)
    if announced is not None and announced != len(whole):
        said.append(f"The log counts {_times(announced, 'report')} at its end and holds {len(whole)}.")
    return said


def _pair(report: Any) -> _Pair:
    earlier, current = report.earlier, report.current
    key = (report.kind, report.buffer, _side(earlier), _side(current))
    return _Pair(key, (earlier.clock, current.clock), report.lo, report.hi)


def _side(access: Any) -> SideKey:
    return access.mode, access.actor, access.split, (access.tensor or "").strip(), access.label


def _first(pairs: Iterable[_Pair]) -> dict[tuple[PairKey, ClockPair], _Pair]:
    first: dict[tuple[PairKey, ClockPair], _Pair] = {}
    for pair in pairs:
        first.setdefault((pair.key, pair.clocks), pair)
    return first


def _shifted(theirs: list[_Pair], ours: list[_Pair]) -> Counter[PairKey]:
    return Counter(pair.key for pair in theirs) & Counter(pair.key for pair in ours)


def _without(pairs: list[_Pair], taken: Counter[PairKey]) -> list[_Pair]:
    left, kept = Counter(taken), []
    for pair in pairs:
        if left[pair.key] > 0:
            left[pair.key] -= 1
        else:
            kept.append(pair)
    return kept


def _ranges(logged: list[_Pair], replayed: list[_Pair]) -> list[str]:
    printed: dict[tuple[PairKey, ClockPair], list[_Pair]] = {}
    for pair in logged:
        printed.setdefault((pair.key, pair.clocks), []).append(pair)
    said = []
    for pair in replayed:
        blocks = printed.get((pair.key, pair.clocks), [])
        if blocks and not any(block.lo <= pair.lo and pair.hi <= block.hi for block in blocks):
            said.append(
                f"Another range: the replay finds [{pair.lo}, {pair.hi}), the log printed [{blocks[0].lo}, "
                f"{blocks[0].hi}) for {_text(pair)}."
            )
    return said


def _ours(log_reports: Sequence[LoggedReport], logged: list[_Pair], only_ours: list[_Pair]) -> list[str]:
    """What only the replay found, and why that can be."""
    if not only_ours:
        return []
    if not log_reports:
        return [
            f"The replay finds {_times(len(only_ours), 'pair')} and the log holds no RACE block: blocks go to standard "
            "error, level-2 lines to the log, and only one of the two may have been kept."
        ]
    said = []
    if getattr(log_reports, "aborted", False) and logged:
        last = logged[-1]
        same = [p for p in only_ours if (p.key[3], p.clocks[1]) == (last.key[3], last.clocks[1])]
        only_ours = [pair for pair in only_ours if pair not in same]
        if same:
            said.append(
                f"{_times(len(same), 'further pair')} of the access at which the run aborted: the sanitizer stops at "
                "the first."
            )
    said += [f"Only in the replay: {text}." for text in _list(only_ours)]
    if only_ours:
        said.append(
            "A pair that only the replay has can come from two buffers of one type, or from a buffer freed and "
            "allocated anew: level-2 lines tell neither."
        )
    return said


def _list(pairs: list[_Pair]) -> list[str]:
    """One text for all pairs that differ only in their clocks."""
    first: dict[PairKey, _Pair] = {}
    counts: Counter[PairKey] = Counter()
    for pair in pairs:
        first.setdefault(pair.key, pair)
        counts[pair.key] += 1
    more = {key: f" (and {n - 1} like it)" if n > 1 else "" for key, n in counts.items()}
    return [_text(pair) + more[key] for key, pair in first.items()]


def _text(pair: _Pair) -> str:
    kind, buffer, *sides = pair.key
    told = [
        f"{mode} {actor}@{clock} split {split} {tensor or '-'} ({label})"
        for (mode, actor, split, tensor, label), clock in zip(sides, pair.clocks, strict=True)
    ]
    return f"{kind} on {buffer}[{pair.lo}, {pair.hi}), {told[0]} then {told[1]}"


def _times(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
