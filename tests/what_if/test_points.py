"""Rows and points that are named on the command line: what a trace has, and slips, which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import hbtrace
from hbtrace.cli import run
from hbtrace.errors import UsageError
from hbtrace.explain.triage import find, triage
from hbtrace.what_if.rewriting import Rule
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import Wait
from hbtrace.what_if.whatif import rewrite, whatif

TRACE = str(Path(__file__).parents[2] / "sample_traces" / "cuda_integrated.arrow")
LONG = "9" * 5000


def rows() -> int:
    return sum(batch.num_rows for batch in hbtrace.open(TRACE).batches())


@pytest.mark.parametrize("how", ["synchronize", "event"])
def test_a_row_or_tensor_that_the_trace_has_is_met(how: str) -> None:
    for point in ("row:0", f"row:{rows() - 1}", "before:embd", "before:emb*", "ubatch"):
        whatif(hbtrace.open(TRACE).batches, [Wait(point, how, asked=True)])


@pytest.mark.parametrize("how", ["synchronize", "event"])
def test_a_row_or_tensor_that_the_trace_lacks_is_refused(how: str) -> None:
    """By the replay that patches, by the one that rewrites, and beside another rule."""
    batches = hbtrace.open(TRACE).batches
    for point, told in (
        (f"row:{rows()}", f"there is no row {rows()}"),
        ("row:" + "9" * 18, "there is no row 9"),
        ("before:nope", "no tensor named 'nope' is written"),
    ):
        others: list[list[Rule]] = [[], [Ring(2)]]
        for other in others:
            with pytest.raises(UsageError, match=told):
                whatif(batches, [*other, Wait(point, how, asked=True)])
        with pytest.raises(UsageError, match=told):
            list(rewrite(batches, [Wait(point, how, asked=True)]))


def test_a_rule_that_nobody_named_may_match_nothing() -> None:
    """`--fix` and rules behind other rules; a trace of one ubatch has no boundary, whoever asks."""
    for point in ("ubatch", "row:0", "before:nope"):
        assert not list(Wait(point).apply([]))
    assert not list(Wait("ubatch", asked=True).apply([]))
    with pytest.raises(UsageError, match="there is no row 0, or another option hides it"):
        list(Wait("row:0", asked=True).apply([]))


@pytest.mark.parametrize("row", ["\u00b2", "\u0663", "-1", "", "1_0", " 1", "9" * 19, LONG], ids=lambda row: row[:5])
def test_what_is_no_row_is_no_point(row: str) -> None:
    with pytest.raises(UsageError, match="is no point of a trace"):
        Wait(f"row:{row}")


def test_a_report_is_found_by_its_row_in_decimal_digits() -> None:
    found = triage(TRACE)
    row = found.reports[0].current.row
    assert found.reports[0] in find(found, str(row))
    assert found.reports[0] in find(found, f"0{row}")
    for word in ("\u00b2", "\u0663", LONG, "9" * 19, ""):
        assert find(found, word) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", TRACE, "\u00b2"], ["explain", TRACE, LONG], ["minimize", TRACE, LONG, "-o", "-"],
        ["whatif", TRACE, "--sync", f"row:{LONG}"], ["whatif", TRACE, "--event", "row:\u00b2"],
        ["whatif", TRACE, "--sync", "row:99999"], ["whatif", TRACE, "--event", "before:nope"],
    ],
    ids=lambda arguments: f"{arguments[0]}-{arguments[-1][:12]}",
)  # fmt: skip
def test_slips_end_with_a_sentence(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("hbtrace: ")
    assert len(err.splitlines()) == 1
