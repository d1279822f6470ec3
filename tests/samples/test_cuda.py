"""The samples of a real GPU: what `tests/record/cuda.py` recorded, and why each has the reports that it has."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import hbtrace
from tests.samples.listing import SAMPLES, distinct, listed

INPUTS = ("inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask")

# Report by tensor and ubatch. 200 tokens are 7 ubatches: six boundaries. 400 are 13; with 4 slots the copy of the fifth
# is the first to meet a reader, and of all 13 there are nine.
EXPECTED = {
    "cuda_one": [],
    "cuda_two": [(f"CUDA1#l_out-2#{ubatch % 4}", ubatch) for ubatch in range(4, 13)],
    "cuda_integrated": [(name, ubatch) for name in (*INPUTS, "embd") for ubatch in range(1, 7)],
}


def _analyzed(name: str) -> hbtrace.Outcome:
    return hbtrace.analyze(str(SAMPLES / f"{name}.arrow"), strict=True, consequence=False)


def _rows(name: str) -> list[dict[str, Any]]:
    with hbtrace.open(SAMPLES / f"{name}.arrow") as trace:
        return list(trace)


@pytest.mark.parametrize("name", EXPECTED)
def test_reports(name: str) -> None:
    outcome = _analyzed(name)
    assert Counter((report.current.root, report.current.ubatch) for report in outcome) == Counter(EXPECTED[name])
    assert {report.kind for report in outcome} <= {"write-after-read"}
    assert outcome.warnings == []


@pytest.mark.parametrize("name", EXPECTED)
def test_the_readme_says_the_same(name: str) -> None:
    assert listed(name) == (len(EXPECTED[name]), distinct(root for root, _ in EXPECTED[name]))


@pytest.mark.parametrize("name", EXPECTED)
def test_the_first_row_says_what_ran_and_not_where(name: str) -> None:
    meta = _rows(name)[0]
    assert (meta["producer"], meta["engine"], meta["command"]) == ("hbtrace record", "llama.cpp", ["driver"])
    assert "NVIDIA H200" in meta["notes"]


def test_the_inputs_are_written_by_the_host_and_embd_by_a_cpu_split() -> None:
    writers = {(report.current.root, report.current.actor) for report in _analyzed("cuda_integrated")}
    assert writers == {("embd", "CPU"), *((name, "HOST") for name in INPUTS)}


def test_the_peer_copy_runs_on_the_source_and_waits_for_no_reader() -> None:
    outcome = _analyzed("cuda_two")
    assert {(r.earlier.actor, r.current.actor, r.current.label) for r in outcome} == {
        ("CUDA1", "CUDA0", "copy_async dst")
    }
    rules = {(row["runs_on"], row["after_dst"]) for row in _rows("cuda_two") if row["ev"] == "copy_async"}
    assert rules == {("src", False)}


def test_only_the_device_that_calls_itself_integrated_reads_host_memory() -> None:
    accepts = {
        name: "CUDA_Host" in next(r for r in _rows(name) if r["ev"] == "backend" and r["name"] == "CUDA0")["accepts"]
        for name in ("cuda_one", "cuda_integrated")
    }
    assert accepts == {"cuda_one": False, "cuda_integrated": True}
