"""What each output promises: the same bytes always, names that cannot break out, the structure that readers expect.

SARIF: the structure that readers expect is checked by tables; `tests/sarif_schema.py` checks the documents against the
schema itself, where npm can fetch it.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from hbtrace.cli.showing import tell
from hbtrace.compare.baseline import check, make
from hbtrace.compare.diff import diff
from hbtrace.compare.outcome import Options
from hbtrace.compare.sides import load_side
from hbtrace.report.formats import FORMATS, FORMATS_OF_ANALYZE, renderer
from hbtrace.report.renderer import Renderer, Style
from tests.compare.samples import run, write
from tests.sarif_schema import validate

NASTY = "a%b\r\n::error::x,y:z|*_`<b>&$#1@me]]>\x00\x1b\u2028é"


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
            {"ev": "compute", "backend": 0, "graph": 1}, {"ev": "synchronize", "backend": 0},
            {"ev": "set_direct", "tensor": 1}]  # fmt: skip
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


@pytest.mark.parametrize("verb", ["analyze", "check", "diff", "baseline check"])
def test_the_verbs_share_one_list_of_formats(verb):
    name, _, part = verb.partition(" ")
    command = importlib.import_module(f"hbtrace.cli.{name}").command
    command = command.commands[part] if part else command
    (choices,) = (param.type.choices for param in command.params if param.name == "format")
    assert tuple(choices) == (FORMATS_OF_ANALYZE if verb == "analyze" else FORMATS)
    assert all(isinstance(renderer(name), Renderer) for name in choices)


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
        assert r"a%25b\r\n::error::x,y:z" in out
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
    # All that the schema of Jenkins' xUnit knows in a case and in a suite.
    assert {part.tag for case in cases for part in case} <= {"skipped", "error", "failure", "system-out", "system-err"}
    assert {part.tag for part in suite} <= {"testcase", "system-out", "system-err"}
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
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase"))) == ("1", "0", 1)


@pytest.fixture
def apart(tmp_path):
    """Sides that cannot be compared, with a race on both."""
    return [write(tmp_path / f"{n}.jsonl", run("a", ubatches=n)) for n in (3, 2)]


APART = "not comparable: ubatches fell from 3 to 2"


@pytest.mark.parametrize("required", [False, True])
def test_no_output_is_green_where_comparability_was_required(hbtrace, apart, required):
    def told(form):
        code, out, _ = hbtrace("diff", *apart, "--format", form, *(["--require-comparable"] if required else []))
        assert (code, out.count(APART)) == (4 if required else 0, 1)
        return out

    (suite,) = Xml.fromstring(told("junit"))
    cases = {case.get("name").split(" ")[0]: [part.tag for part in case] for case in suite.iter("testcase")}
    assert (suite.get("errors"), suite.get("tests")) == (("1", "2") if required else ("0", "1"))
    assert [cases.get("compare"), len(cases)] == ([["error"], 2] if required else [None, 1])
    level = "error" if required else "warning"
    assert told("github").startswith(f"::{level} title=hbtrace::{APART}\n")
    (invocation,) = json.loads(told("sarif"))["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is not required
    assert [n["level"] for n in invocation["toolExecutionNotifications"] if APART in n["message"]["text"]] == [level]


def test_what_cannot_be_compared_is_said_before_the_races(hbtrace, apart):
    for form, race in (("markdown", "\n| "), ("github", " race R-"), ("text", "\nstate ")):
        out = hbtrace("diff", *apart, "--format", form)[1]
        assert 0 <= out.find(APART.split(": ")[1]) < out.find(race), form


def test_json_lines_say_the_rest_on_standard_error(hbtrace, apart):
    code, out, err = hbtrace("diff", *apart, "--format", "jsonl", "--require-comparable")
    assert (code, len(out.splitlines())) == (4, 1)
    assert err.splitlines()[:2] == [f"warning: {APART}", "warning: not comparable: tokens fell from 96 to 64"]
    assert [line[:19] for line in err.splitlines()[2:]] == [f"note: coverage {side}" for side in ("base", "head")]
    assert hbtrace("diff", *apart, "--format", "json")[2] == ""  # the document has a place for all of it


def test_what_the_runs_exercised_is_in_every_format(apart, capsys):
    base, head = (load_side([path], Options(), allow_partial=False) for path in apart)
    checked = check(make(base, None, folded=False), head, date(2026, 1, 1))
    for result, sides in ((diff(base, head), (" base", " head")), (checked, ("",))):
        told = {}
        for form in FORMATS:
            told[form] = renderer(form).whole(result, Style())
        assert len(json.loads(told.pop("json"))["coverage"]) == len(sides)
        tell(result, renderer("json"))
        assert capsys.readouterr().err == ""
        tell(result, renderer("jsonl"))
        told["jsonl"] = capsys.readouterr().err
        for form, text in told.items():
            text = text.decode() if isinstance(text, bytes) else text
            assert [text.count(f"coverage{side}: partly: ") for side in sides] == [1] * len(sides), form
        (suite,) = Xml.fromstring(told["junit"])
        assert len(suite.findtext("system-out", "").splitlines()) == len(sides)
        (invocation,) = json.loads(told["sarif"])["runs"][0]["invocations"]
        assert [n["level"] for n in invocation["toolExecutionNotifications"]].count("note") == len(sides)


def test_a_race_that_only_the_baseline_knows_has_no_report(hbtrace, tmp_path):
    known, clean = str(tmp_path / "known.toml"), write(tmp_path / "c.jsonl", run("a", waits=True))
    racy = write(tmp_path / "r.jsonl", run("a"))
    assert hbtrace("baseline", "write", racy, "-o", known)[0] == 0
    for trace, seen in ((clean, False), (racy, True)):
        check = ["baseline", "check", known, trace]
        assert ("RACE (" in hbtrace(*check, "-v")[1]) is seen
        document = json.loads(hbtrace(*check, "--format", "json")[1])
        (entry,) = [*document["persisting"], *document["fixed"], *document["not_exercised"]]
        assert (entry["example"] is not None) is seen
        (result,) = json.loads(hbtrace(*check, "--format", "sarif")[1])["runs"][0]["results"]
        assert result.get("occurrenceCount") == (2 if seen else None)


def test_verbose_has_the_id_under_each_block(hbtrace, apart):
    blocks = hbtrace("diff", apart[0], apart[0], "-v")[1].split("RACE (")[1:]
    ident = hbtrace("diff", apart[0], apart[0])[1].split("persisting  ")[1].split()[0]
    assert [block.split("\n")[5] for block in blocks] == [f"    id       {ident}"]
    clean = write(Path(apart[0]).with_name("c.jsonl"), run("a", waits=True))
    assert "    id  " not in hbtrace("diff", clean, apart[0])[1]


def test_a_path_that_is_no_text_breaks_no_format(hbtrace, tmp_path, monkeypatch):
    """Each has a warning with its path: an unknown event, an unused suppression."""
    monkeypatch.chdir(tmp_path)
    trace, file = "p\udcff.jsonl", "s\udcff.toml"
    write(Path(trace), [*run("a"), {"ev": "frobnicate"}])
    Path(file).write_text('[[suppress]]\ntensor = "a"\n[[suppress]]\ntensor = "b"\n')
    good = write(Path("g.jsonl"), run("a"))
    for verb in (["diff", good, trace], ["analyze", trace], ["analyze", trace, "none\udcff.jsonl"]):
        for form in ("json", "jsonl", "sarif"):
            code, out, err = hbtrace(*verb, "--suppressions", file, "--format", form)
            assert (code, "fault" in err) == (3 if "none" in verb[-1] else 0, False), (verb, form)
            assert r"s\xff.toml:3: this suppression matches nothing" in err
            assert r"\udcff" not in out


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
        assert bool(result["suppressions"]) == ("suppressed" in told[ident])
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
    assert result.get("occurrenceCount", 1) >= 1
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
