"""`event-order`, `freed-in-flight` and `redundant-wait` on small traces that break them, and on twins that do not."""

from __future__ import annotations

from tests.checks.traces import (
    DEVICE,
    FIRST,
    OUTPUT,
    Event,
    checked,
    compute,
    found,
    second_device,
    set_up,
    wait,
)


def test_freed_in_flight_and_used_after() -> None:
    free = {"ev": "buffer_free", "buffer": DEVICE}
    assert found(checked([*set_up(), *FIRST, free])) == {"freed-in-flight"}
    assert found(checked([*set_up(), *FIRST, wait(), free])) == set()
    queue = {"ev": "backend_free", "backend": 0}
    assert found(checked([*set_up(), *FIRST, queue])) == {"freed-in-flight"}
    assert found(checked([*set_up(), *FIRST, wait(), queue])) == set()
    used = checked([*set_up(), wait(), free, {"ev": "tensor_get", "tensor": OUTPUT}])
    assert found(used) == {"use-after-free"}
    assert next(f.rows for f in used.findings if f.id == "use-after-free") == [12]
    graph = checked([*set_up(), *FIRST, wait(), free, *compute()])
    assert found(graph) == {"use-after-free"}
    assert found(checked([*set_up(), wait(), queue, wait()]), severity="warning") == {"use-after-free"}
    assert found(checked([*set_up(), free, {"ev": "tensor_get", "tensor": OUTPUT, "size": 0}])) == set()


def test_events() -> None:
    record, hold = {"ev": "event_record", "backend": 0, "event": 5}, {"ev": "event_wait", "backend": 2, "event": 5}
    start = [*set_up(), *second_device(), *compute()]
    assert found(checked([*start, record, hold, record])) == {"event-order"}
    assert found(checked([*start, record, hold, {"ev": "synchronize", "backend": 2}, record])) == set()
    free = {"ev": "event_free", "event": 5}
    assert found(checked([*start, record, free])) == {"event-order"}
    assert found(checked([*start, record, {"ev": "event_synchronize", "event": 5}, free])) == set()
    never = checked([*start, hold])
    assert found(never) == set()
    assert "event-order" in found(never, severity="info")


def test_an_event_is_pending_for_the_thread_that_frees_it() -> None:
    def rows(waits: int, frees: int) -> list[Event]:
        on = {"backend": 0, "thread": 1}
        return [
            {"ev": "meta", "threads": "ordered"}, *set_up(), {"ev": "compute", "graph": 0, **on},
            {"ev": "event_record", "event": 5, **on}, {**wait(), "thread": waits},
            {"ev": "event_free", "event": 5, "thread": frees},
        ]  # fmt: skip

    assert found(checked(rows(1, 1))) == set()
    assert found(checked(rows(0, 0))) == set()
    assert found(checked(rows(1, 0))) == {"event-order"}
    assert found(checked(rows(0, 1))) == {"event-order"}
    again = [{"ev": "event_wait", "backend": 2, "event": 5, "thread": 1},
             {"ev": "synchronize", "backend": 2, "thread": 1}]  # fmt: skip
    start = [{"ev": "meta", "threads": "ordered"}, *set_up(), *second_device()]
    record = {"ev": "event_record", "backend": 0, "event": 5, "thread": 1}
    assert found(checked([*start, record, *again, record])) == set()
    assert found(checked([*start, record, *again[:1], record])) == {"event-order"}


def test_redundant_waits_by_place() -> None:
    twice = [{**wait(), "site": "decode", "time": 1000}, {**wait(), "site": "decode", "time": 501_000}]
    result = checked([*set_up(), *FIRST, *twice])
    assert found(result, severity="info") >= {"redundant-wait"}
    message = next(f.message for f in result.findings if f.id == "redundant-wait")
    assert message == "synchronize of ROCm0 in decode: once nothing was left to order, at most 0.500 ms in all"
    assert "redundant-wait" not in found(checked([*set_up(), *FIRST, wait()]), severity="info")
