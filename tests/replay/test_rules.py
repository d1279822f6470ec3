"""Every edge of the contract, twice: the program that races without it, and its twin with it that does not."""

from __future__ import annotations

import pytest

from hbtrace.replay.session import analyze_events

Q0, Q1, Q2 = ({"ev": "backend", "id": n, "name": f"CUDA{n}", "device": f"CUDA{n}"} for n in range(3))
MEM = {"ev": "buffer", "id": 0, "name": "CUDA0", "size": 64, "backend": 0, "device": "CUDA0"}
PINNED = {"ev": "buffer", "id": 1, "name": "CUDA_Host", "size": 64, "host": True}
X = {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "offset": 0, "size": 16}
Y = {"ev": "tensor", "id": 1, "name": "y", "buffer": 1, "offset": 0, "size": 16}
BASE = [Q0, Q1, Q2, MEM, PINNED, X, Y]
ORDERED = [{"ev": "meta", "threads": "ordered"}, *BASE]
RX, RY = {"tensor": 0}, {"tensor": 1}


def write(queue, *ranges, **keys):
    return {"ev": "kernel", "backend": queue, "writes": list(ranges or [RX]), **keys}


def read(queue, *ranges, **keys):
    return {"ev": "kernel", "backend": queue, "reads": list(ranges or [RX]), **keys}


def ev(what, **keys):
    return {"ev": what, **keys}


def races(events, **options):
    return [(r.kind, r.earlier.row, r.current.row) for r in analyze_events(events, **options).reports]


def assert_races(*events, base=BASE, **options):
    assert races([*base, *events], **options), "no race found"


def assert_clean(*events, base=BASE, **options):
    assert races([*base, *events], **options) == []


SYNC0, SYNC1 = ev("synchronize", backend=0), ev("synchronize", backend=1)
RECORD0, WAIT1 = ev("event_record", backend=0, event=5), ev("event_wait", backend=1, event=5)

