"""The bench runs, and its workloads are what they say: races where there must be some, none elsewhere. No timing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_quick_bench_runs_and_finds_what_it_must():
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--repeat", "1"],
        cwd=ROOT, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "EXPECTED" not in done.stdout
    for name in ("flat 64 B sync", "flat 64 KiB racy", "rows 4 KiB", "graph loop", "server hour", "ThreadSanitizer"):
        assert name in done.stdout
