"""Verbs that read a trace twice take it from standard input as well: from a file, from a pipe, the same answer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT / "sample_traces/seed.arrow"
VERBS = [("explain", "{}", "R-4ea695"), ("minimize", "{}", "R-4ea695", "-o", "-"), ("whatif", "{}", "--fix")]


def hbtrace(arguments: tuple[str, ...], trace: str, given: bytes | None = None) -> tuple[int, str]:
    command = [sys.executable, "-m", "hbtrace", *(word.format(trace) for word in arguments)]
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, check=False)
    return done.returncode, re.sub(rf"(hbtrace \w+ |^){re.escape(trace)}(?=[ :])", r"\1TRACE", done.stdout.decode())


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("suffix", ["arrow", "jsonl"])
def test_standard_input_is_as_good_as_a_file(verb: tuple[str, ...], suffix: str) -> None:
    source = SEED if suffix == "arrow" else SEED.with_name("src") / "seed.jsonl"
    named = str(source.relative_to(ROOT))  # of the root's path a shell may want quotes
    from_file, piped = hbtrace(verb, named), hbtrace(verb, "-", source.read_bytes())
    assert piped == from_file
    assert from_file[0] <= 1
    assert from_file[1]


def test_a_broken_pipe_is_one_sentence() -> None:
    command = [sys.executable, "-m", "hbtrace", "explain", "-", "R-4ea695"]
    done = subprocess.run(command, input=b"no trace", capture_output=True, check=False)
    assert done.returncode == 3
    assert done.stderr.decode().count("\n") == 1
