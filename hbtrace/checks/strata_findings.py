"""What a rule found, and the list that several rule families fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Event = dict[str, Any]


class Finding(NamedTuple):
    """One breach of a rule. id: `strata.R1` and so on. rows: in the trace. line: in the log, 0 for none."""

    id: str
    severity: str
    rows: tuple[int, ...]
    message: str
    line: int = 0


@dataclass
class Findings:
    """In the order in which they were met."""

    found: list[Finding] = field(default_factory=list)

    def add(self, rule: str, severity: str, rows: tuple[int, ...], message: str, line: int = 0) -> None:
        text = f"line {line}: {message}" if line else message
        self.found.append(Finding(f"strata.{rule}", severity, rows, text, line))
