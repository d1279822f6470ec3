"""Ctrl-C in a long run: what was found until then is printed and said to be a part; exit code 130."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from hbtrace.cli import progress, run
from tests.trace.samples import write

DEFINED = [
    {"ev": "backend", "id": 0, "name": "GPU0"}, {"ev": "buffer", "id": 0, "name": "H", "size": 64},
    {"ev": "tensor", "id": 0, "name": "t", "buffer": 0, "size": 64},
]  # fmt: skip
RACE = [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}, {"ev": "tensor_set", "tensor": 0}]
ROWS = [*DEFINED, *RACE * 50]
RACY = {"analyze": 1, "check": 0, "triage": 1}
"""Verbs that tell races as they are found, and their exit codes: these races break no rule of `check`."""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """103 rows, of which 40 are read when Ctrl-C is pressed."""
    monkeypatch.setattr(progress, "_ROWS", 10)

    def pressed(_: object, rows: int) -> None:
        if rows == 40:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress._Line, "tell", pressed)
    return str(write(tmp_path / "run.jsonl", ROWS))


@pytest.mark.parametrize("verb", ["analyze", "check", "triage", "analyze --only live"])
def test_what_was_found_is_printed(verb: str, trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run([*verb.split(), trace]) == 130
    told = capsys.readouterr()
    assert "partial: 40 of 103 rows" in told.err
    assert told.out
    assert signal.getsignal(signal.SIGINT) is before


def test_its_numbers_are_those_of_the_part(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", trace, "--format", "json"]) == 130
    cut = json.loads(capsys.readouterr().out)
    assert (cut["trace"]["rows"], cut["warnings"][0]) == (40, f"{trace}: partial: 40 of 103 rows")
    part = write(tmp_path / "part.jsonl", ROWS[:40])
    assert run(["analyze", str(part), "--format", "json"]) == 130  # pressed behind its last row: nothing is left out
    whole = json.loads(capsys.readouterr().out)
    assert whole["warnings"] == []
    assert (cut["races"], cut["distinct"]) == (whole["races"], whole["distinct"]) == (18, 1)


@pytest.mark.parametrize("verb", ["diff {0} {0}", "baseline write {0} -o -"])
def test_half_a_side_is_not_compared(verb: str, trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb.format(trace).split()) == 130
    told = capsys.readouterr()
    assert "partial: 40 of 103 rows, nothing compared; distinct races until there: R-" in told.err
    assert told.out == ""


def test_what_was_compared_and_what_was_not_is_said(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each side: which traces were read whole, which was cut, which were not read at all. And a report is red."""
    short = str(write(tmp_path / "short.jsonl", ROWS[:20]))
    folder = tmp_path / "runs"
    folder.mkdir()
    for number, rows in enumerate((ROWS[:20], ROWS, ROWS[:20])):
        write(folder / f"{number}.jsonl", rows)
    known = tmp_path / "known.toml"
    assert run(["baseline", "write", short, "-o", str(known)]) == 0
    cut, runs = "partial: 40 of 103 rows, nothing compared; distinct races until there: R-", str(folder)
    for arguments, begin, ends in (
        (["diff", trace, short], f"hbtrace: base: {trace}: {cut}", [f"; head not read: {short}"]),
        (["diff", short, trace], f"hbtrace: head: {trace}: {cut}", [f"; base read whole: {short}, 1 distinct race"]),
        (["diff", short, runs], f"hbtrace: head: {runs}/1.jsonl: {cut}",
         [f"; read whole: {runs}/0.jsonl; not read: {runs}/2.jsonl; base read whole: {short}, 1 distinct race"]),
        (["baseline", "check", str(known), short, trace], f"hbtrace: {trace}: {cut}", [f"; read whole: {short}"]),
        (["baseline", "write", trace, short, "-o", "-"], f"hbtrace: {trace}: {cut}", [f"; not read: {short}"]),
    ):  # fmt: skip
        reports = [] if arguments[1] == "write" else ["-f", "--report", f"junit={tmp_path / 'races.xml'}"]
        capsys.readouterr()
        assert run([*arguments, *reports]) == 130
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(begin), err
        assert err.endswith(f"{ends[0]}\n"), err
        if reports:
            junit = (tmp_path / "races.xml").read_text()
            assert 'errors="1"' in junit
            assert "cannot judge: " in junit


