"""A tensor goes by the name that a trace has for it and by the one that outputs print, in every place that asks."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from hbtrace.compare.outcome import Options, analyze_source
from hbtrace.importers.source import open_source
from hbtrace.races.filters import Filters
from hbtrace.races.suppressions import Suppression
from tests.compare.samples import found, run, write

COPY = "GPU0#inp_pos#0"
RUN = run(COPY, "leaf_7")
NAMES = {COPY: 1, "GPU0#inp_pos": 1, "leaf_7": 1, "GPU0#*": 1, "inp_pos": 0, "GPU0#inp_pos#1": 0, "leaf_8": 0}


@pytest.mark.parametrize(("name", "races"), NAMES.items())
def test_filters_and_suppressions_take_the_same_names(name: str, races: int) -> None:
    reports = found(RUN)
    assert len(reports) == 2
    assert len(found(RUN, Filters(tensor=name))) == races
    assert sum(map(Suppression({"tensor": name}).matches, reports.values())) == races


def test_the_place_of_an_unnamed_tensor_is_a_name_of_it() -> None:
    (place,) = {report.canonical[3] for report in found(RUN).values() if report.signature[3] == "leaf_7"}
    assert place is not None and place != "leaf_7"  # noqa: PT018
    assert len(found(RUN, Filters(tensor=place.replace("[", "[[]")))) == 1


def test_what_is_printed_is_known_even_where_it_does_not_race(tmp_path) -> None:
    for waits in (False, True):
        trace = write(tmp_path / "run.jsonl", run(COPY, "leaf_7", waits=waits))
        outcome = analyze_source(open_source(trace), Options())
        assert bool(outcome.races) is not waits
        nowhere = {name for name in NAMES if not any(fnmatchcase(one, name) for one in outcome.nameable.tensor)}
        assert nowhere == {name for name, races in NAMES.items() if not races}


def test_the_verbs_take_what_they_print(hbtrace, tmp_path) -> None:
    trace = write(tmp_path / "run.jsonl", RUN)
    for verb in (["analyze", trace], ["triage", trace], ["diff", trace, trace, "--fail-on", "any"]):
        code, out, err = hbtrace(*verb, "--tensor", "GPU0#inp_pos")
        assert (code, err) == (1, "")
        assert "GPU0#inp_pos " in out
        assert "leaf_7" not in out
