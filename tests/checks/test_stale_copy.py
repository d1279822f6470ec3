"""`stale-copy`: a compute that goes on with another slot of a scheduler's copy than the one that its round filled."""

from __future__ import annotations

from typing import Any

import pytest

from hbtrace.simulate.config import Config, parse_device
from hbtrace.simulate.ggml import simulate
from tests.checks.traces import Event, checked, findings, found, status
from tests.material import RECORDINGS, recording

INPUT, FIRST, SECOND, LOGITS, VIEW = range(5)
SLOTS = {FIRST: "CUDA0#inp_tokens#0", SECOND: "CUDA0#inp_tokens#1"}


def set_up() -> list[Event]:
    names = {INPUT: "inp_tokens", **SLOTS, LOGITS: "logits"}
    return [
        {"ev": "backend", "id": 0, "name": "CUDA0", "type": "gpu", "events": True},
        {"ev": "buffer", "id": 0, "name": "CUDA0", "size": 65536, "backend": 0},
        {"ev": "buffer", "id": 1, "name": "CUDA_Host", "size": 4096, "host": True},
        *({"ev": "tensor", "id": k, "name": name, "buffer": int(k == INPUT), "offset": 64 * k, "size": 64}
          for k, name in names.items()),
        *({"ev": "graph", "id": k, "uid": k, "nodes": [
            {"op": "GET_ROWS", "tensor": LOGITS, "reads": [{"tensor": k}], "writes": [{"tensor": LOGITS}]}]}
          for k in SLOTS),
        {"ev": "sched", "id": 0, "backends": [0], "cpu_buffer_type": "CUDA_Host", "copies": 2},
    ]  # fmt: skip


COPY: dict[str, Any] = {
    "tensor_copy": lambda slot: {"ev": "tensor_copy", "src": {"tensor": INPUT}, "dst": {"tensor": slot}},
    "copy_async": lambda slot: {"ev": "copy_async", "backend": 0, "src": {"tensor": INPUT}, "dst": {"tensor": slot}},
    "set_async": lambda slot: {"ev": "set_async", "backend": 0, "tensor": slot, "host_range": {"tensor": INPUT}},
    "tensor_set": lambda slot: {"ev": "tensor_set", "tensor": slot},
}


def one_round(
    filled: int, read: int, how: str = "tensor_copy", work: Event | None = None, mark: str = ""
) -> list[Event]:
    """The input written, copied into a slot, and computed on in one."""
    return [
        {"ev": "tensor_set", "tensor": INPUT},
        {"ev": mark or "sched_compute", "sched": 0},
        COPY[how](filled),
        work or {"ev": "compute", "backend": 0, "graph": read, "split": 0},
        *([] if mark else [{"ev": "sched_compute_end", "sched": 0}]),
        {"ev": "synchronize", "backend": 0},
        {"ev": "tensor_get", "tensor": LOGITS},
    ]


@pytest.mark.parametrize("how", COPY)
@pytest.mark.parametrize("mark", ["", "ubatch"])
def test_a_compute_on_the_slot_of_another_round(how: str, mark: str) -> None:
    rows = [*set_up(), *(row for k in (FIRST, SECOND) * 2 for row in one_round(k, FIRST, how, mark=mark))]
    result = checked(rows)
    assert (found(result), result.races) == ({"stale-copy"}, 0)
    (finding,) = findings(rows, "stale-copy")
    filled = [n for n, row in enumerate(rows) if row == COPY[how](SECOND)]
    assert (finding.count, finding.severity) == (2, "error")
    assert finding.rows == sorted([*filled, *(n + 1 for n in filled)])
    assert "CUDA0#inp_tokens#0 (CUDA0#inp_tokens#1 was filled) 2" in finding.message
    right = [*set_up(), *(row for k in (FIRST, SECOND) * 2 for row in one_round(k, k, how, mark=mark))]
    assert status(checked(right), "stale-copy") == "holds: 4 reads of copies, each in the slot that its round filled"


def test_a_kernel_and_a_view_read_a_slot_too() -> None:
    view = {"ev": "tensor", "id": VIEW, "name": "leaf (view)", "buffer": 0, "offset": 64, "size": 16, "view_of": FIRST}
    work = {"ev": "kernel", "backend": 0, "reads": [{"tensor": VIEW}], "writes": [{"tensor": LOGITS}]}
    rows = [*set_up(), view, *one_round(FIRST, FIRST), *one_round(SECOND, FIRST, work=work)]
    assert found(checked(rows)) == {"stale-copy"}
    assert found(checked([*set_up(), view, *one_round(FIRST, FIRST), *one_round(FIRST, FIRST, work=work)])) == set()


def test_what_is_no_stale_copy() -> None:
    """A slot that several splits read; one that a round has no new values for; both slots filled; another backend's."""
    twice = one_round(FIRST, FIRST)
    twice[4:4] = [twice[3]]
    kept = [row for row in one_round(FIRST, FIRST) if row["ev"] != "tensor_copy"]
    both = one_round(FIRST, SECOND)
    both[2:2] = [COPY["tensor_copy"](SECOND)]
    other = {"ev": "tensor", "id": SECOND, "name": "CUDA1#inp_tokens#1", "buffer": 0, "offset": 128, "size": 64}
    for rows in (twice, [*one_round(FIRST, FIRST), *kept], both, [other, *one_round(SECOND, FIRST)]):
        assert found(checked([*set_up(), *rows])) == set()


def test_a_slot_that_gets_its_name_late() -> None:
    """What is a slot is told by the name in force, also of a graph that was looked at before."""
    plain = [{**row, "name": "x"} if row.get("id") == FIRST and row["ev"] == "tensor" else row for row in set_up()]
    named = next(row for row in set_up() if row.get("id") == FIRST and row["ev"] == "tensor")
    rows = [*plain, *one_round(SECOND, FIRST), named, *one_round(SECOND, FIRST)]
    assert [finding.count for finding in findings(rows, "stale-copy")] == [1]


def test_without_rounds_it_is_not_checkable() -> None:
    rows = [row for row in [*set_up(), *one_round(SECOND, FIRST)] if not row["ev"].startswith("sched_compute")]
    assert status(checked(rows), "stale-copy").startswith("not checkable: needs `sched_compute` or `ubatch`")


def test_the_fault_is_wrong_under_every_schedule() -> None:
    devices = (parse_device("CUDA0"), parse_device("CUDA1"))
    wrong, right = (simulate(Config(devices=devices, fault=fault)) for fault in ("stale-copy-slot", None))
    assert wrong.in_order != right.in_order
    assert (wrong.differing(20), right.differing(20)) == (0, 0)
    assert (found(checked(wrong.rows)), found(checked(right.rows))) == ({"stale-copy"}, set())


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_false_alarm_in_recordings(name: str) -> None:
    from hbtrace.checks.checked import check

    assert "stale-copy" not in found(check(str(recording(name))))
