"""What is counted, and that it does not depend on where batches are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from hbtrace.info import memory as memory_module
from hbtrace.info.records import Runs
from hbtrace.report.info import document, duration, render, size, spans
from tests.info.memory import info_in

RUN: list[dict[str, Any]] = [
    {"ev": "meta", "engine": "llama.cpp", "command": ["llama-cli", "-p", "a b"], "env": {"GGML_X": "1"}},
    {"ev": "backend", "id": 0, "name": "G0", "accepts": ["G_Host"], "drains": ["set", "flush"]},
    {"ev": "sched", "id": 0, "backends": [0, 9], "cpu_buffer_type": "G_Host", "ring": 2},
    {"ev": "buffer", "id": 0, "name": "G_Host", "size": 100, "host": True},
    {"ev": "buffer", "id": 1, "name": "G0", "size": 0, "usage": "compute"},
    {"ev": "tensor", "id": 0, "name": "a", "buffer": 0, "offset": 20},
    {"ev": "graph", "id": 0, "nodes": [{"reads": [{"tensor": 0}, {"tensor": 0, "size": 4, "rows": 3, "stride": 8}]}]},
    {"ev": "ubatch", "n": 0, "tokens": 32, "phase": "prefill"},
    {"ev": "compute", "backend": 0, "graph": 0, "ubatch": 0, "time": 5000},
    {"ev": "buffer", "id": 0, "name": "G_Host", "size": 60, "host": True},
    {"ev": "compute", "backend": 0, "graph": 0, "ubatch": 1, "time": 2000, "thread": 3},
    {"ev": "kernel", "backend": 0, "writes": [{"buffer": 0, "offset": 0, "size": 7}]},
    {"ev": "buffer_free", "buffer": 0},
    {"ev": "compute", "backend": 0, "graph": 0, "ubatch": 4},
    {"ev": "buffer", "id": 0, "name": "G_Host", "size": 1000, "host": True, "usage": "nonsense"},
    {"ev": "ubatch", "n": 1, "tokens": 8, "phase": "prefill"},
    {"ev": "ubatch", "n": 2},
    {"ev": "set_direct", "tensor": 0, "inferred": True},
    {"ev": "set_direct", "tensor": 0},
    {"ev": "backend", "id": 0, "name": "G0", "synchronous": True},
    {"ev": "compute", "backend": 0, "graph": 0},
    {"ev": "sched_prepare", "sched": 0, "rotated": True},
    {"ev": "compute", "backend": 0},
    {"ev": "strange"},
    {"ev": "meta"},
]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 7, 1000])
def test_counts(batch_rows: int) -> None:
    found = info_in(*RUN, batch_rows=batch_rows)
    contents = found.contents
    assert found.rows == len(RUN)
    host = contents.memory.groups["G_Host", "any", True]
    assert (host.lives, host.empty_lives, host.peak_bytes, host.total_bytes) == (2, 0, 1000, 1100)
    device = contents.memory.groups["G0", "compute", False]
    assert (device.lives, device.empty_lives, device.peak_bytes, device.total_bytes) == (1, 1, 0, 0)
    every = contents.memory.all
    assert (every.lives, every.empty_lives, every.peak_bytes, every.total_bytes) == (3, 1, 1000, 1100)
    assert [queue.name for queue in contents.queues] == ["G0", "G0#1", "?9"]
    first, second, _ = contents.queues
    touch = first.touched["G_Host"]
    # 80 and 12 bytes, then 40 and 12 in the smaller buffer; nothing after it was freed
    assert (touch.works, touch.bytes_read, touch.bytes_written) == (3, 144, 7)
    assert first.work["compute"] == 3
    assert (second.name, second.work["compute"], second.touched) == ("G0#1", 1, {})
    assert {p.phase: (p.ubatches, p.tokens, p.numbers.pairs) for p in contents.phases.values()} == {
        "prefill": (2, 40, [(0, 1)]),
        None: (1, 0, [(2, 2)]),
    }
    assert contents.ubatches.pairs == [(0, 1), (4, 4)]
    assert contents.threads.pairs == [(0, 0), (3, 3)]
    assert contents.times == (2000, 5000)
    assert (contents.flagged["set_direct"], contents.events["set_direct"]) == (1, 2)
    assert contents.flagged["sched_prepare"] == 1
    assert contents.events["compute"] == 5
    skipped, values, meta = found.warnings
    assert skipped == (
        "2 rows skipped: the event is unknown or lacks a key it cannot do without"
        " (first in row 22: `compute` lacks `graph`)"
    )
    assert values.startswith(
        "2 rows with a value of the wrong type or of no known meaning: its default counts instead"
        " (first in row 1: `drains` of `backend` knows no "
    )
    assert meta == "1 row with a `meta` that is not the first event: it counts for nothing (first in row 24: `meta`)"


def test_output_is_the_same_however_batches_are_cut() -> None:
    texts = {render(info_in(*RUN, batch_rows=rows)) for rows in (1, 4, 1000)}
    documents = {document(info_in(*RUN, batch_rows=rows)) for rows in (1, 4, 1000)}
    assert len(texts) == len(documents) == 1


def test_order_does_not_depend_on_the_cuts_either() -> None:
    events = [
        {"ev": "ubatch", "phase": "decode"},
        {"ev": "ubatch", "phase": "prefill"},
        {"ev": "synchronize", "backend": 5},
        {"ev": "kernel", "backend": 4},
    ]
    assert render(info_in(*events, batch_rows=1)) == render(info_in(*events))
    assert [queue.name for queue in info_in(*events, batch_rows=1).contents.queues] == ["?4", "?5"]


def test_graphs_beyond_the_budget_are_forgotten_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "GRAPH_BUDGET", 1)
    other = {"ev": "graph", "id": 1, "nodes": [{"reads": [{"tensor": 0}, {"tensor": 1}]}]}
    found = info_in(*RUN[:9], other, *RUN[9:])
    assert found.contents.memory.partial
    assert found.contents.queues[0].touched["G_Host"].bytes_read == 92
    assert "counts at least this much" in render(found)


def test_a_buffer_that_changes_its_type_counts_under_both() -> None:
    found = info_in(
        {"ev": "buffer", "id": 0, "name": "A", "size": 10}, {"ev": "buffer", "id": 0, "name": "B", "size": 20}
    ).contents.memory
    assert [(g.type, g.lives, g.live_bytes, g.total_bytes) for g in found.groups.values()] == [
        ("A", 1, 0, 10),
        ("B", 1, 20, 20),
    ]


def test_definitions_only_and_events_only() -> None:
    text = render(info_in(*RUN[1:7]))
    assert "time         not recorded" in text
    assert "threads      no access or edge by a host thread" in text
    text = render(info_in({"ev": "tensor_set", "tensor": 4}))
    assert "hazard       not known: no backend in the trace" in text
    assert text.endswith("event       rows\ntensor_set     1\n")


def test_text() -> None:
    assert render(info_in(*RUN[:9])) == (
        """\
