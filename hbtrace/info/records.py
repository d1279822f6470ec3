"""What a trace holds, as plain records: queues, schedulers, buffers, phases. `contents` and `memory` fill them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

FLAGS: Final = ("async", "synchronous", "events", "integrated", "host_buffer")
"""The yes-or-no attributes of a backend, by their key."""


@dataclass(slots=True)
class Touch:
    """Queued work that computed in place on one type of host buffer. Bytes of two accesses count twice."""

    works: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(slots=True, eq=False)
class Queue:
    """One backend instance. An attribute that the trace does not give is None; `row` is -1 if it is never defined."""

    id: int
    name: str
    """As reports print it: the n-th later queue of a name is `name#n`."""
    family: str
    """The name without that suffix."""
    row: int
    device: str | None = None
    type: str | None = None
    flags: dict[str, bool | None] = field(default_factory=lambda: dict.fromkeys(FLAGS))
    accepts: list[str] | None = None
    drains: list[str] | None = None
    end: int | None = None
    """The row from which the id is another queue's."""
    freed: bool = False
    work: Counter[str] = field(default_factory=Counter)
    """Events by name."""
    touched: dict[str, Touch] = field(default_factory=dict)
    """Host buffers that `compute` and `kernel` read or wrote, by buffer type."""


@dataclass(slots=True)
class Scheduler:
    """One `sched` row, in force up to the row `end`; None where the trace says nothing."""

    id: int
    row: int
    backends: list[int]
    cpu_buffer_type: str | None
    copies: int | None
    ring: int | None
    end: int | None = None


@dataclass(slots=True)
class BufferGroup:
    """Buffers of one type name, usage and host flag. Bytes are those of the definitions."""

    type: str
    usage: str
    host: bool
    lives: int = 0
    empty_lives: int = 0
    """Lives that never had a byte."""
    live_bytes: int = 0
    peak_bytes: int = 0
    """The most bytes alive at one time."""
    total_bytes: int = 0
    """Bytes of all lives together, each at its largest."""


class Runs:
    """A set of integers as inclusive runs: small while numbers are dense."""

    __slots__ = ("pairs",)

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def add(self, values: Ints) -> None:
        if not values.size:
            return
        values = np.unique(values)
        breaks = np.flatnonzero(np.diff(values) != 1)
        lows = values[np.concatenate(([0], breaks + 1))].tolist()
        highs = values[np.concatenate((breaks, [values.size - 1]))].tolist()
        merged: list[tuple[int, int]] = []
        for lo, hi in sorted([*self.pairs, *zip(lows, highs, strict=True)]):
            if merged and lo <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(hi, merged[-1][1]))
            else:
                merged.append((lo, hi))
        self.pairs = merged

    def __len__(self) -> int:
        return sum(hi - lo + 1 for lo, hi in self.pairs)


@dataclass(slots=True)
class Phase:
    """The ubatches of one phase; None is the name of those that do not say."""

    phase: str | None
    ubatches: int = 0
    tokens: int = 0
    numbers: Runs = field(default_factory=Runs)


@dataclass(slots=True)
class Oddity:
    """A kind of odd row: how many, and the first."""

    what: str
    rows: int = 0
    row: int = -1
    detail: str = ""

    def add(self, count: int, row: int, detail: str) -> None:
        if count and (self.row < 0 or row < self.row):
            self.row, self.detail = row, detail
        self.rows += count

    def __str__(self) -> str:
        rows = f"{self.rows} rows" if self.rows > 1 else "1 row"
        return f"{rows} {self.what} (first in row {self.row}: {self.detail})"
