"""Writing: what stands on the disk at every moment, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hbtrace.errors import UsageError
from hbtrace.trace import writer as module
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.schema import SCHEMA
from hbtrace.trace.writer import open_writer
from tests.trace.samples import ROWS, SUFFIXES, read, same, write


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_is_overwritten(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"x{suffix}", ROWS)
    with pytest.raises(UsageError, match="exists; give -f to overwrite it"):
        open_writer(path)
    with open_writer(path, force=True) as writer:
        writer.write_rows(ROWS[:3])
        assert same(read(path), ROWS)  # the old one until the new one is whole
    assert same(read(path), ROWS[:3])
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_block_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    with pytest.raises(ZeroDivisionError), open_writer(path) as writer:  # noqa: PT012 - the block is what fails
        writer.write_rows(ROWS[:4])
        (part,) = tmp_path.iterdir()
        assert (part.stat().st_mode & 0o777, part.name.startswith(path.name)) == (0o600, True)
        1 / 0  # noqa: B018
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_killed_program_loses_the_batch_in_flight(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    code = (
        "import os, sys; from hbtrace.trace.writer import open_writer; w = open_writer(sys.argv[1])\n"
        "for k in range(5): w.write_rows([{'ev': 'note', 'what': str(k)}] * 10)\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == -9
    (part,) = tmp_path.iterdir()
    trace = open_trace(part)
    assert len(list(trace)) == 50
    assert bool(trace.warnings) == (suffix != ".jsonl")
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [("x.parquet", "name it .arrow"), ("x", "name it .arrow"), ("none/x.arrow", "cannot be written: No such file")],
)
def test_what_cannot_be_written(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        open_writer(tmp_path / name)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        open_writer(tmp_path / "x.arrow", force=True)


def test_permission_denied(plain_folder: Path) -> None:
    plain_folder.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        open_writer(plain_folder / "x.arrow")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_one_sentence(suffix: str, tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from hbtrace.errors import UsageError
from hbtrace.trace.writer import open_writer
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
rows = [{'ev': 'note', 'what': str(k * 7919 % 100_000), 'time': k * k} for k in range(2000)]
try:
    with open_writer(sys.argv[1]) as writer:
        for _ in range(1000): writer.write_rows(rows)
except UsageError as error:
    print(error)
"""
    path = tmp_path / f"x{suffix}"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert "cannot be written: File too large" in done.stdout, done.stderr
    assert os.listdir(tmp_path) == []


def test_many_batches_share_one_dictionary_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with open_writer(path) as writer:
        for start in range(0, 300_000, 30_000):
            writer.write_rows([{"ev": "note", "label": f"label {k}"} for k in range(start, start + 30_000)])
    table = pa.ipc.open_file(path).read_all()
    assert table.schema.equals(SCHEMA, check_metadata=True)
    assert table["label"].cast(pa.string()).to_pylist() == [f"label {k}" for k in range(300_000)]
    assert open_trace(path).table().num_rows == 300_000


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_rows_are_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    code = (
        "import sys; from hbtrace.trace.writer import open_writer; from tests.trace.samples import ROWS\n"
        "with open_writer(sys.argv[1]) as w:\n  for _ in range(3): w.write_rows(ROWS)"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, tmp_path / f"{seed}{suffix}"]
        subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])
    assert (tmp_path / f"1{suffix}").read_bytes() == (tmp_path / f"2{suffix}").read_bytes()


def test_too_many_words_are_no_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WORDS", 50)
    rows = [{"ev": "note", "label": f"label {k}"} for k in range(100)] + [{"ev": "note", "label": "label 3"}, {}]
    path = write(tmp_path / "x.arrow", rows, batch=30)
    assert pa.ipc.open_file(path).schema.field("label").type == pa.string()
    assert pa.ipc.open_file(path).schema.field("ev").type == SCHEMA.field("ev").type
    assert read(path) == rows


def test_any_batch_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with open_writer(path) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([{"ev": "compute", "backend": 1}] * 70_000))
        writer.write_batch(batch_from_rows([]))
        writer.write_rows([])
        with pytest.raises(UsageError, match="no column `ev`"):
            writer.write_batch(pa.RecordBatch.from_pylist([{"x": 1}]))
        assert writer.rows == 70_000
    assert [batch.num_rows for batch in open_trace(path).batches()] == [65536, 4464]


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_writer("-") as writer:
        writer.write_rows([{"ev": "note", "time": 2**70, "what": "é"}])
    assert capfdbinary.readouterr().out == '{"ev":"note","what":"é","time":1180591620717411303424}\n'.encode()
