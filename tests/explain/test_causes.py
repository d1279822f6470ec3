"""Root causes told apart, by hand: reuse and rotation over the same bytes, primary and consequent, windows."""

from __future__ import annotations

from typing import Any

from hbtrace.explain.causes import Cause, causes_of
from hbtrace.explain.mends import advice
from hbtrace.explain.triage import triage_recording
from hbtrace.races.filters import Filters
from hbtrace.replay.recording import record
from hbtrace.replay.settings import Settings
from hbtrace.report.triage import render
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.fix import fix
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.whatif import side_of, whatif

Event = dict[str, Any]

BASE: list[Event] = [
    {"ev": "backend", "id": 0, "name": "iGPU0", "type": "igpu"},
    {"ev": "backend", "id": 1, "name": "CPU", "type": "cpu", "synchronous": True},
    {"ev": "buffer", "id": 0, "name": "Host", "size": 256, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "size": 32, "flags": ["input"]},
    {"ev": "tensor", "id": 1, "name": "ffn_out-3", "buffer": 0, "offset": 64, "size": 32},
    {"ev": "tensor", "id": 2, "name": "attn_out-4", "buffer": 0, "offset": 64, "size": 48},
]


def kernel(backend: int, reads: list[int], writes: list[int], **keys: Any) -> Event:
    ranges = [[{"tensor": tensor} for tensor in tensors] for tensors in (reads, writes)]
    return {"ev": "kernel", "backend": backend, "reads": ranges[0], "writes": ranges[1], **keys}


def rotation(ubatch: int) -> list[Event]:
    return [{"ev": "tensor_set", "tensor": 0, "ubatch": ubatch}, kernel(0, [0], [], ubatch=ubatch)]


REUSE = [kernel(0, [1], [], ubatch=0), kernel(1, [], [2], ubatch=0)]


def causes(*events: Event) -> list[Cause]:
    return causes_of(record([batch_from_rows([*BASE, *events])]))


def test_reuse_is_told_apart_from_rotation_and_no_ring_removes_it() -> None:
    events = [*BASE, *rotation(0), *REUSE, *rotation(1), *rotation(2)]

    def batches() -> Any:
        return [batch_from_rows(events)]

    found = causes_of(record(batches()))
    assert sorted(cause.nature for cause in found) == ["input", "reuse"]
    reuse = next(cause for cause in found if cause.nature == "reuse")
    assert reuse.tensors == ["ffn_out-3", "attn_out-4"]
    assert advice(reuse).rules == ("--pin", f"--edge {reuse.ident}")
    for depth in (2, 3, 4):
        after = whatif(batches, [Ring(depth)]).after
        assert [cause.nature for cause in after.causes] == ["reuse"]
    pinned = whatif(batches, [Pin()])
    assert [cause.nature for cause in pinned.after.causes] == ["input"]
    assert pinned.price.bytes == 48
    answers = fix(batches).answers
    assert answers
    assert ["--ring 2", "--pin"] in [[mend.option for mend in answer.mends] for answer in answers]


def test_the_same_tensor_made_anew_is_not_reuse() -> None:
    (cause,) = causes(
        kernel(0, [0], []), {"ev": "tensor", "id": 9, "name": "inp_tokens", "buffer": 0, "size": 8, "flags": ["input"]},
        {"ev": "tensor_set", "tensor": 9},
    )  # fmt: skip
    assert cause.nature == "input"


def test_ring_depth_follows_what_is_in_flight() -> None:
    """Three ubatches in flight on two slots: the write comes two ubatches after the read."""
    (cause,) = causes(
        {"ev": "tensor_set", "tensor": 0, "ubatch": 0}, kernel(0, [0], [], ubatch=0),
        {"ev": "tensor_set", "tensor": 0, "ubatch": 2},
    )  # fmt: skip
    assert cause.steps == [2]
    assert advice(cause).rules[0] == "--ring 3"


def test_what_only_another_race_makes_possible_is_consequent() -> None:
    """The host reads a flag that the queue sets, unordered; if it saw the flag, the queue had read the data."""
    found = causes(
        kernel(0, [1], []), kernel(0, [], [0]), {"ev": "get_direct", "tensor": 0}, {"ev": "set_direct", "tensor": 1}
    )
    primary = {cause.tensors[0]: cause.primary for cause in found}
    assert primary == {"inp_tokens": 1, "ffn_out-3": 0}


