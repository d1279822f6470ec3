"""`--exact-writes`: every store into an input, also one that changes nothing."""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

import pytest

from tests.record.runs import Recorder, Run

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="single stepping needs x86-64")


@pytest.fixture(scope="module")
def run(engine: Path, plugin: Path, driver: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("exact")
    return Recorder(engine, plugin, driver, model, folder).record("--exact-writes", HBTEST_HOLD="1")


def test_every_store_is_attributed(run: Run) -> None:
    names = {event["id"]: event["name"] for event in run.rows("tensor")}
    writes = run.rows("set_direct")
    # 7 ubatches of prefill and 16 decodes write three inputs each. The ids of the outputs are written where there are
    # outputs: in the last ubatch of the prompt and in each decode, there always with the same value.
    counts = Counter(names[event["tensor"]] for event in writes)
    assert counts["attn_inp_k_idxs"] == counts["attn_inp_v_idxs"] == counts["attn_inp_kq_mask"] == 23
    assert sum(counts.values()) == 3 * 23 + 17
    assert not any(event.get("inferred") or event.get("approx") for event in writes)
    sizes = {event["id"]: event["size"] for event in run.rows("tensor")}
    assert all(event["size"] == sizes[event["tensor"]] for event in writes if event["ubatch"] == 1)


def test_memory_that_the_graph_reuses_is_not_mistaken_for_a_host_write(recorder: Recorder) -> None:
    # On the CPU alone the graph's own nodes overwrite the mask, behind its last reader.
    written = []
    for name, options in (("default.arrow", ()), ("exact.arrow", ("--exact-writes",))):
        run = recorder.record(*options, name=name, LAYERS="0", PLUGIN="")
        names = {event["id"]: event["name"] for event in run.rows("tensor")}
        written.append({(event["ubatch"], names[event["tensor"]]) for event in run.rows("set_direct")})
    default, exact = written
    assert default < exact
    assert {name for _, name in exact - default} == {"out_ids"}  # always the same value


def test_the_writer_is_named(run: Run) -> None:
    assert any("llama_kv_cache::set_input_k_idxs" in event["site"] for event in run.rows("set_direct"))


def test_results_and_races_are_those_of_the_default(run: Run, recorder: Recorder) -> None:
    default = recorder.record(HBTEST_HOLD="1")
    assert run.tokens == default.tokens
    assert run.races == default.races
    assert "about to write an input" not in run.told
