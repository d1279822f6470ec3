"""One measurement in a process of its own: `python -m tests.bench.measure replay|scan TRACE` prints JSON."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hbtrace.replay.session import Session
from hbtrace.trace.reader import open_trace

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Measured:
    """From opened trace to the end: seconds of wall clock, and of all threads; what came out; peak of the process."""

    seconds: float
    cpu: float
    peak_mib: float
    rows: int
    reports: int
    warnings: int


def measure(what: str, path: Path) -> Measured:
    """Run one measurement. Raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", "tests.bench.measure", what, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT)
    return Measured(**json.loads(done.stdout))


def replay(path: str) -> tuple[int, int, int]:
    """(rows, reports, kinds of warnings) of a trace. Reports are counted, not kept."""
    with open_trace(path) as trace:
        run = Session(trace.batches())
        reports = sum(1 for _ in run)
        return run.rows, reports, len(run.warnings)


def scan(path: str) -> tuple[int, int, int]:
    """Read the same batches and decode every column that has values, nothing else."""
    rows = 0
    with open_trace(path) as trace:
        for batch in trace.batches():
            rows += batch.num_rows
            for column in batch.columns:
                _decode(column)
    return rows, 0, 0


def _decode(column: pa.Array) -> None:
    """Bring a column, and all columns within it, into numpy once."""
    if column.null_count == len(column):
        return
    if pa.types.is_list(column.type):
        column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        _decode(column.flatten())
    elif pa.types.is_struct(column.type):
        for inner in column.flatten():
            _decode(inner)
    elif pa.types.is_dictionary(column.type):
        _decode(column.indices)  # the words themselves are few
    elif pa.types.is_string(column.type):
        column.to_numpy(zero_copy_only=False)
    else:
        missing = False if pa.types.is_boolean(column.type) else -1
        column.fill_null(missing).to_numpy(zero_copy_only=False)


def peak_mib() -> float:
    """Peak memory of this process. On Linux not by getrusage: its peak outlives exec, so that of whoever started
    this process would be in it."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


class _NoPandas:
    """Hides pandas. Where it is installed, as for our tests, pyarrow imports it unasked at its first conversion: 0.16 s
    and its memory, which no user pays who installed hbtrace alone."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main() -> None:
    what, path = sys.argv[1:]
    sys.meta_path.insert(0, _NoPandas())
    run = {"replay": replay, "scan": scan}[what]
    start, cpu = time.perf_counter(), time.process_time()
    rows, reports, warnings = run(path)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps(Measured(seconds, cpu, peak_mib(), rows, reports, warnings).__dict__))


if __name__ == "__main__":
    main()
