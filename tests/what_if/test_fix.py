"""What `--fix` tries, and what it says of answers that are called minimal."""

from __future__ import annotations

import json
from typing import Any

from hbtrace.replay.settings import Settings
from hbtrace.report.whatif import fix_document, render_fix
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.fix import Fix, fix, mends_for
from hbtrace.what_if.whatif import side_of

Event = dict[str, Any]

TWO_QUEUES: list[Event] = [
    *({"ev": "backend", "id": n, "name": f"G{n}"} for n in (0, 1)),
    {"ev": "buffer", "id": 0, "name": "H", "size": 128, "host": True},
    *({"ev": "tensor", "id": n, "name": "ab"[n], "buffer": 0, "offset": 64 * n, "size": 64} for n in (0, 1)),
]
WORK: list[Event] = [
    {"ev": "kernel", "backend": n, "label": "km"[n], "reads": [{"tensor": n}]} for n in (0, 1)
]  # fmt: skip
SETS: list[Event] = [{"ev": "tensor_set", "tensor": n} for n in (0, 1)]


def fixed(events: list[Event]) -> Fix:
    return fix(lambda: [batch_from_rows(events)])


def options(events: list[Event]) -> set[str]:
    return {mend.option for mend in mends_for(side_of([batch_from_rows(events)], Settings()))}


def test_one_wait_between_all_sides_is_found() -> None:
    """Two causes, and one synchronize before the first write mends both."""
    found = fixed([*TWO_QUEUES, *WORK, *SETS])
    assert len(found.before.causes) == 2
    assert [len(answer.mends) for answer in found.answers] == [1]
    assert found.answers[0].result.after.races == 0


def test_a_wait_at_a_row_is_tried_where_one_or_two_rows_are_enough() -> None:
    assert "--sync row:7" in options([*TWO_QUEUES, *WORK, *SETS])
    twice = [WORK[0], SETS[0], {"ev": "synchronize", "backend": 0}]
    assert {"--sync row:6", "--sync row:9"} <= options([*TWO_QUEUES, *twice, *twice])
    assert not any("row:" in option for option in options([*TWO_QUEUES, *twice, *twice, *twice]))


def test_the_waits_of_the_advice_are_tried_and_not_where_somebody_reads() -> None:
    assert any(option.endswith(" before:a") for option in options([*TWO_QUEUES, *WORK, *SETS]))
    writer = {"ev": "kernel", "backend": 0, "label": "k", "writes": [{"tensor": 0}]}
    assert not any("before:" in option for option in options([*TWO_QUEUES, writer, {"ev": "tensor_get", "tensor": 0}]))


def test_minimal_is_said_of_the_mends_that_were_tried() -> None:
    """Each queue's work races with the other's next write: no wait at a point is between all sides."""
    events = [*TWO_QUEUES]
    for _ in range(3):
        events += [
            {"ev": "kernel", "backend": 0, "label": "k", "reads": [{"tensor": 0}]}, {"ev": "tensor_set", "tensor": 0},
            {"ev": "synchronize", "backend": 0},
            {"ev": "kernel", "backend": 1, "label": "m", "writes": [{"tensor": 1}]}, {"ev": "tensor_get", "tensor": 1},
            {"ev": "synchronize", "backend": 1},
        ]  # fmt: skip
    found = fixed(events)
    answer = found.answers[0]
    assert (len(answer.mends), answer.minimal) == (2, True)
    text = render_fix(found, "run.jsonl")
    assert f"2 fixes, clean by replay; no smaller set of the {len(found.mends)} fixes tried does" in text
    told = json.loads(fix_document(found, "run.jsonl"))
    assert [mend["option"] for mend in told["candidates"]] == [mend.option for mend in found.mends]


def kernel(queue: int, label: str, **ranges: list[Event]) -> Event:
    return {"ev": "kernel", "backend": queue, "label": label, **ranges}


def overwritten(times: int) -> list[Event]:
    """Three causes of one race each, then writes that are ordered while the other queue is busy with other bytes."""
    both = [{"ev": "synchronize", "backend": n} for n in (0, 1)]
    events: list[Event] = [*TWO_QUEUES]
    for label in "xyz":
        events += [kernel(1, "k", reads=[{"tensor": 0}]), kernel(0, label, writes=[{"tensor": 0}]), *both]
    for _ in range(times):
        events += [kernel(1, "far", reads=[{"tensor": 1}]), kernel(0, "x", writes=[{"tensor": 0}])]
    return events


def test_the_exact_edges_are_shown_last_beside_one_blunt_wait() -> None:
    """A wait before each write is the smallest set, and waits where there is no race."""
    found = fixed(overwritten(5))
    assert len(found.before.causes) == 3
    assert [len(answer.mends) for answer in found.answers] == [1, 3]
    blunt, edges = found.answers
    assert blunt.minimal
    assert not edges.minimal
    assert all(mend.bare for mend in edges.mends)
    assert not edges.result.after.causes
    assert blunt.price.queue_waits > edges.price.queue_waits == 3


def test_the_exact_edges_are_left_out_where_an_answer_is_as_cheap() -> None:
    found = fixed(overwritten(0))
    assert [len(answer.mends) for answer in found.answers] == [1]
