"""`check` for other programs: the same findings in every format, and names that cannot break out of any."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from hbtrace.cli import run
from tests.compare.samples import write
from tests.sarif_schema import validate

NASTY = "a%b\r\n::error::x,y:z|*_`<b>&$#1@me]]>\x00\x1b\u2028\u00e9"


def hbtrace(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture
def racy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "racy.arrow"
    hbtrace(capfd, "simulate", "ggml", "--ring", "0", "-o", path)
    return path


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """A queue whose name would end every markup; it is freed with work in flight."""
    events: list[dict[str, Any]] = [
        {"ev": "backend", "id": 0, "name": NASTY, "async": True},
        {"ev": "buffer", "id": 0, "type": NASTY, "size": 64, "host": True},
        {"ev": "tensor", "id": 0, "name": NASTY, "buffer": 0, "offset": 0, "size": 64},
        {"ev": "graph", "id": 0, "nodes": [{"op": "ADD", "reads": [{"tensor": 0}], "writes": []}]},
        {"ev": "compute", "backend": 0, "graph": 0},
        {"ev": "buffer_free", "buffer": 0},
        {"ev": "backend_free", "backend": 0},
    ]
    path = tmp_path / "nasty.jsonl"
    return Path(write(path, events))


def findings(capfd: pytest.CaptureFixture[str], *traces: object) -> list[dict[str, Any]]:
    document = json.loads(hbtrace(capfd, "check", *traces, "--format", "json")[1])
    return [f for trace in document.get("traces", [document]) for f in trace["findings"]]


def test_jsonl_has_a_line_for_each_finding(racy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = hbtrace(capfd, "check", racy, "--format", "jsonl")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert {line.pop("trace") for line in lines} == {str(racy)}
    assert lines == findings(capfd, racy) != []


def test_markdown_is_one_table(nasty: Path, racy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for trace in (nasty, racy):
        lines = hbtrace(capfd, "check", trace, "--format", "markdown")[1].splitlines()
        expected = findings(capfd, trace)
        assert lines[0].startswith("**hbtrace check**: ")
        table = [line for line in lines if line.startswith("| ")]
        assert len(table) == 2 + len(expected)
        assert {len(re.split(r"(?<!\\)\|", line)) for line in table} == {6}  # no name adds a column
        assert [line.split(" | ")[1] for line in table[2:]] == [f"`{f['id']}`" for f in expected]
        assert any(line.startswith("- coverage: ") for line in lines)


def test_github_has_a_command_for_each_finding(
    nasty: Path, racy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = {"error": "error", "warning": "warning", "info": "notice"}
    for trace in (nasty, racy):
        out = hbtrace(capfd, "check", trace, "--format", "github")[1]
        lines = [line for line in re.split(r"[\r\n]", out) if line]
        told = Counter(tuple(re.match(r"::(\w+) title=([^:,]*)::", line).groups()) for line in lines)  # type: ignore[union-attr]
        wanted = Counter((words[f["severity"]], f["id"]) for f in findings(capfd, trace))
        assert wanted == Counter({key: n for key, n in told.items() if not key[1].startswith("hbtrace")})


@pytest.mark.parametrize("trace", ["nasty", "racy", "several"])
def test_sarif_is_valid_by_its_schema(
    trace: str, nasty: Path, racy: Path, sarif_schema: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    given = {"nasty": [nasty], "racy": [racy], "several": [racy, "missing", nasty]}[trace]
    code, out, _ = hbtrace(capfd, "check", *given, "--format", "sarif", "--require", "ubatches>=99")
    document = json.loads(out)
    validate(document, sarif_schema)
    (one,) = document["runs"]
    rules = one["tool"]["driver"]["rules"]
    expected = findings(capfd, *given)
    assert [r["ruleId"] for r in one["results"]] == [f["id"] for f in expected]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in one["results"])
    assert [r["message"]["text"] for r in one["results"]] == [f["message"] for f in expected]
    assert one["invocations"][0]["executionSuccessful"] == (code != 3) == (trace != "several")
    notes = [note["message"]["text"] for note in one["invocations"][0]["toolExecutionNotifications"]]
    assert any("ubatches>=99 is not met" in note for note in notes)


def test_the_schema_refuses_what_is_wrong(
    racy: Path, sarif_schema: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    import jsonschema

    document = json.loads(hbtrace(capfd, "check", racy, "--format", "sarif")[1])
    document["runs"][0]["results"][0]["level"] = "terrible"
    with pytest.raises(jsonschema.ValidationError):
        validate(document, sarif_schema)


def test_junit_has_a_case_for_each_check(nasty: Path, racy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["check", racy, nasty, "missing", "--require", "ubatches>=99"]
    code, out, _ = hbtrace(capfd, *given, "--format", "junit")
    document = json.loads(hbtrace(capfd, *given, "--format", "json")[1])
    assert code == 3
    suites = list(Xml.fromstring(out))
    assert [suite.get("errors") for suite in suites] == ["0", "0", "1"]
    for suite, trace in zip(suites, document["traces"], strict=False):
        cases = {case.get("name"): case for case in suite.findall("testcase")}
        for judged in trace["checks"]:
            bad = any(f["id"] == judged["id"] and f["severity"] != "info" for f in trace["findings"])
            case = cases.pop(judged["id"])
            assert (case.find("failure") is not None) == bad
            assert (case.find("skipped") is not None) == (judged["status"] == "not checkable")
        (required,) = cases.values()
        assert required.find("failure") is not None
        assert int(suite.get("tests", 0)) == len(suite.findall("testcase"))
        assert int(suite.get("failures", 0)) == len(suite.findall("*/failure"))


def test_all_are_the_same_bytes_every_time(racy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for form in ("jsonl", "markdown", "github", "sarif", "junit"):
        outputs = {hbtrace(capfd, "check", racy, "--format", form)[1] for _ in range(2)}
        assert len(outputs) == 1


def test_documentation_is_text_or_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert hbtrace(capfd, "check", "--list", "--format", "sarif")[0] == 2
    assert hbtrace(capfd, "check", "--explain", "hazard", "--format", "json")[0] == 0