trace        memory
format       events, 9 rows
engine       llama.cpp
command      llama-cli -p 'a b'
time         0 ns (from 5,000 to 5,000 ns)
threads      1 host thread, one actor
env          GGML_X=1

hazard       can arise on G0; input ring engaged, depth 2

device G0
  queues     G0
  hazard     can arise: asynchronous (the default: the trace does not say) and
             computes in place on G_Host, which the CPU slot was handed
  decided by what the trace declares (accepts)
  attributes asynchronous by default; not said: synchronous, events, integrated,
             host buffer
  accepts    G_Host
  drains     set
  work       1 compute
  in place   1 time on host buffers G_Host, 92 B read and 0 B written

device ?9
  queues     ?9
  hazard     no: it is the CPU slot itself
  attributes never defined
  accepts    not said
  work       none

scheduler  queues (CPU slot last)  CPU slot got  copies  input ring
0          G0, ?9                  G_Host        -       engaged, depth 2

buffer type  usage    memory  buffers  empty   peak  in total
G_Host       any      host          1      0  100 B     100 B
G0           compute  -             1      1    0 B       0 B
all                                 2      1  100 B     100 B

phase    ubatches  tokens  numbers
prefill         1      32  0
ubatch numbers on events: 0

event    rows
meta        1
backend     1
buffer      2
tensor      1
graph       1
sched       1
compute     1
ubatch      1
"""
    )


def test_json() -> None:
    found = orjson.loads(document(info_in(*RUN)))
    assert list(found) == [
        "format", "trace", "meta", "hazard", "devices", "queues", "in_place_partial", "schedulers", "rotations",
        "buffers", "events", "skipped_rows", "direct", "ubatches", "threads", "time", "warnings",
    ]  # fmt: skip
    assert found["meta"]["env"] == {"GGML_X": "1"}
    assert found["meta"]["threads"] == "one"
    assert found["hazard"] == {"verdict": "can arise", "queues": ["G0"]}
    assert found["queues"][0]["hazard"]["buffer_types"] == ["G_Host"]
    assert found["queues"][0]["async"] is None
    assert found["queues"][0]["schedulers"] == [0]
    assert found["direct"] == {"set": 2, "set_inferred": 1, "get": 0, "get_inferred": 0}
    assert found["time"] == {"first_ns": 2000, "last_ns": 5000, "duration_ns": 3000}
    assert found["ubatches"]["numbers_on_events"] == [[0, 1], [4, 4]]


def test_units() -> None:
    assert [size(n) for n in (0, 1023, 1024, 150 * 1024, 3 << 30)] == ["0 B", "1023 B", "1.0 KiB", "150 KiB", "3.0 GiB"]
    assert [duration(n) for n in (1, 38_657_720, 61_000_000_000, 3_661_000_000_000)] == [
        "1 ns",
        "38.7 ms",
        "1 min 1 s",
        "1 h 1 min 1 s",
    ]
    runs = Runs()
    for numbers in ([0, 1, 2, 3], [9], [4]):
        runs.add(np.array(numbers))
    assert spans(runs.pairs) == "0-4, 9"
    assert spans([(n, n) for n in range(0, 40, 2)], 3) == "0, 2, 4 and 17 more"
