"""Every end that a gate can have: a code of the contract and a sentence of its own, never green for want of input."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hbtrace.trace.writer import open_writer
from tests.compare.samples import run, write

RACY, CLEAN, MORE = run("a"), run("a", waits=True), run("a", "b")


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A folder with traces and broken things of each kind, as the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, events in {"racy": RACY, "clean": CLEAN, "more": MORE, "short": run("a", ubatches=1)}.items():
        write(tmp_path / f"{name}.jsonl", events)
    with open_writer("racy.arrow") as writer:
        writer.write_rows(RACY)
        writer.write_rows(RACY[5:])
    whole = Path("racy.arrow").read_bytes()
    Path("cut.arrow").write_bytes(whole[: len(whole) * 4 // 5])
    Path("cut.jsonl").write_bytes(Path("racy.jsonl").read_bytes()[:-9])
    Path("empty.jsonl").write_bytes(b"")
    Path("blank.jsonl").write_bytes(b"\n\n")
    Path("text.jsonl").write_bytes(b"no trace\n" * 40)
    Path("binary.arrow").write_bytes(bytes(range(256)) * 8)
    Path("cut.log").write_text("san [split   0 -     ] G0   read  G_Host[0+8] a (compute)\nsan [split   0 -     ] G0")
    Path("later.jsonl").write_text('{"ev":"meta","version":9}\n')
    Path("pasted.log").write_text(
        "RACE (write-after-read) on G[0, 8)\n  read  G0    @1  split 0   a (compute)\n"
        "  write HOST  @5  split -1  a (tensor_set)\n  no happens-before edge: HOST knows G0@0, needs >=1\n"
    )
    write(Path("meta.jsonl"), [{"ev": "meta", "version": 1}])
    write(Path("definitions.jsonl"), [e for e in RACY if e["ev"] in ("meta", "backend", "buffer", "tensor", "graph")])
    Path("folder").mkdir()
    Path("folder/README").write_text("nothing")
    Path("racy.toml").write_text("")
    return tmp_path


def sentence(err):
    assert err.startswith("hbtrace: "), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.removeprefix("hbtrace: ").rstrip("\n")


DIFFS = [
    # base, head, options, code
    ("racy", "racy", [], 0),
    ("racy", "racy", ["--fail-on", "any"], 1),
    ("racy", "racy", ["--fail-on", "any", "--exit-zero"], 0),
    ("clean", "racy", [], 1),
    ("clean", "racy", ["--fail-on", "none"], 0),
    ("clean", "racy", ["--exit-zero"], 0),
    ("racy", "clean", ["--fail-on", "any"], 0),
    ("racy", "clean", ["--require-comparable"], 0),
    ("clean", "clean", ["--fail-on", "any", "--require-comparable"], 0),
    ("racy", "more", [], 1),
    ("racy", "more", ["--tensor", "a"], 0),
    ("racy", "more", ["--tensor", "b"], 1),
    ("racy", "more", ["--kind", "WAW"], 0),
    ("racy", "short", [], 0),
    ("racy", "short", ["--require-comparable"], 4),
    ("short", "racy", ["--require-comparable"], 4),  # 4 counts more than 1
    ("short", "racy", ["--require-comparable", "--fail-on", "none"], 4),
    ("racy", "cut", ["--allow-partial"], 0),
    ("racy", "cut", ["--allow-partial", "--require-comparable"], 4),
]


@pytest.mark.parametrize(("base", "head", "options", "code"), DIFFS)
@pytest.mark.parametrize("form", ["text", "github", "junit"])
def test_diff(hbtrace, at, base, head, options, code, form):
    got, out, _ = hbtrace("diff", f"{base}.jsonl", f"{head}.jsonl", "--format", form, *options)
    assert (got, bool(out)) == (code, True)


REFUSED = [
    # operands of diff, code, what the sentence says
    (["nope.arrow", "racy.jsonl"], 3, "nope.arrow: cannot be opened: no such file or folder"),
    (["racy.jsonl", "nope.arrow"], 3, "nope.arrow: cannot be opened: no such file or folder"),
    (["racy.jsonl", "empty.jsonl"], 3, "empty.jsonl: "),
    (["racy.jsonl", "blank.jsonl"], 3, "blank.jsonl: "),
    (["racy.jsonl", "text.jsonl"], 3, "text.jsonl: "),
    (["racy.jsonl", "binary.arrow"], 3, "binary.arrow: "),
    (["racy.jsonl", "later.jsonl"], 3, "later.jsonl: "),
    (["racy.jsonl", "meta.jsonl"], 3, "meta.jsonl: nothing to judge: "),
    (["racy.jsonl", "definitions.jsonl"], 3, "definitions.jsonl: nothing to judge: none of its 5 rows"),
    (["racy.jsonl", "cut.arrow"], 3, "cut.arrow: is truncated"),
    (["cut.jsonl", "racy.jsonl"], 3, "cut.jsonl: is truncated"),
    (["racy.jsonl", "cut.log"], 3, "cut.log: is truncated"),
    (["racy.jsonl", "folder"], 3, "folder: this folder holds no trace"),
    (["racy.jsonl", "runs/*.arrow"], 2, "runs/*.arrow: matches no file"),
    (["-", "-"], 2, "standard input can be read only once"),
    (["racy.jsonl", "racy.jsonl", "--tensor", "c*"], 2, "--tensor c*: matches no tensor of any trace"),
    (["racy.jsonl", "racy.jsonl", "--tensor", "a", "--tensor", "c"], 2, "--tensor c: matches no tensor of any trace"),
    (["racy.jsonl", "racy.jsonl", "--buffer", "x"], 2, "--buffer x: matches no buffer of any trace"),
    (["racy.jsonl", "racy.jsonl", "--actor", "x"], 2, "--actor x: matches no actor of any trace"),
    (["racy.jsonl", "racy.jsonl", "--label", "compute src"], 2, "--label compute src: matches no label of any trace"),
    (["racy.jsonl", "racy.jsonl", "--label", "ubatch"], 2, "--label ubatch: matches no label of any trace"),
    (["racy.jsonl", "racy.jsonl", "--split", "7"], 2, "--split 7: matches no split of any trace"),
    (["racy.jsonl", "racy.jsonl", "--ubatch", "7-9"], 2, "--ubatch 7-9: matches no ubatch of any trace"),
    (["racy.jsonl", "racy.jsonl", "--kind", "x*"], 2, "invalid value for '--kind': 'x*' is none of"),
    (["racy.jsonl", "racy.jsonl", "--kind", "rw"], 2, "invalid value for '--kind'"),
    (["racy.jsonl", "racy.jsonl", "--suppressions", "none.toml"], 2, "none.toml: cannot be read"),
    (["racy.jsonl", "racy.jsonl", "-o", "racy.toml"], 2, "racy.toml exists; give -f"),
    (["racy.jsonl", "racy.jsonl", "-o", "none/x"], 2, "none/x: cannot be written"),
    (["racy.jsonl"], 2, "missing argument"),
    (["racy.jsonl", "racy.jsonl", "--fail-on", "all"], 2, "invalid value for '--fail-on'"),
]  # fmt: skip


@pytest.mark.parametrize(("operands", "code", "words"), REFUSED)
def test_a_broken_gate_is_never_green(hbtrace, at, operands, code, words):
    for extra in ([], ["--exit-zero"], ["--format", "junit"]):
        got, out, err = hbtrace("diff", *operands, *extra)
        assert (got, out) == (code, "")
        assert sentence(err).startswith(words)


def test_each_way_to_break_the_gate_has_a_sentence_of_its_own(hbtrace, at):
    told = [sentence(hbtrace("diff", *operands)[2]).replace(operands[-1], "") for operands, _, _ in REFUSED[1:12]]
    assert len(set(told)) >= 8  # a file of blank lines is an empty one, one of definitions only as idle as `meta` alone


OF_A_TRACE = [refused for refused in REFUSED if refused[0][0] == "racy.jsonl" and len(refused[0]) > 1]


@pytest.mark.parametrize(("operands", "code", "words"), OF_A_TRACE)
def test_a_broken_baseline_check_is_never_green(hbtrace, at, operands, code, words):
    assert hbtrace("baseline", "write", "racy.jsonl", "-o", "known.toml")[0] == 0
    got, out, err = hbtrace("baseline", "check", "known.toml", *operands[1:])
    assert (got, out) == (code, "")
    assert sentence(err).startswith(words)
    got, _, _ = hbtrace("baseline", "write", "-o", "other.toml", *operands[1:2])
    assert got == (code if len(operands) == 2 else 0)
    assert Path("other.toml").exists() == (got == 0)


def test_an_id_of_the_baseline_is_one(hbtrace, at):
    assert hbtrace("baseline", "write", "more.jsonl", "-o", "known.toml")[0] == 0
    ident = Path("known.toml").read_text().split('id = "')[1][:8]
    assert hbtrace("baseline", "check", "known.toml", "clean.jsonl", "--id", ident)[0] == 0


def test_unreadable_baselines(hbtrace, at):
    Path("latin.toml").write_bytes(b"\xff")
    for name, words in {"none.toml": "cannot be read: No such", "racy.toml": "is no baseline of this version",
                        "folder": "cannot be read", "latin.toml": "is no text in UTF-8"}.items():  # fmt: skip
        code, out, err = hbtrace("baseline", "check", name, "racy.jsonl")
        assert (code, out) == (2, "")
        assert words in sentence(err)


def test_labels_are_those_of_reports(hbtrace, at):
    """The two sides of a copy have labels of their own, and a label replaces the name of an event's kind."""
    copy = {"ev": "copy_async", "backend": 0, "src": {"tensor": 0}, "dst": {"buffer": 0, "offset": 512, "size": 8}}
    more = [copy, {**copy, "label": "move"}, {"ev": "buffer_free", "buffer": 0}]
    write(Path("copy.jsonl"), [*run("a", label="fill"), *more])
    for label in ("fill", "compute", "copy_async src", "copy_async dst", "move src", "move dst", "*dst", "buffer_free"):
        assert hbtrace("diff", "copy.jsonl", "copy.jsonl", "--label", label)[0] == 0
    for label in ("set_direct", "copy_async", "move", "fill src", "tensor"):
        assert hbtrace("diff", "copy.jsonl", "copy.jsonl", "--label", label)[0] == 2


