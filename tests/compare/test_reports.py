"""`--report FORMAT=FILE`: one pass writes every format, also where nothing could be judged; and then none is green."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from hbtrace.report.formats import FORMATS, FORMATS_OF_ANALYZE
from tests.compare.samples import run, write
from tests.sarif_schema import validate

FILES = {form: f"out.{form}" for form in FORMATS}


@pytest.fixture(autouse=True)
def traces(tmp_path, monkeypatch):
    """A racy, a clean, a truncated and an idle trace, an empty folder, a baseline that does not parse."""
    monkeypatch.chdir(tmp_path)
    write(Path("racy.jsonl"), run("a", "b"))
    write(Path("clean.jsonl"), run("a", "b", waits=True))
    Path("cut.jsonl").write_bytes(Path("racy.jsonl").read_bytes()[:-9])
    write(Path("idle.jsonl"), [{"ev": "backend", "id": 0, "name": "GPU0"}])
    Path("nothing.jsonl").write_text("")
    Path("empty").mkdir()
    Path("bad.toml").write_text("format = 1\n[[race]\n")


def asked(formats=FORMATS) -> list[str]:
    return [word for form in formats for word in ("--report", f"{form}=out.{form}")]


def read() -> dict[str, str]:
    return {form: Path(file).read_text() for form, file in FILES.items()}


@pytest.mark.parametrize("verb", ["diff", "baseline check", "analyze", "check"])
def test_reports_hold_what_the_formats_print(hbtrace, verb):
    """Byte for byte, from one pass, beside what the verb prints all the same."""
    assert hbtrace("baseline", "write", "clean.jsonl", "-o", "known.toml")[0] == 0
    operands = {
        "diff": ["clean.jsonl", "racy.jsonl"], "baseline check": ["known.toml", "racy.jsonl"],
        "analyze": ["racy.jsonl", "clean.jsonl"], "check": ["racy.jsonl", "clean.jsonl", "--require", "ubatches>=9"],
    }[verb]  # fmt: skip
    command = [*verb.split(), *operands]
    formats = FORMATS_OF_ANALYZE if verb == "analyze" else FORMATS
    plain = hbtrace(*command)
    assert hbtrace(*command, *asked(formats)) == plain
    for form in formats:
        code, out, _ = hbtrace(*command, "--format", form)
        assert Path(f"out.{form}").read_text() == out, form
        assert code == plain[0]


CANNOT = {
    "missing": (["diff", "racy.jsonl", "none.jsonl"], 3, "none.jsonl: cannot be opened"),
    "missing base": (["diff", "none.jsonl", "racy.jsonl"], 3, "none.jsonl: cannot be opened"),
    "empty folder": (["diff", "racy.jsonl", "empty"], 3, "empty: this folder holds no trace"),
    "no event": (["diff", "racy.jsonl", "nothing.jsonl"], 3, "nothing.jsonl: "),
    "truncated": (["diff", "cut.jsonl", "racy.jsonl"], 3, "cut.jsonl: is truncated"),
    "idle": (["diff", "racy.jsonl", "idle.jsonl"], 3, "idle.jsonl: "),
    "no such tensor": (["diff", "racy.jsonl", "racy.jsonl", "--tensor", "nope"], 2, "--tensor nope: "),
    "glob": (["diff", "racy.jsonl", "n*.arrow"], 2, "n*.arrow: matches no file"),
    "strict": (["diff", "racy.jsonl", "racy.jsonl", "--strict", "--suppressions", "bad.toml"], 2, "bad.toml:2: is no"),
    "baseline": (["baseline", "check", "bad.toml", "racy.jsonl"], 2, "bad.toml:2: is no TOML"),
    "no baseline": (["baseline", "check", "none.toml", "racy.jsonl"], 2, "none.toml: cannot be read"),
    "baseline of nothing": (["baseline", "check", "known.toml", "empty"], 3, "empty: this folder holds no trace"),
    "analyze": (["analyze", "none.jsonl"], 3, "none.jsonl: cannot be opened"),
    "analyze nothing": (["analyze", "nothing.jsonl"], 3, "nothing.jsonl: "),
    "check": (["check", "none.jsonl"], 3, "none.jsonl: cannot be opened"),
    "check nothing": (["check", "nothing.jsonl"], 3, "nothing.jsonl: "),
}


@pytest.mark.parametrize("name", CANNOT)
def test_every_report_is_red_where_nothing_could_be_judged(hbtrace, sarif_schema, name):
    command, wanted, why = CANNOT[name]
    assert hbtrace("baseline", "write", "racy.jsonl", "-o", "known.toml")[0] == 0
    code, out, err = hbtrace(*command, *asked())
    assert (code, out) == (wanted, "")
    assert why in err
    files = read()
    assert files["markdown"].splitlines()[0].endswith(": cannot judge")
    for form in ("text", "markdown", "github", "sarif", "junit", "json", "jsonl"):
        assert "cannot judge: " in files[form].lower(), form
    assert f"::error title=hbtrace::cannot judge: {why}" in files["github"]
    (suite,) = Xml.fromstring(files["junit"])
    assert (suite.get("errors"), suite.get("tests")) == ("1", "1")
    assert suite.find("testcase/error").get("message").startswith(f"cannot judge: {why}")
    sarif = json.loads(files["sarif"])
    validate(sarif, sarif_schema)
    (invocation,) = sarif["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    assert note["level"] == "error"
    assert note["message"]["text"].startswith(f"cannot judge: {why}")
    (error,) = json.loads(files["json"])["errors"]
    assert error["exit_code"] == wanted
    assert json.loads(files["jsonl"])["error"] == error["error"]


@pytest.mark.parametrize("verb", ["analyze", "check"])
def test_of_several_traces_one_that_cannot_be_read_is_in_every_report(hbtrace, verb):
    code, out, _ = hbtrace(verb, "racy.jsonl", "none.jsonl", *asked())
    assert code == 3
    assert out
    for form, text in read().items():
        assert "none.jsonl: cannot be opened" in text, form


def test_what_was_required_is_red_in_every_report(hbtrace):
    """Exit code 4: judged, and not as it was asked for."""
    write(Path("short.jsonl"), run("a", "b", ubatches=2))
    assert hbtrace("diff", "racy.jsonl", "short.jsonl", "--require-comparable", *asked())[0] == 4
    files = read()
    assert "::error title=hbtrace::" in files["github"]
    assert Xml.fromstring(files["junit"])[0].get("errors") == "1"
    assert json.loads(files["sarif"])["runs"][0]["invocations"][0]["executionSuccessful"] is False


WRONG = {
    "no such format": (["--report", "yaml=x"], "no format `yaml`"),
    "nearly": (["--report", "markdwon=x"], "did you mean `markdown`?"),
    "not of this verb": (["--report", "toml=x"], "no format `toml`"),
    "no file": (["--report", "json"], "give a file, such as json=FILE"),
    "empty file": (["--report", "json="], "give a file, such as json=FILE"),
    "same file twice": (["--report", "json=x", "--report", "sarif=./x"], "another output goes there"),
    "also the output": (["--report", "json=x", "-o", "x"], "another output goes there"),
    "standard output twice": (["--report", "json=-", "--report", "github=-"], "another output goes there"),
    "two documents": (["--format", "json", "--report", "github=-"], "both go to standard output"),
    "no folder": (["--report", "json=none/x"], "none/x: cannot be written: there is no folder none"),
    "a folder": (["--report", "json=empty"], "empty is a folder"),
    "there": (["--report", "json=bad.toml"], "bad.toml exists; give -f"),
    "what is read": (["--report", "json=racy.jsonl", "-f"], "racy.jsonl is what is being read"),
    "suppressions": (["--suppressions", "bad.toml", "--report", "json=bad.toml", "-f"], "bad.toml is what is being"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_found_before_anything_is_read(hbtrace, name):
    """The other side is missing, which would be exit code 3; and nothing is written."""
    options, said = WRONG[name]
    before = sorted(os.listdir())
    code, out, err = hbtrace("diff", "racy.jsonl", "none.jsonl", *options)
    assert (code, out) == (2, "")
    assert said in err
    assert sorted(os.listdir()) == before


def test_a_read_only_folder_is_found_before_anything_is_read(hbtrace, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    code, _, err = hbtrace("diff", "racy.jsonl", "none.jsonl", "--report", "json=empty/x")
    assert (code, "its folder is read-only" in err) == (2, True)


def test_annotations_on_standard_output_stand_after_the_text(hbtrace):
    plain = hbtrace("diff", "clean.jsonl", "racy.jsonl")
    code, out, err = hbtrace("diff", "clean.jsonl", "racy.jsonl", "--report", "github=-", "--report", "json=x.json")
    annotations = hbtrace("diff", "clean.jsonl", "racy.jsonl", "--format", "github")[1]
    assert (code, out, err) == (plain[0], plain[1] + annotations, plain[2])


def test_a_report_is_only_overwritten_by_force(hbtrace):
    Path("out.json").write_text("mine")
    assert hbtrace("diff", "racy.jsonl", "racy.jsonl", "--report", "json=out.json")[0] == 2
    assert Path("out.json").read_text() == "mine"
    assert hbtrace("diff", "racy.jsonl", "racy.jsonl", "--report", "json=out.json", "-f")[0] == 0
    assert json.loads(Path("out.json").read_text())["new"] == []


def test_a_report_that_fails_keeps_no_other_from_being_written(hbtrace, monkeypatch):
    from hbtrace.cli import reporting

    def check_nothing(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(reporting, "check_output", check_nothing)  # the folder goes while the verb runs
    code, _, err = hbtrace("diff", "racy.jsonl", "racy.jsonl", "--report", "json=none/x", "--report", "sarif=x.sarif")
    assert (code, "none/x" in err) == (2, True)
    assert json.loads(Path("x.sarif").read_text())["runs"]


def test_a_fault_and_an_interrupt_are_told_in_reports(hbtrace, monkeypatch):
    from hbtrace.compare import sides

    for error, code, told in ((KeyError("x"), 70, "a fault of hbtrace: Key"), (KeyboardInterrupt(), 130, "interrupt")):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(sides, "load_side", fail)
        assert hbtrace("diff", "racy.jsonl", "racy.jsonl", "--report", "github=out", "-f")[0] == code
        assert f"::error title=hbtrace::cannot judge: {told}" in Path("out").read_text()


def test_the_documentation_of_checks_has_no_reports(hbtrace):
    for option in (["--list"], ["--explain", "hazard"]):
        code, out, err = hbtrace("check", *option, "--report", "json=x")
        assert (code, out, "--report tells of traces" in err) == (2, "", True)
    assert not Path("x").exists()


def test_state_of_arms_has_no_reports(hbtrace):
    code, _, err = hbtrace("diff", "--state", "a", "--against", "b", "--report", "json=x")
    assert (code, "--report tells of races" in err) == (2, True)
