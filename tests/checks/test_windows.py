"""Windows of coverage: one for every nature of race, over all work that was issued, after what was skipped."""

from __future__ import annotations

import pytest

from tests.checks.traces import Event, checked

A, B, OTHER = 0, 1, 2


def set_up(engine: str = "", **backend: bool) -> list[Event]:
    return [
        *([{"ev": "meta", "version": 1, "engine": engine}] if engine else []),
        *({"ev": "backend", "id": k, "name": f"GPU{k}", "type": "gpu", "events": True, **backend} for k in range(2)),
        {"ev": "buffer", "id": 0, "name": "H", "size": 4096, "host": True},
        {"ev": "buffer", "id": 1, "name": "GPU1", "size": 4096, "backend": 1},
        {"ev": "tensor", "id": A, "name": "a", "buffer": 0, "offset": 0, "size": 64},
        {"ev": "tensor", "id": B, "name": "b", "buffer": 0, "offset": 64, "size": 64},
        {"ev": "tensor", "id": OTHER, "name": "c", "buffer": 1, "offset": 0, "size": 64},
        {"ev": "graph", "id": 0, "nodes": [{"op": "X", "reads": [{"tensor": A}], "writes": [{"tensor": B}]}]},
    ]


KERNEL: Event = {"ev": "kernel", "backend": 0, "label": "k", "reads": [{"tensor": A}], "writes": [{"tensor": B}]}
COMPUTE: Event = {"ev": "compute", "backend": 0, "graph": 0}
WAIT: Event = {"ev": "synchronize", "backend": 0}
UPLOAD: Event = {"ev": "set_async", "backend": 0, "tensor": OTHER, "host_range": {"tensor": A}}

SECOND: dict[str, tuple[Event, Event]] = {
    "input": (KERNEL, {"ev": "tensor_set", "tensor": OTHER}),
    "host_read": (KERNEL, {"ev": "tensor_get", "tensor": B}),
    "free": (KERNEL, {"ev": "buffer_free", "buffer": 0}),
    "transfer": (UPLOAD, {"ev": "host_access", "writes": [{"tensor": B}]}),
    "queues": (KERNEL, {"ev": "kernel", "backend": 1, "reads": [{"tensor": B}], "writes": [{"tensor": OTHER}]}),
}
"""By nature: work, and who touches its memory behind it."""


@pytest.mark.parametrize("nature", SECOND)
def test_each_nature_has_windows_of_its_own(nature: str) -> None:
    first, second = SECOND[nature]
    for waits in (False, True):
        between = [WAIT] if waits else []
        found = checked([*set_up(), first, *between, second]).coverage
        counted = {name: tuple(told.values()) for name, told in found.more["natures"].items() if any(told.values())}
        assert counted == {nature: (1, 0 if waits else 1)}
        assert (found.verdict == "not-exercised") == waits
    if nature != "queues":  # a queue that the host waited for may still be ordered by an event: that is no waiting host
        return
    event = [{"ev": "event_record", "backend": 0, "event": 3}, {"ev": "event_wait", "backend": 1, "event": 3}]
    ordered = checked([*set_up(), first, *event, second])
    assert (ordered.races, ordered.coverage.more["natures"]["queues"]) == (0, {"windows": 1, "open": 1})
    assert ordered.coverage.verdict == "partly"
    moved = checked([*set_up(), event[0], first, event[1], second])
    assert (moved.races, moved.coverage.verdict, moved.coverage.reasons) == (
        1, "partly", ordered.coverage.reasons,
    )  # fmt: skip


@pytest.mark.parametrize("work", [KERNEL, COMPUTE], ids=["kernel", "compute"])
def test_kernels_and_computes_count_alike(work: Event) -> None:
    one = checked([*set_up(), work, WAIT, {"ev": "tensor_get", "tensor": B}]).coverage
    assert (one.verdict, one.reasons) == (
        "not-exercised", ["not even the one window (1 host read) was open: the host had waited"],
    )  # fmt: skip
    step = [{"ev": "tensor_set", "tensor": A}, work, WAIT, {"ev": "tensor_get", "tensor": B}]
    three = checked([*set_up(), *step, *step, *step]).coverage
    assert (three.verdict, three.reasons) == (
        "not-exercised",
        ["none of 5 windows (2 input writes, 3 host reads) was open: the host had waited each time"],
    )


def test_what_was_skipped_raises_nothing() -> None:
    """Computes whose backend has a mistyped key: the same trace without them is worth as much, and it is said."""
    step = [{"ev": "tensor_set", "tensor": A}, COMPUTE]
    spoilt = [{"ev": "tensor_set", "tensor": A}, {"ev": "compute", "Backend": 0, "graph": 0}]
    copy = {"ev": "get_async", "backend": 0, "tensor": OTHER}
    whole, skipped = (checked([*set_up(), *rows, *rows, copy, *rows]).coverage for rows in (step, spoilt))
    assert whole.verdict == "partly"
    assert skipped.verdict == "not-exercised"
    assert skipped.reasons == [
        "3 rows were skipped: what they did is not in it", "nobody touched again what work that was issued touches",
    ]  # fmt: skip
    assert skipped.more["skipped"] == 3
    # beside work that was not skipped the verdict is at most `partly`
    mixed = checked([*set_up(), *step, *spoilt, *step]).coverage
    assert (mixed.verdict, mixed.reasons[0]) == ("partly", "1 row was skipped: what it did is not in it")


@pytest.mark.parametrize("engine", ["example", "vllm", "llama.cpp", "ggml", ""])
def test_advice_names_the_options_of_engines_that_have_them(engine: str) -> None:
    """Without a name the markers of a scheduler tell."""
    for marks in ([], [{"ev": "sched_compute", "sched": 0}]):
        step = [{"ev": "tensor_set", "tensor": A}, *marks, COMPUTE, WAIT]
        closed = checked([*set_up(engine), *step, *step]).coverage
        none = checked([*set_up(engine, synchronous=True), *step, *step]).coverage
        llama = engine in ("llama.cpp", "ggml") or bool(marks and not engine)
        assert any("`-ub`" in todo for todo in closed.advice) == llama
        assert any("`-ngl`" in todo for todo in none.advice) == llama
        assert (closed.verdict, none.verdict) == ("not-exercised", "not-exercised")


def test_work_on_other_memory_is_no_window() -> None:
    """Two queues, each with memory of its own, and a host that reads what nobody writes."""
    rows = [
        {"ev": "kernel", "backend": 0, "reads": [{"tensor": A}], "writes": [{"tensor": B}]},
        {"ev": "kernel", "backend": 1, "writes": [{"tensor": OTHER}]},
        {"ev": "buffer", "id": 2, "name": "X", "size": 64},
        {"ev": "host_access", "reads": [{"buffer": 2}]},
    ]
    assert not any(any(told.values()) for told in checked([*set_up(), *rows]).coverage.more["natures"].values())


@pytest.mark.parametrize("native", ["0", "1"])
def test_inputs_set_behind_one_compute_are_one_window(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever they lie: the compute may read all of them. A piece of memory that lives anew is no other either."""
    monkeypatch.setenv("HBTRACE_NATIVE", native)
    inputs: list[Event] = [{"ev": "tensor_set", "tensor": tensor} for tensor in (A, OTHER, B)]
    again: list[Event] = [{"ev": "buffer_free", "buffer": 1}, *set_up()[3:4], set_up()[6], inputs[1]]
    for behind, windows in (([], 1), (again, 1), ([COMPUTE, *inputs], 2)):
        found = checked([*set_up(), COMPUTE, *inputs, *behind]).coverage
        assert found.more["natures"]["input"]["windows"] == windows
