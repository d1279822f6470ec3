"""Hostile texts: whatever names, paths and option values hold, no verb sends it raw in any format.

A class of characters for each way of harm: ends of lines, what steers a terminal, what turns the order of what is
read, half a surrogate pair, and what the runner of a CI job takes for a command.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from hbtrace.cli import run
from hbtrace.escape import harmless, in_json, json_line, printed
from hbtrace.report.formats import FORMATS, FORMATS_OF_ANALYZE
from tests.compare import samples

CLASSES = {
    "lines": "a\n::error::x\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029::warning::y",
    "terminal": "a\x1b[2J\x1b]0;own\x07\x9b31m\x9d0;x\x9c\x08\x00\x7f",
    "order": "a\u202egpj.\u202cexe\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "commands": "##[error]a ::error::b ##vso[task.complete]c ##teamcity[x]",
    "no characters": "a\ufffe\uffff",
}
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""What must not come out but by our own hand: a newline at the end of a line."""


@pytest.fixture
def call(capfdbinary, tmp_path, monkeypatch):
    """Run a command line in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        code = run(list(arguments))
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def events(name: str, *, racy: bool = True) -> list[dict[str, Any]]:
    """A run in which every text of every event is hostile."""
    out = samples.run(name, f"{name}2", waits=not racy, name=name, buffer=name, label=name)
    out[0] |= {"producer": name, "engine": name, "command": [name], "env": {name: name}, "notes": name}
    for event in out:
        if event["ev"] in ("set_direct", "compute"):
            event |= {"site": name, f"x_{name}": name, name: 1}
    return [
        *out,
        {"ev": name},
        {"ev": "sched", "id": 0, "backends": [0], "cpu_buffer_type": name},
        {"ev": "ubatch", "sched": 0, "n": 9, "tokens": 1, "phase": name},
        {"ev": "note", "what": name, "attrs": {name: name}},
        {"ev": "backend", "id": 1, "name": "CPU", "type": name, "device": name, "accepts": [name]},
        {"ev": "graph", "id": 1, "nodes": [{"op": name, "backend": 0, "tensor": 0, "writes": [{"tensor": 0}]}]},
        {"ev": "compute", "backend": 0, "graph": 1, "split": 0, "ubatch": 3},
        {"ev": "buffer_free", "buffer": 0},
        {"ev": "backend_free", "backend": 0},
    ]


def assert_harmless(text: str, what: object) -> None:
    found = RAW.search(text)
    assert found is None, (what, text[max(0, found.start() - 60) : found.end() + 20])


def command_lines(verb: str, text: str) -> list[str]:
    return [line for line in text.split("\n") if line.lstrip().startswith("::") or re.search(r"##\w*\[", line)]


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A racy and a clean trace, suppressions, in files of hostile names; the name itself, of all classes."""
    monkeypatch.chdir(tmp_path)
    name = " ".join(reversed(CLASSES.values()))
    stem = name.replace("/", "").replace("\x00", "")[:160]
    samples.write(Path(f"r{stem}.jsonl"), events(name))
    samples.write(Path(f"c{stem}.jsonl"), events(name, racy=False))
    block = [f"tensor = {json.dumps('no ' + name)}", f"reason = {json.dumps(name)}", "[[suppress]]"]
    block += [f"tensor = {json.dumps('?*2')}", f"reason = {json.dumps(name)}"]
    Path(f"s{stem}.toml").write_text("\n".join(["[[suppress]]", *block]) + "\n")
    return f"r{stem}.jsonl", f"c{stem}.jsonl", f"s{stem}.toml", name


