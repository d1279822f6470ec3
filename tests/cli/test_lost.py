"""What is lost is told in every output: recordings that stopped, traces that cannot be read, lines that are cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from hbtrace.cli import run
from tests.compare.samples import write

RACE: list[dict[str, Any]] = [
    {"ev": "backend", "id": 0, "name": "GPU"},
    {"ev": "buffer", "id": 0, "name": "B", "size": 64},
    {"ev": "buffer", "id": 1, "name": "C", "size": 64},
    {"ev": "tensor", "id": 0, "name": "inp", "buffer": 0, "size": 64},
    {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}], "writes": [{"buffer": 1, "offset": 0, "size": 64}]},
    {"ev": "set_direct", "tensor": 0},
]
STOPPED = {"ev": "note", "what": "recording_stopped", "attrs": {"reason": "disk_full"}}


def hbtrace(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run([str(argument) for argument in arguments])
    told = capfd.readouterr()
    return code, told.out, told.err


@pytest.fixture
def stopped(tmp_path: Path) -> str:
    return write(tmp_path / "stopped.jsonl", [*RACE, STOPPED])


def test_a_recording_that_stopped_is_a_truncated_trace(stopped: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = hbtrace(capfd, "analyze", stopped, "-v")
    assert code == 1
    assert "effect   unknown: what it changes was in memory where the trace is cut" in out
    assert "stopped before the run ended (disk_full)" in err
    assert hbtrace(capfd, "diff", stopped, stopped)[0] == 3
    assert hbtrace(capfd, "diff", stopped, stopped, "--allow-partial")[0] == 0


def test_an_engine_that_died_leaves_a_truncated_trace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    died = {"ev": "note", "what": "recording_ended", "attrs": {"exception": "RuntimeError: GPU lost"}}
    trace = write(tmp_path / "died.jsonl", [*RACE[:-1], died])
    code, _, err = hbtrace(capfd, "analyze", trace)
    assert (code, "stopped before the run ended (RuntimeError: GPU lost)" in err) == (0, True)
    assert hbtrace(capfd, "diff", trace, trace)[0] == 3


def test_one_that_did_not_stop_is_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = write(tmp_path / "whole.jsonl", [*RACE, STOPPED | {"what": "something_else"}])
    _, out, err = hbtrace(capfd, "analyze", whole, "-v")
    assert "effect   visible" in out
    assert err == ""


@pytest.mark.parametrize("form", ["jsonl", "arrow", "arrows"])
def test_it_is_told_in_every_encoding(
    form: str, stopped: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"copy.{form}"
    hbtrace(capfd, "convert", stopped, target)
    assert "(disk_full)" in hbtrace(capfd, "check", target)[2]


@pytest.mark.parametrize("traces", [["stopped", "nope"], ["nope", "nope2"]])
def test_a_trace_that_cannot_be_read_is_in_every_format(
    traces: list[str], stopped: str, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [stopped if trace == "stopped" else trace for trace in traces]
    unread = sum(trace != "stopped" for trace in traces)
    outputs = {}
    for form in ("markdown", "github", "sarif", "junit"):
        code, outputs[form], _ = hbtrace(capfd, "analyze", *given, "--format", form)
        assert code == 3
    assert f"{unread} trace{'s' if unread > 1 else ''} not read" in outputs["markdown"].splitlines()[0]
    assert outputs["github"].count("::error title=hbtrace::nope") == unread
    invocation = json.loads(outputs["sarif"])["runs"][0]["invocations"][0]
    assert not invocation["executionSuccessful"]
    assert sum(note["level"] == "error" for note in invocation["toolExecutionNotifications"]) == unread
    (suite,) = Xml.fromstring(outputs["junit"])
    assert int(suite.get("errors", 0)) == len(suite.findall("testcase/error")) == unread
    assert int(suite.get("tests", 0)) == len(suite.findall("testcase"))


def test_check_tells_its_warnings_in_every_format(stopped: str, capfd: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "markdown", "github", "sarif", "junit"):
        out = hbtrace(capfd, "check", stopped, "--format", form)[1].replace("\\_", "_")
        assert "disk_full" in out, form


def test_one_queue_and_no_host_exercise_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    alone = write(tmp_path / "alone.jsonl", RACE[:-1])
    for verb in ("analyze", "check"):
        assert "coverage: not-exercised" in hbtrace(capfd, verb, alone)[1]
    assert "coverage: not-exercised" not in hbtrace(capfd, "analyze", write(tmp_path / "two.jsonl", RACE))[1]
