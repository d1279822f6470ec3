"""A JSON line whose strings are no text costs its row, not the trace; form feeds make no blank line."""

from __future__ import annotations

from pathlib import Path

import pytest

import hbtrace
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.wrong_files import wrong_rows

RACY = (
    b'{"ev":"backend","id":0,"name":"GPU0"}',
    b'{"ev":"buffer","id":0,"name":"Host","size":64,"host":true}',
    b'{"ev":"tensor","id":0,"name":"a","buffer":0,"offset":0,"size":64}',
    b'{"ev":"kernel","backend":0,"reads":[{"tensor":0}]}',
    b'{"ev":"tensor_set","tensor":0}',
)
SPOILT = {
    "half a pair as an escape": rb'{"ev":"note","what":"\ud800"}',
    "the other half": rb'{"ev":"note","what":"a\udc00b"}',
    "half a pair in a key": rb'{"ev":"note","\ud801":1}',
    "half a pair deep inside": rb'{"ev":"note","what":"x","attrs":{"k":["\udfff"]}}',
    "bytes of Latin-1": b'{"ev":"note","what":"caf\xe9"}',
    "a character cut in its middle": b'{"ev":"note","what":"\xe2\x82"}',
}


def written(folder: Path, lines: tuple[bytes, ...]) -> str:
    path = folder / "run.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_line_is_a_row_that_is_skipped(spoilt: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, (*RACY[:4], spoilt, RACY[4]))
    outcome = hbtrace.analyze(path)
    assert (outcome.rows, outcome.races, outcome.truncated) == (6, 1, False)
    assert outcome.reports[0].current.row == 5
    (warning,) = outcome.warnings
    assert "1 row skipped: " in warning
    assert warning.endswith("(first in row 4: no `ev`: this is a line whose strings cannot be decoded)")
    with pytest.raises(hbtrace.TraceError) as strict:
        hbtrace.analyze(path, strict=True)
    assert strict.value.row == 4


@pytest.mark.parametrize(
    "wrong", [b'{"ev":"note","what":NaN}', b'{"ev":"note"', b"\x0b", b"\x0c", b'["\\ud800"]', b'{"a":"\x01"}']
)
def test_what_is_wrong_otherwise_still_ends_the_trace(wrong: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, (*RACY[:4], wrong, RACY[4]))
    with pytest.raises(hbtrace.TraceError, match=r"line 5 \(row 4\) is "):
        hbtrace.analyze(path)


def test_blanks_of_json_are_blank(tmp_path: Path) -> None:
    assert hbtrace.analyze(written(tmp_path, (*RACY[:4], b"", b" \t", b"\r", RACY[4]))).rows == 5


@pytest.mark.parametrize("depth", [1000, 1015])
def test_what_is_nested_too_deeply_is_named_by_its_row(depth: int, tmp_path: Path) -> None:
    deep = b'{"ev":"note","what":"x","attrs":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    path = written(tmp_path, (*RACY, RACY[4], deep))
    with pytest.raises(hbtrace.TraceError, match=": row 6: a value cannot be kept"):
        hbtrace.analyze(path)


def test_the_row_tells_what_stood_there(tmp_path: Path) -> None:
    path = written(tmp_path, (SPOILT["bytes of Latin-1"],))
    (batch,) = open_trace(path).batches()
    assert rows_from_batch(batch) == [{"x_undecoded": r'{"ev":"note","what":"caf\xe9"}'}]


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ("name ph ts pid", "a Chrome trace"),
        ("traceEvents schemaVersion deviceProperties", "a trace of the PyTorch profiler"),
        ("log stream time", "the log of a container"),
        ("MESSAGE PRIORITY _PID", "a log of journald"),
        ("resourceSpans", "an OpenTelemetry trace"),
        ("CudaEvent Type", "an export of Nsight Systems"),
        ("evt name", ""),
    ],
)
def test_rows_of_others_are_named_by_their_keys(keys: str, what: str) -> None:
    found = wrong_rows(keys.split())
    assert (found.what if found else "") == what
