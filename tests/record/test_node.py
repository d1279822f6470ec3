"""Recorded from node, whose own addon loads llama.cpp by dlopen(RTLD_LOCAL) and computes on threads of node's pool."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.record.runs import Recorder, Run

DRIVER = Path(__file__).with_name("node_driver.cjs")
# Four prompts in one llama_decode. An ubatch has as many tokens of each sequence that is left: 16 of four, 8 of three,
# 8 of two and 8 of one, so 4 ubatches and 3 boundaries; then 8 decodes of one ubatch.
SEVERAL = {"LENGTHS": "40,32,24,16", "DECODE": "8"}
ONE = {"LENGTHS": "64", "DECODE": "8"}


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node to run node-llama-cpp's addon with")
    return found


def _record(recorder: Recorder, node: str, **settings: str) -> Run:
    """The addon loads no plugin by itself, but ggml does: the one that GGML_BACKEND_PATH names."""
    environment = {"GGML_BACKEND_PATH": str(recorder.plugin), **settings}
    return recorder.record(command=[node, DRIVER], **environment)


def test_several_sequences_in_a_batch_race(recorder: Recorder, node: str) -> None:
    run = _record(recorder, node, HBTEST_HOLD="1", **SEVERAL)
    assert run.status == 0, run.told
    assert run.tokens != recorder.plain(node, DRIVER, **SEVERAL)
    assert [event["tokens"] for event in run.rows("ubatch")] == [64, 24, 16, 8] + [4] * 8
    # The addon maps the model's file, so the CPU looks the embeddings up: it computes them, and the host writes four
    # inputs and the ids of the outputs, where the device may still read those of the ubatch before.
    names = ("embd", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask", "out_ids")
    reports = run.analysis["reports"]
    assert Counter((report["current"]["root"], report["current"]["ubatch"]) for report in reports) == Counter(
        (name, ubatch) for name in names for ubatch in (1, 2, 3)
    )
    assert {report["current"]["actor"] for report in reports if report["current"]["root"] == "embd"} == {"CPU"}
    assert run.warnings == []


def test_one_sequence_is_right_and_has_none(recorder: Recorder, node: str) -> None:
    # An ubatch is as large as a batch, and the addon synchronizes behind each.
    run = _record(recorder, node, HBTEST_HOLD="1", **ONE)
    assert run.tokens == recorder.plain(node, DRIVER, **ONE)
    assert run.races == {}
    assert len(run.rows("ubatch")) == 1 + 8


def test_a_device_that_copies_its_inputs_is_right_and_has_none(recorder: Recorder, node: str) -> None:
    run = _record(recorder, node, HBTEST_DISCRETE="1", HBTEST_HOLD="1", **SEVERAL)
    assert run.tokens == recorder.plain(node, DRIVER, **SEVERAL)
    assert run.races == {}
    assert run.warnings == []


def test_callers_in_the_addon_are_named(recorder: Recorder, node: str) -> None:
    run = _record(recorder, node, LAYERS="0", PLUGIN="", GGML_BACKEND_PATH="", **ONE)
    assert run.tokens == recorder.plain(node, DRIVER, **ONE)
    sites = {event["site"] for event in run.rows("tensor_set", "synchronize") if "site" in event}
    assert any(site.startswith("libllama.v0.5.0.so:") for site in sites)
    assert run.events[0]["command"][0].endswith("node")