def test_the_traces_behind_are_said(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(write(Path(trace).with_name("other.jsonl"), ROWS))
    assert run(["analyze", trace, other]) == 130
    assert f"{other}: not read, for the run was interrupted" in capsys.readouterr().err


def test_the_next_run_is_whole(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["analyze", trace]) == 130
    monkeypatch.setattr(progress._Line, "tell", lambda *_: None)
    assert run(["analyze", trace]) == 1


@pytest.mark.parametrize("verb", ["info", "convert {} -", "whatif {} --ring 2", "explain {} R-1"])
def test_other_verbs_say_one_sentence(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hbtrace.importers.source.open_source", pressed)
    monkeypatch.setattr("hbtrace.info.info.open_source", pressed)
    path = str(write(tmp_path / "run.jsonl", ROWS))
    assert run((verb if "{" in verb else f"{verb} {{}}").format(path).split()) == 130
    assert capsys.readouterr().err == "hbtrace: interrupted\n"


def test_the_bar_has_share_and_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Half:
        path, share = "run.arrow", 0.5

    line = progress._Line(Half())  # type: ignore[arg-type]
    assert line._words(1000, 65.0) == (
        "run.arrow: reading and replaying: 1,000 rows [############............] 50%, 1:05 left"
    )
    line.tell(1000)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line.tell(1000)
    line._start -= 2
    assert capsys.readouterr().err == ""
    line.tell(1000)
    line.clear()
    assert capsys.readouterr().err.endswith("left\r\x1b[K")


@pytest.mark.parametrize("verb", RACY)
def test_races_are_told_as_they_are_found(
    verb: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / "run.jsonl", ROWS))
    assert run([verb, path]) == RACY[verb]
    assert "found" not in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run([verb, path]) == RACY[verb]
    assert "found" not in capsys.readouterr().err  # over within its first second
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    assert run([verb, path]) == RACY[verb]
    assert capsys.readouterr().err.count("found: RACE (write-after-read) of t in row 4") == 1


@pytest.mark.parametrize("verb", RACY)
def test_races_of_the_first_second_are_told_behind_it(
    verb: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long run whose races are all found at once: the line of progress tells them when it begins."""
    path = str(write(tmp_path / "run.jsonl", ROWS))
    ticks = iter([0.0] * 3)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(ticks, 2.0))
    assert run([verb, path]) == RACY[verb]
    assert capsys.readouterr().err.count("found: RACE (write-after-read) of t in row 4") == 1


@pytest.mark.parametrize("width", [80, 40, 200])
@pytest.mark.parametrize("path", ["run.arrow", "a/long/path/" * 9 + "run.jsonl", "r\x1b[2J\n.arrow"])
def test_the_line_never_breaks(
    path: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is broken is not written over: one would stay for each step."""
    line = _long_line(path, width, monkeypatch)
    line.tell(1_000_000)
    told = capsys.readouterr().err.removeprefix(progress._BEGIN)
    assert len(told) < width
    assert told.endswith("50%, 1:05 left")
    assert told.isprintable()


def test_a_dumb_terminal_gets_whole_lines_and_few(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = _long_line("run.arrow", 80, monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    for rows in range(5):
        line.tell(rows)
    line._start -= progress._SELDOM
    line.tell(6)
    line.clear()
    told = capsys.readouterr().err
    assert told.count("\n") == 2
    assert told.replace("\n", "").isprintable()
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    for verb in RACY:
        assert run([verb, str(write(tmp_path / f"{verb}.jsonl", ROWS))]) == RACY[verb]
        assert "\x1b" not in (err := capsys.readouterr().err)
        assert "\nfound: RACE" in f"\n{err}"


def _long_line(path: str, width: int, monkeypatch: pytest.MonkeyPatch) -> progress._Line:
    """The line of a reading that is at its half after 65 seconds, on a terminal."""

    class Half:
        share = 0.5

    half = Half()
    half.path = path  # type: ignore[attr-defined]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    line = progress._Line(half)  # type: ignore[arg-type]
    line._start -= 65
    return line


def test_the_second_pass_is_told_and_its_interruption_keeps_the_races(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_ROWS", 10)
    monkeypatch.setattr("hbtrace.compare.outcome.RECORDED_BYTES", 1)
    passes: list[str] = []

    def pressed(line: progress._Line, rows: int) -> None:
        passes.append(line._doing)
        if line._doing == progress.JUDGING and rows == 40:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress._Line, "tell", pressed)
    path = str(write(tmp_path / "run.jsonl", ROWS))
    assert run(["analyze", path, "--format", "json"]) == 130
    told = json.loads(capsys.readouterr().out)
    assert (told["trace"]["rows"], told["races"]) == (103, 50)
    assert told["warnings"][0] == f"{path}: partial: all rows were replayed, what races come to was not judged"
    assert passes == [progress.READING] * 11 + [progress.JUDGING] * 4
