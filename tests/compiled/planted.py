"""Errors planted into the compiled part, and what needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hbtrace.compiled import compile as compiling
from hbtrace.replay.kernels import described, reason

needs_library = pytest.mark.skipif(reason() is not None, reason=f"no compiled kernel here: {described()}")


def must_be_found(fault: tuple[str, str, str], folder: Path, *arguments: str) -> None:
    """`tests.compiled.compare` finds a library with this error to differ from its twin, or dies of it: AssertionError
    where it does not.

    fault: a source, what stands there once, and what stands there instead. folder: where it is built. The comparison
    is a process of its own, for what is wrong there may be the memory.
    """
    file, right, wrong = fault
    for path in compiling.sources():
        text = path.read_text(encoding="utf-8")
        if path.name == file:
            assert text.count(right) == 1
            text = text.replace(right, wrong)
        (folder / path.name).write_text(text, encoding="utf-8")
    assert compiling.build(folder, ("-O0",)) == ""
    command = [sys.executable, "-m", "tests.compiled.compare", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert "differ" in done.stdout or done.returncode < 0, done.stderr
