"""`python -m tests.bench [--only NAME] [--quick] [--repeat N]`: the workloads and what they cost, as one table."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Callable, Iterator

from tests.bench import peers, workloads
from tests.bench.measure import measure
from tests.bench.workloads import KIB, Workload


def plan(*, quick: bool) -> Iterator[tuple[str, Callable[[], Workload]]]:
    """(name, maker) of each workload; quick ones are a hundredth."""
    steps = 4 if quick else 200
    for size in (64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB):
        yield "flat", lambda size=size: workloads.flat(size, steps=steps)
    yield "flat", lambda: workloads.flat(64 * KIB, steps=steps, racy=True)
    yield "rows", lambda: workloads.rows(steps=8 if quick else 400)
    yield "loop", lambda: workloads.graph_loop(steps=20 if quick else 2000)
    yield "hour", lambda: workloads.server_hour(events=17_000 if quick else 10_000_000)


def row(workload: Workload, repeats: int) -> str:
    """Replay and bare scan in turn; medians, and the spread of the replay."""
    replays, scans = [], []
    for _ in range(repeats):
        replays.append(measure("replay", workload.path))
        scans.append(measure("scan", workload.path))
    seconds = statistics.median(m.seconds for m in replays)
    spread = (max(m.seconds for m in replays) - min(m.seconds for m in replays)) / seconds
    scan = statistics.median(m.seconds for m in scans)
    last = replays[-1]
    wanted = "" if workload.reports in (None, last.reports) else f"  EXPECTED {workload.reports}"
    vacuous = "  EXPECTED SOME" if workload.reports is None and not last.reports else ""
    return (
        f"{workload.name:<24}{workload.accesses:>14,}{last.rows:>12,}{workload.accesses / seconds / 1e6:>11.2f}"
        f"{last.rows / seconds / 1e3:>10.0f}{spread:>7.0%}{last.peak_mib:>7.0f}{seconds / scan:>8.1f}"
        f"{last.reports:>9,}  {workload.aim}{wanted}{vacuous}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=("flat", "rows", "loop", "hour", "peers"), help="only this kind of workload")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="measure each N times (3)")
    given = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}; medians of {given.repeat};")
    print("from opened trace to reports; `scan` is how many times as long as a bare read of the same columns\n")
    head = f"{'workload':<24}{'accesses':>14}{'events':>12}{'M acc/s':>11}{'k ev/s':>10}{'spread':>7}"
    print(f"{head}{'MiB':>7}{'scan':>8}{'reports':>9}  aim")
    for kind, make in plan(quick=given.quick):
        if given.only in (None, kind):
            repeats = 1 if kind == "hour" and not given.quick else given.repeat
            print(row(make(), repeats), flush=True)
    if given.only in (None, "peers"):
        print("\npeers on the same flat accesses (64 KiB, sync):\n")
        for line in peers.run(workloads.flat(64 * KIB, steps=4 if given.quick else 50)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
