"""Each rule on a small trace that breaks it and on a twin that does not."""

from __future__ import annotations

from typing import Any

import pytest

from hbtrace.checks.registry import SCHEDULER_RULES, all_rules
from tests.checks.traces import (
    DEVICE,
    HOST,
    INPUT,
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


def test_of_two_schedulers_it_is_the_one_whose_inputs_are_written() -> None:
    other = [
        {"ev": "sched", "id": 2, "backends": [0, 1], "cpu_buffer_type": "ROCm_Host", "ring": 2},
        {"ev": "tensor", "id": 9, "name": "inp_tokens", "buffer": HOST, "offset": 1024, "size": 128},
    ]
    theirs = [{"ev": "sched_alloc", "sched": 2, "slot": 0, "realloc": True, "inputs": [9]}]
    done = [{"ev": "set_direct", "tensor": 9}, {"ev": "sched_compute", "sched": 2}, *compute()[1:2]]
    forgot = [*set_up(), *other, *FIRST, reuse(), *theirs, *done, ubatch(1), write(), *compute()]
    assert found(checked(forgot)) == {"prepare-missing"}
    # the first scheduler's input is written with no round of it open: no obligation of the second's reused graph
    again = [*theirs, *done, {"ev": "sched_reuse", "sched": 2}]
    assert found(checked([*set_up(), *other, *FIRST, *again, write()])) == set()
    mine = [*theirs, *done, {"ev": "sched_reuse", "sched": 2}, {"ev": "set_direct", "tensor": INPUT}]
    undeclared = [{k: v for k, v in row.items() if k != "inputs"} for row in (*set_up(), *other, *FIRST, *mine)]
    assert found(checked(undeclared)) == {"prepare-missing"}


def test_every_way_to_write_an_input_counts() -> None:
    other = {"ev": "tensor", "id": 9, "name": "tokens", "buffer": HOST, "offset": 1024, "size": 128}
    for way in (
        {"ev": "tensor_copy", "src": {"tensor": 9}, "dst": {"tensor": INPUT}},
        {"ev": "buffer_clear", "buffer": HOST},
        {"ev": "tensor_memset", "tensor": INPUT},
    ):
        rows = [*set_up(), other, *FIRST, reuse(), ubatch(1), way, *compute()]
        assert found(checked(rows)) == {"prepare-missing"}, way
        assert "inp_tokens" in next(iter(findings(rows, "prepare-missing"))).message
        assert found(checked([*set_up(), other, *FIRST, wait(), reuse(), ubatch(1), way, *compute()])) == set()


def test_what_is_no_input_makes_no_input_race() -> None:
    """The host writes a state in host memory that a compute in flight reads."""
    state = {"ev": "tensor", "id": 9, "name": "cache_k", "buffer": HOST, "offset": 1024, "size": 128}
    graph = {"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "tensor": OUTPUT, "reads": [{"tensor": 9}]}]}
    touch = {"ev": "tensor_set", "tensor": 9}
    rows = [*set_up(), state, graph, *FIRST, wait(), *compute(1), reuse(), prepare(1), touch]
    result = checked(rows)
    assert (found(result), result.sorts) == (set(), {"other": 1})
    declared = [{**row, "inputs": [INPUT, 9]} if row["ev"] == "sched_alloc" else row for row in rows]
    assert (found(checked(declared)), checked(declared).sorts) == ({"ring-rotation"}, {"input": 1})
    flagged = [{**row, "flags": ["input"]} if row == state else row for row in rows]
    assert checked(flagged).sorts == {"input": 1}
    silent = [{k: v for k, v in row.items() if k not in ("flags", "inputs")} for row in rows]
    assert checked(silent).sorts == {"input": 1}


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
    rest = [prepare(1), point(1), STAMPED, write(), *compute()]
    early = [*set_up(), *FIRST, wait(), ubatch(1, "decode"), reuse(), *rest]
    assert found(checked(early)) == {"ring-rotation"}  # the marker stands in front of its round


def test_an_allocation_in_decode_that_rotates_for_nothing() -> None:
    def decode(*before: Event, slot: int = 1) -> list[Event]:
        return [*set_up(), *FIRST, *before, alloc(slot), point(slot), STAMPED, ubatch(1, "decode"), *compute()]

    assert found(checked(decode(wait()))) == {"ring-rotation"}
    assert found(checked(decode(wait(), slot=0))) == set()
    assert found(checked(decode())) == set()


def test_rotations_of_no_known_phase_say_so() -> None:
    rows = [row for row in third(wait()) if row["ev"] != "ubatch"]
    message = next(f.message for f in checked(rows).findings if f.id == "ring-rotation")
    assert "2 in unknown phase); no `ubatch` with `phase` tells which were in decode; one more copy" in message


def test_prepare_rotates_twice() -> None:
    good = [*set_up(), *FIRST, alloc(1), point(1), prepare(1, rotated=False), ubatch(1), write()]
    assert "prepare-twice" not in found(checked(good))
    bad = [*set_up(), *FIRST, alloc(1), prepare(0), wait(), ubatch(1), write()]
    assert "prepare-twice" in found(checked(bad))
    assert "prepare-twice" in found(checked([*set_up(), *FIRST, reuse(), prepare(1), prepare(0), wait(), ubatch(1)]))


def test_a_rotation_that_is_not_told_shows_by_its_slot() -> None:
    def silent(slot: int) -> Event:
        return {k: v for k, v in prepare(slot).items() if k != "rotated"}

    assert "prepare-twice" in found(checked([*set_up(), *FIRST, alloc(1), silent(0), wait(), ubatch(1), write()]))
    good = checked([*set_up(), *FIRST, alloc(1), point(1), silent(1), ubatch(1), write()])
    assert status(good, "prepare-twice") == "holds: 1 prepares"
    bare = {"ev": "sched_prepare", "sched": 0}
    neither = checked([*set_up(), *FIRST, alloc(1), bare])
    assert status(neither, "prepare-twice") == "not checkable: needs `rotated` or `slot` in `sched_prepare`"
    # without a round before it, the slot that is left is the last round's
    assert "ring-rotation" in found(checked([*set_up(), *FIRST, wait(), silent(1), ubatch(1, "decode"), *compute()]))
    stayed = [*set_up(), *FIRST, wait(), silent(0), ubatch(1, "decode"), *compute()]
    assert "ring-rotation" not in found(checked(stayed))


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


def test_a_new_backend_has_cached_no_graph() -> None:
    moved = [reuse(), prepare(1), point(1), *compute()]
    again = [{"ev": "backend_free", "backend": 0}, set_up()[0]]
    assert found(checked([*set_up(), *FIRST, wait(), *again, *moved])) == set()
    other = [{"ev": "backend_free", "backend": 1}, set_up()[1]]
    assert found(checked([*set_up(), *FIRST, wait(), *other, *moved])) == {"stale-uid"}


def test_a_reserve_that_reallocates_moves_aliases_rightly() -> None:
    again = point(1, tensor=9)
    for realloc, expected in ((True, set()), (False, {"alias-moved"})):
        reserve = {"ev": "sched_alloc", "sched": 0, "reserve": True, "realloc": realloc}
        rows = [*set_up(), *FIRST, wait(), reserve, again, alloc(1, inputs=[9]), ubatch(1), *compute()]
        assert found(checked(rows)) == expected


def test_an_alias_that_moved() -> None:
    again = point(1, tensor=9)
    bad = [*set_up(), *FIRST, wait(), again, alloc(1, inputs=[9]), ubatch(1), *compute()]
    assert found(checked(bad)) == {"alias-moved"}
    reallocated = [*set_up(), *FIRST, wait(), again, alloc(1, inputs=[9], realloc=True), ubatch(1), *compute()]
    assert found(checked(reallocated)) == set()
    elsewhere = [*set_up(), *FIRST, wait(), alloc(0), point(3), STAMPED, ubatch(1), *compute()]
    assert found(checked(elsewhere)) == {"alias-moved"}


def test_an_alias_is_not_checkable_without_knowing_what_reallocates() -> None:
    silent = {k: v for k, v in alloc().items() if k != "realloc"}
    rows = [*set_up(), silent, ubatch(), write(), *compute()]
    needs = "not checkable: needs `sched` with `ring` above 1, `sched_alloc` with `inputs` and `realloc`"
    assert status(checked(rows), "alias-moved") == needs
    assert status(checked([*rows, reuse(), prepare(0), *compute()]), "alias-moved") == needs
    assert status(checked([*rows, wait(), alloc(0), *compute()]), "alias-moved") == "holds: 1 rounds"


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


def namesakes(split: int, *, number: int = -1, name: str = "tmp", flags: list[str] | None = None) -> list[Event]:
    """The device reads a tensor in split 0; the CPU writes another one of that name there, in a split, of a ubatch."""
    both = [
        {"ev": "tensor", "id": ident, "name": name, "buffer": HOST, "offset": 512, "size": 64, "flags": flags or []}
        for ident in (9, 10)
    ]
    reads = {"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "tensor": OUTPUT, "reads": [{"tensor": 9}]}]}
    makes = {"ev": "graph", "id": 2, "nodes": [{"op": "ADD", "tensor": 10, "writes": [{"tensor": 10}]}]}
    return [*set_up(), *both, reads, makes, {"ev": "compute", "backend": 0, "graph": 1, "split": 0, "ubatch": 0},
            {"ev": "compute", "backend": 1, "graph": 2, "split": split, "ubatch": number}]  # fmt: skip


def test_two_tensors_of_one_name_are_told_apart_by_id() -> None:
    assert found(checked(namesakes(1))) == {"memory-reuse"}
    assert found(checked(namesakes(1, number=0, name="CPU#tmp#0"))) == {"memory-reuse"}
    # the next compute has a graph of another shape, whose tensors have the names of the last one's
    assert found(checked(namesakes(1, number=1))) == {"cpu-split-in-place"}
    assert found(checked(namesakes(0))) == {"cpu-split-in-place"}
    assert found(checked(namesakes(1, flags=["input"]))) == {"cpu-split-in-place"}


def cpu_split(*between: Event) -> list[Event]:
    """A CPU split computes `embd`, the device reads it in place, then the CPU split once more."""
    embd = {"ev": "tensor", "id": 9, "name": "embd", "buffer": HOST, "offset": 512, "size": 64}
    makes = {"ev": "graph", "id": 1, "nodes": [{"op": "GET_ROWS", "tensor": 9, "writes": [{"tensor": 9}]}]}
    reads = {"ev": "graph", "id": 2, "nodes": [{"op": "NORM", "tensor": OUTPUT, "reads": [{"tensor": 9}]}]}
    cpu = {"ev": "compute", "backend": 1, "graph": 1, "split": 0}
    device = {"ev": "compute", "backend": 0, "graph": 2, "split": 1}
    return [*set_up(), embd, makes, reads, cpu, device, *between, cpu]


def test_a_failed_check_notes_nothing_beside_its_findings() -> None:
    assert status(checked(namesakes(1)), "memory-reuse") == "findings: "
    assert status(checked(namesakes(0)), "memory-reuse") == "holds: no race is between two root tensors"


def test_a_cpu_split_in_memory_that_is_read_in_place() -> None:
    bad = checked(cpu_split())
    assert found(bad) == {"cpu-split-in-place"}
    assert bad.sorts == {"cpu-split": 1}
    good = checked(cpu_split(wait()))
    assert found(good) == set()
    assert "cpu-split-in-place" in found(good, severity="info")


@pytest.mark.parametrize(
    ("cpu", "known"),
    [
        ({"name": "X", "type": "cpu"}, True),
        ({"name": "CPU"}, True),  # by the table of backends
        ({"name": "X"}, True),  # last of the scheduler
        ({"name": "X", "synchronous": False}, False),  # what is declared goes first
        ({"name": "X", "type": "gpu"}, False),
    ],
)
def test_what_tells_a_cpu_split(cpu: Event, known: bool) -> None:
    rows = [{"ev": "backend", "id": 1, **cpu} if row.get("name") == "CPU" else row for row in cpu_split()]
    assert found(checked(rows)) == ({"cpu-split-in-place"} if known else set())
    assert (checked(rows).sorts["cpu-split" if known else "other"]) > 0


def test_a_cpu_split_that_nothing_tells_is_not_checkable() -> None:
    rows = [row for row in cpu_split() if row["ev"] != "sched"]
    unknown = [{"ev": "backend", "id": 1, "name": "X"} if row.get("name") == "CPU" else row for row in rows]
    assert status(checked(unknown), "cpu-split-in-place") == (
        "not checkable: needs `synchronous` or `type` of `backend`"
    )
    bare = [{k: v for k, v in row.items() if k != "nodes"} for row in cpu_split()]
    assert status(checked(bare), "cpu-split-in-place") == (
        "not checkable: needs `graph` with the `reads` and `writes` of its nodes"
    )


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


def test_a_copy_goes_only_with_its_last_reader() -> None:
    copy, graph, run = aliasing(1)
    stays = {"op": "ADD", "tensor": OUTPUT, "reads": [{"tensor": 9}], "writes": [{"tensor": OUTPUT}]}
    result = checked([*set_up(), copy, {**graph, "nodes": [*graph["nodes"], stays]}, run])
    message = next(f.message for f in result.findings if f.id == "placement")
    assert message == "1 aliasing node would move to its root: SET_ROWS cache_k (view) on CPU, its root on ROCm0"


def test_another_instance_on_the_device_is_no_other_place() -> None:
    for device, expected in (("ROCm0", set()), ("ROCm1", {"placement"})):
        second = {"ev": "backend", "id": 2, "name": "ROCm0", "device": device}
        assert found(checked([*set_up(), second, *aliasing(2)])) == expected
    for names, expected in ((("X", "X"), set()), (("X", "Y"), {"placement"})):
        silent = [{"ev": "backend", "id": ident, "name": name} for ident, name in zip((0, 2), names, strict=True)]
        assert found(checked([*set_up(), *silent, *aliasing(2)])) & {"placement"} == expected


def test_left_alone_where_the_target_does_not_support_it() -> None:
    note = {"ev": "note", "what": "op_unsupported", "attrs": {"backend": 0, "op": "SET_ROWS"}}
    result = checked([*set_up(), note, *aliasing(1)])
    assert found(result) == set()
    assert "placement" in found(result, severity="info")
    assert found(checked([*set_up(), note, *aliasing(1, "CPY")])) == {"placement"}


def test_placement_needs_to_know_where_the_root_is() -> None:
    rows = [{k: v for k, v in row.items() if k != "backend"} if row["ev"] == "buffer" else row for row in set_up()]
    assert status(checked([*rows, *aliasing(1)]), "placement").startswith("not checkable: needs")


def test_placement_needs_views() -> None:
    rows = [{k: v for k, v in row.items() if k != "view_of"} for row in (*set_up(), *aliasing(1))]
    assert status(checked(rows), "placement") == "not checkable: needs `tensor` with `view_of`"
    assert status(checked([*set_up(), *FIRST]), "placement").startswith("holds: 0 aliasing nodes")


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


def test_a_copy_over_what_is_still_being_written() -> None:
    fill = {"ev": "kernel", "backend": 2, "label": "memset", "writes": [{"tensor": 9}]}
    rows = [*set_up(), *second_device()[:4], fill, copy(runs_on="src")]
    (finding,) = findings(rows, "copy-unordered")
    assert finding.message == (
        "1 copy fills a slot before its last writer is known to be done: ROCm1#l_out#3 (written by ROCm1, copied by"
        " ROCm0)"
    )
    both = findings([*rows, *second_device()[4:], copy(runs_on="src")], "copy-unordered")
    assert [f.message.split(" is known")[0] for f in both] == [
        "1 copy fills a slot before its last reader", "1 copy fills a slot before its last writer",
    ]  # fmt: skip


def test_a_copy_from_a_queue_that_was_freed() -> None:
    free = [wait(), {"ev": "backend_free", "backend": 0}]
    start = [*set_up(), *second_device()[:4]]
    result = checked([*start, *free, copy(runs_on="src")])
    assert found(result) == {"use-after-free"}
    assert "1 row uses a queue after it was freed: ROCm0" in [f.message for f in result.findings]
    assert found(checked([*start, copy(runs_on="src"), *free])) == set()


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


def test_an_event_is_pending_for_the_thread_that_frees_it() -> None:
    def rows(waits: int, frees: int) -> list[Event]:
        on = {"backend": 0, "thread": 1}
        return [
            {"ev": "meta", "threads": "ordered"}, *set_up(), {"ev": "compute", "graph": 0, **on},
            {"ev": "event_record", "event": 5, **on}, {**wait(), "thread": waits},
            {"ev": "event_free", "event": 5, "thread": frees},
        ]  # fmt: skip

    assert found(checked(rows(1, 1))) == set()
    assert found(checked(rows(0, 0))) == set()
    assert found(checked(rows(1, 0))) == {"event-order"}
    assert found(checked(rows(0, 1))) == {"event-order"}
    again = [{"ev": "event_wait", "backend": 2, "event": 5, "thread": 1},
             {"ev": "synchronize", "backend": 2, "thread": 1}]  # fmt: skip
    start = [{"ev": "meta", "threads": "ordered"}, *set_up(), *second_device()]
    record = {"ev": "event_record", "backend": 0, "event": 5, "thread": 1}
    assert found(checked([*start, record, *again, record])) == set()
    assert found(checked([*start, record, *again[:1], record])) == {"event-order"}


def test_an_event_used_after_it_was_freed() -> None:
    record, free = {"ev": "event_record", "backend": 0, "event": 5}, {"ev": "event_free", "event": 5}
    uses = [{"ev": "event_wait", "backend": 2, "event": 5}, {"ev": "event_synchronize", "event": 5}, free]
    start = [*set_up(), *second_device(), *compute(), record, wait(), free]
    for use in uses:
        result = checked([*start, use])
        assert found(result, severity="warning") == {"use-after-free"}
        finding = next(f for f in result.findings if f.id == "use-after-free")
        assert finding.message == "1 row uses an event after it was freed: event 5"
        assert not any("never recorded" in f.message for f in result.findings)
        assert found(checked([*start, record, wait(), use])) == set()
    assert findings([*start, *uses], "redundant-wait") == findings(start, "redundant-wait")


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
    assert all(rule.id.startswith("strata.") for rule in all_rules()[len(SCHEDULER_RULES) :])
    assert not any(j.id.startswith("strata.") for j in checked([*set_up(), *FIRST]).judgements)


def test_values_of_wrong_types_break_nothing() -> None:
    for key, row in [(k, r) for r in (*set_up(), *FIRST, wait(), *aliasing(1), copy()) for k in r if k != "ev"]:
        for wrong in ("x", [1, None, {"tensor": "y"}], {"tensor": []}):
            checked(
                [*set_up(), *FIRST, {**row, key: wrong}, *compute(), {"ev": "buffer_free", "buffer": HOST}, write()]
            )


@pytest.mark.parametrize("batch", [1, 3])
def test_batches_make_no_difference(batch: int) -> None:
    from hbtrace.checks.checked import check_source
    from tests.checks.traces import Rows

    for events in (
        third(),
        two(reuse()),
        [*set_up(), *aliasing(1)],
        [*set_up(), *second_device(), copy(runs_on="src")],
    ):
        whole, cut = checked(events), check_source(Rows(events, batch=batch))
        assert (whole.findings, whole.judgements, whole.coverage) == (cut.findings, cut.judgements, cut.coverage)