def test_a_report_stays_consequent_where_filters_hide_the_race_before_it() -> None:
    recording = record([batch_from_rows([
        *BASE, kernel(0, [1], []), kernel(0, [], [0]), {"ev": "get_direct", "tensor": 0},
        {"ev": "set_direct", "tensor": 1},
    ])])  # fmt: skip
    (later,) = causes_of(recording, Filters(tensor=("ffn_out-3",)))
    (first,) = causes_of(recording, Filters(tensor=("inp_tokens",)))
    assert (len(later.reports), later.primary) == (1, 0)
    assert (len(first.reports), first.primary) == (1, 1)


def test_windows_in_events_and_in_time() -> None:
    events = [*rotation(0), {"ev": "note"}, *rotation(1)]
    (cause,) = causes(*events)
    assert (cause.narrowest, cause.widest) == (cause.widest, cause.narrowest)
    assert cause.widest is not None
    assert (cause.widest.events, cause.widest.time) == (2, None)
    (timed,) = causes(*(event | {"time": 100 * k} for k, event in enumerate(events)))
    assert timed.widest is not None
    assert timed.widest.time == 200


def test_identities_hold_no_count_clock_or_time() -> None:
    few, many = causes(*rotation(0), *rotation(1)), causes(*rotation(0), *rotation(1), *rotation(2), {"ev": "note"})
    assert [cause.ident for cause in few] == [cause.ident for cause in many]


def idents(*events: Event) -> list[str]:
    return [cause.ident for cause in causes_of(record([batch_from_rows(list(events))]))]


QUEUE: Event = {"ev": "backend", "id": 0, "name": "G0", "type": "igpu"}


def context() -> list[Event]:
    """A context made, two ubatches without an order, and the context freed."""
    made: list[Event] = [
        QUEUE, {"ev": "buffer", "id": 0, "name": "G_Host", "size": 64, "host": True},
        {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "flags": ["input"]},
    ]  # fmt: skip
    freed: list[Event] = [
        {"ev": "synchronize", "backend": 0}, {"ev": "buffer_free", "buffer": 0}, {"ev": "backend_free", "backend": 0}
    ]  # fmt: skip
    return [*made, *rotation(0), *rotation(1), *freed]


def test_a_context_made_anew_has_the_same_cause() -> None:
    events = [*context(), *context(), *context()]

    def batches() -> Any:
        return [batch_from_rows(events)]

    side = side_of(batches(), Settings())
    (cause,) = side.causes
    assert [cause.ident] == idents(*context())
    assert (len(cause.reports), cause.distinct, cause.earlier) == (3, 1, "G0")
    for stall in (False, True):
        assert whatif(batches, [edges_for(cause, side.recording, stall=stall)]).after.races == 0
    found = triage_recording(side.recording, "-")
    assert (found.shown_distinct, found.distinct) == (1, 1)
    assert render(found, verbose=False).startswith("3 reports, 1 distinct race, 1 tensor, 1 root cause\n")


def test_one_queue_is_called_by_its_whole_name() -> None:
    again: Event = {"ev": "backend", "id": 7, "name": "iGPU0"}
    (cause,) = causes(again, kernel(7, [0], []), {"ev": "tensor_set", "tensor": 0})
    assert (cause.earlier, cause.current) == ("iGPU0#1", "HOST")


def two_devices(*splits: int) -> list[Event]:
    """A copy to the other device in each of the splits, in two ubatches."""
    events: list[Event] = [QUEUE, QUEUE | {"id": 1, "name": "G1"}]
    events += [{"ev": "buffer", "id": ident, "name": f"G{ident}", "size": 256} for ident in (0, 1)]
    for split in splits:
        for ident, name in ((0, f"l_out-{split}"), (1, f"G1#l_out-{split}#0")):
            place = {"buffer": ident, "offset": 64 * splits.index(split), "size": 64}
            events.append({"ev": "tensor", "id": 10 * split + ident, "name": name, **place})
    for ubatch in (0, 1):
        for split in splits:
            keys = {"ubatch": ubatch, "split": split}
            src, dst = {"tensor": 10 * split}, {"tensor": 10 * split + 1}
            events.append({"ev": "copy_async", "backend": 1, "src_backend": 0, "src": src, "dst": dst, **keys})
            events.append(kernel(1, [10 * split + 1], [], **keys))
    return events