def test_filters_that_show_nothing_together_are_warned_of(hbtrace, at):
    def told(*options):
        code, _, err = hbtrace("diff", "more.jsonl", "more.jsonl", *options)
        assert code == 0
        return err

    assert told("--tensor", "a", "--kind", "WAW") == (
        "warning: --tensor and --kind together show no race of any trace, and without them there are some\n"
    )
    assert told("--tensor", "a", "--label", "compute", "--id", "R-*") == ""
    assert told("--kind", "WAW") == ""  # that one kind is clean is an answer
    assert hbtrace("diff", "clean.jsonl", "clean.jsonl", "--tensor", "a", "--kind", "WAW")[2] == ""
    assert hbtrace("baseline", "write", "more.jsonl", "-o", "k.toml")[0] == 0
    err = hbtrace("baseline", "check", "k.toml", "more.jsonl", "--tensor", "a", "--kind", "WAW")[2]
    assert err.startswith("warning: --tensor and --kind together")


def test_a_filter_needs_to_match_only_one_side(hbtrace, at):
    assert hbtrace("diff", "racy.jsonl", "more.jsonl", "--tensor", "b")[0] == 1
    assert hbtrace("diff", "more.jsonl", "racy.jsonl", "--tensor", "b")[0] == 0
    Path("many").mkdir()
    for name, events in {"x": RACY, "y": MORE}.items():
        write(Path("many") / f"{name}.jsonl", events)
    assert hbtrace("diff", "racy.jsonl", "many", "--tensor", "b")[0] == 1


