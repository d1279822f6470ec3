"""What a ring must be told that no race tells: inputs that nobody sets again in a new slot."""

from __future__ import annotations

import json
from typing import Any

from hbtrace.report.whatif import document, fix_document, render, render_fix
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.fix import fix
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import Wait
from hbtrace.what_if.whatif import WhatIf, whatif

Event = dict[str, Any]
POS, SCALE = 0, 1
TOLD = "--ring 2: 2 reads of inp_scale would find an older value, or none"


def decode(*, again: list[Event]) -> list[Event]:
    """Three ubatches read both inputs; the host sets the positions of each and before the later ones does `again`."""
    events: list[Event] = [
        {"ev": "backend", "id": 0, "name": "G0"},
        {"ev": "buffer", "id": 0, "name": "H", "size": 96, "host": True},
        {"ev": "tensor", "id": POS, "name": "inp_pos", "buffer": 0, "size": 32, "flags": ["input"]},
        {"ev": "tensor", "id": SCALE, "name": "inp_scale", "buffer": 0, "offset": 32, "size": 32, "flags": ["input"]},
        {"ev": "tensor", "id": 2, "name": "kept", "buffer": 0, "offset": 64, "size": 32},
        {"ev": "tensor_set", "tensor": SCALE},
    ]
    for ubatch in range(3):
        events += [{"ev": "tensor_set", "tensor": POS, "ubatch": ubatch}, *(again if ubatch else [])]
        reads = [{"tensor": POS}, {"tensor": SCALE}]
        events.append({"ev": "kernel", "backend": 0, "label": "run", "reads": reads, "ubatch": ubatch})
    return events


def ringed(events: list[Event]) -> WhatIf:
    return whatif(lambda: [batch_from_rows(events)], [Ring(2)])


def test_an_input_that_is_set_once_is_told() -> None:
    found = ringed(decode(again=[]))
    assert (found.before.races, found.after.races) == (2, 0)
    (told,) = found.warnings
    assert told.startswith(TOLD)
    assert f"note:   {TOLD}" in render(found, "run.jsonl")
    assert json.loads(document(found, "run.jsonl"))["warnings"] == [told]


def test_inputs_that_are_set_for_each_slot_are_not() -> None:
    copied = {"ev": "tensor_copy", "src": {"tensor": 2}, "dst": {"tensor": SCALE}}
    for again in ({"ev": "tensor_set", "tensor": SCALE}, {"ev": "set_direct", "tensor": SCALE}, copied):
        found = ringed(decode(again=[again]))
        assert found.warnings == []
        assert "note:" not in render(found, "run.jsonl")


def test_without_a_ring_or_a_rotation_nothing_is_told() -> None:
    events = decode(again=[])
    assert whatif(lambda: [batch_from_rows(events)], [Wait("ubatch")]).warnings == []
    waited = [new for event in events for new in (event, {"ev": "synchronize", "backend": 0})]
    assert ringed(waited).warnings == []


def test_an_answer_of_fix_says_it_and_another_does_not() -> None:
    events = decode(again=[])
    found = fix(lambda: [batch_from_rows(events)])
    notes = {answer["mends"][0]["option"]: answer["notes"] for answer in json.loads(fix_document(found, ""))["answers"]}
    assert notes["--ring 2"][0].startswith(TOLD)
    assert [its for option, its in notes.items() if option != "--ring 2"] == [[]]
    assert render_fix(found, "run.jsonl").count("  note: ") == 1
