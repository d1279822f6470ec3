"""Coverage: what a run exercised, and so what its clean verdict is worth. `verdict.py` makes it of a `meter.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

CoverageVerdict = Literal["exercised", "partly", "not-exercised"]

COUNTERS: Final = (
    "ubatches", "open_windows", "direct_writes", "inferred_writes", "reuse", "prepare", "warmup", "prefill", "decode",
    "max_in_flight", "async_queues",
)  # fmt: skip
"""The names of `--require`."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The verdict and what it stands on.

    counters: by the names of `COUNTERS`. more: what is counted besides. reasons: why it is not `exercised`. advice:
    what to change in the run. reports: races of the replay, `hidden` of which need a direct access to be seen at all.
    """

    verdict: CoverageVerdict
    counters: dict[str, int]
    more: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    todo: str = ""
    """What to change about the first reason."""
    reports: int = 0
    hidden: int = 0
    told: list[str] = field(default_factory=list)
    """What to know besides, of an engine that has more to say."""
    unended: int = 0
    """Requests that begin and do not end: the run was cut short."""
    units: dict[str, int] = field(default_factory=dict)
    """How much the run served, of an engine for which how much it issues is no measure."""

    def line(self) -> str:
        """One line for `analyze` and `diff`."""
        first = f": {self.reasons[0]}" if self.reasons else ""
        todo = f"; try {self.todo}" if self.todo else ""
        return f"coverage: {self.verdict}{first}{todo}"

    def hidden_line(self) -> str:
        """How much of what was reported hangs on direct accesses."""
        return f"without direct writes {self.hidden} of {self.reports} reports would have been invisible"

    def to_object(self) -> dict[str, Any]:
        """The `coverage` of JSON documents."""
        return {
            "verdict": self.verdict,
            **self.counters,
            **self.more,
            "reports": self.reports,
            "invisible_without_direct": self.hidden,
            "reasons": self.reasons,
            "advice": self.advice,
            **({"told": self.told} if self.told else {}),
        }
