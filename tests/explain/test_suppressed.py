"""Suppressions leave reports out of causes, as filters do: counted apart, and no finding for the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hbtrace.cli import run
from hbtrace.explain.triage import triage
from hbtrace.races.filters import Filters
from hbtrace.races.suppressions import Suppression, Suppressions
from hbtrace.report import triage as report

TWO_CAUSES = str(Path(__file__).parents[2] / "sample_traces/cuda_integrated.arrow")


def by_tensor(*globs: str) -> Suppressions:
    return Suppressions([Suppression({"tensor": glob}) for glob in globs])


def test_a_suppressed_cause_is_gone_and_counted() -> None:
    found = triage(TWO_CAUSES, suppressions=by_tensor("embd"))
    (cause,) = found.causes
    assert (len(cause.reports), found.suppressed, found.left_out) == (24, 6, 0)
    text = report.render(found, verbose=False)
    assert "\n\nsuppressed: 6 reports\n" in text
    assert json.loads(report.document(found))["suppressed"] == 6
    assert json.loads(report.document(found))["shown"] == 30
    every = triage(TWO_CAUSES)
    assert (len(every.causes), every.suppressed) == (2, 0)
    assert "suppressed" not in report.render(every, verbose=False)


def test_what_filters_hide_is_not_counted_as_suppressed() -> None:
    suppressions = by_tensor("embd", "inp_pos")
    found = triage(TWO_CAUSES, filters=Filters(tensor=("inp_pos", "attn_inp_kq_mask")), suppressions=suppressions)
    assert (len(found.reports), found.suppressed, found.left_out) == (6, 6, 18)
    assert "\n\nleft out by filters: 18 of 30 reports\nsuppressed: 6 reports\n" in report.render(found, verbose=False)
    assert not suppressions.complaints()  # that of embd is used, though a filter hides what it suppresses


@pytest.mark.parametrize(("glob", "code", "warned"), [("*", 0, False), ("embd", 1, False), ("nothing", 1, True)])
def test_the_verb(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, glob: str, code: int, warned: bool
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(f'[[suppress]]\ntensor = "{glob}"\n')
    assert run(["triage", TWO_CAUSES, "--suppressions", str(file)]) == code
    told = capsys.readouterr()
    assert told.err == (f"warning: {file}:1: this suppression matches nothing\n" if warned else "")
    assert ("suppressed: " in told.out) is not warned
