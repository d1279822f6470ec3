"""Each rule on a small trace that breaks it and on a twin that does not."""

from __future__ import annotations

from typing import Any

import pytest

from hbtrace.checks.registry import RULES, SCHEDULER_RULES
from tests.checks.traces import (
    DEVICE,
    HOST,
    OUTPUT,
    VIEW,
    Event,
    alloc,
    checked,
    compute,
    found,
    point,
    prepare,
    reuse,
    set_up,
    status,
    ubatch,
    wait,
    write,
)

FIRST = [alloc(), ubatch(), write(), *compute()]
STAMPED = {**set_up()[8], "uid": 2}
"""The graph after its inputs were re-pointed."""


def findings(events: list[Event], ident: str) -> list[Any]:
    return [finding for finding in checked(events).findings if finding.id == ident]


# hazard


def test_a_hazard_without_a_ring() -> None:
    result = checked([*set_up(ring=0), *FIRST])
    assert found(result) == {"hazard"}
    assert "no input ring is engaged" in result.findings[0].message
    assert result.findings[0].rows[0] == 9


def test_a_hazard_with_a_ring_is_info() -> None:
    result = checked([*set_up(), *FIRST])
    assert found(result) == set()
    assert "hazard" in found(result, severity="info")


def test_a_ring_without_a_hazard() -> None:
    assert found(checked([*set_up(accepts=False), alloc(), write()])) == {"hazard"}
    # synchronous work has none, whatever it accepts
    assert found(checked([*set_up(synchronous=True), *FIRST])) == {"hazard"}
    assert found(checked([*set_up(ring=0, synchronous=True), *FIRST])) == set()


def test_a_ring_that_is_asked_for_and_stays_off() -> None:
    meta = {"ev": "meta", "env": {"GGML_SCHED_UMA_RING": "4"}}
    rows = [meta, *set_up(ring=0, accepts=False), alloc(), write()]
    assert "stays off" in findings(rows, "hazard")[0].message
    assert found(checked(rows)) == set()


def test_the_hazard_is_not_checkable_without_its_fields() -> None:
    rows = [row for row in set_up(ring=0) if row["ev"] != "sched"]
    assert status(checked([*rows, *compute()]), "hazard").startswith("not checkable: needs `sched`")


def test_a_scheduler_by_hand_without_its_cpu() -> None:
    rows = [{**row, "backends": [0]} if row["ev"] == "sched" else row for row in set_up(ring=0, type="igpu")]
    assert found(checked([*rows, *FIRST])) == {"hazard"}
    rows = [{k: v for k, v in row.items() if k != "cpu_buffer_type"} for row in set_up(ring=2)]
    assert found(checked([*rows, *FIRST])) == set()


def test_what_the_trace_leaves_open_is_taken_from_the_table() -> None:
    def silent(**said: Any) -> list[Event]:
        rows = [{k: v for k, v in row.items() if k != "accepts"} for row in set_up(ring=0, **said)]
        return [*rows, alloc(), write()]

    assert found(checked(silent(integrated=True))) == {"hazard"}
    assert status(checked(silent(integrated=False)), "hazard").startswith("holds")
    # whether a HIP device is integrated decides what it accepts: with neither, nothing is known, and nothing passes
    assert status(checked([*silent(), *compute()]), "hazard").startswith("findings")  # it did compute in place
    rows = [*silent(), {"ev": "graph", "id": 0, "nodes": []}, *compute()]
    assert status(checked(rows), "hazard").startswith("not checkable: needs")


# the ring


def two(*between: Event, slot: int = 1) -> list[Event]:
    """A compute in flight, then `between`, then the input written in a slot and computed on."""
    return [*set_up(), *FIRST, *between, ubatch(1), write(), *compute()]


def test_prepare_is_missing() -> None:
    result = checked(two(reuse()))
    assert found(result) == {"prepare-missing"}
    finding = next(f for f in result.findings if f.severity == "error")
    assert finding.rows == [14, 16, 18]  # the compute that reads, the reuse, the write
    assert found(checked(two(reuse(), prepare(1), point(1), STAMPED))) == set()
    assert found(checked(two(wait(), reuse()))) == set()


def test_without_a_ring_it_is_a_warning() -> None:
    result = checked([*set_up(ring=0), *FIRST, reuse(), ubatch(1), write(), *compute()])
    assert found(result, severity="warning") == {"hazard", "prepare-missing"}


