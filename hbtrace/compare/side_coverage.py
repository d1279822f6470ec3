"""What the runs of a side exercised, united: the best says what its clean verdict is worth, the worst what to mend."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from hbtrace.checks.coverage import Coverage, CoverageVerdict

_BEST_FIRST: Final[tuple[CoverageVerdict, ...]] = ("exercised", "partly", "not-exercised")


@dataclass(slots=True)
class Worth:
    """The coverage of several runs. Of them all only the worst one's is kept, the first of equals."""

    runs: Counter[CoverageVerdict] = field(default_factory=Counter)
    of: Coverage | None = None

    def add(self, coverage: Coverage | None) -> None:
        """One more run; None for one that nobody metered."""
        if coverage is None:
            return
        self.runs[coverage.verdict] += 1
        if self.of is None or _BEST_FIRST.index(coverage.verdict) > _BEST_FIRST.index(self.of.verdict):
            self.of = coverage

    @property
    def best(self) -> CoverageVerdict:
        """A race of which the side is clean had at least one run as good as this to show itself in."""
        return next(verdict for verdict in _BEST_FIRST if self.runs[verdict])

    def line(self, side: str = "") -> str:
        """One line, of one run the line of `analyze`; empty without a run. side: `base`, `head`, or none."""
        if self.of is None:
            return ""
        worst, number = self.of.verdict, self.runs.total()
        if number == 1:
            told = ""
        elif self.runs[worst] == number:
            told = f" in all {number} runs"
        else:
            told = f" in {self.runs[worst]} of {number} runs, {self.best} at best"
        # The colons of a reason come after the first one: the verdict stands where scripts look for it.
        line = self.of.line().replace(f": {worst}", f": {worst}{told}", 1)
        return line.replace("coverage", f"coverage {side}", 1) if side else line

    def to_object(self) -> dict[str, Any] | None:
        """`verdict` and `reason` of the worst run, `try` what to change in it, `best`, and how many runs of each."""
        if self.of is None:
            return None
        return {
            "verdict": self.of.verdict,
            "best": self.best,
            "runs": {verdict: self.runs[verdict] for verdict in _BEST_FIRST},
            "reason": self.of.reasons[0] if self.of.reasons else None,
            "try": self.of.todo or None,
        }


def lines(coverage: dict[str, Worth]) -> list[str]:
    """A line for each side that has runs; a side alone needs no name."""
    told = [worth.line(side if len(coverage) > 1 else "") for side, worth in coverage.items()]
    return [line for line in told if line]
