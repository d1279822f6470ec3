"""Lines on a terminal: broken between columns or words, and nothing is lost."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbtrace.report.fit import fit

ROOT = Path(__file__).resolve().parents[2]


def test_short_lines_are_as_they_are() -> None:
    assert fit("a  b\n\n  c", 80) == "a  b\n\n  c"


def test_a_table_is_broken_between_columns() -> None:
    text = "id        a tensor of some length   earlier side    reports"
    assert fit(text, 44).split("\n") == ["id        a tensor of some length", "    earlier side    reports"]


def test_a_sentence_is_broken_between_words_and_keeps_its_indent() -> None:
    text = "  comes to live: the host reads what depends on it"
    assert fit(text, 31).split("\n") == ["  comes to live: the host reads", "      what depends on it"]


def test_a_word_that_is_too_long_stays_whole() -> None:
    assert fit("x" * 100, 40) == "x" * 100
    assert fit("a " + "x" * 100, 40).split("\n") == ["a", "    " + "x" * 100]


@given(st.text("ab .", max_size=300), st.integers(20, 60))
def test_no_word_is_lost_and_lines_fit_where_words_do(text: str, width: int) -> None:
    fitted = fit(text, width)
    assert fitted.split() == text.split()
    longest = max(map(len, text.split()), default=0)
    indent = len(text) - len(text.lstrip(" ")) + 4
    if longest + indent < width:
        assert max(map(len, fitted.split("\n"))) <= width


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_on_a_terminal_no_line_is_longer_than_it(columns: int) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["COLUMNS"] = str(columns)
        trace = str(ROOT / "sample_traces/cuda_integrated.arrow")
        os.execv(sys.executable, [sys.executable, "-m", "hbtrace", "triage", trace])
    out = b""
    try:
        while data := os.read(terminal, 1 << 16):
            out += data
    except OSError:
        pass  # the other end is closed
    os.waitpid(pid, 0)
    lines = out.decode().rsplit("\x1b[K", 1)[-1].splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= columns
