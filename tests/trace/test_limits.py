"""Bounded memory and time, and the corpus of malformed Arrow: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbtrace.errors import TraceError
from hbtrace.trace.reader import open_trace
from tests.shared import needs_shared, shared_files
from tests.trace.samples import ROWS, jsonl

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **kinds)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    said, memory = done.stdout.splitlines()
    return said, int(memory)


ANALYZE_EACH = """
import os, resource, sys
from hbtrace.cli import run
import hbtrace.cli.analyze, hbtrace.compare.outcome, hbtrace.report.json, hbtrace.report.text, hbtrace.trace.reader
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for path in sys.argv[1:]:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(writing, 2)
        os._exit(run(["analyze", path]))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    _, status, usage = os.wait4(child, 0)  # a signal is negative
    seconds = usage.ru_utime + usage.ru_stime
    print(os.waitstatus_to_exitcode(status), said.count(b"\\n"), usage.ru_maxrss // 1024, round(seconds, 2))
"""


@needs_shared
def test_malformed_arrow() -> None:
    """Each file in a process of its own: none is a trace, and each says so in one sentence."""
    paths = shared_files("fuzz/arrow-ipc/*")
    command = [sys.executable, "-c", ANALYZE_EACH, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        code, sentences, memory, seconds = line.split()
        assert (code, sentences) == ("3", "1"), path
        assert int(memory) < 1024, path
        assert float(seconds) < 2, path


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


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read anything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(jsonl(ROWS))
    path.chmod(0)
    with pytest.raises(TraceError, match="Permission denied"):
        open_trace(path)


def test_a_device_without_end() -> None:
    with pytest.raises(TraceError, match="neither Arrow IPC nor JSON Lines"):
        open_trace("/dev/zero")
    with pytest.raises(TraceError, match="no event at all"):
        list(open_trace("/dev/null"))
