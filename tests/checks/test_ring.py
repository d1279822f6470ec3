"""`ring-rotation`, `prepare-missing` and `prepare-twice` on small traces that break them, and on twins that do not."""

from __future__ import annotations

from tests.checks.traces import (
    FIRST,
    HOST,
    INPUT,
    OUTPUT,
    STAMPED,
    Event,
    alloc,
    checked,
    compute,
    findings,
    found,
    point,
    prepare,
    reuse,
    set_up,
    status,
    third,
    two,
    ubatch,
    wait,
    write,
)


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
