"""Filters hide reports: what is counted of a cause is counted over those that are left, and the rest is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import hbtrace
from hbtrace.explain import causes
from hbtrace.explain.triage import triage
from hbtrace.races.filters import Filters
from hbtrace.report import triage as report
from hbtrace.report import whatif as whatif_report
from hbtrace.what_if.fix import fix
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.whatif import whatif

SAMPLES = Path(__file__).parents[2] / "sample_traces"
INTEGRATED = str(SAMPLES / "integrated.arrow")
TWO_CAUSES = str(SAMPLES / "cuda_integrated.arrow")


def test_triage_counts_what_is_left() -> None:
    whole, found = triage(INTEGRATED), triage(INTEGRATED, filters=Filters(tensor=("inp_pos",), ubatch=((3, 3),)))
    (every,), (cause,) = whole.causes, found.causes
    assert cause.ident == every.ident
    assert (len(every.reports), every.primary, len(every.tensors)) == (30, 30, 5)
    assert (len(cause.reports), cause.primary, cause.tensors) == (2, 2, ["inp_pos"])
    assert (cause.ubatches, cause.distinct, found.left_out) == ({3, 4}, 1, 28)
    assert cause.widest is not None
    assert every.widest is not None
    assert cause.widest.events == 5 < every.widest.events
    text = report.render(found, verbose=True)
    assert "2 reports, 1 distinct race, 1 tensor, 1 root cause" in text
    assert "left out by filters: 28 of 30 reports" in text
    assert "consequent" not in text
    assert "left out" not in report.render(whole, verbose=True)


def test_the_ids_of_races_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "identities", lambda _: pytest.fail("triage knows the ids"))
    found = triage(TWO_CAUSES, filters=Filters(ids=("R-3561b6",), tensor=("embd",)))
    assert (len(found.reports), found.left_out) == (6, 24)


def test_a_report_is_shown_if_all_options_let_it_through() -> None:
    found = triage(TWO_CAUSES)
    (report, *_) = (report for report in found.reports if found.ids[report.canonical] == "R-3561b6")
    assert Filters().shows(report, found.ids)
    assert Filters(ids=("R-3561b6",), tensor=("embd",)).shows(report, found.ids)
    assert not Filters(ids=("R-3561b6",), tensor=("inp_pos",)).shows(report, found.ids)
    assert not Filters(ids=("R-000000",), tensor=("embd",)).shows(report, found.ids)


@pytest.mark.parametrize("by", [Filters(ids=("R-3561b6",)), Filters(tensor=("embd",))], ids=["id", "tensor"])
def test_whatif_takes_every_filter(by: Filters) -> None:
    batches = hbtrace.open(TWO_CAUSES).batches
    found = whatif(batches, [Ring(2)], filters=by)
    assert (found.before.races, found.before.distinct, found.before.left_out) == (6, 1, 24)
    assert (found.after.races, found.after.left_out) == (6, 0)
    (cause,) = found.before.causes
    assert cause.tensors == ["embd"]
    assert "left out by filters: 24 of 30 reports before, 0 after" in whatif_report.render(found, "-")
    assert b'"left_out": 24' in whatif_report.document(found, "-")


def test_whatif_without_filters_leaves_nothing_out() -> None:
    found = whatif(hbtrace.open(TWO_CAUSES).batches, [Ring(2)])
    assert (found.before.races, found.before.left_out) == (30, 0)
    assert "left out" not in whatif_report.render(found, "-")


def test_fix_mends_only_the_race_asked_for() -> None:
    batches = hbtrace.open(TWO_CAUSES).batches
    found = fix(batches, filters=Filters(ids=("R-3561b6",)))
    assert found.before.races == 6
    assert {tuple(mend.option for mend in answer.mends) for answer in found.answers} >= {
        (f"--edge {found.before.causes[0].ident}",)
    }
    assert "left out by filters: 24 of 30 reports" in whatif_report.render_fix(found, "-")
    none = fix(batches, filters=Filters(ids=("R-000000",)))
    assert whatif_report.render_fix(none, "-") == "-: no race to fix\nleft out by filters: 30 of 30 reports\n"
