"""`--require`: a list of counters that a run must reach, as text, and which of them it misses."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from itertools import chain
from typing import Final, NamedTuple

from hbtrace.checks.coverage import COUNTERS, Coverage
from hbtrace.engines import engines
from hbtrace.errors import UsageError

_TERM: Final = re.compile(r"\s*([A-Za-z][A-Za-z_-]*)\s*(>=|<=|==|=|>|<)\s*([0-9]{1,18})\s*")
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "=": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


class Requirement(NamedTuple):
    """One term, `ubatches>=2`."""

    counter: str
    operator: str
    number: int

    def __str__(self) -> str:
        return f"{self.counter}{self.operator}{self.number}"


def parse(text: str) -> list[Requirement]:
    """The terms of a list separated by commas. Raises UsageError."""
    out = []
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None:
            raise UsageError(f"--require: {term.strip()!r} is no term such as ubatches>=2")
        name = match[1].replace("-", "_").lower()
        known = dict.fromkeys((*COUNTERS, *chain.from_iterable(engine.counters() for engine in engines())))
        if name not in known:
            raise UsageError(f"--require: no counter {match[1]!r}; they are {', '.join(known)}")
        out.append(Requirement(name, match[2], int(match[3])))
    return out


def unmet(requirements: list[Requirement], coverage: Coverage) -> list[str]:
    """A sentence for each requirement that a run does not meet; what its engine does not count is never met."""
    counted = {**coverage.more, **coverage.counters}
    return [
        f"{r} is not met: " + (f"no {r.counter} in such a trace" if number is None else _is(r.counter, number, counted))
        for r in requirements
        for number in [counted.get(r.counter)]
        if number is None or not _COMPARE[r.operator](number, r.number)
    ]


def _is(counter: str, number: int, counted: dict[str, int]) -> str:
    """What a counter is; of announced direct writes also those that a recorder inferred, for they count apart."""
    inferred = counted.get("inferred_writes", 0) if counter == "direct_writes" else 0
    return f"{counter} is {number}" + (f", inferred_writes is {inferred}" if inferred else "")
