"""What the Python API refuses, and what an outcome tells of itself: no wrong argument may look like a clean run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hbtrace

INTEGRATED = str(Path(__file__).parent.parent / "sample_traces/integrated.arrow")
TWO_THREADS: list[dict[str, Any]] = [
    {"ev": "buffer", "id": 0, "name": "host", "size": 64, "host": True},
    {"ev": "tensor", "id": 0, "name": "x", "buffer": 0},
    {"ev": "tensor_set", "tensor": 0},
    {"ev": "tensor_set", "tensor": 0, "thread": 1},
]


@pytest.mark.parametrize("threads", ["Ordered", "two", "", 1])
def test_threads_that_nobody_knows_are_refused(threads: Any) -> None:
    with pytest.raises(hbtrace.UsageError, match=re.escape(f"threads is 'one', 'ordered' or None, not {threads!r}")):
        hbtrace.analyze_events(TWO_THREADS, threads=threads)
    with pytest.raises(hbtrace.UsageError):
        hbtrace.analyze(INTEGRATED, threads=threads)
    with pytest.raises(hbtrace.UsageError):
        hbtrace.triage(INTEGRATED, threads=threads)


def test_threads_that_are_known_count() -> None:
    found = [hbtrace.analyze_events(TWO_THREADS, threads=threads).distinct for threads in (None, "one", "ordered")]
    assert found == [0, 0, 1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"limit": 0}, "limit is a number of reports from 1, or None for every one, not 0"),
        ({"limit": "2"}, "limit is a number"),
        ({"only": "live"}, "only is a set of dead, live, unknown, not 'live'"),
        ({"only": {"alive"}}, "only is a set"),
        ({"filters": "inp_pos"}, "filters is a hbtrace.Filters, not 'inp_pos'"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(hbtrace.UsageError, match=re.escape(sentence)):
        hbtrace.analyze(INTEGRATED, **options)


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        ({"tensor": 3}, "Filters: tensor is a glob, or a tuple of globs, not 3"),
        ({"tensor": (3,)}, "Filters: tensor is a glob"),
        ({"kind": "WRA"}, "Filters: kind 'WRA' is none of read-after-write (RAW), write-after-write (WAW), "),
        ({"ubatch": "2-5"}, "Filters: ubatch is a span such as (2, 5), or a tuple of spans, not '2-5'"),
        ({"ubatch": (2, 5, 7)}, "Filters: ubatch is a span"),
        ({"split": True}, "Filters: split is a span"),
        ({"ubatch": ((5, 2),)}, "Filters: ubatch (5, 2) ends before it begins"),
    ],
)
def test_a_filter_that_would_match_nothing_is_refused(filters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(hbtrace.UsageError, match=re.escape(sentence)):
        hbtrace.Filters(**filters)


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ({"tensor": "inp_pos"}, {"tensor": ("inp_pos",)}),
        ({"ids": ["R-00000a", "R-00000b"]}, {"ids": ("R-00000a", "R-00000b")}),
        ({"kind": "write-*"}, {"kind": ("write-*",)}),
        ({"ubatch": (2, 5)}, {"ubatch": ((2, 5),)}),
        ({"ubatch": ((2, 5), (7, 7))}, {"ubatch": ((2, 5), (7, 7))}),
        ({"ubatch": [[2, 5]]}, {"ubatch": ((2, 5),)}),
        ({"split": -1}, {"split": ((-1, -1),)}),
    ],
)
def test_one_value_needs_no_tuple(short: dict[str, Any], whole: dict[str, Any]) -> None:
    assert hbtrace.Filters(**short) == hbtrace.Filters(**whole)


def test_a_filter_that_the_run_does_not_know_is_wrong_use() -> None:
    for unknown in (hbtrace.Filters(tensor="inp_poss"), hbtrace.Filters(tensor="inp_pos", ubatch=99)):
        with pytest.raises(hbtrace.UsageError, match=r"matches no (tensor|ubatch) of the trace; "):
            hbtrace.analyze(INTEGRATED, filters=unknown)
    known = hbtrace.analyze(INTEGRATED, filters=hbtrace.Filters(tensor="inp_pos"))
    assert (known.selection.shown, known.remarks) == (6, [])


def test_a_report_has_id_cause_and_text() -> None:
    outcome = hbtrace.analyze(INTEGRATED, limit=1)
    report = outcome.reports[0]
    ident, cause = outcome.id_of(report), outcome.cause_of(report)
    assert hbtrace.explain_race(INTEGRATED, ident).path == INTEGRATED
    assert cause in [one.ident for one in hbtrace.triage(INTEGRATED)]
    lines = outcome.text_of(report).split("\n")
    assert [len(lines), lines[0][:24]] == [4, "RACE (write-after-read) "]
    assert outcome.text_of(report, verbose=True).split("\n")[5] == f"    id       {ident}"


def test_a_report_of_another_run_has_no_id_here() -> None:
    (other,) = hbtrace.analyze_events(TWO_THREADS, threads="ordered").reports
    with pytest.raises(hbtrace.UsageError, match="this report is none of this outcome's"):
        hbtrace.analyze(INTEGRATED).id_of(other)


def test_an_outcome_prints_as_one_line() -> None:
    outcome = hbtrace.analyze(INTEGRATED, limit=1)
    assert str(outcome) == f"<Outcome of {INTEGRATED}: rows={outcome.rows}, races=30, distinct=5, reports=5>"
    assert outcome.cause_of(outcome.reports[0]) is not None
    assert hbtrace.analyze(INTEGRATED, consequence=False).cause_of(outcome.reports[0]) is None
