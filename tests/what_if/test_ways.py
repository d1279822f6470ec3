"""Mends are such as the backends can make: no event where there is none, and the smallest set is always shown."""

from __future__ import annotations

import random
from typing import Any

import pytest

import hbtrace
from hbtrace.explain.mends import advice
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.fix import Answer, Fix, Mend, fix
from hbtrace.what_if.place import Place
from hbtrace.what_if.rewriting import Rule
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import Wait
from hbtrace.what_if.whatif import WhatIf, rewrite, side_of, whatif
from tests.oracle.programs import random_program

Event = dict[str, Any]

CUDA: Event = {"ev": "backend", "name": "CUDA0", "type": "gpu", "events": True}
CPU: Event = {"ev": "backend", "name": "CPU", "type": "cpu", "synchronous": True, "async": False}
NO_EVENTS: Event = {"ev": "backend", "name": "GPU9", "type": "gpu", "events": False}
HOST_BUFFER: Event = {"ev": "buffer", "id": 0, "name": "H", "size": 64, "host": True}
X: Event = {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "size": 32}


def kernel(queue: int, label: str, **keys: Any) -> Event:
    return {"ev": "kernel", "backend": queue, "label": label, **keys}


def race(first: Event, then: Event, *, times: int = 1) -> list[Event]:
    """`first` reads what `then` overwrites, nothing between them."""
    rows: list[Event] = [first | {"id": 0}, then | {"id": 1}, HOST_BUFFER, X]
    for n in range(times):
        rows += [kernel(0, "k", reads=[{"tensor": 0}], ubatch=n), kernel(1, "m", writes=[{"tensor": 0}], ubatch=n)]
        rows += [{"ev": "synchronize", "backend": 0}, {"ev": "synchronize", "backend": 1}]
    return rows


def fixed(rows: list[Event]) -> Fix:
    return fix(lambda: [batch_from_rows(rows)])


def under(rows: list[Event], *rules: Rule) -> list[Event]:
    return [event for _, event in rewrite(lambda: [batch_from_rows(rows)], list(rules))]


def tried(rows: list[Event], *rules: Rule) -> WhatIf:
    """Patched and rewritten alike."""
    return whatif(lambda: [batch_from_rows(rows)], list(rules))


def added(rows: list[Event], answer: Answer) -> list[str]:
    """The events that an answer puts in."""
    had = [row["ev"] for row in rows]
    now = [row["ev"] for row in under(rows, *(mend.rule() for mend in answer.mends))]
    return sorted(ev for ev in set(now) for _ in range(now.count(ev) - had.count(ev)))


