"""What each race comes to, in every output of `analyze`, and `--only`: filtering, exit codes, pipes, and its bounds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

import hbtrace
from hbtrace.compare.outcome import analyze
from hbtrace.consequence import sampling as judged
from hbtrace.explain.triage import triage
from hbtrace.trace.writer import open_writer

Event = dict[str, Any]

HEAD: list[Event] = [
    {"ev": "backend", "id": 0, "name": "GPU"},
    {"ev": "buffer", "id": 0, "name": "Host", "size": 1024, "host": True},
    *({"ev": "tensor", "id": k, "name": name, "buffer": 0, "offset": 64 * k, "size": 64}
      for k, name in enumerate(("live_in", "live_out", "dead_in", "dead_out", "doubt_in", "doubt_out"))),
]  # fmt: skip


def kernel(source: int, target: int, **keys: Any) -> Event:
    return {
        "ev": "kernel", "backend": 0, "reads": [{"tensor": source, "offset": 0, "size": 64}],
        "writes": [{"tensor": target, "offset": 0, "size": 64, **keys}],
    }  # fmt: skip


WAIT: Event = {"ev": "synchronize", "backend": 0}
READ_LIVE: Event = {"ev": "tensor_get", "tensor": 1}


def write(tensor: int) -> Event:
    return {"ev": "tensor_set", "tensor": tensor}


LIVE = [kernel(0, 1), write(0), WAIT, READ_LIVE]
DEAD = [kernel(2, 3), write(2), WAIT, write(3)]
DOUBT = [kernel(4, 5, approx=True), write(4), WAIT, {"ev": "tensor_get", "tensor": 5}, write(5)]


@pytest.fixture
def call(capfd):
    """Run a command line: (exit code, standard output, standard error)."""
    from hbtrace.cli import run

    def run_it(*arguments):
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return code, out, err

    return run_it


def trace(folder: Path, *parts: list[Event], name: str = "run.jsonl") -> str:
    path = str(folder / name)
    with open_writer(path) as writer:
        writer.write_rows([*HEAD, *(event for part in parts for event in part)])
    return path


@pytest.fixture
def three(tmp_path):
    return trace(tmp_path, LIVE, DEAD, DOUBT)


def column(out: str) -> dict[str, str]:
    """By tensor, the summary's word."""
    return dict(re.findall(r"^R-\w+ +WAR +Host +(\w+) .* (visible|overwritten|unknown) +\d+  -$", out, re.MULTILINE))


WORDS = {"live_in": "live", "dead_in": "dead", "doubt_in": "unknown"}
"""For machines."""
EFFECTS = {"live_in": "visible", "dead_in": "overwritten", "doubt_in": "unknown"}
"""In text."""


def test_the_summary_says_what_each_comes_to(call, three):
    code, out, err = call("analyze", three)
    assert (code, err) == (1, "")
    assert column(out) == EFFECTS
    assert "effect   visible" not in out


def test_verbose_says_why_under_its_block(call, three):
    out = call("analyze", three, "-v")[1]
    told = dict(re.findall(r" (\w+_in) \(tensor_set\)(?:\n.*)*?\n    effect   (.*)$", out, re.MULTILINE))
    assert told == {
        "live_in": "visible: the host reads what depends on it in row 11",
        "dead_in": "overwritten: all that it can change is overwritten before anybody reads it",
        "doubt_in": "unknown: an approximate range decides whether what it changes is read",
    }


def test_without_a_host_read_it_counts_what_is_left_at_the_end(call, tmp_path):
    out = call("analyze", trace(tmp_path, LIVE[:2]), "-v")[1]
    assert "effect   visible: what it changes is in memory at the end of the trace" in out
    cut = trace(tmp_path, LIVE[:2], name="cut.jsonl")
    with open(cut, "a", encoding="utf-8") as file:
        file.write('{"ev":"synchron')
    assert "effect   unknown: what it changes was in memory where the trace is cut" in call("analyze", cut, "-v")[1]


def told(reports: list[dict[str, Any]]) -> dict[str, str]:
    return {report["current"]["tensor"]: report["consequence"] for report in reports}


