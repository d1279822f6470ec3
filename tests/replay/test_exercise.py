"""What a run did to its tensors, by name: read, written, and again after that."""

from __future__ import annotations

from hbtrace.replay.exercise import READ, REREAD, REWRITTEN, WRITTEN
from hbtrace.replay.session import Session
from hbtrace.trace.rows import batch_from_rows

DEFINED = [
    {"ev": "backend", "id": 0, "name": "GPU0"},
    {"ev": "buffer", "id": 0, "name": "B", "size": 64, "host": True},
    {"ev": "tensor", "id": 0, "name": "a", "buffer": 0, "size": 8},
]
SET, GET = {"ev": "set_direct", "tensor": 0}, {"ev": "get_direct", "tensor": 0}
READS = {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}
WRITES = {"ev": "kernel", "backend": 0, "writes": [{"tensor": 0}]}
COPY = {"ev": "tensor_copy", "src": {"tensor": 0}, "dst": {"buffer": 0, "offset": 32, "size": 8}}
ASYNC = {"ev": "set_async", "backend": 0, "tensor": 0}


def did(*events):
    session = Session([batch_from_rows([*DEFINED, *events])])
    session.run()
    return session.exercise


def test_again_is_after_the_other():
    both = READ | WRITTEN
    for events, bits in (
        ([SET, SET], WRITTEN),
        ([SET, READS], both),
        ([READS, SET], both | REWRITTEN),
        ([SET, COPY, SET], both | REWRITTEN | REREAD),
        ([READS, ASYNC], both | REWRITTEN),
        ([WRITES, GET], both | REREAD),
        ([GET, WRITES], both),
        ([SET, READS, SET, GET], both | REWRITTEN | REREAD),
    ):
        assert did(*events).roots["a"] == bits, events


def test_an_id_under_another_name_is_another_tensor():
    renamed = {**DEFINED[2], "name": "b"}
    found = did(SET, READS, SET, renamed, SET, SET).roots
    assert found == {"a": READ | WRITTEN | REWRITTEN, "b": WRITTEN}
    again = did(SET, READS, SET, renamed, SET, READS, SET).roots
    assert again["a"] == again["b"] == READ | WRITTEN | REWRITTEN
    slots = [{**DEFINED[2], "id": number, "name": f"GPU0#a#{number}"} for number in (0, 1)]
    assert did(*slots, SET, READS, {**SET, "tensor": 1}).roots == {"GPU0#a": READ | WRITTEN | REWRITTEN}


def test_all_queued_work_is_counted():
    graph = {"ev": "graph", "id": 0, "nodes": []}
    copy = {"ev": "copy_async", "backend": 0, "src": {"tensor": 0}, "dst": {"buffer": 0, "offset": 32, "size": 8}}
    work = [READS, ASYNC, {**ASYNC, "ev": "get_async"}, copy, {"ev": "compute", "backend": 0, "graph": 0}]
    assert did(graph, SET, COPY, *work).issued == len(work)


def test_labels_are_those_of_accesses():
    assert did(SET, {**READS, "label": "fill"}, COPY, {**COPY, "label": "move"}).labels == {
        "set_direct", "fill", "tensor_copy src", "tensor_copy dst", "move src", "move dst",
    }  # fmt: skip


def test_idle():
    assert did().idle
    assert did({"ev": "synchronize", "backend": 0}).idle
    for event in (SET, READS, COPY):
        assert not did(event).idle
