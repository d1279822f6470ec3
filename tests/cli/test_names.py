"""Names from a trace, a file or a command line: none begins a line of its own or steers a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hbtrace.cli import output, run
from hbtrace.escape import as_text, harmless
from tests.compare import samples

EVIL = "a\n::error::x\r\x1b[2J\u2028\u202e"
TOLD = r"a\n::error::x\r\x1b[2J\u2028\u202e"


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    """Run a command line in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(arguments))
        sys.stdout.flush()
        return code, *capfd.readouterr()

    return call


def test_harmless_tells_control_characters_and_leaves_all_others():
    assert harmless(EVIL) == TOLD
    assert harmless("\t\x00\x7f\x85") == r"\t\x00\x7f\x85"
    assert harmless("blk.0.attn_q-1 (view) é 注 \U0001f600") == "blk.0.attn_q-1 (view) é 注 \U0001f600"


def test_as_text_tells_bytes_that_are_none():
    assert as_text("a\udcff é\n") == "a\\xff é\n"


def test_every_sentence_on_standard_error_is_one_line(call):
    samples.write(Path("r.jsonl"), [*samples.run("a"), {"ev": EVIL}])
    Path(f"s{EVIL}.toml").write_text('[[suppress]]\ntensor = "none"\n')
    none = f"no{EVIL}.jsonl"
    for arguments in (
        ["analyze", "r.jsonl"],
        ["analyze", "r.jsonl", "--tensor", EVIL],
        ["analyze", "r.jsonl", "--suppressions", f"s{EVIL}.toml"],
        ["analyze", "r.jsonl", none],
        ["analyze", none],
        ["analyze", "--tensor", EVIL],
        ["check", "r.jsonl", none],
        ["diff", "r.jsonl", "r.jsonl"],
        ["diff", "r.jsonl", "r.jsonl", "--format", "jsonl"],
        ["diff", "r.jsonl", "r.jsonl", "--tensor", EVIL],
    ):
        err = call(*arguments)[2]
        lines = err.split("\n")[:-1]
        assert lines, arguments
        assert all(line.startswith(("warning: ", "note: ", "hbtrace: ")) for line in lines), arguments
        assert err.replace("\n", "").isprintable(), arguments
        assert "::error::x" in err or arguments == ["analyze", "--tensor", EVIL]


def test_one_line_stays_one(call):
    """Reports, tables, notes and details."""
    samples.write(Path("r.jsonl"), samples.run(EVIL, "b"))
    samples.write(Path("gone.jsonl"), samples.run("a", "b", touched=False))
    for arguments in (["analyze", "r.jsonl", "-v", "--all"], ["diff", "gone.jsonl", "r.jsonl", "-v"]):
        out = call(*arguments)[1]
        assert f" {TOLD} (set_direct)\n" in out
        assert out.replace("\n", "").isprintable()
    for verb in ("diff r.jsonl gone.jsonl", "triage r.jsonl -v", "info r.jsonl", "check r.jsonl"):
        arguments = verb.split()
        out = call(*arguments)[1]
        assert out.replace("\n", "").isprintable(), arguments
        assert not any(line.startswith("::") for line in out.splitlines()), arguments


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_no_control_character_but_our_colour(call, monkeypatch):
    samples.write(Path("r.jsonl"), samples.run("a\x1b[2J\x07"))
    for arguments in (["analyze", "r.jsonl"], ["diff", "r.jsonl", "r.jsonl", "-v"]):
        monkeypatch.setattr(sys, "stdout", Terminal())
        run(arguments)
        out = sys.stdout.getvalue()
        assert out.count("\x1b[1;31mRACE (") == 1
        assert out.count("\x1b") == 2 * out.count("RACE (")
        assert "a\\x1b[2J\\x07 (set_direct)" in out.replace("\n    ", " ")
        assert "\x07" not in out


def test_a_pipe_gets_no_colour(capsys):
    output.show("RACE (x) on y\n")
    assert capsys.readouterr().out == "RACE (x) on y\n"