def test_copies_that_one_wait_mends_are_one_cause_in_whatever_split() -> None:
    (ident,) = idents(*two_devices(1, 3, 5))
    assert [ident] == idents(*two_devices(3)) == idents(*two_devices(2))


def kv_and_lora(buffers: tuple[int, int] = (0, 1), **sites: str) -> list[Event]:
    events: list[Event] = [
        QUEUE, {"ev": "buffer", "id": 0, "name": "A_Host", "size": 64}, {"ev": "buffer", "id": 1, "name": "B_Host",
        "size": 64},
    ]  # fmt: skip
    for ident, name in enumerate(("kv_state", "lora_scale")):
        place = {"buffer": buffers[ident], "offset": 32 * ident, "size": 32}
        site = {"site": sites[name]} if name in sites else {}
        events += [
            {"ev": "tensor", "id": ident, "name": name, **place}, kernel(0, [ident], [], label="shift", **site),
            {"ev": "tensor_set", "tensor": ident, **site},
        ]  # fmt: skip
    return events


def test_unrelated_races_are_two_causes() -> None:
    assert len(set(idents(*kv_and_lora(kv_state="save_kv", lora_scale="set_lora")))) == 2
    assert len(set(idents(*kv_and_lora()))) == 2
    assert len(set(idents(*kv_and_lora(buffers=(0, 0))))) == 2
    for site in ("?", "libllama.so.0", "llama.dll"):
        assert len(set(idents(*kv_and_lora(kv_state=site, lora_scale=site)))) == 2, "no name of a caller"


def test_what_one_caller_sets_is_one_cause() -> None:
    for site in ("restore", "libllama.so:restore", "kv.cpp:10"):
        assert len(idents(*kv_and_lora(kv_state=site, lora_scale=site))) == 1


def test_layers_and_unlabelled_graphs_are_one_point() -> None:
    base: list[Event] = [QUEUE, {"ev": "buffer", "id": 0, "name": "G_Host", "size": 96}]
    base += [
        {"ev": "tensor", "id": ident, "name": name, "buffer": 0, "offset": 32 * ident, "size": 32}
        for ident, name in enumerate(("cache_k_l0", "cache_k_l1", "cache_v_l0"))
    ]
    nodes = [{"op": "ADD", "reads": [{"tensor": ident}]} for ident in range(3)]
    base += [{"ev": "graph", "id": 0, "nodes": nodes}, {"ev": "compute", "backend": 0, "graph": 0}]
    sets: list[Event] = [{"ev": "tensor_set", "tensor": ident} for ident in range(3)]
    assert len(idents(*base, *sets[:2])) == 1
    assert len(idents(*base, *sets)) == 2
    host: Event = {"ev": "backend", "id": 1, "name": "G1"}
    writes = [{"op": "ADD", "writes": [{"tensor": ident}]} for ident in range(3)]
    other: list[Event] = [host, {"ev": "graph", "id": 1, "nodes": writes}, {"ev": "compute", "backend": 1, "graph": 1}]
    assert len(idents(*base, *other)) == 1


def test_reuse_of_unrelated_tensors_is_two_causes() -> None:
    events: list[Event] = [QUEUE, {"ev": "buffer", "id": 0, "name": "H", "size": 128}]
    for ident, name in enumerate("abcd"):
        place = {"buffer": 0, "offset": 64 * (ident // 2), "size": 64}
        events.append({"ev": "tensor", "id": ident, "name": name, **place})
    for read, written in ((0, 1), (2, 3)):
        events += [kernel(0, [read], []), {"ev": "tensor_set", "tensor": written}]
    found = causes_of(record([batch_from_rows(events)]))
    assert [(cause.nature, cause.tensors) for cause in found] == [("reuse", ["a", "b"]), ("reuse", ["c", "d"])]


def test_cpu_splits_are_told_by_what_they_hand_over() -> None:
    found = causes(
        kernel(0, [0, 1], []), kernel(1, [], [0], site="sched"), kernel(1, [], [1], site="sched"),
    )  # fmt: skip
    assert [(cause.nature, cause.tensors) for cause in found] == [
        ("cpu-split", ["inp_tokens"]), ("cpu-split", ["ffn_out-3"]),
    ]  # fmt: skip