@pytest.mark.parametrize(
    ("first", "then", "events", "short", "what"),
    [
        (CUDA, CUDA | {"name": "CUDA1"}, ["event_record", "event_wait"], "CUDA1 waits for CUDA0",
         "record an event on CUDA0 after k and wait for it on CUDA1 before m"),
        (CUDA, CPU, ["event_record", "event_synchronize"], "wait for CUDA0 before the CPU split", None),
        (CUDA, NO_EVENTS, ["event_record", "event_synchronize"], "the host waits for CUDA0 before GPU9",
         "record an event on CUDA0 after k and let the host wait for it before it gives m to GPU9, which cannot wait"
         " for it"),
        (CUDA, CUDA | {"name": "Vulkan0"}, ["event_record", "event_synchronize"],
         "the host waits for CUDA0 before Vulkan0", None),
        (CUDA, NO_EVENTS | {"registry": "CUDA", "events": True}, ["event_record", "event_wait"],
         "GPU9 waits for CUDA0", None),
        (NO_EVENTS, CUDA, ["synchronize"], "the host waits for GPU9 before CUDA0",
         "let the host wait for GPU9, which has no events, before it gives m to CUDA0"),
        ({"ev": "backend", "name": "GPUOpenCL"}, CUDA, ["synchronize"], "the host waits for GPUOpenCL before CUDA0",
         None),
        ({"ev": "backend", "name": "Q"}, {"ev": "backend", "name": "R"}, ["event_record", "event_wait"],
         "R waits for Q", None),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_the_edge_is_one_that_the_backends_can_make(
    first: Event, then: Event, events: list[str], short: str, what: str | None
) -> None:
    rows = race(first, then)
    found = fixed(rows)
    (cause,) = found.before.causes
    assert advice(cause).short == short
    assert what is None or advice(cause).text == what
    answer = next(answer for answer in found.answers if answer.mends[0].bare)
    assert added(rows, answer) == events
    assert answer.price.waits == ("event_wait" not in events)
    assert answer.price.queue_waits == ("event_wait" in events)
    names = [mend.name for mend in found.mends if mend.edge]
    assert len(names) == (1 if events == ["synchronize"] else 2), "a stall is told once"
    who = then["name"] if "event_wait" in events else f"the host, before it gives work to {then['name']},"
    how = "synchronize" if events == ["synchronize"] else "event"
    assert names[0] == f"{cause.ident}: {who} waits for {first['name']}, the last user of x ({how})"


EVENT_ON_CPU: list[Event] = [
    {"ev": "backend", "id": 0, "name": "CUDA0", "type": "gpu", "events": True},
    {"ev": "backend", "id": 1, "name": "CUDA1", "type": "gpu", "events": True},
    {"ev": "backend", "id": 2, "name": "CPU", "type": "cpu", "synchronous": True, "async": False},
    {"ev": "buffer", "id": 0, "name": "CUDA1", "size": 65536, "backend": 1},
    {"ev": "buffer", "id": 1, "name": "CUDA_Host", "size": 8192, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp_embd", "buffer": 1, "offset": 0, "size": 4096},
    {"ev": "tensor", "id": 1, "name": "CUDA1#inp_embd#0", "buffer": 0, "offset": 0, "size": 4096},
    {"ev": "tensor", "id": 2, "name": "CUDA1#inp_embd#1", "buffer": 0, "offset": 4096, "size": 4096},
    {"ev": "tensor", "id": 3, "name": "out", "buffer": 0, "offset": 8192, "size": 4096},
    {"ev": "graph", "id": 0, "nodes": [{"op": "GET_ROWS", "tensor": 0, "writes": [{"tensor": 0}]}]},
    *({"ev": "graph", "id": n, "nodes": [{"op": "MUL", "reads": [{"tensor": n}], "writes": [{"tensor": 3}]}]}
      for n in (1, 2)),
    *(event | {"ubatch": n}
      for n in range(3)
      for event in (
          {"ev": "compute", "backend": 2, "graph": 0, "split": 0},
          *([{"ev": "event_wait", "backend": 1, "event": 0}] if n == 2 else []),
          {"ev": "copy_async", "backend": 1, "src_backend": 2, "src": {"tensor": 0}, "dst": {"tensor": 1 + n % 2},
           "split": 1},
          {"ev": "compute", "backend": 1, "graph": 1 + n % 2, "split": 1},
          {"ev": "event_record", "backend": 1, "event": n % 2},
      )),
    {"ev": "synchronize", "backend": 1},
    {"ev": "tensor_get", "tensor": 3},
]  # fmt: skip


def test_the_cpu_backend_waits_for_no_event() -> None:
    """A copy in flight reads what the CPU split computes anew: the host waits for an event of the copy's queue."""
    found = fixed(EVENT_ON_CPU)
    (cause,) = found.before.causes
    assert [answer.mends[0].option for answer in found.answers] == [f"--edge {cause.ident}", "--sync ubatch"]
    assert [len(answer.mends) for answer in found.answers] == [1, 1]
    assert all(answer.minimal for answer in found.answers)
    assert [(answer.price.waits, answer.price.queue_waits) for answer in found.answers] == [(2, 0), (2, 0)]
    assert added(EVENT_ON_CPU, found.answers[0]) == ["event_record"] * 2 + ["event_synchronize"] * 2
    assert "--after-dst" not in {mend.option for mend in found.mends}
    assert "--copy-on dst" not in {mend.option for mend in found.mends}
    assert advice(cause).short == "the host waits for CUDA1 before CPU"
    assert advice(cause).text == (
        "record an event on CUDA1 after copy_async src and let the host wait for it before it gives compute to CPU,"
        " which cannot wait for it"
    )
    assert advice(cause).rules == (f"--edge {cause.ident}", "--event before:inp_embd")
    for rule in (edges_for(cause, found.before.recording, stall=False), Wait("before:inp_embd", "event")):
        assert not any(row["ev"] == "event_wait" and row["backend"] == 2 for row in under(EVENT_ON_CPU, rule))
        assert tried(EVENT_ON_CPU, rule).after.races == 0


def test_what_a_thread_was_done_with_is_handed_over() -> None:
    """The CPU's work of one thread is over when its call returns; the other thread does not know it."""
    rows: list[Event] = [{"ev": "meta", "version": 1, "threads": "ordered"}, *race(CPU, CUDA)[:4]]
    rows += [kernel(0, "k", writes=[{"tensor": 0}], thread=1), kernel(1, "m", reads=[{"tensor": 0}], thread=2)]
    found = fixed(rows)
    (cause,) = found.before.causes
    assert added(rows, found.answers[0]) == ["acquire", "release"]
    acquired = [row for row in under(rows, found.answers[0].mends[0].rule()) if row["ev"] == "acquire"]
    assert [(row["thread"], row.get("backend")) for row in acquired] == [(2, None)]
    assert advice(cause).text == (
        "release a lock or a flag on CPU after k, and acquire it for CUDA0 before m"
    )
    assert [mend.name.rpartition(" (")[2] for mend in found.mends if mend.edge] == ["release and acquire)"]


@pytest.mark.parametrize("gone", [{"ev": "backend_free", "backend": 0}, NO_EVENTS | {"id": 0, "name": "GPU8"}])
def test_a_queue_without_events_is_waited_for_before_it_is_gone(gone: Event) -> None:
    rows = race(NO_EVENTS, CUDA)[:4]
    rows += [kernel(0, "k", reads=[{"tensor": 0}]), gone, {"ev": "tensor_set", "tensor": 0}]
    found = fixed(rows)
    edge = next(answer for answer in found.answers if answer.mends[0].bare)
    assert added(rows, edge) == ["synchronize"]
    assert [row["ev"] for row in under(rows, edge.mends[0].rule())][5:7] == ["synchronize", gone["ev"]]


def test_operations_on_a_backend_without_events_are_waited_for_by_the_host() -> None:
    node = {"op": "MUL", "tensor": 0, "reads": [{"tensor": 0}], "writes": [{"tensor": 0}]}
    rows: list[Event] = [
        CUDA | {"id": 0}, CPU | {"id": 1}, HOST_BUFFER, X,
        {"ev": "graph", "id": 0, "nodes": [node, node | {"op": "ADD"}, node]},
        {"ev": "compute", "backend": 0, "graph": 0}, {"ev": "synchronize", "backend": 0},
    ]  # fmt: skip
    placed = under(rows, Place("ADD", "CPU"))
    assert [row["ev"] for row in placed if row["ev"] not in ("backend", "graph", "buffer", "tensor")] == [
        "compute", "event_record", "event_synchronize", "compute", "compute", "synchronize",
    ]  # fmt: skip
    assert tried(rows, Place("ADD", "CPU")).after.races == 0


def test_a_ring_waits_for_queues_without_events() -> None:
    flagged = X | {"flags": ["input"]}
    for first, how in ((NO_EVENTS, "synchronize"), (CUDA, "event_synchronize")):
        rows: list[Event] = [first | {"id": 0}, HOST_BUFFER, flagged]
        for n in range(4):
            rows += [{"ev": "tensor_set", "tensor": 0, "ubatch": n}]
            rows += [kernel(0, "k", reads=[{"tensor": 0}], ubatch=n)]
        found = tried(rows, ring := Ring(2))
        assert (found.before.races, found.after.races, ring.price.waits) == (3, 0, 2)
        waits = [row["ev"] for row in under(rows, Ring(2)) if row["ev"].endswith("synchronize")]
        assert waits == [how] * 2


@pytest.mark.parametrize("first", [CUDA, NO_EVENTS])
def test_the_smallest_set_is_shown_whatever_it_costs(first: Event) -> None:
    """Pairs of edges wait less than one synchronize at each ubatch, and do not hide it."""
    rows: list[Event] = [first | {"id": n, "name": f"GPU{n}"} for n in range(2)]
    rows += [HOST_BUFFER, X, X | {"id": 1, "name": "y", "offset": 32}]
    for n in range(10):
        rows += [kernel(0, "k", reads=[{"tensor": 0}], ubatch=n), kernel(1, "m", reads=[{"tensor": 1}], ubatch=n)]
        rows += [{"ev": "ubatch", "n": n + 1}]
        if n in (3, 6, 9):
            rows += [kernel(1, "v", writes=[{"tensor": 0}], ubatch=n + 1)]
            rows += [kernel(0, "w", writes=[{"tensor": 1}], ubatch=n + 1)]
            rows += [{"ev": "synchronize", "backend": queue} for queue in (0, 1)]
    found = fixed(rows)
    assert len(found.before.causes) == 2
    assert found.answers[0].mends[0].option == "--sync ubatch"
    assert [len(answer.mends) for answer in found.answers][:2] == [1, 2]
    assert found.answers[0].minimal
    assert found.answers[0].price.waits > found.answers[1].price.waits


def test_of_random_programs_a_smallest_set_is_shown() -> None:
    for seed in (1, 2, 5):
        rows = random_program(random.Random(seed), weird=0.0)
        found = fixed(rows)
        if not found.before.causes:
            continue
        alone = [mend for mend in found.mends if not tried(rows, mend.rule()).after.causes and adds_none(rows, mend)]
        assert (min(len(answer.mends) for answer in found.answers) == 1) == bool(alone), f"seed {seed}"


def adds_none(rows: list[Event], mend: Mend) -> bool:
    its = tried(rows, mend.rule())
    known = {report.canonical for report in its.before.recording.reports}
    return all(report.canonical in known for report in its.after.recording.reports)


def test_no_mend_of_random_programs_asks_a_backend_for_what_it_lacks() -> None:
    met = 0
    for seed in range(6):
        choose = random.Random(seed)
        rows = random_program(choose, weird=0.0)
        kinds = [CPU, NO_EVENTS, CUDA, {"synchronous": False, "events": False}]
        rows = [
            row | choose.choice(kinds) | {"name": row["name"]} if row.get("ev") == "backend" else row for row in rows
        ]
        without = {row["id"] for row in rows if row.get("ev") == "backend" and row.get("events") is not True}
        with_events = {row["id"] for row in rows if row.get("ev") == "backend"} - without
        before = side_of([batch_from_rows(rows)], Settings())
        for cause in before.causes[:4]:
            for stall in (False, True):
                mended = under(rows, edges_for(cause, before.recording, stall=stall))
                new = [row for row in mended if row not in rows and row["ev"] in ("event_record", "event_wait")]
                met += len(new)
                assert all(row["backend"] in with_events for row in new), f"seed {seed}"
                found = hbtrace.analyze_events(mended)
                assert not {r.canonical for r in found.reports} & set(cause.signatures), f"seed {seed}"
    assert met
