"""Lines on a terminal: broken between columns or words, and nothing is lost."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hbtrace.compare.outcome import Options, analyze_source
from hbtrace.explain.triage import triage
from hbtrace.importers.source import open_source
from hbtrace.report import analyze as analyze_report
from hbtrace.report import triage as triage_report
from hbtrace.report.fit import fit
from hbtrace.report.renderer import Style
from hbtrace.report.tables import fitted, table

ROOT = Path(__file__).resolve().parents[2]
TRACE = "sample_traces/cuda_integrated.arrow"
"""From the root: a line that names a trace is as long as its path, and this one is the same in any folder."""


def test_short_lines_are_as_they_are() -> None:
    assert fit("a  b\n\n  c", 80) == "a  b\n\n  c"


def test_a_table_is_broken_between_columns() -> None:
    text = "id        a tensor of some length   earlier side    reports"
    assert fit(text, 44).split("\n") == ["id        a tensor of some length", "    earlier side    reports"]


def test_a_sentence_is_broken_between_words_and_keeps_its_indent() -> None:
    text = "  effect   live: the host reads what depends on it"
    assert fit(text, 31).split("\n") == ["  effect   live: the host reads", "      what depends on it"]


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


@pytest.mark.parametrize("columns", [60, 80, 160, 240])
def test_on_a_terminal_no_line_is_longer_than_it(columns: int) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["COLUMNS"] = str(columns)
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "hbtrace", "triage", TRACE])
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
    records = [line.split()[0] for line in lines if line.startswith(("cause ", "window ", "fix "))]
    assert records == (["cause", "window", "fix"] * 2 if columns < 200 else ["cause"])


HEAD = ("id", "effect", "", "reports")
ROWS = [("R-1", "unknown", "primary", "1,024"), ("R-2", "live", "", "6")]


def test_a_table_that_fits_is_a_table() -> None:
    whole = table(HEAD, ROWS, right=frozenset({3}))
    wide = max(map(len, whole))
    assert fitted(HEAD, ROWS, right=frozenset({3}), width=None) == whole
    assert fitted(HEAD, ROWS, right=frozenset({3}), width=wide) == whole
    assert fitted(HEAD, ROWS, right=frozenset({3}), width=10) == whole  # no terminal is that narrow
    assert fitted(HEAD, ROWS, right=frozenset({3}), width=wide - 1) != whole


def test_a_table_that_does_not_fit_is_a_record_for_each_row() -> None:
    assert fitted(HEAD, ROWS, width=26) == [
        "id       R-1",
        "effect   unknown  primary",
        "reports  1,024",
        "",
        "id       R-2",
        "effect   live",
        "reports  6",
    ]


def test_a_long_cell_goes_on_below_itself() -> None:
    rows = [("C-1", "HOST writes what CUDA0 reads", "a_name_of_one_word_that_is_too_long")]
    assert fitted(("cause", "missing order", "tensor"), rows, width=34) == [
        "cause          C-1",
        "missing order  HOST writes what",
        "               CUDA0 reads",
        "tensor         a_name_of_one_word_that_is_too_long",
    ]


def test_prose_in_the_last_column_is_wrapped_there() -> None:
    rows = [("holds", "nothing is read before it was written"), ("none", "-")]
    assert fitted(("status", "why"), rows, width=34) == [
        "status  why",
        "holds   nothing is read before it",
        "        was written",
        "none    -",
    ]


def test_analyze_and_triage_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    outcome = analyze_source(open_source(TRACE), Options(limit=1, consequence=True))
    narrow = analyze_report.render(outcome, Style(width=80))
    assert "\neffect    unknown\nreports   6\nubatches  1-6\n" in narrow
    found = triage(TRACE)
    narrow = triage_report.render(found, verbose=True, width=60)
    assert "\neffect         unknown  primary\n" in narrow
    assert "\n      reports   6\n      ubatches  1-6\n\n      id " in narrow
    for line in triage_report.render(found, verbose=True).splitlines():
        assert line.split(" ")[0] != "effect", "piped, it is a table"
