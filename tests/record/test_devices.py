"""What each kind of device gives: the tokens of the run, and the races that its trace has. Each count is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.runs import Recorder, Run

# The prompt: 200 tokens in ubatches of 32, so 7 ubatches and 6 boundaries. Held, the device computes an ubatch only
# when the inputs of the next one are written: the wrong result is the same each time.
HELD = {"HBTEST_HOLD": "1"}
INPUTS = ("inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask")
TWO = {"HBTEST_TYPE": "gpu", "HBTEST_DISCRETE": "1", "HBTEST_DEVICES": "2"}
# Without reuse nothing synchronizes between ubatches: 400 tokens are 13 of them.
PIPELINE = {**TWO, "PROMPT": "400", "LLAMA_GRAPH_REUSE_DISABLE": "1"}


@pytest.fixture(scope="module")
def held(engine: Path, plugin: Path, driver: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Recorder(engine, plugin, driver, model, tmp_path_factory.mktemp("held")).record(**HELD)


def test_integrated_with_several_ubatches_is_wrong_and_says_why(recorder: Recorder, held: Run) -> None:
    assert held.status == 0
    assert held.tokens != recorder.plain()
    # The device reads five inputs in place, and at each of the 6 boundaries of the prefill the host writes the next
    # ubatch's over them. In decode the host waits for the logits before it sets the inputs of the next token.
    assert held.races == dict.fromkeys(INPUTS, 6)
    assert held.analysis["distinct"] == 5
    assert {report["kind"] for report in held.analysis["reports"]} == {"write-after-read"}
    assert held.warnings == []


def test_the_wrong_result_is_the_same_each_time(recorder: Recorder, held: Run) -> None:
    assert recorder.record(**HELD).tokens == held.tokens


def test_recording_changes_no_result(recorder: Recorder) -> None:
    assert recorder.record(LAYERS="0").tokens == recorder.plain()


def test_the_race_is_there_in_natural_timing_too(recorder: Recorder) -> None:
    assert recorder.record().races == dict.fromkeys(INPUTS, 6)


def test_one_ubatch_is_right_and_has_none(recorder: Recorder) -> None:
    run = recorder.record(UBATCH="256", **HELD)
    assert run.tokens == recorder.plain(UBATCH="256")
    assert run.races == {}


def test_discrete_is_right_and_has_none(recorder: Recorder) -> None:
    run = recorder.record(HBTEST_DISCRETE="1", **HELD)
    assert run.tokens == recorder.plain()
    assert run.races == {}
    assert run.warnings == []


def test_synchronous_is_right_and_has_none_because_the_device_says_so(recorder: Recorder) -> None:
    run = recorder.record(HBTEST_SYNC="1")
    assert run.tokens == recorder.plain()
    assert run.races == {}
    computing = {event["backend"] for event in run.rows("compute")}
    assert all(event["synchronous"] for event in run.rows("backend") if event["id"] in computing)


def test_partial_offload(recorder: Recorder) -> None:
    run = recorder.record(LAYERS="2", **HELD)
    assert run.tokens != recorder.plain()
    # The CPU reads the tokens, the device the other four. At the boundary to the last ubatch, of 8 tokens, the splits
    # change, and the scheduler synchronizes all queues before it allocates: 5 boundaries are left.
    assert run.races == dict.fromkeys(INPUTS[1:], 5)


def test_no_offload_still_races_on_what_the_device_takes(recorder: Recorder) -> None:
    run = recorder.record(LAYERS="0", **HELD)
    # The device accepts weights in its host buffer, so some nodes run on it all the same. They read the mask only.
    assert run.races == {"attn_inp_kq_mask": 5}


def test_unordered_copy_between_two_devices(recorder: Recorder) -> None:
    run = recorder.record(**PIPELINE)
    assert run.tokens == recorder.plain(PROMPT="400")  # natural timing hides it
    # The copy runs on the source's queue, and the wait for the slot's last reader is on the destination's. There are
    # 4 slots: from the 5th of 13 ubatches on each copy overwrites what a graph may still read.
    assert sum(run.races.values()) == 13 - 4
    assert {report["earlier"]["root"].rsplit("#", 1)[0] for report in run.analysis["reports"]} == {"TEST1#l_out-2"}
    assert run.analysis["distinct"] == 1


@pytest.mark.parametrize("settings", [PIPELINE, TWO], ids=["no reuse", "reuse"])
def test_ordered_copy_between_two_devices_has_none(recorder: Recorder, settings: dict[str, str]) -> None:
    run = recorder.record(copies="src,after-dst", HBTEST_ORDERED="1", **settings)
    assert run.tokens == recorder.plain(PROMPT=settings.get("PROMPT", "200"))
    assert run.races == {}
    assert run.warnings == []


def test_copy_on_the_destination_races_with_the_source(recorder: Recorder) -> None:
    run = recorder.record(copies="dst", HBTEST_COPY="dst", **PIPELINE)
    # The destination's queue reads the layer output late: the source's next graph writes it at each of 12 boundaries.
    # (TEST1#1: the model loader had a queue of that name before.)
    earlier = [report["earlier"] for report in run.analysis["reports"]]
    assert {(side["label"], side["actor"]) for side in earlier} == {("copy_async src", "TEST1#1")}
    assert {report["current"]["ubatch"] for report in run.analysis["reports"]} == set(range(1, 13))


def test_the_rule_of_a_copy_is_in_every_copy(recorder: Recorder) -> None:
    run = recorder.record(copies="src,after-dst", HBTEST_ORDERED="1", **TWO)
    copies = run.rows("copy_async")
    assert copies
    assert {(copy["runs_on"], copy["after_dst"]) for copy in copies} == {("src", True)}


def _splits(run: Run) -> list[tuple[int, int, int]]:
    """Which split each queue computes, of each ubatch, without pieces of one."""
    computes = [(event["ubatch"], event["split"], event["backend"]) for event in run.rows("compute")]
    return list(dict.fromkeys(computes))


def test_a_split_that_is_computed_in_pieces_keeps_its_number(recorder: Recorder) -> None:
    settings = {**TWO, "LAYERS": "1", "PROMPT": "40", "DECODE": "2"}
    whole = recorder.record(**settings)
    pieces = recorder.record(name="pieces.arrow", CALLBACK="1", **settings)
    assert pieces.tokens == whole.tokens
    assert len(pieces.rows("compute")) > 5 * len(whole.rows("compute"))
    assert _splits(pieces) == _splits(whole)
    assert len({split for _, split, _ in _splits(whole)}) > 1
    # The copies before a split are its own.
    moved = [
        [event.get("split", -1) for event in run.rows("tensor_copy", "copy_async", "set_async")]
        for run in (whole, pieces)
    ]
    assert moved[0] == moved[1]
    assert max(moved[0]) > 0
