"""What people say of known and suppressed races: printed with its file and line, never empty, and dates that pass."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.compare.samples import run, write


@pytest.fixture(autouse=True)
def traces(tmp_path, monkeypatch, hbtrace):
    """Two races, and a baseline that knows both; the first entry has a reason, the second has expired as well."""
    monkeypatch.chdir(tmp_path)
    write(Path("racy.jsonl"), run("a", "b"))
    write(Path("clean.jsonl"), run("a", "b", waits=True))
    assert hbtrace("baseline", "write", "racy.jsonl", "-o", "known.toml")[0] == 0
    first, second = Path("known.toml").read_text().rstrip("\n").rsplit("\n\n", 1)
    known = f'{first}\nreason = "the ring is on its way"\n\n{second}\nreason = "see #7"\nexpires = 2001-01-01\n'
    Path("known.toml").write_text(known)


def ids() -> list[str]:
    return re.findall('"(R-.*)"', Path("known.toml").read_text())


def check(hbtrace, *options: str, trace: str = "racy.jsonl"):
    return hbtrace("baseline", "check", "known.toml", trace, *options)


def test_expired_is_a_state_of_its_own(hbtrace):
    kept, expired = ids()
    code, out, _ = check(hbtrace)
    assert code == 1
    assert out.splitlines()[0] == "FAIL: 1 expired race (baseline known.toml, head racy.jsonl)"
    assert "\n1 expired, 1 persisting\n" in out
    assert f"known.toml:16: {expired}: its entry in the baseline expired on 2001-01-01" in out
    assert re.search(rf"^expired +{expired} ", out, re.MULTILINE)
    assert out.count("RACE (") == 1  # in full, as a new one
    document = json.loads(check(hbtrace, "--format", "json")[1])
    assert [document[state] for state in ("new", "fixed")] == [[], []]
    assert [race["id"] for race in document["expired"]] == [expired]
    assert document["expired"][0]["known"] == {"where": "known.toml:16", "reason": "see #7", "expires": "2001-01-01"}
    assert [race["id"] for race in document["persisting"]] == [kept]
    annotations = check(hbtrace, "--format", "github")[1]
    assert f"::error file=known.toml,line=16,title=expired race {expired}::" in annotations
    results = json.loads(check(hbtrace, "--format", "sarif")[1])["runs"][0]["results"]
    assert {r["properties"]["id"]: (r["baselineState"], r["level"]) for r in results} == {
        kept: ("unchanged", "error"), expired: ("unchanged", "error"),
    }  # fmt: skip
    (suite,) = Xml.fromstring(check(hbtrace, "--format", "junit")[1])
    assert [case.get("name").split()[0] for case in suite if case.find("failure") is not None] == [expired]
    assert f"| expired | `{expired}`" in check(hbtrace, "--format", "markdown")[1]


@pytest.mark.parametrize(("fail_on", "code"), [("none", 0), ("new", 1), ("any", 1)])
def test_what_has_expired_fails_as_a_new_one(hbtrace, fail_on, code):
    assert check(hbtrace, "--fail-on", fail_on)[0] == code


def test_what_has_expired_and_is_gone_is_fixed(hbtrace):
    code, out, _ = check(hbtrace, trace="clean.jsonl")
    assert (code, "2 fixed" in out, "expired" in out) == (0, True, False)


def test_reasons_of_a_baseline_are_printed(hbtrace):
    kept, expired = ids()
    lines = [f"{kept} persisting: the ring is on its way (known.toml:4)", f"{expired} expired: see #7 (known.toml:16)"]
    for line in lines:
        assert f"\n  {line}\n" in check(hbtrace)[1]
    assert f"- {kept} persisting: the ring is on its way (known.toml:4)" in check(hbtrace, "--format", "markdown")[1]
    assert "; the ring is on its way (known.toml:4)" in check(hbtrace, "--format", "github")[1]
    assert "reason: the ring is on its way (known.toml:4)" in check(hbtrace, "--format", "junit")[1]


SUPPRESSIONS = '[[suppress]]\ntensor = "a"\nreason = "double buffered"\n\n[[suppress]]\ntensor = "zz"\nreason = "x"\n'


def test_reasons_of_suppressions_are_printed(hbtrace):
    Path("s.toml").write_text(SUPPRESSIONS)
    for verb in ("diff clean.jsonl racy.jsonl", "analyze racy.jsonl", "diff racy.jsonl racy.jsonl"):
        out = hbtrace(*verb.split(), "--suppressions", "s.toml")[1]
        assert "double buffered (s.toml:1)" in out, verb
        assert "suppressed: " in out
    out = hbtrace("diff", "clean.jsonl", "racy.jsonl", "--suppressions", "s.toml", "--format", "markdown")[1]
    assert re.search(r"^- R-\w+ suppressed: double buffered \(s.toml:1\)$", out, re.MULTILINE)


def test_no_new_race_says_how_many_are_suppressed(hbtrace):
    Path("s.toml").write_text('[[suppress]]\nbuffer = "*"\nreason = "all known"\n')
    for form in ("text", "markdown", "github"):
        code, out, _ = hbtrace("diff", "clean.jsonl", "racy.jsonl", "--suppressions", "s.toml", "--format", form)
        assert (code, "no new race (2 suppressed)" in out) == (0, True), form
    for form in ("markdown", "github"):
        code, out, _ = hbtrace("analyze", "racy.jsonl", "--suppressions", "s.toml", "--format", form)
        assert (code, "no race (2 suppressed)" in out) == (0, True), form


def test_warnings_of_suppressions_have_file_and_line_in_every_format(hbtrace):
    Path("s.toml").write_text(SUPPRESSIONS + '\n[[suppress]]\ntensor = "b"\nexpires = 2001-01-01\n')
    unused, expired = "s.toml:5: this suppression matches nothing", "s.toml:9: this suppression expired on 2001-01-01"
    verb = ["diff", "clean.jsonl", "racy.jsonl", "--suppressions", "s.toml"]
    code, _, err = hbtrace(*verb)
    assert (code, err.splitlines()) == (1, [f"warning: {expired}", f"warning: {unused}"])
    annotations = hbtrace(*verb, "--format", "github")[1]
    assert f"::warning file=s.toml,line=5,title=hbtrace::{unused}" in annotations
    assert f"::warning file=s.toml,line=9,title=hbtrace::{expired}" in annotations
    run = json.loads(hbtrace(*verb, "--format", "sarif")[1])["runs"][0]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    places = [note["locations"][0]["physicalLocation"] for note in notes if "locations" in note]
    assert [(p["artifactLocation"]["uri"], p["region"]["startLine"]) for p in places] == [("s.toml", 9), ("s.toml", 5)]
    assert json.loads(hbtrace(*verb, "--format", "json")[1])["warnings"] == [expired, unused]


@pytest.mark.parametrize("reason", ['""', '"  "', '"\\t\\n"', "''", '"""\n"""'])
def test_an_empty_reason_is_refused(hbtrace, reason):
    Path("s.toml").write_text(f'[[suppress]]\ntensor = "a"\nreason = {reason}\n')
    for verb in ("analyze", "triage"):
        code, out, err = hbtrace(verb, "racy.jsonl", "--suppressions", "s.toml")
        assert (code, out) == (2, "")
        assert err.startswith("hbtrace: s.toml:3: `reason` is empty")
    text = Path("known.toml").read_text().replace('"the ring is on its way"', reason)
    Path("known.toml").write_text(text)
    code, out, err = check(hbtrace)
    assert (code, out) == (2, "")
    assert err.startswith("hbtrace: known.toml:14: `reason` is empty")


def test_what_is_generated_leaves_the_reason_to_people(hbtrace):
    code, out, _ = hbtrace("analyze", "racy.jsonl", "--format", "toml")
    assert (code, out.count('# reason = "say why"')) == (1, 2)
    Path("s.toml").write_text(out.replace('# reason = "say why"', 'reason = "benign"'))
    code, out, err = hbtrace("analyze", "racy.jsonl", "--suppressions", "s.toml")
    assert (code, err, out.count("  benign (s.toml:")) == (0, "", 2)