def test_machine_formats(call, three):
    document = json.loads(call("analyze", three, "--format", "json")[1])
    assert told(document["reports"]) == WORDS
    first = document["reports"][0]
    assert (first["consequence_row"], first["consequence_why"].split()[-1]) == (11, "11")
    assert told([json.loads(line) for line in call("analyze", three, "--format", "jsonl")[1].splitlines()]) == WORDS
    results = json.loads(call("analyze", three, "--format", "sarif")[1])["runs"][0]["results"]
    assert {r["properties"]["tensors"]: r["properties"]["consequence"] for r in results} == WORDS
    markdown = call("analyze", three, "--format", "markdown")[1]
    rows = [line.split(" | ") for line in markdown.splitlines() if "WAR" in line]
    assert {row[3].replace("\\", ""): row[6] for row in rows} == EFFECTS
    github = call("analyze", three, "--format", "github")[1]
    assert dict(re.findall(r"access (\w+) with .*; effect: (\w+)\)", github)) == EFFECTS
    suite = Xml.fromstring(call("analyze", three, "--format", "junit")[1])
    cases = {case.get("name", "").split(": ")[1]: case.findtext("system-out", "") for case in suite.iter("testcase")}
    assert {name: said.removeprefix("effect: ") for name, said in cases.items()} == EFFECTS
    assert suite.find(".//testcase/properties") is None  # Jenkins' schema has none there


@pytest.mark.parametrize(
    ("only", "shown"),
    [(["live"], {"live_in"}), (["dead"], {"dead_in"}), (["live", "unknown"], {"live_in", "doubt_in"})],
)
def test_only_is_a_filter(call, three, only, shown):
    options = [part for word in only for part in ("--only", word)]
    code, out, err = call("analyze", three, *options)
    assert (code, set(column(out))) == (1, shown)
    assert f"left out by filters: {3 - len(shown)} of 3 reports" in out
    assert ("effect is unknown: 1 (--only unknown shows them)" in err) == ("unknown" not in only)
    document = json.loads(call("analyze", three, "--format", "json", *options)[1])
    assert (document["races"], document["distinct"], document["shown"]) == (3, 3, len(shown))
    assert set(told(document["reports"])) == shown


def test_exit_codes_are_judged_behind_it(call, tmp_path):
    dead = trace(tmp_path, DEAD)
    assert call("analyze", dead)[0] == 1
    assert call("analyze", dead, "--only", "live")[0] == 0
    assert call("analyze", dead, "--only", "live", "--format", "sarif")[0] == 0
    assert call("analyze", dead, "--only", "dead")[0] == 1
    live = trace(tmp_path, LIVE, name="live.jsonl")
    assert call("analyze", live, "--only", "live")[0] == 1
    assert call("analyze", live, "--only", "live", "--tensor", "live_out")[0] == 0
    assert call("analyze", live, "--only", "live", "--tensor", "nothing")[0] == 2
    assert call("analyze", live, "--only", "lively")[0] == 2