def test_the_slot_is_not_left() -> None:
    result = checked(two(reuse(), prepare(0, rotated=False)))
    assert found(result) == {"ring-rotation"}
    assert "the slot was not left" in next(f for f in result.findings if f.severity == "error").message


def third(*entry: Event) -> list[Event]:
    return [*two(reuse(), prepare(1), point(1), STAMPED), reuse(), prepare(0), *entry, point(0), set_up()[8], ubatch(2),
            write(), *compute()]  # fmt: skip


def test_depth_two_against_three_in_flight() -> None:
    assert found(checked(third())) == {"ring-rotation"}
    assert found(checked(third(wait()))) == set()


def test_without_markers_of_compute_a_compute_ends_the_round() -> None:
    rows = [row for row in third(wait()) if not row["ev"].startswith("sched_compute")]
    assert found(checked(rows)) == set()
    rows = [row for row in third() if not row["ev"].startswith("sched_compute")]
    assert found(checked(rows)) == {"ring-rotation"}


def test_statistics_of_the_ring() -> None:
    message = next(f.message for f in checked(third(wait())).findings if f.id == "ring-rotation")
    assert message == (
        "depth 2, slots used 2, rotations 2 (2 in prefill, 0 in decode); one more copy of 1 input a slot:"
        " 128 B at depth 2, 256 B at depth 3, 384 B at depth 4"
    )


def test_a_rotation_in_decode_for_nothing() -> None:
    def decode(*before: Event) -> list[Event]:
        return [*set_up(), *FIRST, *before, reuse(), prepare(1), point(1), ubatch(1, "decode"), write(), *compute()]

    assert found(checked(decode(wait()))) == {"ring-rotation", "stale-uid"}
    assert "ring-rotation" not in found(checked(decode()))


def test_prepare_rotates_twice() -> None:
    good = [*set_up(), *FIRST, alloc(1), point(1), prepare(1, rotated=False), ubatch(1), write()]
    assert "prepare-twice" not in found(checked(good))
    bad = [*set_up(), *FIRST, alloc(1), prepare(0), wait(), ubatch(1), write()]
    assert "prepare-twice" in found(checked(bad))
    assert "prepare-twice" in found(checked([*set_up(), *FIRST, reuse(), prepare(1), prepare(0), wait(), ubatch(1)]))


# caches and aliases


def test_a_stale_uid() -> None:
    result = checked([*set_up(), *FIRST, wait(), reuse(), prepare(1), point(1), *compute()])
    assert found(result) == {"stale-uid"}
    assert "inp_tokens" in next(f.message for f in result.findings if f.id == "stale-uid")
    assert found(checked([*set_up(), *FIRST, wait(), reuse(), prepare(1), point(1), STAMPED, *compute()])) == set()
    unset = checked([*set_up(uid=0), *FIRST, wait(), reuse(), prepare(1), point(1), *compute()])
    assert status(unset, "stale-uid") == "holds: 0 computes with a uid, 2 with uid 0, which bypasses caches"
    rows = [{k: v for k, v in row.items() if k != "uid"} for row in set_up()]
    assert status(checked([*rows, *FIRST]), "stale-uid") == "not checkable: needs `graph` with `uid`"


def test_an_alias_that_moved() -> None:
    again = point(1, tensor=9)
    bad = [*set_up(), *FIRST, wait(), again, alloc(1, inputs=[9]), ubatch(1), *compute()]
    assert found(checked(bad)) == {"alias-moved"}
    reallocated = [*set_up(), *FIRST, wait(), again, alloc(1, inputs=[9], realloc=True), ubatch(1), *compute()]
    assert found(checked(reallocated)) == set()
    elsewhere = [*set_up(), *FIRST, wait(), alloc(0), point(3), STAMPED, ubatch(1), *compute()]
    assert found(checked(elsewhere)) == {"alias-moved"}


# memory


def test_memory_reused_under_a_reader() -> None:
    other = {"ev": "tensor", "id": 9, "name": "ffn_inp", "buffer": HOST, "offset": 64, "size": 64}
    part = {"ev": "tensor", "id": 10, "name": "ffn_inp (view)", "buffer": HOST, "offset": 64, "size": 32, "view_of": 9}
    graph = {"ev": "graph", "id": 1, "uid": 5, "nodes": [{"op": "MUL", "tensor": 10, "writes": [{"tensor": 10}]}]}
    cpu = {"ev": "compute", "backend": 1, "graph": 1, "split": 1}
    result = checked([*set_up(), other, part, graph, *FIRST, cpu])
    assert found(result) == {"memory-reuse"}
    message = next(f.message for f in result.findings if f.id == "memory-reuse")
    assert "inp_tokens / ffn_inp" in message
    assert "would have kept 128 bytes" in message
    assert found(checked([*set_up(), other, part, graph, *FIRST, wait(), cpu])) == set()


