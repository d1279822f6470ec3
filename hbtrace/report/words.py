"""Words that several outputs use for a finding, so that they all say the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hbtrace.compare.findings import Occurrences, RaceFinding
from hbtrace.compare.race_result import RaceResult
from hbtrace.findings import Finding

_ROWS: Final = 8


def rows(finding: Finding) -> str:
    """The first of its rows."""
    return ", ".join(map(str, finding.rows[:_ROWS])) + (", ..." if len(finding.rows) > _ROWS else "")


def reasons(result: RaceResult) -> list[str]:
    """What people say of races, in a baseline or a suppression: a line for each race of which they do."""
    told = [one for one in result.findings if one.why]
    return [f"{one.id} {one.state if one.suppression is None else 'suppressed'}: {one.why}" for one in told]


def columns(result: RaceResult) -> tuple[str, ...]:
    """The heads of the columns of `reported`: a baseline holds no numbers, so there is one side."""
    return ("base", "head") if result.verb == "diff" else ("reports",)


def reported(finding: RaceFinding, result: RaceResult) -> list[str]:
    """How often a race was reported, on each side that has numbers."""
    return [occurrences(side) for side in (finding.base, finding.head)[result.verb != "diff" :]]


def occurrences(found: Occurrences | None) -> str:
    """How often, over how many runs: `6`, `4-6 in 3 runs`, `4-6 in 3 of 5 runs`, `-` for not at all."""
    if found is None:
        return "-"
    times = str(found.min) if found.min == found.max else f"{found.min}-{found.max}"
    if found.runs < found.of:
        return f"{times} in {found.runs} of {found.of} runs"
    return times if found.runs == 1 else f"{times} in {found.runs} runs"


def spans(numbers: Iterable[int]) -> str:
    """Numbers as people write them: `1-6, 9`; -1 is `-`."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][1] + 1 and out[-1][0] >= 0:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join("-" if lo < 0 else str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in out)
