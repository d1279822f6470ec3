"""The verdict stands first and last in text, agrees with the exit code, and names the option and the next command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.compare.samples import run, write


@pytest.fixture(autouse=True)
def traces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a b").mkdir()
    write(Path("a b/racy.jsonl"), run("a", "b"))
    write(Path("one.jsonl"), run("a", "c", ubatches=2))
    write(Path("broken.jsonl"), [e | {"ev": "compute2"} if e["ev"] == "compute" else e for e in run("a", "b")])
    write(Path("clean.jsonl"), run("a", "b", waits=True))
    write(Path("short.jsonl"), run("a", "b", ubatches=2, waits=True))
    Path("s.toml").write_text('[[suppress]]\ntensor = "?"\nreason = "looked at"\n')


BOTH = " (base clean.jsonl, head a b/racy.jsonl)"
DIFF = {
    "new": (["clean.jsonl", "a b/racy.jsonl"], 1, f"FAIL: 2 new races{BOTH}"),
    "exit zero": (["clean.jsonl", "a b/racy.jsonl", "--exit-zero"], 0, f"FAIL: 2 new races{BOTH}"),
    "none fails": (["clean.jsonl", "a b/racy.jsonl", "--fail-on", "none"], 0, f"PASS: 2 new, --fail-on none{BOTH}"),
    "suppressed": (
        ["clean.jsonl", "a b/racy.jsonl", "--suppressions", "s.toml"], 0, f"PASS: no new race (2 suppressed){BOTH}",
    ),
    "known": (["a b/racy.jsonl", "a b/racy.jsonl"], 0, "PASS: no new race (base a b/racy.jsonl, head a b/racy.jsonl)"),
    "any": (
        ["a b/racy.jsonl", "a b/racy.jsonl", "--fail-on", "any"], 1,
        "FAIL: 2 persisting races (base a b/racy.jsonl, head a b/racy.jsonl)",
    ),
    "not exercised": (["clean.jsonl", "clean.jsonl"], 0, "PASS: no new race; not exercised (base clean.jsonl, head "),
    "required": (
        ["clean.jsonl", "broken.jsonl", "--require-exercised"], 4,
        "CANNOT JUDGE: --require-exercised: 1 of 1 runs could not show every race (base clean.jsonl, head bro",
    ),
    "not comparable": (
        ["clean.jsonl", "short.jsonl"], 0,
        "PASS: no new race; not exercised; workloads not comparable (base clean.jsonl, head short.jsonl)",
    ),
    "comparable required": (
        ["clean.jsonl", "short.jsonl", "--require-comparable"], 4,
        "CANNOT JUDGE: --require-comparable: not comparable: ubatches fell from 3 to 2",
    ),
    "both": (["a b/racy.jsonl", "one.jsonl", "--require-comparable"], 4, "CANNOT JUDGE: --require-comparable: not com"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFF)
def test_diff(hbtrace, name):
    arguments, wanted, verdict = DIFF[name]
    code, out, _ = hbtrace("diff", *arguments)
    lines = out.splitlines()
    assert code == wanted, out
    assert lines[0].startswith(verdict), out
    assert lines[-1] == lines[0]
    assert re.match("PASS|FAIL|CANNOT JUDGE", lines[0])
    word = lines[0].split(":")[0]
    assert code == {"PASS": 0, "FAIL": 1, "CANNOT JUDGE": 4}[word] or "--exit-zero" in arguments
    assert out.count(verdict) == 2


def test_what_is_both_new_and_not_comparable_is_told_in_one_line(hbtrace):
    out = hbtrace("diff", *DIFF["both"][0])[1]
    assert "; 1 new race (base a b/racy.jsonl, head one.jsonl)" in out.splitlines()[0]


def test_the_next_command_runs(hbtrace):
    for arguments, code in ((["clean.jsonl", "a b/racy.jsonl"], 1), (["clean.jsonl", "clean.jsonl"], 0)):
        (line,) = re.findall("^next: hbtrace (.*)$", hbtrace("diff", *arguments)[1], re.MULTILINE)
        assert hbtrace(*shlex.split(line))[0] == code, line
    assert "next:" not in hbtrace("diff", "a b/racy.jsonl", "a b/racy.jsonl")[1]


def test_counts_stand_before_blocks(hbtrace):
    out = hbtrace("diff", "clean.jsonl", "a b/racy.jsonl", "-v")[1]
    assert out.index("\n2 new\n") < out.index("\nstate ") < out.index("RACE (")


def test_baseline_check(hbtrace):
    assert hbtrace("baseline", "write", "clean.jsonl", "-o", "known.toml")[0] == 0
    code, out, _ = hbtrace("baseline", "check", "known.toml", "a b/racy.jsonl")
    verdict = "FAIL: 2 new races (baseline known.toml, head a b/racy.jsonl)"
    assert (code, out.splitlines()[0], out.splitlines()[-1]) == (1, verdict, verdict)
    code, out, _ = hbtrace("baseline", "check", "known.toml", "broken.jsonl", "--require-exercised")
    assert code == 4
    assert out.splitlines()[-1].startswith("CANNOT JUDGE: --require-exercised: ")


def test_check(hbtrace):
    race = run("a", "b")
    write(Path("freed.jsonl"), [*race, {"ev": "buffer_free", "buffer": 0}, {"ev": "set_direct", "tensor": 0}])
    for arguments, wanted, verdict, command in (
        (["clean.jsonl"], 0, "PASS: no error, no warning; coverage: not-exercised (clean.jsonl)", None),
        (["freed.jsonl"], 1, "FAIL: ", "check --explain "),
        (["clean.jsonl", "--require", "ubatches>=9"], 4, "CANNOT JUDGE: --require: ubatches>=9 is not met: ", None),
    ):
        code, out, _ = hbtrace("check", *arguments)
        lines = out.splitlines()
        assert code == wanted, out
        assert lines[0].startswith(verdict)
        assert lines[-1] == lines[0]
        assert (lines[-2].startswith(f"next: hbtrace {command}")) == (command is not None)


def test_check_of_several_traces_ends_with_the_worst(hbtrace):
    code, out, _ = hbtrace("check", "clean.jsonl", "a b/racy.jsonl", "none.jsonl")
    assert code == 3
    assert out.splitlines()[-1].startswith("CANNOT JUDGE: 1 of 3 traces; ")
    assert len(re.findall("^(PASS|FAIL|CANNOT JUDGE): ", out, re.MULTILINE)) == 3
    assert hbtrace("check", "clean.jsonl", "clean.jsonl")[1].splitlines()[-1].startswith("PASS: 2 of 2 traces; ")


def test_a_race_that_breaks_no_rule_is_in_the_verdict_of_check(hbtrace):
    """It passes, for the rules hold; but nobody shall read that as no race."""
    events = [e for e in run("a") if e["ev"] != "ubatch"]
    write(Path("race.jsonl"), events)
    code, out, _ = hbtrace("check", "race.jsonl")
    assert (code, "1 distinct race" in out.splitlines()[0]) == (0, True), out
    assert "next: hbtrace analyze race.jsonl" in out


def test_analyze_keeps_its_text(hbtrace):
    out = hbtrace("analyze", "a b/racy.jsonl")[1]
    assert out.startswith("RACE (")
