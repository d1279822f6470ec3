"""The recorded samples: what the recorder wrote of each of its test devices, and why each has the reports that it has.

`tests.record.samples` makes them; nothing here needs the recorder, a compiler or a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

import hbtrace
from tests.samples.listing import SAMPLES, distinct, listed

# The prompt has 104 tokens, in ubatches of 32, 32, 32 and 8: three boundaries. Two decodes follow, each of which waits
# for its logits.
INPUTS = ("inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask")
Where = tuple[str, int]


def _at(names: Iterable[str], ubatches: Iterable[int]) -> set[Where]:
    return set(product(names, ubatches))


EXPECTED: dict[str, set[Where]] = {
    # The device reads five inputs in place, and the host writes the next ubatch's over them.
    "integrated": _at(INPUTS, (1, 2, 3)),
    "one_ubatch": set(),
    "discrete": set(),
    "synchronous": set(),
    # The CPU looks the tokens up, the device reads the other four. At the boundary to the ubatch of 8 tokens the splits
    # change, and the scheduler waits for all queues before it allocates.
    "partial_offload": _at(INPUTS[1:], (1, 2)),
    # The device takes weights in its host memory, so it is given some nodes all the same. They read the mask only.
    "no_offload": _at(("attn_inp_kq_mask",), (1, 2)),
    # 7 ubatches and 4 slots: from the fifth on, the copy into a slot meets the graph that read what was in it.
    "copy_unordered": {(f"TEST1#l_out-1#{slot}", 4 + slot) for slot in range(3)},
    "copy_ordered": set(),
}


def _analyzed(name: str) -> hbtrace.Outcome:
    return hbtrace.analyze(str(SAMPLES / f"recorded_{name}.arrow"), strict=True, consequence=False)


def _rows(name: str) -> list[dict[str, Any]]:
    with hbtrace.open(SAMPLES / f"recorded_{name}.arrow") as trace:
        return list(trace)


def test_all_are_here_and_small() -> None:
    paths = list(SAMPLES.glob("recorded_*"))
    assert {path.name for path in paths} == {f"recorded_{name}.arrow" for name in EXPECTED}
    assert all(path.stat().st_size < 100_000 for path in paths)
    assert sum(path.stat().st_size for path in paths) < 600_000


@pytest.mark.parametrize("name", EXPECTED)
def test_reports(name: str) -> None:
    outcome = _analyzed(name)
    where = Counter((report.current.root, report.current.ubatch) for report in outcome)
    assert where == Counter(EXPECTED[name])
    assert {report.kind for report in outcome} <= {"write-after-read"}
    assert outcome.warnings == []


def test_the_copies_are_reports_of_the_destinations_reads() -> None:
    outcome = _analyzed("copy_unordered")
    assert {(report.earlier.label, report.current.label) for report in outcome} == {("compute", "copy_async dst")}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_readme_says_the_same(name: str) -> None:
    assert listed(f"recorded_{name}") == (len(EXPECTED[name]), distinct(root for root, _ in EXPECTED[name]))


@pytest.mark.parametrize("name", EXPECTED)
def test_the_first_row_says_what_ran_and_not_where(name: str) -> None:
    meta = _rows(name)[0]
    assert (meta["producer"], meta["engine"], meta["command"]) == ("hbtrace record", "llama.cpp", ["driver"])
    assert meta["notes"].startswith("llama.cpp v0.5.0 with a model of random weights on the device of hbtrace's tests")
    assert "/" not in str(meta)


def test_ordered_and_unordered_copies_differ_in_what_is_known_of_them_only() -> None:
    rules = {
        name: {(row["runs_on"], row["after_dst"]) for row in _rows(name) if row["ev"] == "copy_async"}
        for name in ("copy_unordered", "copy_ordered")
    }
    assert rules == {"copy_unordered": {("src", False)}, "copy_ordered": {("src", True)}}


def test_what_the_devices_declare() -> None:
    declared = {}
    for name in ("integrated", "discrete", "synchronous"):
        device, cpu = (
            next(row for row in _rows(name) if row["ev"] == "backend" and row["name"] == queue)
            for queue in ("TEST0", "CPU")
        )
        declared[name] = (device["synchronous"], "TEST_Host" in device["accepts"])
        assert cpu["synchronous"]
    assert declared == {"integrated": (False, True), "discrete": (False, False), "synchronous": (True, True)}