def test_a_clean_trace_is_read_once(call, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("hbtrace.compare.outcome.open_source", opened.append)
    clean = trace(tmp_path, [kernel(0, 1), WAIT, write(0)])
    assert call("analyze", clean)[0] == 0
    assert call("analyze", clean, "--only", "live")[0] == 0
    racy = trace(tmp_path, LIVE, name="racy.jsonl")
    assert call("analyze", racy, "--tensor", "live_out")[0] == 0  # nothing is shown
    assert opened == []


def test_pipes_are_told_the_same_as_files(three):
    command = [sys.executable, "-m", "hbtrace", "analyze", "-v", "--all"]
    whole = subprocess.run([*command, three], capture_output=True, check=False)
    piped = subprocess.run([*command, "-"], input=Path(three).read_bytes(), capture_output=True, check=False)
    assert (piped.returncode, piped.stdout, piped.stderr) == (whole.returncode, whole.stdout, whole.stderr)
    assert whole.stdout.count(b"effect ") == 4


def test_a_pipe_that_could_not_be_kept_is_unknown(monkeypatch, tmp_path, three):
    from hbtrace.trace.spool import Spool

    class Full(Spool):
        def passing(self, batches):
            self.whole = False
            return batches

    monkeypatch.setattr("hbtrace.compare.outcome.RECORDED_BYTES", 0)
    monkeypatch.setattr("hbtrace.trace.spool.Spool", Full)
    monkeypatch.setattr("pathlib.Path.is_file", lambda self: False)
    verdicts = analyze(three).selection.judged.by_pair.values()
    assert {(v.verdict, v.why) for v in verdicts} == {
        ("unknown", "the trace could not be read a second time as it was the first")
    }


def test_of_very_many_reports_the_first_of_each_race_stand_for_the_others(call, tmp_path, monkeypatch):
    many = trace(tmp_path, *[LIVE] * 4, *[DEAD] * 3)
    assert call("analyze", many)[2] == ""
    monkeypatch.setattr(judged, "MOST_JUDGED", 5)
    out = call("analyze", many, "--all", "--format", "json")[1]
    document = json.loads(out)
    races = len(document["reports"])
    left = [report for report in document["reports"] if report["consequence"] is None]
    assert races - len(left) == 2 * document["distinct"]
    sentence = f"effect sampled ({races - len(left)} of {races}): of the other reports"
    assert any(warning.startswith(sentence) for warning in document["warnings"])
    only = json.loads(call("analyze", many, "--all", "--only", "dead", "--format", "json")[1])
    assert only["shown"] == sum(report["current"]["tensor"].startswith("dead") for report in document["reports"]) > 2
    assert "effect   not judged (this race: " in call("analyze", many, "--all", "-v")[1]


def one_live_of(count: int) -> list[Event]:
    """A race in every round, and the host looks at what it changed in the last round only."""
    rounds = [[kernel(0, 1), write(0), WAIT, write(1)] for _ in range(count - 1)]
    return [*(event for each in rounds for event in each), kernel(0, 1), write(0), WAIT, READ_LIVE, write(1)]


def test_of_very_many_reports_the_last_alone_makes_its_race_live(call, tmp_path, monkeypatch):
    path = trace(tmp_path, one_live_of(9), *[DEAD] * 9)
    words = {"live_in": "live", "dead_in": "dead"}
    effects = {"live_in": "visible", "dead_in": "overwritten"}
    assert column(call("analyze", path)[1]) == effects
    monkeypatch.setattr(judged, "MOST_JUDGED", 5)
    monkeypatch.setattr("hbtrace.explain.triage.MOST_JUDGED", 5)
    assert column(call("analyze", path)[1]) == effects
    code, out, err = call("analyze", path, "--only", "live")
    assert (code, set(column(out))) == (1, {"live_in"})
    assert re.search(r"effect sampled \(\d+ of 18\): of the other reports what all", err)
    assert {cause.tensors[0]: cause.consequence for cause in triage(path)} == words


def test_what_nobody_judged_is_unknown_and_said(call, tmp_path, monkeypatch):
    path = trace(tmp_path, *[DEAD] * 9)
    monkeypatch.setattr(judged, "MOST_JUDGED", 3)
    monkeypatch.setattr(judged, "MOST_TOGETHER", 6)
    code, _, err = call("analyze", path, "--only", "live")
    assert code == 0
    assert re.search(r"\d+ reports were not judged at all, only the first 6 are", err)
    assert re.search(r"reports left out whose effect is unknown: \d+", err)
    assert column(call("analyze", path, "--only", "unknown")[1]) == {"dead_in": "unknown"}


def test_rows_beyond_the_bound_are_unknown(tmp_path, monkeypatch):
    path = trace(tmp_path, LIVE, DEAD)
    monkeypatch.setattr(judged, "MOST_ROWS", len(HEAD) + len(LIVE))
    outcome = analyze(path)
    words = {report.current.tensor: outcome.consequence_of(report) for report in outcome}
    assert words["live_in"].verdict == "live"
    assert words["dead_in"].verdict == "unknown"
    assert "up to row 12 only" in words["dead_in"].why


def test_a_trace_that_shrank_meanwhile_is_not_judged(tmp_path, monkeypatch):
    path = trace(tmp_path, LIVE, DEAD)
    short = trace(tmp_path, [], name="short.jsonl")
    from hbtrace.importers.source import open_source

    source = open_source(path)
    monkeypatch.setattr("hbtrace.compare.outcome.RECORDED_BYTES", 0)
    monkeypatch.setattr("hbtrace.importers.source.open_source", lambda _: open_source(short))
    outcome = hbtrace.compare.outcome.analyze_source(source, hbtrace.compare.outcome.Options(consequence=True))
    assert {outcome.consequence_of(report).verdict for report in outcome} == {"unknown"}


def test_it_is_what_triage_says(tmp_path, three):
    outcome = analyze(three, limit=None)
    found = triage(three)
    assert [outcome.consequence_of(r) for r in outcome] == [found.consequence_of(r) for r in outcome]


def test_suppressed_races_are_judged_and_do_not_count(call, tmp_path, three):
    out = call("analyze", three, "--gen-suppressions", "--tensor", "live*")[1]
    (ident,) = re.findall(r'^id = "(.*)"$', out, re.MULTILINE)
    (tmp_path / "known.toml").write_text(f'[[suppress]]\nid = "{ident}"\nreason = "known"\n')
    known = ("--suppressions", tmp_path / "known.toml")
    code, out, _ = call("analyze", three, *known, "--format", "json", "--only", "live")
    (report,) = json.loads(out)["reports"]
    assert (code, report["consequence"], "suppressed" in report) == (0, "live", True)


def test_reports_carry_the_cause_that_triage_knows(call, three):
    document = json.loads(call("analyze", three, "--format", "json")[1])
    triaged = json.loads(call("triage", three, "--format", "json")[1])
    causes = {cause["id"] for cause in triaged["causes"]}
    assert {report["cause"] for report in document["reports"]} == causes
    text = call("analyze", three, "-v")[1]
    assert set(re.findall(r"    cause    (C-[0-9a-f]+)", text)) == causes
    assert re.search(r", (\d+) root causes?$", text, re.MULTILINE)[1] == str(len(causes))
