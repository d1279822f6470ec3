"""Python programs load llama.cpp by dlopen(RTLD_LOCAL): the library's calls are recorded all the same."""

from __future__ import annotations

import shutil
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
    assert "more than once" not in run.told + driven.told
    assert run.analysis["distinct"] == 5


@pytest.mark.parametrize("settings", [{"HBTEST_DISCRETE": "1"}, {"HBTEST_SYNC": "1"}], ids=["discrete", "synchronous"])
def test_right_tokens_and_no_race(recorder: Recorder, settings: dict[str, str]) -> None:
    run = _record(recorder, **settings)
    assert run.tokens == recorder.plain(sys.executable, DRIVER)
    assert run.races == {}


def test_a_second_copy_of_ggml_is_told(recorder: Recorder) -> None:
    copy = shutil.copy(recorder.engine / "libggml-base.so", recorder.folder / "libggml-base.so")
    program = recorder.folder / "twice.py"
    program.write_text(
        "import ctypes, os, sys\n"
        "sys.path.insert(0, os.environ['TESTS'])\n"
        "from tests.record.python_driver import Engine\n"
        "engine = Engine()\n"
        f"ctypes.CDLL({str(copy)!r})\n"
        "again = Engine()\n"
    )
    tests = str(Path(__file__).resolve().parents[2])
    run = recorder.record(command=[sys.executable, program], LAYERS="0", PLUGIN="", TESTS=tests)
    assert run.status == 0, run.told
    assert "the program loaded ggml more than once" in run.told
    assert [event["attrs"] for event in run.rows("note") if event["what"] == "several_ggml"] == [{"count": 2}]


def test_exact_writes(recorder: Recorder) -> None:
    run = _record(recorder, "--exact-writes", HBTEST_HOLD="1")
    assert len(run.rows("set_direct")) == 3 * 23 + 17