def test_folders_and_globs(hbtrace, at):
    Path("runs/deeper.arrow").mkdir(parents=True)
    for n in range(3):
        write(Path("runs") / f"{n}.jsonl", RACY)
    Path("runs/notes.txt").write_text("no trace")
    for place in ("runs", "runs/*.jsonl", "runs/[0-2].jsonl"):
        code, out, _ = hbtrace("diff", "racy.jsonl", place)
        assert (code, "2 in 3 runs" in out) == (0, True)
    assert hbtrace("diff", "racy.jsonl", "runs/*.txt")[0] == 3  # what was asked for is not skipped


def test_no_run_of_a_side_is_left_out_in_silence(hbtrace, at):
    Path("runs/a/b").mkdir(parents=True)
    for name in ("1.jsonl", "2.JSONL", "a/3.jsonl", "a/b/4.jsonl"):
        write(Path("runs") / name, RACY)
    for place, runs in {"runs": 2, "runs/**/*.jsonl": 3, "runs/**": 4, "runs/*.jsonl": 1}.items():
        code, out, err = hbtrace("diff", "racy.jsonl", place)
        assert (code, re.search(r"^runs +1 +(\d)$", out, re.MULTILINE)[1]) == (0, str(runs))
        left = "warning: runs/a/3.jsonl: not read, for it is in a folder of runs; 'runs/**/*.jsonl' names such traces"
        assert err.startswith(left) == (place == "runs")
    Path("runs/a/b/5.arrow").symlink_to("nowhere")
    for place in ("runs/a/b", "runs/**"):
        code, _, err = hbtrace("diff", "racy.jsonl", place)
        assert code == 3
        assert sentence(err).startswith("runs/a/b/5.arrow: cannot be opened: ")


def test_a_file_whose_name_looks_like_a_glob(hbtrace, at):
    write(Path("run[1].jsonl"), RACY)
    assert hbtrace("diff", "racy.jsonl", "run[1].jsonl")[0] == 0


def test_one_bad_run_of_many_is_refused(hbtrace, at):
    Path("runs").mkdir()
    write(Path("runs/a.jsonl"), RACY)
    Path("runs/b.arrow").write_bytes(Path("cut.arrow").read_bytes())
    code, _, err = hbtrace("diff", "racy.jsonl", "runs")
    assert code == 3
    assert sentence(err).startswith("runs/b.arrow: is truncated")


def test_strict(hbtrace, at):
    write(Path("odd.jsonl"), [*RACY, {"ev": "what"}])
    assert hbtrace("diff", "racy.jsonl", "odd.jsonl")[0] == 0
    code, _, err = hbtrace("diff", "racy.jsonl", "odd.jsonl", "--strict")
    assert code == 3
    assert sentence(err).startswith("odd.jsonl: ")


def test_a_trace_on_standard_input(at):
    for verb, code in ((["diff", "clean.jsonl", "-"], 1), (["diff", "racy.jsonl", "-"], 0)):
        with Path("racy.jsonl").open("rb") as stream:
            command = [sys.executable, "-m", "hbtrace", *verb]
            done = subprocess.run(command, stdin=stream, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
