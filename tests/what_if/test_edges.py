"""`whatif --edge`: the order that a cause lacks; and every answer of `--fix` is a command that can be typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from hbtrace.cli import run

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
RACY = ("seed", "integrated", "cuda_integrated", "cuda_two", "tour_quarantine_off", "strata_copy")


def whatif(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run(["whatif", *map(str, arguments)])
    told = capfd.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize("name", RACY)
def test_every_answer_of_fix_can_be_typed(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    trace = SAMPLES / f"{name}.arrow"
    answers = json.loads(whatif(capfd, trace, "--fix", "--format", "json")[1])["answers"]
    assert answers
    for answer in answers:
        options = shlex.split(" ".join(mend["option"] for mend in answer["mends"]))
        code, out, _ = whatif(capfd, trace, *options, "--format", "json")
        found: dict[str, Any] = json.loads(out)
        assert (code, found["after"]["races"]) == (0, 0), options
        assert found["price"] == answer["price"], options


def test_an_edge_mends_its_own_cause_and_leaves_others(capfd: pytest.CaptureFixture[str]) -> None:
    trace = SAMPLES / "cuda_integrated.arrow"
    code, out, _ = whatif(capfd, trace, "--edge", "C-3a932f=sync", "--format", "json")
    found = json.loads(out)
    assert (code, found["before"]["races"], found["after"]["races"]) == (1, 30, 24)


@pytest.mark.parametrize(("word", "told"), [("C-000000", "no such root cause"), ("C-3a932f=stall", "C-...=sync")])
def test_a_wrong_edge_is_refused(word: str, told: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = whatif(capfd, SAMPLES / "cuda_integrated.arrow", "--edge", word)
    assert (code, out) == (2, "")
    assert told in err
