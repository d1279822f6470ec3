"""Values of the wrong type count as absent for whoever rewrites a trace, and stay in what is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import hbtrace
from hbtrace.explain.minimize import minimize
from hbtrace.explain.row_words import rows_in_words
from hbtrace.replay.recording import record
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows, rows_from_batch
from hbtrace.what_if.fix import fix
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.place import Place
from hbtrace.what_if.rewriting import Rule, batches_of
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import CopyOn, Synchronous, Wait
from hbtrace.what_if.state import State
from hbtrace.what_if.whatif import rewrite, whatif

Event = dict[str, Any]

DEFINED: list[Event] = [
    {"ev": "backend", "id": 0, "name": "G", "type": "gpu"},
    {"ev": "backend", "id": 1, "name": "H", "type": "gpu"},
    {"ev": "buffer", "id": 0, "name": "G_Host", "size": 16, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp", "buffer": 0, "flags": ["input"]},
    {"ev": "graph", "id": 0, "nodes": [{"op": "ADD", "tensor": 0, "reads": [{"tensor": 0}]}]},
]
RACE: list[Event] = [{"ev": "compute", "backend": 0, "graph": 0}, {"ev": "tensor_set", "tensor": 0}]
UNFIT: list[Event] = [
    {"ev": "backend", "id": [], "name": "X"},
    {"ev": "buffer", "id": {}, "name": "B", "size": "x"},
    {"ev": "tensor", "id": None, "name": "t", "flags": ["input"]},
    {"ev": "kernel", "backend": "x", "label": "k", "reads": []},
    {"ev": "kernel", "backend": 0, "writes": [{"tensor": []}, {"buffer": {}, "offset": "y"}, 7, None]},
    {"ev": "compute", "backend": 0, "graph": {}},
    {"ev": "graph", "id": 7, "nodes": [{"op": 1, "tensor": [], "reads": "x"}, 3], "uid": "u"},
    {"ev": "compute", "backend": 0, "graph": 7},
    {"ev": "event_record", "backend": 0, "event": []},
    {"ev": "copy_async", "backend": 0, "src_backend": [], "src": {"tensor": {}}, "dst": []},
]  # fmt: skip
EVENTS = [*DEFINED, *UNFIT, *RACE]
NOTHING: list[Event] = [{"ev": "note", "what": "nothing"}] * len(UNFIT)
WAITS = [(at, how) for at in ("ubatch", "before:inp", "row:16") for how in ("synchronize", "event")]
RULES: list[Callable[[], Rule]] = [
    lambda: Ring(2), Pin, lambda: CopyOn("dst"), lambda: Synchronous("G"), lambda: Place("ADD", "H"),
    *(partial(Wait, *wait) for wait in WAITS),
]  # fmt: skip


def read(events: list[Event]) -> Callable[[], list[Any]]:
    return lambda: [batch_from_rows(events)]


def written(events: list[Event], *rules: Rule) -> list[Event]:
    return [row for batch in batches_of(rewrite(read(events), rules)) for row in rows_from_batch(batch)]


@pytest.mark.parametrize("make", RULES, ids=lambda make: str(make()))
def test_rules_see_what_the_replay_sees(make: Callable[[], Rule]) -> None:
    """Rewritten and patched alike, and as if the values were not there."""
    after = record(batches_of(rewrite(read(EVENTS), [make()])), Settings()).reports
    patched = whatif(read(EVENTS), [make()]).after.recording.reports
    clean = whatif(read([*DEFINED, *NOTHING, *RACE]), [make()]).after.recording.reports
    assert len(after) == len(patched) == len(clean)
    assert sorted(r.canonical for r in after) == sorted(r.canonical for r in patched)


def test_what_is_written_keeps_values_of_the_wrong_type() -> None:
    assert written(EVENTS) == rows_from_batch(batch_from_rows(EVENTS))
    waited = written(EVENTS, Wait("row:16"))
    assert [row for row in waited if row["ev"] != "synchronize"] == rows_from_batch(batch_from_rows(EVENTS))
    assert {"ev": "synchronize", "backend": 0} in waited


def test_what_a_rule_changed_is_written_as_the_rule_has_it() -> None:
    backend = {"ev": "backend", "id": 0, "name": "G", "synchronous": "no", "async": [], "device": 5}
    assert written([backend], Synchronous("G")) == [
        {"ev": "backend", "id": 0, "name": "G", "async": False, "synchronous": True, "device": 5}
    ]


def test_a_definition_that_the_replay_skips_defines_nothing() -> None:
    state = State()
    for event in ({"ev": "backend", "name": "G"}, {"ev": "buffer", "id": 1, "name": "B"}, {"ev": "tensor", "id": 2}):
        state.take(event)
    assert [state.backends, state.buffers, state.tensors] == [{}, {}, {}]
    state.take({"ev": "buffer", "id": 1, "name": "B", "size": 1})
    assert list(state.buffers) == [1]


def test_a_ring_notes_no_work_of_no_queue() -> None:
    lost: Event = {"ev": "compute", "backend": "x", "graph": 0}
    rows = written([*DEFINED, lost, *RACE], Ring(2))
    assert [row["backend"] for row in rows if row["ev"] == "event_record"] == [0]


def test_a_mend_is_found() -> None:
    found = fix(read(EVENTS))
    assert found.before.races
    assert found.answers
    assert not found.answers[0].result.after.races


def test_the_rows_are_told_in_words() -> None:
    words = rows_in_words(read(EVENTS)(), set(range(len(EVENTS))))
    assert words[len(EVENTS) - 1] == "tensor_set inp"
    assert words[len(DEFINED) + 5] == "compute"


def test_a_race_is_cut_out_without_them() -> None:
    (report,) = hbtrace.analyze_events(EVENTS).reports
    small = minimize(read(EVENTS)(), report)
    (again,) = hbtrace.analyze_events(small, strict=True).reports
    assert again.signature == report.signature
    assert not any(event in UNFIT for event in small)