def verbs(racy: str, clean: str, suppressions: str, name: str) -> list[tuple[list[str], tuple[str, ...]]]:
    """Every verb that prints what is in a trace, and its formats."""
    both = ("text", "json")
    suppressed = ["--suppressions", suppressions]
    return [
        (["analyze", racy, "-v", "--gen-suppressions", *suppressed], FORMATS_OF_ANALYZE),
        (["analyze", racy, clean, f"none{clean}"], FORMATS_OF_ANALYZE),
        (["check", racy, "--require", "ubatches>=99"], FORMATS),
        (["check", racy, clean, f"none{clean}"], FORMATS),
        (["diff", racy, clean, "-v"], FORMATS),
        (["diff", clean, racy, "-v", *suppressed, "--require-comparable"], FORMATS),
        (["baseline", "check", "base.toml", racy, "-v", *suppressed], FORMATS),
        (["baseline", "check", "base.toml", clean, "--require-exercised"], FORMATS),
        (["baseline", "write", racy, "-o", "-"], ()),
        (["info", racy], both),
        (["triage", racy, "-v", *suppressed], both),
        (["explain", racy, "9"], both),
        (["whatif", racy, "--fix"], both),
        (["whatif", racy, "--waits"], both),
        (["whatif", racy, "--pin", "--sync", "ubatch"], both),
        (["whatif", racy, "--sync", f"before:{name.replace(chr(0), '')}"], both),
        (["convert", racy, "-"], ()),
        (["minimize", racy, "9", "-o", "-"], ()),
    ]


def test_no_verb_and_no_format_sends_a_name_raw(call, hostile):
    racy, _, suppressions, name = hostile
    assert call("baseline", "write", racy, "-o", "base.toml")[0] == 0
    assert_harmless(Path("base.toml").read_text(), "base.toml")
    tomllib.loads(Path("base.toml").read_text())
    for arguments, formats in verbs(*hostile):
        for form in formats or ("",):
            what = [*arguments, *(["--format", form] if form else [])]
            code, out, err = call(*what)
            assert code in (0, 1, 2, 3, 4), (what, err)
            assert out or "error" in err or err.startswith("hbtrace: "), what
            assert_harmless(out, what)
            assert_harmless(err, what)
            assert command_lines(form, out) == [] or form == "github", what
            assert command_lines("", err) == [], what
    for arguments in (
        ["analyze", racy, "--tensor", name.replace("\x00", "")], ["analyze", f"no{racy}"], ["docs", harmless(name)],
        ["baseline", "check", f"no{suppressions}", racy], [name.replace("\x00", "")], ["explain", racy, "R-\x1b"],
        ["analyze", racy, "--ubatch", "\x1b\u202e"], ["analyze", racy, "-o", f"none/{racy}"], ["convert", racy, racy],
        ["convert", racy, f"{racy}.arrow"], ["simulate", "ggml", "-o", f"s{racy}"], ["whatif", racy, "--edge", "\x9b"],
    ):  # fmt: skip
        _, out, err = call(*arguments)
        assert_harmless(out + err, arguments)


def test_machine_formats_keep_names_as_they_are(call, hostile):
    racy, _, _, name = hostile
    (report, *_) = json.loads(call("analyze", racy, "--format", "json")[1])["reports"]
    assert report["buffer"] == name
    assert report["current"]["label"] == name
    Path("base.toml").write_text(call("baseline", "write", racy, "-o", "-")[1])
    assert call("baseline", "check", "base.toml", racy)[0] == 0  # every name is the same one again
    rows = [json.loads(line) for line in call("convert", racy, "-")[1].split("\n")[:-1]]
    assert [row["name"] for row in rows if row["ev"] == "buffer"] == [name]


@pytest.mark.parametrize(
    "name", ["##[error]a", "x ##vso[task.complete]", "###[group]", "##teamcity[a]##[b]", "##no #[1]"]
)
def test_json_and_toml_hold_no_command_and_keep_the_name(name):
    line = json_line({name: name})
    assert not re.search(rb"##\w*\[", line)
    assert json.loads(line) == {name: name}
    assert tomllib.loads(f"a = {json_line(name).decode()}") == {"a": name}


MENTIONS = re.compile(r"(?<!\w)[@#]\w|://|www\.", re.IGNORECASE)


@pytest.mark.parametrize(
    "name", ["@octocat", "see #12 and @org/team", "(@a)", "https://e.x/y", "WWW.e.x", "\\@a", "GPU0#1", "a@1"]
)
def test_markdown_calls_nobody_and_links_nothing(call, name):
    """A tensor's name in a comment on a pull request must notify no person and refer to no issue."""
    samples.write(Path("racy.jsonl"), samples.run(name))
    samples.write(Path("clean.jsonl"), samples.run(name, waits=True))
    for arguments in (["analyze", "racy.jsonl"], ["diff", "clean.jsonl", "racy.jsonl"]):
        code, out, _ = call(*arguments, "--format", "markdown")
        assert code == 1
        assert MENTIONS.search(out.replace("\\", "")) is None
        plain = re.sub(r"\\([^\w\s])", r"\1", out.replace("<!-- -->", ""))
        assert name in plain or "\\" in name


