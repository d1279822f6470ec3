"""What the list in `sample_traces/README.md` says of a sample."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def listed(name: str) -> tuple[int, int]:
    """(reports, distinct races) of the one row that has the name."""
    rows = [line.split("|") for line in (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()]
    (row,) = [row for row in rows if len(row) > 4 and row[1].strip() == f"`{name}`"]
    return int(row[3]), int(row[4])


def distinct(roots: Iterable[str]) -> int:
    """How many races the roots are of; a scheduler's copies differ in their slot only."""
    return len({root.rsplit("#", 1)[0] for root in roots})
