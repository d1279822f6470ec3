"""`memory-reuse` and `use-after-free` on small traces that break them, and on twins that do not."""

from __future__ import annotations

from tests.checks.traces import (
    FIRST,
    HOST,
    OUTPUT,
    Event,
    checked,
    compute,
    copy,
    findings,
    found,
    second_device,
    set_up,
    status,
    wait,
)


def test_memory_reused_under_a_reader() -> None:
    other = {"ev": "tensor", "id": 9, "name": "ffn_inp", "buffer": HOST, "offset": 64, "size": 64}
    part = {"ev": "tensor", "id": 10, "name": "ffn_inp (view)", "buffer": HOST, "offset": 64, "size": 32, "view_of": 9}
    graph = {"ev": "graph", "id": 1, "uid": 5, "nodes": [{"op": "MUL", "tensor": 10, "writes": [{"tensor": 10}]}]}
    cpu = {"ev": "compute", "backend": 1, "graph": 1, "split": 1}
    result = checked([*set_up(), other, part, graph, *FIRST, cpu])
    assert found(result) == {"memory-reuse"}
    message = next(f.message for f in result.findings if f.id == "memory-reuse")
    assert "inp_tokens / ffn_inp" in message
    assert "would have kept 128 bytes" in message
    assert found(checked([*set_up(), other, part, graph, *FIRST, wait(), cpu])) == set()


def namesakes(split: int, *, number: int = -1, name: str = "tmp", flags: list[str] | None = None) -> list[Event]:
    """The device reads a tensor in split 0; the CPU writes another one of that name there, in a split, of a ubatch."""
    both = [
        {"ev": "tensor", "id": ident, "name": name, "buffer": HOST, "offset": 512, "size": 64, "flags": flags or []}
        for ident in (9, 10)
    ]
    reads = {"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "tensor": OUTPUT, "reads": [{"tensor": 9}]}]}
    makes = {"ev": "graph", "id": 2, "nodes": [{"op": "ADD", "tensor": 10, "writes": [{"tensor": 10}]}]}
    return [*set_up(), *both, reads, makes, {"ev": "compute", "backend": 0, "graph": 1, "split": 0, "ubatch": 0},
            {"ev": "compute", "backend": 1, "graph": 2, "split": split, "ubatch": number}]  # fmt: skip


def test_two_tensors_of_one_name_are_told_apart_by_id() -> None:
    assert found(checked(namesakes(1))) == {"memory-reuse"}
    assert found(checked(namesakes(1, number=0, name="CPU#tmp#0"))) == {"memory-reuse"}
    # the next compute has a graph of another shape, whose tensors have the names of the last one's
    assert found(checked(namesakes(1, number=1))) == {"cpu-split-in-place"}
    assert found(checked(namesakes(0))) == {"cpu-split-in-place"}
    assert found(checked(namesakes(1, flags=["input"]))) == {"cpu-split-in-place"}


def test_a_failed_check_notes_nothing_beside_its_findings() -> None:
    assert status(checked(namesakes(1)), "memory-reuse") == "findings: "
    assert status(checked(namesakes(0)), "memory-reuse") == "holds: no race is between two root tensors"


def test_a_copy_from_a_queue_that_was_freed() -> None:
    free = [wait(), {"ev": "backend_free", "backend": 0}]
    start = [*set_up(), *second_device()[:4]]
    result = checked([*start, *free, copy(runs_on="src")])
    assert found(result) == {"use-after-free"}
    assert "1 row uses a queue after it was freed: ROCm0" in [f.message for f in result.findings]
    assert found(checked([*start, copy(runs_on="src"), *free])) == set()


def test_an_event_used_after_it_was_freed() -> None:
    record, free = {"ev": "event_record", "backend": 0, "event": 5}, {"ev": "event_free", "event": 5}
    uses = [{"ev": "event_wait", "backend": 2, "event": 5}, {"ev": "event_synchronize", "event": 5}, free]
    start = [*set_up(), *second_device(), *compute(), record, wait(), free]
    for use in uses:
        result = checked([*start, use])
        assert found(result, severity="warning") == {"use-after-free"}
        finding = next(f for f in result.findings if f.id == "use-after-free")
        assert finding.message == "1 row uses an event after it was freed: event 5"
        assert not any("never recorded" in f.message for f in result.findings)
        assert found(checked([*start, record, wait(), use])) == set()
    assert findings([*start, *uses], "redundant-wait") == findings(start, "redundant-wait")
