"""`info` of events in memory, in batches of a chosen size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hbtrace.info.info import Info, info_of
from hbtrace.trace.rows import batch_from_rows


@dataclass
class Memory:
    events: list[dict[str, Any]]
    batch_rows: int
    path: str = "memory"
    rows: int = 0
    dropped_bytes: int = 0
    warnings: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.events), self.batch_rows):
            yield batch_from_rows(self.events[start : start + self.batch_rows])


def info_in(*events: dict[str, Any], batch_rows: int = 1000) -> Info:
    return info_of(Memory(list(events), batch_rows))
