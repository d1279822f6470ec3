"""Python programs load llama.cpp by dlopen(RTLD_LOCAL): the library's calls are recorded all the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.record.runs import Recorder, Run

DRIVER = Path(__file__).with_name("python_driver.py")


def _record(recorder: Recorder, *options: str, **settings: str) -> Run:
    return recorder.record(*options, command=[sys.executable, DRIVER], **settings)


def test_wrong_tokens_and_races_as_from_the_driver(recorder: Recorder) -> None:
    run = _record(recorder, HBTEST_HOLD="1")
    driven = recorder.record(HBTEST_HOLD="1", name="driven.arrow")
    assert run.tokens != recorder.plain(sys.executable, DRIVER)
    assert run.races == driven.races
    assert run.analysis["distinct"] == 5


@pytest.mark.parametrize("settings", [{"HBTEST_DISCRETE": "1"}, {"HBTEST_SYNC": "1"}], ids=["discrete", "synchronous"])
def test_right_tokens_and_no_race(recorder: Recorder, settings: dict[str, str]) -> None:
    run = _record(recorder, **settings)
    assert run.tokens == recorder.plain(sys.executable, DRIVER)
    assert run.races == {}


def test_exact_writes(recorder: Recorder) -> None:
    run = _record(recorder, "--exact-writes", HBTEST_HOLD="1")
    assert len(run.rows("set_direct")) == 3 * 23 + 17
