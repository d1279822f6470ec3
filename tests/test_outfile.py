"""What is written is whole or not there: no other file is touched, two writers share none, nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hbtrace.cli import run
from hbtrace.errors import UsageError
from hbtrace.outfile import OutFile
from hbtrace.trace.reader import open_trace
from hbtrace.trace.writer import open_writer

SEED = Path(__file__).resolve().parents[1] / "sample_traces/src/seed.jsonl"
SUFFIXES = (".arrow", ".arrows", ".jsonl")
COMMAND = [sys.executable, "-m", "hbtrace"]
NOTES = [{"ev": "note", "what": str(number)} for number in range(100)]


def whole(path: Path, text: str, *, force: bool = False) -> None:
    out = OutFile(str(path), force=force)
    out.stream.write(text.encode())
    out.keep()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("other", [".part", ".finished", ".tmp"])
@pytest.mark.parametrize("linked", [False, True], ids=["file", "link"])
def test_no_other_file_is_touched(suffix: str, other: str, linked: bool, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    beside = tmp_path / f"run{suffix}{other}"
    beside.symlink_to(victim) if linked else shutil.copy(victim, beside)
    assert run(["convert", str(SEED), str(tmp_path / f"run{suffix}")]) == 0
    assert (victim.read_text(), beside.read_text(), beside.is_symlink()) == ("precious", "precious", linked)
    assert sorted(os.listdir(tmp_path)) == sorted(["victim", beside.name, f"run{suffix}"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_two_writers_share_nothing(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"two{suffix}"
    long, short = open_writer(path), open_writer(path)
    for start in range(0, 100, 10):
        long.write_rows(NOTES[start : start + 10])
        if start == 50:
            short.write_rows(NOTES[:3])
            short.close()
    with pytest.raises(UsageError, match=r"exists; give -f to overwrite it"):
        long.close()
    assert list(open_trace(path)) == NOTES[:3]
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_last_of_two_with_force_is_whole(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"two{suffix}"
    long, short = open_writer(path, force=True), open_writer(path, force=True)
    long.write_rows(NOTES[:60])
    short.write_rows(NOTES[:3])
    short.close()
    long.write_rows(NOTES[60:])
    assert list(open_trace(path)) == NOTES[:3]
    long.close()
    assert list(open_trace(path)) == NOTES
    assert os.listdir(tmp_path) == [path.name]


def test_a_name_taken_meanwhile_is_kept(tmp_path: Path) -> None:
    out = OutFile(str(tmp_path / "report.json"), force=False)
    (tmp_path / "report.json").write_text("another's")
    with pytest.raises(UsageError, match="exists; give -f"):
        out.keep()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "another's")]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_modes(mask: int, mode: int, tmp_path: Path) -> None:
    path = tmp_path / "out"
    old = os.umask(mask)
    try:
        out = OutFile(str(path), force=False)
        (part,) = tmp_path.iterdir()
        assert part.stat().st_mode & 0o777 == 0o600
        out.keep()
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == mode


def test_through_a_link_and_not_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder/real", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(UsageError, match="exists"):
        whole(link, "new")
    whole(link, "new", force=True)
    assert (link.is_symlink(), target.read_text(), os.listdir(tmp_path / "folder")) == (True, "new", ["real"])


def test_what_is_neither_kept_nor_dropped_is_gone_with_its_writer(tmp_path: Path) -> None:
    code = "import sys, hbtrace; w = hbtrace.open_writer(sys.argv[1]); w.write_rows([{'ev': 'note', 'what': 'x'}])"
    subprocess.run([sys.executable, "-c", code, tmp_path / "a.arrow"], check=True)
    assert os.listdir(tmp_path) == []
    fork = f"{code}; import os; os.fork() or sys.exit(); os.wait(); w.close()"
    subprocess.run([sys.executable, "-c", fork, tmp_path / "b.arrow"], check=True)
    assert os.listdir(tmp_path) == ["b.arrow"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
@pytest.mark.parametrize("verb", ["convert - out.arrow", "analyze - -o out.arrow"])
def test_a_signal_leaves_nothing(verb: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, *verb.split()], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, text=True,
        env=os.environ | {"PYTHONPATH": str(SEED.parents[2])},
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write((SEED.read_text() * 50)[:60_000])  # more than is looked at, less than a pipe holds
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not os.listdir(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    process.send_signal(number)
    process.stdin.close()
    assert process.wait(60) == code
    # A reading that Ctrl-C ends leaves what it found; whether the signal met the reading or came before is a race.
    left = {"out.arrow"} if number == signal.SIGINT and verb.startswith("analyze") else set()
    assert set(os.listdir(tmp_path)) <= left
    assert all("RACE (" in (tmp_path / name).read_text() for name in os.listdir(tmp_path))


STRAIGHT = [f"analyze {SEED} --format json", f"baseline write {SEED}", f"minimize {SEED} R-4ea695"]


@pytest.mark.parametrize("verb", STRAIGHT, ids=lambda verb: verb.split()[0])
def test_straight_outputs(verb: str, tmp_path: Path) -> None:
    """A pipe of the shell, standard output, a named pipe: the same bytes as by `-o -`."""
    script = f"""
set -e; cd {tmp_path}; h() {{ {sys.executable} -m hbtrace "$@" 2>/dev/null || [ $? = 1 ]; }}
h {verb} -o - >plain; h {verb} -o /dev/stdout >stdout; mkfifo pipe; cat pipe >named & h {verb} -o pipe; wait
h {verb} -o /dev/fd/7 7>seven
echo before >appended; h {verb} -o /dev/stdout >>appended
h {verb} -o >(cat >process; touch done); until [ -e done ]; do sleep 0.05; done
"""
    subprocess.run(["bash", "-c", script], check=True, env=os.environ | {"PYTHONPATH": str(SEED.parents[2])})
    plain = (tmp_path / "plain").read_bytes()
    assert len(plain) > 100
    for name in ("stdout", "named", "seven", "process"):
        assert (tmp_path / name).read_bytes() == plain, name
    assert (tmp_path / "appended").read_bytes() == b"before\n" + plain
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_named_pipe_has_the_encoding_of_its_suffix(suffix: str, tmp_path: Path) -> None:
    pipe, got = tmp_path / f"run{suffix}", tmp_path / f"got{suffix}"
    os.mkfifo(pipe)
    with got.open("wb") as target, subprocess.Popen(["cat", pipe], stdout=target):
        assert run(["convert", str(SEED), str(pipe)]) == 0
    expected = tmp_path / f"expected{suffix}"
    assert run(["convert", str(SEED), str(expected)]) == 0
    assert got.read_bytes() == expected.read_bytes()
