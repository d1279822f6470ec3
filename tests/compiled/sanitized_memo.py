"""The memo of the lowering under the sanitizers: random programs, in a Python that has them loaded.

`python -m tests.compiled.sanitized_memo N`: N programs. It builds the library with them and starts itself again.
"""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from hbtrace.compiled import compile as compiling
from hbtrace.compiled.library import HEADER, signatures
from hbtrace.replay import lower
from hbtrace.replay.memo import Memo
from tests.compiled.memos import cut, replay, shaken
from tests.oracle.programs import random_program

RUNTIMES = ("libasan.so", "libubsan.so")


def runtimes() -> str:
    """What must be loaded before Python is. Raises BuildError where this compiler has none."""
    found = []
    for name in RUNTIMES:
        command = [*compiling.compiler(), f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, check=False, text=True).stdout.strip()
        if not Path(path).is_absolute():
            raise compiling.BuildError(f"this compiler has no {name}")
        found.append(path)
    return " ".join(found)


def run(programs: int) -> int:
    """How many rows the memo knew. Raises AssertionError where a sanitizer ended it, BuildError without them."""
    loaded = runtimes()
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / compiling.LIBRARY
        compiling.compile_to(library, options=compiling.SANITIZED)
        done = subprocess.run(
            [sys.executable, "-m", "tests.compiled.sanitized_memo", str(programs), str(library)],
            env={**os.environ, "LD_PRELOAD": loaded, "ASAN_OPTIONS": "detect_leaks=0"},
            cwd=Path(__file__).parents[2], capture_output=True, check=False, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return int(done.stdout)


def inside(programs: int, path: str) -> int:
    """The programs, with that library."""
    library = ctypes.CDLL(path)
    for name, (result, parameters) in signatures((compiling.HERE / HEADER).read_text()).items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    lower.new_memo = lambda: Memo(library)
    known = 0
    for seed in range(programs):
        rng = random.Random(seed)
        events = shaken(random_program(rng, weird=rng.choice([0, 0.05, 0.2])), rng)
        known += replay(cut(events, rng.choice([1, 3, 7, 50, len(events)])))[2]
    return known


if __name__ == "__main__":
    print(run(int(sys.argv[1])) if len(sys.argv) == 2 else inside(int(sys.argv[1]), sys.argv[2]))
