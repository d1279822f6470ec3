"""The witness of two writes: who reads the wrong one, or that nobody does."""

from __future__ import annotations

from typing import Any

from hbtrace.explain.witness import Witness, witness
from hbtrace.replay.recording import record
from hbtrace.trace.rows import batch_from_rows

Event = dict[str, Any]

TWO_WRITES: list[Event] = [
    {"ev": "backend", "id": 0, "name": "G0"},
    {"ev": "buffer", "id": 0, "name": "H", "size": 64, "host": True},
    {"ev": "tensor", "id": 0, "name": "a", "buffer": 0},
    {"ev": "kernel", "backend": 0, "label": "k", "writes": [{"tensor": 0}]},
    {"ev": "tensor_set", "tensor": 0},
]
WAIT: Event = {"ev": "synchronize", "backend": 0}
AGAIN: Event = {"ev": "tensor_set", "tensor": 0}
READ: Event = {"ev": "tensor_get", "tensor": 0}


def shown(*then: Event) -> Witness:
    recording = record([batch_from_rows([*TWO_WRITES, *then])])
    (report,) = recording.reports
    assert report.kind == "write-after-write"
    return witness(recording, report)


def marks(found: Witness) -> list[tuple[str, int, str]]:
    return [(lane.mark, lane.row, lane.actor) for lane in found.lanes]


def test_the_first_read_that_sees_the_other_write_is_shown() -> None:
    found = shown(WAIT, READ, READ, AGAIN)
    assert found.reader == (6, 0)
    assert (found.recorded, found.seen) == ([(4, 0)], [(3, 0)])
    assert marks(found) == [("current", 4, "HOST"), ("earlier", 3, "G0"), ("reader", 6, "HOST")]


def test_a_read_by_a_queue_is_on_that_queues_lane() -> None:
    kernel = {"ev": "kernel", "backend": 0, "label": "use", "reads": [{"tensor": 0}]}
    assert marks(shown(kernel, WAIT, AGAIN))[-1] == ("reader", 5, "G0")


def test_what_nobody_reads_is_told_by_memory() -> None:
    left = shown()
    assert (left.reader, left.recorded, left.seen) == (None, [(4, 0)], [(3, 0)])
    gone = shown(WAIT, AGAIN, READ)
    assert (gone.reader, gone.differs) == (None, False)
    assert [mark for mark, _, _ in marks(gone)] == ["current", "earlier"]
