"""`hazard` and `cpu-split-in-place` on small traces that break them, and on twins that do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.traces import (
    FIRST,
    HOST,
    OUTPUT,
    Event,
    alloc,
    checked,
    compute,
    findings,
    found,
    set_up,
    status,
    wait,
    write,
)


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


def cpu_split(*between: Event) -> list[Event]:
    """A CPU split computes `embd`, the device reads it in place, then the CPU split once more."""
    embd = {"ev": "tensor", "id": 9, "name": "embd", "buffer": HOST, "offset": 512, "size": 64}
    makes = {"ev": "graph", "id": 1, "nodes": [{"op": "GET_ROWS", "tensor": 9, "writes": [{"tensor": 9}]}]}
    reads = {"ev": "graph", "id": 2, "nodes": [{"op": "NORM", "tensor": OUTPUT, "reads": [{"tensor": 9}]}]}
    cpu = {"ev": "compute", "backend": 1, "graph": 1, "split": 0}
    device = {"ev": "compute", "backend": 0, "graph": 2, "split": 1}
    return [*set_up(), embd, makes, reads, cpu, device, *between, cpu]


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
