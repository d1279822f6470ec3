"""`hbtrace convert`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace.samples import ROWS, SUFFIXES, jsonl, read, same, write


def convert(*arguments: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "hbtrace", "convert", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


@pytest.mark.parametrize("source", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_every_way(source: str, target: str, tmp_path: Path) -> None:
    write(tmp_path / f"a{source}", ROWS)
    done = convert(tmp_path / f"a{source}", tmp_path / f"b{target}")
    assert (done.returncode, done.stdout) == (0, b"")
    size = (tmp_path / f"b{target}").stat().st_size
    assert f"{len(ROWS)} rows, {size:,} bytes".encode() in done.stderr
    assert same(read(tmp_path / f"b{target}"), ROWS)


def test_from_and_to_standard_streams(tmp_path: Path) -> None:
    done = convert("-", "-", stdin=jsonl(ROWS[:3]))
    assert (done.returncode, done.stderr) == (0, b"")
    (tmp_path / "x.jsonl").write_bytes(done.stdout)
    assert same(read(tmp_path / "x.jsonl"), ROWS[:3])


def test_nothing_is_overwritten_without_f(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.jsonl", ROWS), write(tmp_path / "b.arrow", ROWS[:1])
    done = convert(source, target)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"give -f" in done.stderr
    assert convert(source, target, "-f").returncode == 0
    assert same(read(target), ROWS)
    done = convert(source, source, "-f")
    assert done.returncode == 2
    assert b"is what is being read" in done.stderr


def test_a_part_that_was_left_can_be_converted(tmp_path: Path) -> None:
    part = write(tmp_path / "a.arrow", ROWS).rename(tmp_path / "a.arrow.part")
    assert convert(part, tmp_path / "a.arrow").returncode == 0
    assert same(read(part), ROWS)
    assert same(read(tmp_path / "a.arrow"), ROWS)


def test_standard_input_is_closed(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -m hbtrace convert - '{tmp_path}/a.arrow' <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    assert os.listdir(tmp_path) == []


def test_a_source_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(ROWS) + b"oops\n")
    done = convert(tmp_path / "a.jsonl", tmp_path / "b.arrow")
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    assert os.listdir(tmp_path) == ["a.jsonl"]


def test_a_cut_source_is_converted_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl(ROWS) + b'{"ev":')
    done = convert(tmp_path / "a.jsonl", tmp_path / "b.arrow")
    assert done.returncode == 0
    assert b"6 bytes dropped" in done.stderr
    assert same(read(tmp_path / "b.arrow"), ROWS)


def test_a_reader_that_has_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", ROWS * 20_000)
    command = f"'{sys.executable}' -m hbtrace convert '{path}' - | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""
