"""Every case of the contract's folder gives exactly its reports, its text, its warnings and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hbtrace.cli.analyze import command
from hbtrace.compare.outcome import analyze
from hbtrace.compare.race_text import block
from hbtrace.errors import TraceError
from tests.material import CASES, cases, recording


def expected(case: Path) -> dict:
    return json.loads(case.with_suffix(".expect.json").read_text())


def test_there_are_cases():
    assert len(CASES) == 48


@pytest.mark.parametrize("case", cases())
def test_reports(case):
    want = expected(case)
    if want["exit"] == 3:
        with pytest.raises(TraceError):
            analyze(str(case))
        return
    got = analyze(str(case))
    races = [
        {
            "kind": r.kind, "buffer": r.buffer, "lo": r.lo, "hi": r.hi, "bytes": r.bytes, "approx": r.approx,
            "earlier": {"row": r.earlier.row, "access": r.earlier.access},
            "current": {"row": r.current.row, "access": r.current.access},
        }
        for r in got.reports
    ]  # fmt: skip
    assert races == want["races"]
    assert got.distinct == want["distinct"]
    assert len(got.warnings) == want["warnings"], got.warnings
    text = case.with_suffix(".txt")
    if text.exists():
        assert "\n\n".join(block(r) for r in got.reports) + "\n" == text.read_text()
    else:
        assert not got.reports


@pytest.mark.parametrize("case", cases())
def test_exit_code_and_text(case):
    want = expected(case)
    result = CliRunner().invoke(command, [str(case), "--all"], standalone_mode=False)
    code = result.exception.exit_code if isinstance(result.exception, TraceError) else result.return_value
    assert code == want["exit"], result.output
    text = case.with_suffix(".txt")
    if text.exists():
        assert text.read_text() in result.stdout


@pytest.mark.parametrize("case", cases())
def test_strict(case):
    want = expected(case)
    if want["exit"] == 3:
        return
    if want["strict"] is None:
        analyze(str(case), strict=True)
        return
    with pytest.raises(TraceError) as caught:
        analyze(str(case), strict=True, skip_weights=False)
    assert caught.value.row == want["strict"]


INPUTS = ["inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask"]
COUNTS = {
    "integrated": (30, 5, dict.fromkeys(["inp_tokens", *INPUTS], 6)),
    "ngl2": (20, 4, dict.fromkeys(INPUTS, 5)),
    "discrete": (0, 0, {}),
    "pipeline_src": (0, 0, {}),
    "vulkan": (0, 0, {}),
    "cuda": (9, 1, {"CUDA1#l_out-2#0": 3, "CUDA1#l_out-2#1": 2, "CUDA1#l_out-2#2": 2, "CUDA1#l_out-2#3": 2}),
    "cuda_integrated": (30, 5, dict.fromkeys(["embd", *INPUTS], 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_recordings(name):
    reports, distinct, tensors = COUNTS[name]
    got = analyze(str(recording(name)))
    assert (got.races, got.distinct) == (reports, distinct)
    found: dict = {}
    for r in got.reports:
        found[r.current.tensor] = found.get(r.current.tensor, 0) + 1
        assert r.kind == "write-after-read"
    assert found == tensors
    assert got.warnings == []
