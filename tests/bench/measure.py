"""One measurement in a process of its own: `python -m tests.bench.measure replay|scan|yardstick TRACE` prints JSON."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hbtrace.replay import Replay
from hbtrace.trace.reader import open_trace


@dataclass(frozen=True)
class Measured:
    """Seconds of wall clock from opened trace to the end, peak memory of the process, and what came out."""

    seconds: float
    peak_mib: float
    rows: int
    reports: int


def measure(what: str, path: Path) -> Measured:
    """Run one measurement. Raises CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.measure", what, str(path)],
        check=True, stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    return Measured(**json.loads(done.stdout))


def _replay(path: str) -> tuple[int, int]:
    with open_trace(path) as trace:
        replay = Replay(trace.batches())
        reports = sum(1 for _ in replay)
        return replay.rows, reports


def _scan(path: str) -> tuple[int, int]:
    """Read the same batches and decode the numbers in them, nothing else."""
    rows = 0
    with open_trace(path) as trace:
        for batch in trace.batches():
            rows += batch.num_rows
            for column in batch.columns:
                if column.null_count < len(column) and pa.types.is_integer(column.type):
                    column.fill_null(-1).to_numpy(zero_copy_only=False).sum()
                elif pa.types.is_dictionary(column.type):
                    column.indices.to_numpy(zero_copy_only=False)
    return rows, 0


def main() -> None:
    what, path = sys.argv[1:]
    run = {"replay": _replay, "scan": _scan}[what]
    start = time.perf_counter()
    rows, reports = run(path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mib": peak, "rows": rows, "reports": reports}))


if __name__ == "__main__":
    main()
