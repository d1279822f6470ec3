"""Bounded memory and time, and the corpus of malformed Arrow: each in a process of its own."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hbtrace.errors import TraceError
from hbtrace.trace.reader import open_trace
from hbtrace.trace.writer import open_writer
from tests.trace.samples import ROWS, jsonl

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "fuzz"
"""Malformed files of others, where they lie beside the project; nothing here needs them."""
HANG = 600
"""Seconds after which something hangs: under load, all else may take long."""

READ = """
import resource, sys
from hbtrace.errors import HbtraceError
from hbtrace.trace.reader import open_trace
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    rows = sum(batch.num_rows for batch in open_trace(sys.argv[1]).batches())
    print("rows", rows)
except HbtraceError as error:
    print("error", error.exit_code, str(error).count(chr(10)))
with open("/proc/self/status") as status:  # ru_maxrss would be the parent's, too
    print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


def read_apart(source: Path | str, **kinds: object) -> tuple[str, int]:
    command = [sys.executable, "-c", READ, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False, **kinds)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    said, memory = done.stdout.splitlines()
    return said, int(memory)


ANALYZE_EACH = """
import os, resource, sys
from hbtrace.cli import run
import hbtrace.cli.analyze, hbtrace.compare.outcome, hbtrace.report.text, hbtrace.trace.reader
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for path in sys.argv[1:]:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(writing, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # not of the wall's seconds: they pass under load, too
        os._exit(run(["analyze", path]))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    _, status, usage = os.wait4(child, 0)  # a signal is negative
    print(os.waitstatus_to_exitcode(status), said.count(b"\\n"), usage.ru_maxrss // 1024)
"""


def analyzed(paths: list[Path]) -> list[tuple[int, int, int]]:
    """Of each file the exit code, how many sentences were said, and the MiB that it took."""
    command = [sys.executable, "-c", ANALYZE_EACH, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=True)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]  # type: ignore[misc]


def damaged(sound: bytes, count: int) -> Iterator[bytes]:
    """Bytes of a sound file with some of them changed: anywhere, or where lengths and types of Arrow's stand."""
    rng = random.Random(count)
    for number in range(count):
        changed = bytearray(sound)
        reach = len(sound) if number % 3 else min(len(sound), 4096)
        for _ in range(1 << rng.randrange(7)):
            changed[rng.randrange(reach)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        yield bytes(changed)


@pytest.mark.parametrize("suffix", ["arrow", "arrows"])
def test_malformed_arrow(suffix: str, tmp_path: Path) -> None:
    """Each in a process of its own: what cannot be read says so in one sentence, and nothing is a fault of ours."""
    with open_writer(str(tmp_path / f"sound.{suffix}")) as writer:
        writer.write_rows(ROWS)
    sound = (tmp_path / f"sound.{suffix}").read_bytes()
    paths = []
    for number, content in enumerate(damaged(sound, 24)):
        paths.append(tmp_path / f"{number:02}.{suffix}")
        paths[-1].write_bytes(content)
    found = analyzed(paths)
    for path, (code, sentences, memory) in zip(paths, found, strict=True):
        assert code in (0, 1, 3), path
        assert code != 3 or sentences == 1, path
        assert memory < 1024, path
    assert sum(code == 3 for code, _, _ in found) > 6


def test_malformed_files_of_others() -> None:
    paths = sorted(CORPUS.glob("arrow-ipc/*"))
    for path, (code, sentences, memory) in zip(paths, analyzed(paths), strict=True):
        assert (code, sentences) == (3, 1), path
        assert memory < 1024, path


@pytest.mark.parametrize("kind", ["jsonl", "arrows"])
def test_two_million_rows_through_a_pipe(kind: str, tmp_path: Path) -> None:
    produce = """
import sys
sys.stdout.buffer.write(b'{"ev":"set_async","backend":0,"tensor":5,"size":64}\\n' * 2_000_000)
"""
    if kind == "arrows":
        produce = """
import sys, pyarrow as pa
from hbtrace.trace.rows import batch_from_rows
batch = batch_from_rows([{"ev": "set_async", "backend": 0, "tensor": 5, "size": k} for k in range(50_000)])
with pa.ipc.new_stream(sys.stdout.buffer, batch.schema) as writer:
    for _ in range(40): writer.write_batch(batch)
"""
    producer = subprocess.Popen([sys.executable, "-c", produce], stdout=subprocess.PIPE)
    said, memory = read_apart("-", stdin=producer.stdout)
    assert producer.wait() == 0
    assert said == "rows 2000000"
    assert memory < 300


def test_opening_is_cheap_and_import_is_lazy() -> None:
    code = "import sys, hbtrace, hbtrace.trace, hbtrace.trace.vocabulary; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "directory"), (tmp_path / "none", "No such file"), ("a\0b", "cannot be opened")):
        with pytest.raises(TraceError, match=words):
            open_trace(path)


def test_permission_denied(plain_folder: Path) -> None:
    path = plain_folder / "x.jsonl"
    path.write_bytes(jsonl(ROWS))
    path.chmod(0)
    with pytest.raises(TraceError, match="Permission denied"):
        open_trace(path)


def test_a_device_without_end() -> None:
    with pytest.raises(TraceError, match="neither Arrow IPC nor JSON Lines"):
        open_trace("/dev/zero")
    with pytest.raises(TraceError, match="no event at all"):
        list(open_trace("/dev/null"))
