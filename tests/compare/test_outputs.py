"""What each output promises: the same bytes always, names that cannot break out, the structure that readers expect.

SARIF: the structure that readers expect is checked by tables; `tests/sarif_schema.py` checks the documents against the
schema itself, where npm can fetch it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.compare.samples import run, write
from tests.sarif_schema import validate

NASTY = "a%b\r\n::error::x,y:z|*_`<b>&$#1@me]]>\x00\x1b\u2028é"
FORMATS = ("text", "json", "jsonl", "markdown", "github", "sarif", "junit")


@pytest.fixture
def sides(tmp_path, monkeypatch):
    """Sides with a race in each state, one of them with a nasty name; a suppressions file and a baseline."""
    monkeypatch.chdir(tmp_path)
    write(Path("base.jsonl"), run("kept", "fixed", "gone", "old", NASTY))
    head = run("kept", "fixed", "unused", "new name", "b", NASTY)
    base = run("kept", "fixed", "gone", "old", "b", NASTY)
    write(Path("base.jsonl"), base)
    waited = [e for e in head if e.get("tensor") != 2]
    for event in waited:
        if event["ev"] == "graph":
            event["nodes"] = [n for n in event["nodes"] if n["reads"][0]["tensor"] not in (1, 2)]
    late = [{"ev": "graph", "id": 1, "nodes": [{"op": "OP1", "reads": [{"tensor": 1}], "writes": []}]},
            {"ev": "compute", "backend": 0, "graph": 1}]  # fmt: skip
    write(Path("head.jsonl"), [*waited, *late])
    Path("s.toml").write_text('[[suppress]]\ntensor = "b"\nreason = "known: 100%"\n')
    return ["base.jsonl", "head.jsonl", "--suppressions", "s.toml"]


def test_the_sides_have_every_state(hbtrace, sides):
    document = json.loads(hbtrace("diff", *sides, "--format", "json")[1])
    assert [len(document[s]) for s in ("new", "fixed", "persisting", "moved", "not_exercised")] == [0, 1, 3, 1, 1]
    swapped = json.loads(hbtrace("diff", *sides[1::-1], "--format", "json")[1])
    assert [len(swapped[s]) for s in ("new", "persisting", "moved")] == [2, 3, 1]


VERBS = {
    "analyze": ["analyze", "head.jsonl", "--suppressions", "s.toml"],
    "diff": ["diff", "base.jsonl", "head.jsonl", "--suppressions", "s.toml"],
    "diff back": ["diff", "head.jsonl", "base.jsonl", "--suppressions", "s.toml"],
    "baseline check": ["baseline", "check", "known.toml", "base.jsonl", "--suppressions", "s.toml"],
}


@pytest.fixture(params=VERBS)
def verb(request, hbtrace, sides):
    assert hbtrace("baseline", "write", "head.jsonl", "-o", "known.toml")[0] == 0
    return VERBS[request.param]


ALL_FORMATS = f"""
import sys
from hbtrace.cli import run
for form in {FORMATS!r}:
    code = run([*sys.argv[1:], "--format", form])