def test_a_cpu_split_in_memory_that_is_read_in_place() -> None:
    embd = {"ev": "tensor", "id": 9, "name": "embd", "buffer": HOST, "offset": 512, "size": 64}
    makes = {"ev": "graph", "id": 1, "nodes": [{"op": "GET_ROWS", "tensor": 9, "writes": [{"tensor": 9}]}]}
    reads = {"ev": "graph", "id": 2, "nodes": [{"op": "NORM", "tensor": OUTPUT, "reads": [{"tensor": 9}]}]}
    cpu = {"ev": "compute", "backend": 1, "graph": 1, "split": 0}
    device = {"ev": "compute", "backend": 0, "graph": 2, "split": 1}
    bad = checked([*set_up(), embd, makes, reads, cpu, device, cpu])
    assert found(bad) == {"cpu-split-in-place"}
    assert bad.sorts == {"cpu-split": 1}
    good = checked([*set_up(), embd, makes, reads, cpu, device, wait(), cpu])
    assert found(good) == set()
    assert "cpu-split-in-place" in found(good, severity="info")


def test_freed_in_flight_and_used_after() -> None:
    free = {"ev": "buffer_free", "buffer": DEVICE}
    assert found(checked([*set_up(), *FIRST, free])) == {"freed-in-flight"}
    assert found(checked([*set_up(), *FIRST, wait(), free])) == set()
    queue = {"ev": "backend_free", "backend": 0}
    assert found(checked([*set_up(), *FIRST, queue])) == {"freed-in-flight"}
    assert found(checked([*set_up(), *FIRST, wait(), queue])) == set()
    used = checked([*set_up(), wait(), free, {"ev": "tensor_get", "tensor": OUTPUT}])
    assert found(used) == {"use-after-free"}
    assert next(f.rows for f in used.findings if f.id == "use-after-free") == [12]
    graph = checked([*set_up(), *FIRST, wait(), free, *compute()])
    assert found(graph) == {"use-after-free"}
    assert found(checked([*set_up(), wait(), queue, wait()]), severity="warning") == {"use-after-free"}
    assert found(checked([*set_up(), free, {"ev": "tensor_get", "tensor": OUTPUT, "size": 0}])) == set()


# placement


def aliasing(backend: int, op: str = "SET_ROWS") -> list[Event]:
    nodes = [{"op": op, "tensor": VIEW, "reads": [{"tensor": 9}], "writes": [{"tensor": VIEW}]}]
    copy = {"ev": "tensor", "id": 9, "name": "CPU#Kcur-0#0", "buffer": HOST, "offset": 600, "size": 16}
    return [copy, {"ev": "graph", "id": 1, "nodes": nodes}, {"ev": "compute", "backend": backend, "graph": 1}]


def test_an_aliasing_node_away_from_its_root() -> None:
    result = checked([*set_up(), *aliasing(1)])
    assert found(result) == {"placement"}
    message = next(f.message for f in result.findings if f.id == "placement")
    assert "SET_ROWS cache_k (view) on CPU, its root on ROCm0; these copies would go: CPU#Kcur-0#0" in message
    assert found(checked([*set_up(), *aliasing(0)])) == set()


def test_left_alone_where_the_target_does_not_support_it() -> None:
    note = {"ev": "note", "what": "op_unsupported", "attrs": {"backend": 0, "op": "SET_ROWS"}}
    result = checked([*set_up(), note, *aliasing(1)])
    assert found(result) == set()
    assert "placement" in found(result, severity="info")
    assert found(checked([*set_up(), note, *aliasing(1, "CPY")])) == {"placement"}


def test_placement_needs_to_know_where_the_root_is() -> None:
    rows = [{k: v for k, v in row.items() if k != "backend"} if row["ev"] == "buffer" else row for row in set_up()]
    assert status(checked([*rows, *aliasing(1)]), "placement").startswith("not checkable: needs")


# queues and events


