"""`hbtrace convert` on Strata's logs: captures apart, and what no log tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import hbtrace
from hbtrace.checks.checked import check
from hbtrace.cli.convert import command
from hbtrace.errors import TraceError, UsageError
from hbtrace.info.info import info
from hbtrace.replay.session import analyze_events
from hbtrace.strata.model.written_logs import write_logs
from hbtrace.trace.reader import open_trace
from tests.strata.runs import run


def convert(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)


def events(path: Path) -> list[dict[str, Any]]:
    with open_trace(path) as trace:
        return list(trace)


def shape(found: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(next(event["attrs"] for event in found if event.get("what") == "strata"))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """`r.trace`, `r.stderr` and `r.stdout` of a ring run of three stages with state hashes."""
    made = write_logs(run("ring", stages=3, seed=1, hashes=True))
    for suffix, text in (("trace", made.trace), ("stderr", made.stderr), ("stdout", made.stdout)):
        (tmp_path / f"r.{suffix}").write_text(text, encoding="utf-8")
    return tmp_path


def test_captures_apart_become_one_trace(logs: Path) -> None:
    """The order of captures is of no account: each line is known by itself."""
    parts = [logs / f"r.{suffix}" for suffix in ("trace", "stderr", "stdout")]
    assert convert(parts[0], logs / "a.jsonl", "--with", parts[1], "--with", parts[2]).exit_code == 0
    found = events(logs / "a.jsonl")
    assert (shape(found)["mode"], shape(found)["stages"]) == ("ring", 3)
    whats = {event.get("what") for event in found}
    assert {"summary", "state_hash_items", "reply", "settle", "undo"} <= whats
    assert convert(parts[2], logs / "b.jsonl", "--with", parts[1], "--with", parts[0]).exit_code == 0
    assert shape(events(logs / "b.jsonl")) == shape(found)
    assert analyze_events(found).reports == []


def test_the_trace_alone_is_copy_mode_until_told(logs: Path) -> None:
    convert(logs / "r.trace", logs / "copy.jsonl")
    assert shape(events(logs / "copy.jsonl"))["mode"] == "copy"
    assert analyze_events(events(logs / "copy.jsonl")).reports
    convert(logs / "r.trace", logs / "ring.jsonl", "--mode", "ring")
    found = events(logs / "ring.jsonl")
    assert (shape(found)["mode"], analyze_events(found).reports) == ("ring", [])


def test_the_logs_word_is_overruled_and_told(logs: Path) -> None:
    convert(logs / "r.trace", logs / "x.jsonl", "--with", logs / "r.stderr", "--mode", "copy")
    found = events(logs / "x.jsonl")
    assert shape(found)["mode"] == "copy"
    assert found[0]["notes"].endswith(" The log itself says ring mode.")
    convert(logs / "r.trace", logs / "y.jsonl", "--with", logs / "r.stderr")
    assert "itself says" not in events(logs / "y.jsonl")[0]["notes"]


def test_sizes_and_depth(logs: Path) -> None:
    convert(
        logs / "r.trace", logs / "x.jsonl", "--stages", "5", "--windows", "3", "--layers", "2", "--layer-bytes", "10"
    )
    told = shape(events(logs / "x.jsonl"))
    assert {key: told[key] for key in ("stages", "windows", "buffers", "layers", "layer_bytes")} == {
        "stages": 5, "windows": 3, "buffers": 4, "layers": 2, "layer_bytes": 10,
    }  # fmt: skip
    convert(logs / "r.trace", logs / "seed.jsonl")
    sizes = [event["size"] for event in events(logs / "seed.jsonl") if event.get("name") == "gdn0"]
    assert sizes == [29_417_472]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["r.stdout", "x.jsonl", "--mode", "ring"], UsageError, "--mode: for logs of Strata only"),
        (["r.stderr", "x.jsonl", "--with", "r.stdout"], TraceError, "r.stderr, .*r.stdout: no pipeline trace in this"),
        (["r.trace", "x.jsonl", "--with", "gone"], TraceError, "gone: cannot be opened: no such file"),
        (["-", "x.jsonl", "--with", "r.trace"], UsageError, "name files, not standard input"),
        (["r.trace", "r.trace.jsonl", "--with", "r.trace.jsonl"], UsageError, "is what is being read"),
        (["r.trace", "x.jsonl", "--with", "./r.trace"], UsageError, "the same capture is given twice"),
        (["r.trace", "x.jsonl", "--with", "again.trace"], TraceError, "^again.trace: it has a pipeline trace, and so"),
        (["r.trace", "x.jsonl", "--with", "r.trace.jsonl"], TraceError, "^r.trace.jsonl: is a trace already"),
        (["r.trace", "x.jsonl", "--with", "/dev/null"], TraceError, "^/dev/null: nothing of Strata is in it"),
        (["r.trace", "x.jsonl", "--with", "deep.stderr"], TraceError, "^deep.stderr: line 1: --pipeline-windows 9999 "),
    ],
)
def test_what_cannot_be_is_refused(
    logs: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(logs)
    (logs / "r.trace.jsonl").write_text("{}\n")
    (logs / "again.trace").write_bytes((logs / "r.trace").read_bytes())
    (logs / "deep.stderr").write_text((logs / "r.stderr").read_text().replace("windows 2:", "windows 9999:"))
    with pytest.raises(error, match=message):
        convert(*arguments)
    assert not (logs / "x.jsonl").exists()
    assert not (logs / "x.jsonl").exists()


ASSUMED = "no capture tells the mode: copy is assumed"


def test_every_verb_says_that_the_mode_is_assumed(logs: Path) -> None:
    """And judges the races all the same: nothing of the trace is missing."""
    path = str(logs / "r.trace")
    outcome, checked, told = hbtrace.analyze(path), check(path), info(path)
    for warnings in (outcome.warnings, checked.warnings, told.warnings):
        assert sum(warning.startswith(ASSUMED) for warning in warnings) == 1
    assert not outcome.truncated
    assert f"warning: {ASSUMED}" in convert(path, logs / "a.jsonl").stderr
    assert ASSUMED not in convert(path, logs / "b.jsonl", "--mode", "copy").stderr
    assert ASSUMED not in convert(path, logs / "c.jsonl", "--with", logs / "r.stderr").stderr


def test_the_option_is_not_said_to_contradict_a_log_without_a_word(logs: Path) -> None:
    convert(logs / "r.trace", logs / "x.jsonl", "--mode", "ring")
    assert "itself says" not in events(logs / "x.jsonl")[0]["notes"]
