"""Root causes told apart, by hand: reuse and rotation over the same bytes, primary and consequent, windows."""

from __future__ import annotations

from typing import Any

from hbtrace.explain.causes import Cause, causes_of
from hbtrace.explain.fix import fix
from hbtrace.explain.mending import advice
from hbtrace.explain.pin import Pin
from hbtrace.explain.recording import record
from hbtrace.explain.ring import Ring
from hbtrace.explain.whatif import whatif
from hbtrace.trace.rows import batch_from_rows

Event = dict[str, Any]

BASE: list[Event] = [
    {"ev": "backend", "id": 0, "name": "iGPU0", "type": "igpu"},
    {"ev": "backend", "id": 1, "name": "CPU", "type": "cpu", "synchronous": True},
    {"ev": "buffer", "id": 0, "name": "Host", "size": 256, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "size": 32, "flags": ["input"]},
    {"ev": "tensor", "id": 1, "name": "ffn_out-3", "buffer": 0, "offset": 64, "size": 32},
    {"ev": "tensor", "id": 2, "name": "attn_out-4", "buffer": 0, "offset": 64, "size": 48},
]


def kernel(backend: int, reads: list[int], writes: list[int], **keys: Any) -> Event:
    ranges = [[{"tensor": tensor} for tensor in tensors] for tensors in (reads, writes)]
    return {"ev": "kernel", "backend": backend, "reads": ranges[0], "writes": ranges[1], **keys}


def rotation(ubatch: int) -> list[Event]:
    return [{"ev": "tensor_set", "tensor": 0, "ubatch": ubatch}, kernel(0, [0], [], ubatch=ubatch)]


REUSE = [kernel(0, [1], [], ubatch=0), kernel(1, [], [2], ubatch=0)]


def causes(*events: Event) -> list[Cause]:
    return causes_of(record([batch_from_rows([*BASE, *events])]))


def test_reuse_is_told_apart_from_rotation_and_no_ring_removes_it() -> None:
    events = [*BASE, *rotation(0), *REUSE, *rotation(1), *rotation(2)]

    def batches() -> Any:
        return [batch_from_rows(events)]

    found = causes_of(record(batches()))
    assert sorted(cause.nature for cause in found) == ["input", "reuse"]
    reuse = next(cause for cause in found if cause.nature == "reuse")
    assert reuse.tensors == ["ffn_out-3", "attn_out-4"]
    assert advice(reuse).rules == ("--pin",)
    for depth in (2, 3, 4):
        after = whatif(batches, [Ring(depth)]).after
        assert [cause.nature for cause in after.causes] == ["reuse"]
    pinned = whatif(batches, [Pin()])
    assert [cause.nature for cause in pinned.after.causes] == ["input"]
    assert pinned.price.bytes == 48
    answers = fix(batches).answers
    assert answers
    assert ["--ring 2", "--pin"] in [[mend.option for mend in answer.mends] for answer in answers]


def test_the_same_tensor_made_anew_is_not_reuse() -> None:
    (cause,) = causes(
        kernel(0, [0], []), {"ev": "tensor", "id": 9, "name": "inp_tokens", "buffer": 0, "size": 8, "flags": ["input"]},
        {"ev": "tensor_set", "tensor": 9},
    )  # fmt: skip
    assert cause.nature == "input"


def test_ring_depth_follows_what_is_in_flight() -> None:
    """Three ubatches in flight on two slots: the write comes two ubatches after the read."""
    (cause,) = causes(
        {"ev": "tensor_set", "tensor": 0, "ubatch": 0}, kernel(0, [0], [], ubatch=0),
        {"ev": "tensor_set", "tensor": 0, "ubatch": 2},
    )  # fmt: skip
    assert cause.steps == [2]
    assert advice(cause).rules[0] == "--ring 3"


def test_what_only_another_race_makes_possible_is_consequent() -> None:
    """The host reads a flag that the queue sets, unordered; if it saw the flag, the queue had read the data."""
    found = causes(
        kernel(0, [1], []), kernel(0, [], [0]), {"ev": "get_direct", "tensor": 0}, {"ev": "set_direct", "tensor": 1}
    )
    primary = {cause.tensors[0]: cause.primary for cause in found}
    assert primary == {"inp_tokens": 1, "ffn_out-3": 0}


def test_windows_in_events_and_in_time() -> None:
    events = [*rotation(0), {"ev": "note"}, *rotation(1)]
    (cause,) = causes(*events)
    assert (cause.narrowest, cause.widest) == (cause.widest, cause.narrowest)
    assert cause.widest is not None
    assert (cause.widest.events, cause.widest.time) == (2, None)
    (timed,) = causes(*(event | {"time": 100 * k} for k, event in enumerate(events)))
    assert timed.widest is not None
    assert timed.widest.time == 200


def test_identities_hold_no_count_clock_or_time() -> None:
    few, many = causes(*rotation(0), *rotation(1)), causes(*rotation(0), *rotation(1), *rotation(2), {"ev": "note"})
    assert [cause.ident for cause in few] == [cause.ident for cause in many]