def second_device() -> list[Event]:
    return [
        {"ev": "backend", "id": 2, "name": "ROCm1", "device": "ROCm1"},
        {"ev": "buffer", "id": 2, "name": "ROCm1", "size": 512, "backend": 2},
        {"ev": "tensor", "id": 9, "name": "ROCm1#l_out#3", "buffer": 2, "size": 128},
        {"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "tensor": -1, "reads": [{"tensor": 9}]}]},
        {"ev": "compute", "backend": 2, "graph": 1},
        {"ev": "event_record", "backend": 2, "event": 1},
        {"ev": "event_wait", "backend": 2, "event": 1},
    ]


def copy(**keys: Any) -> Event:
    return {"ev": "copy_async", "backend": 2, "src_backend": 0, "src": {"tensor": OUTPUT}, "dst": {"tensor": 9}, **keys}


def test_a_copy_that_the_wait_does_not_hold() -> None:
    result = checked([*set_up(), *second_device(), copy(runs_on="src")])
    assert found(result) == {"copy-unordered"}
    message = next(f.message for f in result.findings if f.id == "copy-unordered")
    assert "ROCm1#l_out#3 (read by ROCm1, copied by ROCm0); 1 had a wait on the destination" in message
    assert found(checked([*set_up(), *second_device(), copy(runs_on="src", after_dst=True)])) == set()
    assert found(checked([*set_up(), *second_device(), copy(runs_on="dst")])) == set()
    assert status(checked([*set_up(), copy()]), "copy-unordered").startswith("not checkable: needs `copy_async`")


def test_events() -> None:
    record, hold = {"ev": "event_record", "backend": 0, "event": 5}, {"ev": "event_wait", "backend": 2, "event": 5}
    start = [*set_up(), *second_device(), *compute()]
    assert found(checked([*start, record, hold, record])) == {"event-order"}
    assert found(checked([*start, record, hold, {"ev": "synchronize", "backend": 2}, record])) == set()
    free = {"ev": "event_free", "event": 5}
    assert found(checked([*start, record, free])) == {"event-order"}
    assert found(checked([*start, record, {"ev": "event_synchronize", "event": 5}, free])) == set()
    never = checked([*start, hold])
    assert found(never) == set()
    assert "event-order" in found(never, severity="info")


def test_redundant_waits_by_place() -> None:
    twice = [{**wait(), "site": "decode", "time": 1000}, {**wait(), "site": "decode", "time": 501_000}]
    result = checked([*set_up(), *FIRST, *twice])
    assert found(result, severity="info") >= {"redundant-wait"}
    message = next(f.message for f in result.findings if f.id == "redundant-wait")
    assert message == "synchronize of ROCm0 in decode: once nothing was left to order, at most 0.500 ms in all"
    assert "redundant-wait" not in found(checked([*set_up(), *FIRST, wait()]), severity="info")


# all of them


def test_every_rule_says_what_it_is() -> None:
    expected = (
        "hazard cpu-split-in-place ring-rotation prepare-missing prepare-twice stale-uid alias-moved memory-reuse"
        " placement copy-unordered event-order freed-in-flight use-after-free redundant-wait"
    )
    assert [rule.id for rule in SCHEDULER_RULES] == expected.split()
    for rule in SCHEDULER_RULES:
        assert all((rule.title, rule.needs, rule.why.endswith("."), len(rule.about) > 100)), rule.id
    assert all(rule.id.startswith("strata.") for rule in RULES[len(SCHEDULER_RULES) :])
    assert not any(j.id.startswith("strata.") for j in checked([*set_up(), *FIRST]).judgements)


def test_values_of_wrong_types_break_nothing() -> None:
    for key, row in [(k, r) for r in (*set_up(), *FIRST, wait(), *aliasing(1), copy()) for k in r if k != "ev"]:
        for wrong in ("x", [1, None, {"tensor": "y"}], {"tensor": []}):
            checked(
                [*set_up(), *FIRST, {**row, key: wrong}, *compute(), {"ev": "buffer_free", "buffer": HOST}, write()]
            )


@pytest.mark.parametrize("batch", [1, 3])
def test_batches_make_no_difference(batch: int) -> None:
    from hbtrace.checks import check_source
    from tests.checks.traces import Rows

    for events in (
        third(),
        two(reuse()),
        [*set_up(), *aliasing(1)],
        [*set_up(), *second_device(), copy(runs_on="src")],
    ):
        whole, cut = checked(events), check_source(Rows(events, batch=batch))
        assert (whole.findings, whole.judgements, whole.coverage) == (cut.findings, cut.judgements, cut.coverage)
