"""Kernel and meter under the address and the undefined-behaviour sanitizer, their answers compared with their twins'.

`python -m tests.compiled.sanitized N`: N random scripts and N hostile ones. Small limits are compiled in, so that what
long traces reach seldom happens all the time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from hbtrace.checks.steps import Steps
from hbtrace.compiled import compile as compiling
from hbtrace.replay.clocks import Clocks
from hbtrace.replay.kernel import Kernel
from hbtrace.replay.passing import CONSTANTS
from hbtrace.replay.program import STEP
from tests.compiled import meters
from tests.compiled.programs import Script, flat, hostile, script

DRIVER = Path(__file__).with_name("driver.cpp")
METER_DRIVER = Path(__file__).with_name("meter_driver.cpp")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")
SMALL = ("-DHB_EPOCHS_BEFORE_DROPPING=8", "-DHB_MET_BEFORE_JOINING=4")


def build(folder: Path, *options: str, driver: Path = DRIVER) -> Path:
    """A driver with the library in it, in this folder. Raises BuildError."""
    target = folder / driver.stem
    units = [str(path) for path in (*compiling.sources(), driver) if path.suffix == ".cpp"]
    command = [*compiling.compiler(), "-std=c++17", '-DHB_STAMP="x"', *options, f"-I{compiling.HERE}", *units]
    done = subprocess.run([*command, "-o", str(target)], capture_output=True, check=False, text=True)
    if done.returncode:
        raise compiling.BuildError(done.stderr)
    return target


def answers(driver: Path, scripts: list[Script]) -> Iterator[int]:
    """What the driver says to these, int64 by int64. Raises AssertionError where a sanitizer ended it."""
    return _said(driver, b"".join(map(flat, scripts)))


def _said(driver: Path, asked: bytes) -> Iterator[int]:
    done = subprocess.run([str(driver)], input=asked, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-4000:]
    return iter(array("q", done.stdout))


def expected(script: Script) -> Iterator[tuple[int, list[int], list[int], set[int]]]:
    """By chunk: a status of 0, hits, counts, and what is remembered where somebody asks."""
    kernel = Kernel(closed=script.closed)
    for program, asks in zip(script.chunks, script.asks, strict=True):
        hits = [number for hit in kernel.run(program) for number in hit]
        rows = kernel.remembered() if asks else set()
        yield 0, hits, [kernel.visited, kernel.cells, kernel.known], rows


def _list(said: Iterator[int]) -> list[int]:
    return [next(said) for _ in range(next(said))]


def compare(driver: Path, seeds: range) -> int:
    """Random scripts on the driver and in Python; how many integers of hits. Raises AssertionError at a difference."""
    scripts, hits = [script(seed) for seed in seeds], 0
    said = answers(driver, scripts)
    for seed, each in zip(seeds, scripts, strict=True):
        for number, chunk in enumerate(expected(each)):
            got = next(said), _list(said), _list(said), set(_list(said))
            assert got == chunk, f"seed {seed}, chunk {number}"
            hits += len(chunk[1])
    assert next(said, None) is None
    return hits


def survive(driver: Path, seeds: range) -> int:
    """Hostile scripts: each ends with a status. How many were refused."""
    refused = 0
    for start in range(seeds.start, seeds.stop, 50):
        some = [hostile(seed) for seed in range(start, min(start + 50, seeds.stop))]
        said = answers(driver, some)
        for each in some:
            for _ in each.chunks:
                if status := next(said):
                    refused += status == 2
                else:
                    for _ in range(3):
                        _list(said)
        assert next(said, None) is None
    return refused


def compare_meters(driver: Path, seeds: range) -> int:
    """Random runs and their order, on the driver and in Python; how many windows. Raises AssertionError."""
    runs, found = [meters.run_of(seed) for seed in seeds], 0
    said = _said(driver, b"".join(map(meters.flat, runs)))
    for seed, run in zip(seeds, runs, strict=True):
        steps, clocks = Steps(), Clocks()
        for number, (program, waits) in enumerate(zip(run.script.chunks, run.waits, strict=True)):
            steps.take([program], run.batch, waits)
            counted = steps.counted()
            expected = [0, *counted[:-2], *counted.windows, *counted.open]
            assert [next(said) for _ in expected] == expected, f"seed {seed}, chunk {number}"
            order = clocks.order(program)
            told = [0, *(told for both in zip(order.ticks, order.learnt, strict=True) for told in both)]
            got = [next(said), *(next(said) for _ in order.ticks for _ in range(3))]
            assert [got[0], *(one for k, one in enumerate(got[1:]) if k % 3 != 1)] == told, f"seed {seed}, {number}"
        found += sum(steps.counted().windows)
    assert next(said, None) is None
    return found


def survive_meters(driver: Path, seeds: range) -> int:
    """Hostile runs: each ends with a status. How many chunks were refused."""
    runs, refused = [meters.hostile(seed) for seed in seeds], 0
    said = _said(driver, b"".join(map(meters.flat, runs)))
    for run in runs:
        for program in run.script.chunks:
            if status := next(said):
                refused += status == 2
            else:
                assert all(next(said) >= 0 for _ in range(CONSTANTS["HB_COUNTED"]))
            if not next(said):
                assert all(next(said) >= 0 for _ in range(3 * (len(program.code) // STEP)))
    assert next(said, None) is None
    return refused


def main() -> None:
    number = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        driver = build(Path(name), *SANITIZERS, *SMALL, "-O1")
        meter = build(Path(name), *SANITIZERS, "-O1", driver=METER_DRIVER)
        for start in count(0, 100):
            if start >= number:
                break
            seeds = range(start, min(start + 100, number))
            hits, refused = compare(driver, seeds), survive(driver, seeds)
            windows, barred = compare_meters(meter, seeds), survive_meters(meter, seeds)
            print(f"{seeds.stop} scripts: {hits:,} integers of hits, {refused} chunks refused", flush=True)
            print(f"{seeds.stop} metered: {windows:,} windows, {barred} chunks refused", flush=True)


if __name__ == "__main__":
    main()