def test_text_goes_through_the_door_wherever_it_goes(call, hostile, monkeypatch):
    """Into a file, and onto a terminal, where lines are broken: no piece of a name begins one as a command."""
    racy, clean, _, _ = hostile
    assert call("diff", clean, racy, "-v", "-o", "out.txt")[0] == 1
    assert_harmless(Path("out.txt").read_text(), "-o")
    monkeypatch.setenv("COLUMNS", "40")
    for arguments in (["diff", clean, racy, "-v"], ["analyze", racy, "-v"], ["check", racy], ["triage", racy, "-v"]):
        stream = io.StringIO()
        stream.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdout", stream)
        run(arguments)
        text = re.sub("\x1b\\[(1;31|0)m", "", stream.getvalue())
        assert text
        assert_harmless(text, arguments)


SURROGATES = {"half": "\ud800", "other half": "\udfff", "byte of a file's name": "\udcff"}


@pytest.mark.parametrize("half", SURROGATES.values(), ids=SURROGATES)
def test_half_a_surrogate_pair_in_a_path_or_an_option(call, half):
    """As a locale without UTF-8, or Python's way with bytes of a command line, hands them on."""
    if half == "\udcff":
        samples.write(Path(f"r{half}.jsonl"), samples.run("a"))
        for verb in (["analyze"], ["check"], ["info"], ["triage"], ["whatif", "--fix"], ["explain", "9"]):
            for form in ("text", "json"):
                code, out, err = call(verb[0], f"r{half}.jsonl", *verb[1:], "--format", form)
                assert code in (0, 1), err
                assert_harmless(out + err, verb)
    for arguments in (
        ["analyze", f"none{half}"], ["docs", half], ["analyze", "x", "--ubatch", half], ["diff", half, half], [half],
    ):  # fmt: skip
        code, out, err = call(*arguments)
        assert code in (2, 3)
        assert err.startswith("hbtrace: ")
        assert_harmless(out + err, arguments)


def test_every_class_is_told():
    for character in map(chr, [*range(0x20), *range(0x7F, 0xA0)]):
        assert harmless(character).isascii()
        assert harmless(character).isprintable()
    for character in map(chr, range(0x2FFF)):
        if unicodedata.category(character) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(character) in (
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
        ):  # fmt: skip
            assert harmless(character) != character, hex(ord(character))
    assert harmless("\u200e\u200f\u061c\ud800") == r"\u200e\u200f\u061c\ud800"
    assert harmless("blk.0.attn_q-1 (view) é 注 \U0001f600 \u200d") == "blk.0.attn_q-1 (view) é 注 \U0001f600 \u200d"


def test_the_last_door_leaves_no_command_to_a_runner():
    assert printed("  ::error::x\n\u00a0::y\nb ##[group]y\nGPU0#a#1 [0, 4)\nc::d") == (
        "  \\x3a:error::x\n\u00a0\\x3a:y\nb \\x23#[group]y\nGPU0#a#1 [0, 4)\nc::d"
    )
    assert printed("##vso[a]##teamcity[b]") == "\\x23#vso[a]\\x23#teamcity[b]"
    assert printed(printed("a\x1b\n::b\n")) == "a\\x1b\n\\x3a:b\n"


def test_json_is_the_same_value_without_a_hostile_byte():
    for name in CLASSES.values():
        line = json_line([name, {name: 1}])
        assert json.loads(line) == [name, {name: 1}]
        assert RAW.search(line.decode()) is None
    assert json_line(["é", "\x7f"]) == b'["\xc3\xa9","\\u007f"]\n'
    assert json.loads(json_line({"a": "\udcff"})) == {"a": "\udcff"}
    assert in_json('"\u202e"'.encode()) == b'"\\u202e"'
