"""`python -m tests.bench [--only NAME] [--quick] [--repeat N] [--json FILE]`: what the workloads cost, as one table.

Ends with 1 if a workload did not show what it must: a wrong count, never a slow one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import peers, workloads
from tests.bench.measure import Measured, measure
from tests.bench.workloads import KIB, Workload

HEAD = (
    f"{'workload':<18}{'accesses':>14}{'events':>11}{'M acc/s':>8}{'k ev/s':>7}{'spread':>7}{'cpu':>5}{'MiB':>5}"
    f"{'x scan':>7}{'races':>7}  aim"
)


@dataclass(frozen=True)
class Cost:
    """A workload's replays and bare scans, taken in turn; quick ones have no scans."""

    workload: Workload
    replays: list[Measured]
    scans: list[Measured]

    @property
    def seconds(self) -> float:
        return statistics.median(m.seconds for m in self.replays)

    @property
    def spread(self) -> float:
        """From the fastest to the slowest replay, as a part of the median."""
        times = [m.seconds for m in self.replays]
        return (max(times) - min(times)) / self.seconds

    @property
    def ratio(self) -> float:
        """How many times as long as a bare scan of the same columns; 0 without scans."""
        return self.seconds / statistics.median(m.seconds for m in self.scans) if self.scans else 0

    @property
    def wrong(self) -> str:
        """What the workload should have shown and did not; empty if all is well."""
        told, wanted = self.replays[-1], self.workload
        facts = (("races", told.reports, wanted.reports), ("events", told.rows, wanted.events))
        return ", ".join(f"EXPECTED {should:,} {name}" for name, found, should in facts if found != should)

    @property
    def busy(self) -> float:
        """CPU time by wall clock. Well below 1 the machine was at something else: run again."""
        return statistics.median(m.cpu / m.seconds for m in self.replays)

    def line(self) -> str:
        last, accesses = self.replays[-1], self.workload.accesses
        peak = max(m.peak_mib for m in self.replays)
        ratio = f"{self.ratio:.1f}" if self.scans else "-"
        return (
            f"{self.workload.name:<18}{accesses:>14,}{last.rows:>11,}{accesses / self.seconds / 1e6:>8.2f}"
            f"{last.rows / self.seconds / 1e3:>7.0f}{self.spread:>7.0%}{self.busy:>5.0%}{peak:>5.0f}{ratio:>7}"
            f"{last.reports:>7,}  {self.workload.aim} {self.wrong}"
        ).rstrip()

    def facts(self) -> dict[str, Any]:
        """Everything that was measured, for `--json`."""
        derived = {"seconds": self.seconds, "spread": self.spread, "ratio": self.ratio, "wrong": self.wrong}
        whole = asdict(self)
        return whole | derived | {"workload": whole["workload"] | {"path": self.workload.path.name}}


def plan(*, quick: bool) -> Iterator[tuple[str, Callable[[], Workload]]]:
    """(kind, maker) of each workload. Quick ones are small and few: what starts is what is tried."""
    steps = 4 if quick else 200
    for size in (64 * KIB,) if quick else (64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB):
        yield "flat", lambda size=size: workloads.flat(size, steps=steps)
    yield "flat", lambda: workloads.flat(64 * KIB, steps=steps, racy=True)
    yield "rows", lambda: workloads.rows(steps=8 if quick else 400)
    yield "loop", lambda: workloads.graph_loop(steps=20 if quick else 2000)
    yield "hour", lambda: workloads.server_hour(events=40_000 if quick else 10_000_000)


def cost(workload: Workload, repeats: int, *, scans: bool) -> Cost:
    """Replay and bare scan in turn, so that a busy moment of the machine meets both."""
    done = Cost(workload, [], [])
    for _ in range(repeats):
        done.replays.append(measure("replay", workload.path))
        if scans:
            done.scans.append(measure("scan", workload.path))
    return done


def costs(*, only: str | None, quick: bool, repeats: int) -> list[Cost]:
    """Measure and print, workload by workload."""
    print(HEAD)
    done = []
    for kind, make in plan(quick=quick):
        if only in (None, kind):
            times = 1 if kind == "hour" else repeats  # it takes minutes
            done.append(cost(make(), times, scans=not quick))
            print(done[-1].line(), flush=True)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=("flat", "rows", "loop", "hour", "peers"), help="only this kind of workload")
    parser.add_argument("--quick", action="store_true", help="small and once: does it run, are the counts right")
    parser.add_argument("--repeat", type=int, metavar="N", help="measure each N times (3; quick: 1; the hour: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE, too")
    given = parser.parse_args()
    repeats = given.repeat or (1 if given.quick else 3)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    print(f"{machine['machine']}, {machine['cores']} cores, Python {machine['python']}; medians of {repeats} runs.")
    print("From opened trace to reports. cpu: CPU time by wall clock; x scan: times as long as a bare scan.\n")
    done = [] if given.only == "peers" else costs(only=given.only, quick=given.quick, repeats=repeats)
    others = []
    if given.only in (None, "peers"):
        print()
        others = list(peers.run(steps=4 if given.quick else 50))
    if given.json is not None:
        facts = {**machine, "workloads": [one.facts() for one in done], "peers": others}
        given.json.write_text(json.dumps(facts, indent=1) + "\n")
    return int(any(one.wrong for one in done))


if __name__ == "__main__":
    sys.exit(main())