sys.exit(code)
"""


def test_the_same_bytes_in_every_process(verb):
    outs = []
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", ALL_FORMATS, *verb],
            capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        outs.append((done.returncode, done.stdout, done.stderr))
    assert outs[0] == outs[1]
    assert outs[0][0] in (0, 1)
    assert outs[0][1].endswith(b"</testsuites>\n")
    assert str(Path.cwd()).encode() not in outs[0][1]


def ids(hbtrace, verb):
    lines = hbtrace(*verb, "--format", "jsonl")[1].split("\n")[:-1]
    return {json.loads(line)["id"]: json.loads(line) for line in lines}


def test_github(hbtrace, verb):
    out = hbtrace(*verb, "--format", "github")[1]
    lines = out.split("\n")[:-1]
    assert all(re.fullmatch(r"::(error|warning|notice) title=[^:,\r\n]*::[^\r\n]*", line) for line in lines), out
    told = ids(hbtrace, verb)
    assert all((ident in out) == ("suppressed" not in race) for ident, race in told.items())
    if any("%b" in str(race["signature"]) for race in told.values()):
        assert "a%25b%0D%0A::error::x,y:z" in out
    assert lines[-1].startswith(f"::notice title=hbtrace {' '.join(verb[:1 + (verb[0] == 'baseline')])}::")


def test_github_levels_follow_what_fails(hbtrace, sides):
    def levels(*options):
        out = hbtrace("diff", *sides, "--format", "github", *options)[1]
        return [line.split(" ")[0][2:] for line in out.splitlines() if "race R-" in line]

    assert sorted(set(levels())) == ["notice", "warning"]
    assert levels("--fail-on", "any").count("error") == 3
    assert "error" not in levels("--fail-on", "none")


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]]


def test_markdown(hbtrace, verb):
    out = hbtrace(*verb, "--format", "markdown")[1]
    table = [line for line in out.split("\n") if line.startswith("|")]
    widths = {len(cells(line)) for line in table}
    assert len(widths) == 1, out
    told = [race for race in ids(hbtrace, verb).values() if "suppressed" not in race]
    assert len(table) == len(told) + 2
    assert all(f"`{race['id']}`" in out for race in told)
    for raw in ("<b>", "\r", "\x00", "\x1b", "\u2028", " *_", "`<"):
        assert raw not in out


def test_markdown_of_nothing(hbtrace, tmp_path):
    clean = write(tmp_path / "c.jsonl", run("a", waits=True))
    lines = hbtrace("diff", clean, clean, "--format", "markdown")[1].splitlines()
    assert lines[:2] == ["**hbtrace diff**: no race", ""]
    assert [line[:32] for line in lines[2:]] == [f"- coverage {side}: not-exercised: " for side in ("base", "head")]


def test_junit(hbtrace, verb):
    code, out, _ = hbtrace(*verb, "--format", "junit")
    (suite,) = Xml.fromstring(out.encode())
    cases = suite.findall("testcase")
    told = ids(hbtrace, verb)
    assert len(cases) == len(told) == int(suite.get("tests"))
    assert {case.get("name").split(" ")[0] for case in cases} == set(told)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    for kind in ("failure", "skipped"):
        assert len(suite.findall(f"testcase/{kind}")) == int(suite.get({"failure": "failures"}.get(kind, kind)))
    assert code == (1 if int(suite.get("failures")) else 0)


def test_junit_names_hold_over_states(hbtrace, sides):
    def names(*operands):
        suites = Xml.fromstring(hbtrace(*operands, "--format", "junit")[1])
        return {case.get("name") for case in suites.iter("testcase")}

    assert len(names("diff", *sides) & names("diff", *sides[1::-1])) == 5  # all but the moved one's two names


def test_junit_of_nothing_has_a_case(hbtrace, tmp_path):
    clean = write(tmp_path / "c.jsonl", run("a", waits=True))
    (suite,) = Xml.fromstring(hbtrace("diff", clean, clean, "--format", "junit")[1])
    assert (suite.get("tests"), suite.get("failures"), len(suite)) == ("1", "0", 1)


SARIF = {
    # object: keys that the schema allows, of which the first are required (it forbids all others)
    "log": ("version runs $schema", 2),
    "run": ("tool results invocations columnKind", 1),
    "driver": ("name version semanticVersion rules informationUri", 1),
    "rule": ("id name shortDescription fullDescription defaultConfiguration help", 1),
    "invocation": ("executionSuccessful toolExecutionNotifications", 1),
    "result": ("message ruleId ruleIndex kind level locations relatedLocations partialFingerprints occurrenceCount "
               "properties baselineState suppressions", 1),
    "location": ("logicalLocations id message", 0),
    "logical location": ("name fullyQualifiedName kind", 0),
    "suppression": ("kind justification", 1),
}  # fmt: skip


BASELINE_STATES = {
    None: None, "new": "new", "persisting": "unchanged", "moved": "updated", "fixed": "absent",
    "not exercised": "unchanged",
}  # fmt: skip


def has_keys(what, given):
    allowed, required = SARIF[what]
    assert set(allowed.split()[:required]) <= given.keys() <= set(allowed.split()), (what, given)


def test_sarif(hbtrace, verb):
    document = json.loads(hbtrace(*verb, "--format", "sarif")[1])
    has_keys("log", document)
    assert document["version"] == "2.1.0"
    (one,) = document["runs"]
    has_keys("run", one)
    has_keys("driver", one["tool"]["driver"])
    has_keys("invocation", one["invocations"][0])
    rules = one["tool"]["driver"]["rules"]
    told = ids(hbtrace, verb)
    results = {result["properties"]["id"]: result for result in one["results"]}
    assert results.keys() == told.keys()
    for ident, result in results.items():
        is_sarif_result(result, rules)
        assert result["partialFingerprints"]["hbtraceRace/v1"].startswith(ident)
        assert ("suppressions" in result) == ("suppressed" in told[ident])
        assert result.get("baselineState") == BASELINE_STATES[told[ident].get("state")]


def test_sarif_is_valid_by_its_schema(hbtrace, verb, sarif_schema):
    validate(json.loads(hbtrace(*verb, "--format", "sarif")[1]), sarif_schema)


def is_sarif_result(result, rules):
    has_keys("result", result)
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    has_keys("rule", rules[result["ruleIndex"]])
    assert result["kind"] in ("pass", "open", "fail")
    assert (result["level"] == "none") == (result["kind"] != "fail")
    assert result["message"]["text"]
    assert result["occurrenceCount"] >= 1
    assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
    for location in (*result["locations"], *result["relatedLocations"]):
        has_keys("location", location)
        kinds = [place["kind"] for place in location["logicalLocations"]]
        assert kinds[:3] == ["memory", "variable", "queue"]
        for place in location["logicalLocations"]:
            has_keys("logical location", place)
    for suppression in result.get("suppressions", ()):
        has_keys("suppression", suppression)
        assert suppression["kind"] in ("inSource", "external")


def test_sarif_tells_call_sites(hbtrace, tmp_path):
    events = [e | {"site": "llama.cpp:77"} if e["ev"] == "set_direct" else e for e in run("a")]
    out = hbtrace("analyze", write(tmp_path / "r.jsonl", events), "--format", "sarif")[1]
    (location,) = json.loads(out)["runs"][0]["results"][0]["locations"]
    assert location["logicalLocations"][3] == {"name": "llama.cpp:77", "kind": "function"}


def test_json_has_the_keys_of_the_design(hbtrace, sides):
    document = json.loads(hbtrace("diff", *sides, "--format", "json")[1])
    assert {"new", "fixed", "persisting", "moved", "not_exercised", "comparable"} <= document.keys()
    assert document["comparable"] == {"ok": True, "reasons": []}
    for state in ("fixed", "persisting", "moved", "not_exercised"):
        for entry in document[state]:
            assert {"id", "signature", "base", "head"} <= entry.keys()
            for side in ("base", "head"):
                assert entry[side] is None or {"min", "max", "runs"} <= entry[side].keys()
    assert document["workload"]["ubatches"] == {"base": 3, "head": 3}


def test_an_output_file_holds_what_would_be_printed(hbtrace, verb, tmp_path):
    for form in FORMATS:
        printed = hbtrace(*verb, "--format", form)[1]
        code, out, _ = hbtrace(*verb, "--format", form, "-o", f"out.{form}")
        assert (code, out) == (hbtrace(*verb, "--format", form)[0], "")
        assert Path(f"out.{form}").read_bytes().decode() == printed
