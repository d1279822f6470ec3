"""JSON Lines: what is a line, what is a row, what cannot be read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hbtrace.errors import TraceError, UsageError
from hbtrace.trace import jsonl as module
from hbtrace.trace.reader import open_trace
from tests.trace.samples import ROWS, from_bytes, jsonl, read, same

LINE = b'{"ev":"synchronize","backend":0}'


def count(data: bytes) -> int:
    return len(list(from_bytes(data)))


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (LINE, 1),
        (LINE + b"\n", 1),
        (LINE + b"\r\n" + LINE + b"\r\n", 2),
        (b"\n \t\r\n" + LINE + b"\n\n\n" + LINE, 2),
        (b"\xef\xbb\xbf" + LINE + b"\n", 1),
        (b"\xef\xbb\xbf\n" + LINE, 1),
        ('{"ev":"note","what":"a\u2028\u0085b"}\n'.encode(), 1),
        (b'{"ev":"note","what":"\\u0000"}', 1),
        (b"{}\n", 1),
        (b" " * 5000 + LINE, 1),
    ],
)
def test_lines(data: bytes, rows: int) -> None:
    assert count(data) == rows


@pytest.mark.parametrize("size", [1, 2, 7, 33, 1000])
def test_blocks_may_end_anywhere(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", size)
    rows = ROWS[:-2]
    data = jsonl(rows).replace(b"\n", b"\n\n \r\n")
    assert same(list(from_bytes(data)), rows)
    with pytest.raises(TraceError, match=rf"line {3 * len(rows) + 1} \(row {len(rows)}\)"):
        list(from_bytes(data + b"[]\n"))


@pytest.mark.parametrize(
    "bad", [b"5", b"[1]", b"null", b'"x"', b"{", b"{'a':1}", b"\x00", b'"\xff"', b"NaN", b"}{"]
)
def test_a_line_that_is_no_object(bad: bytes) -> None:
    trace = from_bytes(LINE + b"\n\n" + bad + b"\n" + LINE + b"\n")
    delivered = 0
    with pytest.raises(TraceError, match=r"line 3 \(row 1\) is ") as caught:  # noqa: PT012 - it ends the loop
        for batch in trace.batches():
            delivered += batch.num_rows
    assert delivered == 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [LINE[:-1], b"{", b'{"ev":"a\xff', b"\x00" * 99])
def test_a_cut_last_line_is_dropped(cut: bytes) -> None:
    trace = from_bytes(LINE + b"\n" + cut)
    assert len(list(trace)) == 1
    assert trace.dropped_bytes == len(cut)
    (warning,) = trace.warnings
    assert str(len(cut)) in warning


def test_a_last_line_that_is_json_but_no_object_is_an_error() -> None:
    with pytest.raises(TraceError, match="no object"):
        list(from_bytes(LINE + b"\n5"))


@pytest.mark.parametrize("data", [b"", b"\n\n", b" ", b'\n{"ev": "backend", "id"', b"\xef\xbb\xbf"])
def test_no_event_at_all(data: bytes) -> None:
    with pytest.raises(TraceError, match="has no event at all"):
        list(from_bytes(data))


def test_cut_at_every_byte() -> None:
    data = jsonl(ROWS)
    for end in range(len(data)):
        trace = from_bytes(data[:end])
        whole = data[:end].count(b"\n")
        try:
            rows = list(trace)
        except TraceError:
            assert not whole
            continue
        more = not trace.warnings and data[end - 1 : end] != b"\n"  # cut just before the newline
        assert same(rows, ROWS[: whole + more])
        assert bool(trace.warnings) == (data[end - 1 : end] != b"\n" and not more)


def test_numbers_keep_their_digits() -> None:
    digits = [2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**40, 1_700_000_000_000_000_000]
    data = b"".join(b'{"ev":"note","time":%d,"x":[%d]}\n' % (n, n) for n in digits)
    assert [(row["time"], row["x"]) for row in from_bytes(data)] == [(n, [n]) for n in digits]


@pytest.mark.parametrize("value", [b"1e999", b"9" * 5000, b"[" * 3000 + b"]" * 3000])
def test_what_json_in_python_cannot_hold_is_one_sentence(value: bytes) -> None:
    with pytest.raises(TraceError, match="line 1"):
        list(from_bytes(b'{"ev":"note","x":' + value + b"}\n"))


def test_deep_but_readable() -> None:
    assert count(b'{"ev":"note","x":' + b"[" * 700 + b"]" * 700 + b"}\n") == 1
    with pytest.raises(TraceError, match=r"<stream>: (row 0: a value cannot be kept|line 1)"):
        list(from_bytes(b'{"ev":"note","x":' + b"[" * 1010 + b"]" * 1010 + b"}\n"))


def test_an_endless_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_LINE", 1 << 21)
    with pytest.raises(TraceError, match="line 1 is longer than 2 MiB"):
        list(from_bytes(b'{"a":"' + b"x" * (1 << 23)))


def test_version() -> None:
    for version in (2, 2**70):
        with pytest.raises(TraceError, match=f"of version {version}"):
            list(from_bytes(b'{"ev":"meta","version":%d}\n' % version))
    for harmless in (b"1", b"0", b"2.0", b'"2"', b"true", b"null"):
        assert count(b'{"ev":"meta","version":%s}\n' % harmless) == 1
    assert count(LINE + b'\n{"ev":"meta","version":2}\n') == 2


def test_a_pipe_is_read_once() -> None:
    reading, writing = os.pipe()
    data = jsonl(ROWS)

    def feed() -> None:
        with os.fdopen(writing, "wb") as stream:
            for start in range(0, len(data), 100):
                stream.write(data[start : start + 100])
                stream.flush()

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(reading, "rb") as stream:
        trace = open_trace(stream)
        assert same(list(trace), ROWS)
        feeder.join()
        with pytest.raises(UsageError, match="only once"):
            list(trace)


@pytest.mark.parametrize("suffix", [".jsonl", ".arrow", ".arrows"])
def test_standard_input(suffix: str, tmp_path: Path) -> None:
    from tests.trace.samples import write

    path = write(tmp_path / f"x{suffix}", ROWS)
    code = "import sys, hbtrace.trace.reader as r; t = r.open_trace('-'); print(sum(1 for _ in t), t.warnings)"
    with path.open("rb") as stream:
        piped = subprocess.Popen(["cat"], stdin=stream, stdout=subprocess.PIPE)
        done = subprocess.run([sys.executable, "-c", code], stdin=piped.stdout, capture_output=True, check=True)
    piped.wait()
    assert done.stdout == b"%d []\n" % len(ROWS)


def test_files_are_read_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(jsonl(ROWS) + b"{")
    trace = open_trace(path)
    for _ in range(2):
        assert same(list(trace), ROWS)
        assert (trace.rows, trace.dropped_bytes, len(trace.warnings)) == (len(ROWS), 1, 1)
    assert trace.table().num_rows == len(ROWS)
    assert same(read(os.fspath(path)), ROWS)


def test_a_stream_that_gives_little_at_a_time() -> None:
    class Slow(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 3) if size is not None and size >= 0 else 3)

    assert same(list(open_trace(Slow(jsonl(ROWS)))), ROWS)
