"""What a recording holds: the parts of the format that a recorder must fill, on one run of the integrated device."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.record.runs import Event, Recorder, Run


@pytest.fixture(scope="module")
def run(engine: Path, plugin: Path, driver: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("contract")
    return Recorder(engine, plugin, driver, model, folder).record(HBTEST_HOLD="1")


@pytest.fixture(scope="module")
def events(run: Run) -> list[Event]:
    return run.events


def _rows(events: list[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event["ev"] in kinds]


def test_meta_says_what_ran(events: list[Event]) -> None:
    meta = events[0]
    assert (meta["ev"], meta["version"], meta["producer"]) == ("meta", 1, "hbtrace record")
    assert (meta["engine"], meta["threads"]) == ("llama.cpp", "one")
    assert meta["engine_version"].startswith("ggml 0.")
    assert meta["command"][0].endswith("driver")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", meta["started_at"])


def test_capabilities_are_read_from_the_device(events: list[Event]) -> None:
    queues = {event["name"]: event for event in _rows(events, "backend")}
    device, cpu = queues["TEST0"], queues["CPU"]
    assert (device["device"], device["type"], device["integrated"]) == ("TEST0", "igpu", True)
    assert (device["async"], device["events"], device["host_buffer"]) == (True, True, True)
    assert device["accepts"] == ["TEST0", "TEST_Host"]
    assert not device["synchronous"]
    assert (cpu["type"], cpu["async"], cpu["synchronous"]) == ("cpu", False, True)
    assert cpu["accepts"] == ["CPU", "TEST_Host"]


def test_the_scheduler_has_its_queues_and_the_cpus_memory(events: list[Event]) -> None:
    (scheduler,) = _rows(events, "sched")
    names = {event["id"]: event["name"] for event in _rows(events, "backend")}
    assert [names[queue] for queue in scheduler["backends"]] == ["TEST0", "CPU"]
    assert (scheduler["cpu_buffer_type"], scheduler["copies"], scheduler["ring"]) == ("TEST_Host", 1, 0)


def test_every_id_is_defined_before_it_is_used_and_buffers_hold_their_tensors(events: list[Event]) -> None:
    buffers: dict[int, int] = {}
    for event in events:
        if event["ev"] == "buffer":
            buffers[event["id"]] = event["size"]
        elif event["ev"] == "tensor":
            assert event["offset"] >= 0
            assert event["offset"] + event["size"] <= buffers[event["buffer"]]
        elif event["ev"] == "buffer_free":
            del buffers[event["buffer"]]


def test_graphs_are_defined_once(events: list[Event]) -> None:
    # Full ubatches, the last one of the prompt, and single tokens.
    graphs = _rows(events, "graph")
    computed = Counter(event["graph"] for event in _rows(events, "compute"))
    assert [graph["id"] for graph in graphs] == [0, 1, 2]
    assert computed == {0: 6, 1: 1, 2: 16}
    assert all(graph["uid"] > 0 for graph in graphs[1:])


def test_a_node_is_read_and_written_as_its_operation_does(events: list[Event]) -> None:
    names = {event["id"]: event["name"] for event in _rows(events, "tensor")}
    nodes = _rows(events, "graph")[0]["nodes"]
    by_op = {node["op"]: node for node in reversed(nodes)}  # the first of each
    assert "reads" not in by_op["VIEW"]
    embedding = by_op["GET_ROWS"]
    assert [names[read["tensor"]] for read in embedding["reads"]][1] == "inp_tokens"
    # Which rows are taken or written is known to the device only.
    assert embedding["reads"][0]["approx"]
    assert by_op["SET_ROWS"]["writes"][0]["approx"]
    assert not embedding["writes"][0].get("approx")
    assert {node["backend"] for node in nodes} == {_rows(events, "compute")[0]["backend"]}


def test_strided_views_are_rows(events: list[Event]) -> None:
    tensors = {event["id"]: event for event in _rows(events, "tensor")}
    reads = [read for node in _rows(events, "graph")[0]["nodes"] for read in node.get("reads", ())]
    strided = [read for read in reads if read.get("rows", 1) > 1]
    assert strided
    for read in strided:
        tensor = tensors[read["tensor"]]
        assert read["stride"] > read["size"]
        assert (read["rows"] - 1) * read["stride"] + read["size"] == tensor["size"]


def test_views_have_roots(events: list[Event]) -> None:
    tensors = {event["id"]: event for event in _rows(events, "tensor")}
    views = [tensor for tensor in tensors.values() if "view_of" in tensor]
    assert views
    assert all("view_of" not in tensors[view["view_of"]] for view in views)


def test_inputs_are_flagged(events: list[Event]) -> None:
    flagged = {event["name"] for event in _rows(events, "tensor") if "input" in event.get("flags", ())}
    assert {"inp_tokens", "inp_pos", "attn_inp_kq_mask"} <= flagged


def test_ubatches_are_numbered_with_their_tokens(events: list[Event]) -> None:
    ubatches = [(event["n"], event.get("tokens"), event.get("phase")) for event in _rows(events, "ubatch")]
    prefill = [(n, 32, "prefill") for n in range(6)] + [(6, 8, "prefill")]
    assert ubatches == prefill + [(n, 1, "decode") for n in range(7, 23)]
    assert [event["ubatch"] for event in _rows(events, "compute")] == list(range(23))


def test_a_reused_graph_is_marked(events: list[Event]) -> None:
    allocated = [event["ubatch"] for event in _rows(events, "sched_alloc") if not event["reserve"]]
    assert allocated == [0, 6, 7]
    assert [event["ubatch"] for event in _rows(events, "sched_reuse")] == [n for n in range(23) if n not in allocated]
    assert all(event["inputs"] for event in _rows(events, "sched_alloc") if not event["reserve"])


def test_a_split_is_named_inside_the_compute_only(events: list[Event]) -> None:
    inside = False
    for event in events:
        if event["ev"] == "sched_compute":
            inside = True
        elif event["ev"] == "sched_compute_end":
            inside = False
        assert (event.get("split", -1) >= 0) <= inside or event["ev"] == "sched_compute_end"
        if event["ev"] == "compute":
            assert event["split"] == 0


def test_sites_are_module_and_function(events: list[Event]) -> None:
    sites = {event["site"] for event in _rows(events, "tensor_set")}
    assert "libllama.v0.5.0.so:llm_graph_input_embd::set_input(llama_ubatch const*)" in sites


def test_times_rise_within_the_order(events: list[Event]) -> None:
    times = [event["time"] for event in events if "time" in event]
    assert all(a <= b for a, b in pairwise(times))


def test_queued_transfers_name_their_host_memory(events: list[Event]) -> None:
    assert all(event["host_range"]["size"] == event["size"] for event in _rows(events, "set_async", "get_async"))


def test_direct_writes_stand_between_the_inputs_and_the_compute(events: list[Event]) -> None:
    kinds = [event["ev"] for event in events if event.get("ubatch") == 1]
    assert kinds == [
        "sched_reuse", "ubatch", "tensor_set", "tensor_set", "set_direct", "set_direct", "set_direct",
        "sched_compute", "compute", "sched_compute_end",
    ]


def test_unseen_writes_are_counted_and_said(run: Run) -> None:
    # out_ids is written at each of 16 decodes, always with the value that it has: only the first is seen.
    assert "15 times the program was about to write an input" in run.told


def test_what_comes_next_is_printed(run: Run) -> None:
    assert f"next: hbtrace analyze {run.trace}" in run.told