PAIRS = {
    # name: (before, the edge, after): races without the edge, not with it
    "synchronize": ([write(0)], [SYNC0], [ev("get_direct", tensor=0)]),
    "record and wait": ([write(0)], [RECORD0, WAIT1], [read(1)]),
    "record and synchronize the event": (
        [write(0)], [RECORD0, ev("event_synchronize", event=5)], [ev("get_direct", tensor=0)],
    ),
    "queue to queue by the host": ([write(0)], [SYNC0], [read(1)]),
    "transitive over two queues": (
        [write(0)],
        [RECORD0, WAIT1, ev("event_record", backend=1, event=6), ev("event_wait", backend=2, event=6)],
        [read(2)],
    ),
    "release by a queue": (
        [write(0)],
        [ev("release", object="bell", backend=0), ev("acquire", object="bell")],
        [ev("set_direct", tensor=0)],
    ),
    "acquire by a queue": (
        [write(0)], [ev("release", object="bell", backend=0), ev("acquire", object="bell", backend=1)], [write(1)],
    ),
    "write after read": ([read(0)], [SYNC0], [ev("tensor_set", tensor=0)]),
    "buffer_free": ([read(0)], [SYNC0], [ev("buffer_free", buffer=0)]),
    "buffer_clear": ([read(0)], [SYNC0], [ev("buffer_clear", buffer=0)]),
    "the host side of set_async": (
        [ev("set_async", backend=0, tensor=0, host_range=RY)], [SYNC0], [ev("set_direct", tensor=1)],
    ),
    "the host side of get_async": (
        [ev("get_async", backend=0, tensor=0, host_range=RY)], [SYNC0], [ev("get_direct", tensor=1)],
    ),
    "both ranges of a strided set": (
        [write(0)], [SYNC0], [ev("tensor_set", tensor=0, offset=0, size=2, rows=3, stride=4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_an_edge_orders_what_races_without_it(name):
    before, edge, after = PAIRS[name]
    assert_races(*before, *after)
    assert_clean(*before, *edge, *after)


@pytest.mark.parametrize(
    ("change", "racy"),
    [
        ([], False),
        ([ev("event_free", event=5)], True),  # the event is forgotten: the wait adds nothing
        ([ev("event_record", backend=2, event=5)], True),  # recorded again elsewhere: the newer clock alone
    ],
)
def test_what_becomes_of_an_event(change, racy):
    (assert_races if racy else assert_clean)(write(0), RECORD0, *change, WAIT1, read(1))


def test_an_event_waited_for_before_it_is_recorded_orders_nothing():
    assert_races(write(0), WAIT1, RECORD0, read(1))


def test_issue_carries_what_the_host_knows_and_no_more():
    assert_clean(ev("set_direct", tensor=0), read(0))
    assert_races(read(0), ev("set_direct", tensor=0))


@pytest.mark.parametrize("synchronous", [False, True])
def test_synchronous_work_is_complete_when_the_call_returns(synchronous):
    cpu = ev("backend", id=7, name="CPU", synchronous=synchronous)
    (assert_clean if synchronous else assert_races)(cpu, write(7), ev("get_direct", tensor=0))


@pytest.mark.parametrize(
    ("drains", "call", "clean"),
    [
        (["set"], "tensor_set", True),
        (["set"], "tensor_memset", True),
        (["set"], "tensor_get", False),
        (["get"], "tensor_get", True),
        (["get"], "tensor_set", False),
        (["get", "set"], "set_direct", False),
        (["get", "set"], "get_direct", False),
        ([], "tensor_set", False),
    ],
)
def test_a_blocking_call_waits_for_what_drains_its_buffer(drains, call, clean):
    queue = Q0 | {"drains": drains}
    (assert_clean if clean else assert_races)(
        MEM, X, write(0), ev(call, tensor=0), base=[queue, PINNED, Y, MEM]
    )


def test_buffer_clear_drains_and_buffer_free_does_not():
    queue = Q0 | {"drains": ["set", "get"]}
    assert_clean(write(0), ev("buffer_clear", buffer=0), base=[queue, MEM, X])
    assert_races(write(0), ev("buffer_free", buffer=0), base=[queue, MEM, X])


def test_every_queue_of_the_buffers_device_drains_but_no_dead_one():
    twin = ev("backend", id=3, name="CUDA0", device="CUDA0", drains=["get"])
    assert_clean(twin, write(3), ev("tensor_get", tensor=0))
    assert_races(twin, write(3), ev("backend_free", backend=3), ev("tensor_get", tensor=0))


def copy(**keys):
    return ev("copy_async", backend=1, src_backend=0, src=RX, dst={"buffer": 1, "offset": 32, "size": 16}, **keys)


DST = {"buffer": 1, "offset": 32, "size": 16}


@pytest.mark.parametrize(
    ("runs_on", "src_overwritten_on", "dst_read_on", "before_on_dst"),
    # who may follow without an edge: the queue on which the copy ran, and what waited for it
    [("src", 0, 1, False), ("dst", 1, 1, True), ("both", 0, 1, True)],
)
def test_the_queue_a_copy_runs_on(runs_on, src_overwritten_on, dst_read_on, before_on_dst):
    assert_clean(copy(runs_on=runs_on), write(src_overwritten_on))
    assert_clean(copy(runs_on=runs_on), read(dst_read_on, DST))
    other = 0 if runs_on == "dst" else 2
    assert_races(copy(runs_on=runs_on), write(other))
    # Is the destination's earlier reader waited for?
    (assert_clean if before_on_dst else assert_races)(read(1, DST), copy(runs_on=runs_on))


def test_a_copy_on_the_source_can_wait_for_the_destination():
    assert_races(read(1, DST), copy(runs_on="src"))
    assert_clean(read(1, DST), copy(runs_on="src", after_dst=True))


def test_a_copy_runs_on_the_destination_if_its_source_is_host_memory():
    host = ev("copy_async", backend=1, src_backend=0, src=RY, dst={"buffer": 0, "offset": 32, "size": 8})
    assert_clean(host, write(1, RY))
    assert_races(host, write(0, RY))
    device = ev("copy_async", backend=1, src_backend=0, src=RX, dst={"buffer": 1, "offset": 32, "size": 16})
    assert_clean(device, write(0))


def test_threads_are_one_actor_unless_the_trace_says_ordered():
    program = [ev("set_direct", tensor=0), ev("get_direct", tensor=0, thread=1)]
    assert_clean(*program)
    assert_races(*program, base=ORDERED)
    assert_clean(*program, base=ORDERED, threads="one")
    assert_races(*program, threads="ordered")


def test_a_release_and_acquire_hand_over_between_threads():
    release, acquire = ev("release", object="mutex"), ev("acquire", object="mutex", thread=1)
    first, then = ev("set_direct", tensor=0), ev("set_direct", tensor=0, thread=1)
    assert_clean(first, release, acquire, then, base=ORDERED)
    assert_races(first, acquire, release, then, base=ORDERED)


def test_a_thread_that_appears_late_knows_nothing():
    assert_races(
        write(0), SYNC0, ev("set_direct", tensor=0), ev("get_direct", tensor=0, thread=9), base=ORDERED
    )


def test_a_free_begins_a_new_life_and_a_definition_without_it_does_not():
    again = [MEM, X]
    assert_clean(write(0), SYNC0, ev("buffer_free", buffer=0), *again, read(1))
    assert_races(write(0), *again, read(1))


def test_a_repoint_moves_the_next_compute_and_no_view():
    slot = X | {"offset": 32}
    graph = ev("graph", id=0, nodes=[{"op": "CPY", "reads": [RX], "writes": []}])
    compute = ev("compute", backend=0, graph=0)
    assert_clean(graph, slot, compute, X, ev("set_direct", tensor=0))
    assert_races(graph, compute, slot, X, ev("set_direct", tensor=0))
    view = ev("tensor", id=9, name="v", buffer=0, offset=0, size=16, view_of=0)
    assert_races(view, slot, read(0, {"tensor": 9}), X, ev("set_direct", tensor=0))


def test_a_graph_is_replaced_from_its_row_on():
    def graph(*reads):
        return ev("graph", id=0, nodes=[{"op": "CPY", "reads": list(reads), "writes": []}])

    compute = ev("compute", backend=0, graph=0)
    assert_clean(graph(RX), graph(RY), compute, ev("set_direct", tensor=0))
    assert_races(graph(RX), compute, graph(RY), ev("set_direct", tensor=0))


def test_weights_are_checked_unless_they_are_skipped():
    weights = MEM | {"usage": "weights"}
    assert_races(write(0), read(1), base=[Q0, Q1, weights, X])
    assert_clean(write(0), read(1), base=[Q0, Q1, weights, X], skip_weights=True)


def test_each_kind_of_race():
    assert races([*BASE, write(0), read(1)]) == [("read-after-write", 7, 8)]
    assert races([*BASE, write(0), write(1)]) == [("write-after-write", 7, 8)]
    assert races([*BASE, read(0), write(1)]) == [("write-after-read", 7, 8)]
    assert races([*BASE, read(0), read(1)]) == []


def test_a_name_that_many_layers_share_is_one_race_when_folded():
    def layer(number):
        tensor = ev("tensor", id=20 + number, name=f"l_out-{number}", buffer=0, offset=4 * number, size=4)
        return [tensor, write(0, {"tensor": 20 + number}), ev("get_direct", tensor=20 + number)]

    events = [*BASE, *layer(0), *layer(1)]
    assert analyze_events(events).distinct == 2
    assert analyze_events(events, fold_layers=True).distinct == 1
