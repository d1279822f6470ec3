"""A trace costs what its size allows: hostile bytes end in one sentence, counted and not timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hbtrace.cli import run
from hbtrace.errors import TraceError
from hbtrace.replay import accesses
from hbtrace.replay.kernel import Kernel
from hbtrace.replay.program import Program
from hbtrace.replay.session import Session, analyze_events
from hbtrace.trace.budget import Share, raised
from hbtrace.trace.reader import open_trace
from tests.trace.samples import write

Q0, Q1 = ({"ev": "backend", "id": k, "name": f"GPU{k}"} for k in range(2))
HUGE = {"ev": "buffer", "id": 0, "name": "H", "size": 2**62}
X = {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "size": 2**62}
DEFINED = [Q0, Q1, HUGE, X]


def packed(path: Path, columns: dict[str, Any], batches: int = 1) -> str:
    batch = pa.record_batch(columns)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return str(path)


def refused(path: str | Path, what: str) -> None:
    with pytest.raises(TraceError, match=f"costs too much for its size: [0-9,]+ {what} in [0-9,]+ bytes of input; --b"):
        list(Session(open_trace(path).batches()))


def strided(*strides: int, rows: int = 1 << 17) -> dict[str, Any]:
    writes = [{"tensor": 0, "offset": 7 * k, "size": 1, "rows": rows, "stride": s} for k, s in enumerate(strides)]
    return {"ev": "kernel", "backend": 0, "writes": writes}


def test_ten_strided_ranges_are_ten_spans() -> None:
    """Each within the limit of a range: together they took a gigabyte."""
    rows = [*DEFINED, strided(*range(1000, 1010)), {"ev": "tensor_set", "tensor": 0}]
    found = analyze_events(rows)
    assert [(r.approx, r.lo) for r in found.reports] == [(True, 7 * k) for k in range(10)]
    assert found.reports[-1].hi == 63 + ((1 << 17) - 1) * 1009 + 1
    (warning,) = found.warnings
    assert warning.startswith("1 row with ranges of too many separate pieces: each is taken as one span, and as approx")


@pytest.mark.parametrize("moved", [False, True], ids=["at once", "moved later"])
def test_the_budget_is_the_events_and_not_the_ranges(moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accesses, "MAX_PIECES", 100)
    for rows, exact in ((50, True), (51, False)):
        moves = [{**X, "offset": 3}, strided(10, 20, rows=rows)] if moved else []
        last = {"ev": "kernel", "backend": 1, "reads": [{"tensor": 0, "offset": 2, "size": 1}]}
        found = analyze_events([*DEFINED, strided(10, 20, rows=rows), *moves, last])
        assert (found.reports == [], found.warnings == []) == (exact, exact), rows


def test_picked_rows_share_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accesses, "MAX_PIECES", 100)
    one = {"tensor": 0, "by": 9, "pitch": 10, "size": 1}
    for count, approx in ((50, False), (51, True)):
        picked = [{"tensor": 9, "runs": [{"first": 0, "count": count}]}]
        event = {"ev": "kernel", "backend": 0, "writes": [one, {**one, "offset": 5}], "picked": picked}
        found = analyze_events([*DEFINED, event, {"ev": "tensor_get", "tensor": 0}])
        assert {r.approx for r in found.reports} == {approx}


def test_rows_that_take_no_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = 1 << 16
    columns = {"ev": pa.array(["synchronize"] * count).dictionary_encode(), "backend": pa.array([0] * count, pa.int8())}
    trace = packed(tmp_path / "a.arrows", columns, batches=30)
    refused(trace, "rows")
    for verb in ("analyze", "info", "check", "triage"):
        assert run([verb, trace]) == 3
        assert "costs too much for its size" in capsys.readouterr().err
    assert run(["info", trace, "--budget", "2"]) == 0


def test_a_list_of_equal_elements(tmp_path: Path) -> None:
    one_event, equal = "ranges and nodes in one event", pa.array([[{"tensor": 0}] * 500_000])
    refused(packed(tmp_path / "a.arrows", {"ev": ["kernel"], "backend": [0], "reads": equal}), one_event)
    many = {"ev": ["kernel"] * 2000, "backend": [0] * 2000, "reads": pa.array([*[None] * 1999, *equal.to_pylist()])}
    refused(packed(tmp_path / "b.arrows", many), one_event)
    spread = pa.array([[{"tensor": 0}] * 1000] * 1000)
    columns = {"ev": ["kernel"] * 1000, "backend": [0] * 1000, "reads": spread}
    refused(packed(tmp_path / "c.arrows", columns, batches=5), "listed ranges and nodes")
    node = {"op": "ADD", "tensor": 0, "reads": [{"tensor": 0}] * 1000}
    graph = {"ev": ["graph"], "id": [0], "nodes": pa.array([[node] * 500])}
    refused(packed(tmp_path / "d.arrows", graph), one_event)


def test_pieces_that_are_visited_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.session.VISITED", Share("pieces to be visited", 10_000, 0))
    for number, (rows, right) in enumerate([(20, True), (21, False)]):
        graph = {"ev": "graph", "id": 0, "nodes": [{"op": "X", "tensor": 0, "writes": strided(9, rows=100)["writes"]}]}
        raced = [{"ev": "compute", "backend": k % 2, "graph": 0} for k in range(5 * rows - 1)]
        path = write(tmp_path / f"{number}.jsonl", [*DEFINED, graph, *raced])
        if right:
            assert len(list(Session(open_trace(path).batches()))) == 5 * rows - 2
        else:
            refused(path, "pieces to be visited")


def test_pieces_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.session.KEPT", Share("pieces that can still race", 1000, 0))
    again = write(tmp_path / "a.jsonl", [*DEFINED, *[strided(3, rows=900)] * 5])
    assert list(Session(open_trace(again).batches())) == []
    trace = write(tmp_path / "b.jsonl", [*DEFINED, *[strided(2**40 + k, rows=500) for k in range(3)]])
    refused(trace, "pieces that can still race")
    with raised(2):
        assert list(Session(open_trace(trace).batches())) == []


def test_what_unpacks_to_very_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.trace.arrow_ipc.UNPACKED", Share("bytes when unpacked", 200_000, 0))
    same = {"ev": ["synchronize"] * 1000, "backend": [0] * 1000, "label": pa.array(["x" * 50] * 1000)}
    assert len(list(open_trace(packed(tmp_path / "a.arrows", same, batches=2)))) == 2000
    refused(packed(tmp_path / "b.arrows", same, batches=4), "bytes when unpacked")


def test_events_in_memory_have_no_budget() -> None:
    assert analyze_events([*DEFINED, *[strided(2**40 + k, rows=500) for k in range(3)]]).reports == []


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 8 failed")])
def test_no_memory_is_one_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise error

    (trace := tmp_path / "a.jsonl").write_text(json.dumps(Q0) + "\n")
    monkeypatch.setattr("hbtrace.replay.lower.Lowering.programs", fails)
    assert run(["analyze", str(trace)]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_what_many_queues_know_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues, threads, redefined backends: each knows all others, and that is counted before memory is full."""

    monkeypatch.setattr("hbtrace.replay.session.KNOWN", Share("entries of vector clocks", 5000, 0))

    def chain(count: int) -> list[dict[str, Any]]:
        queues = [{"ev": "backend", "id": k, "name": f"Q{k}"} for k in range(count)]
        work = [
            row for k in range(count)
            for row in ({"ev": "kernel", "backend": k, "writes": [{"buffer": 0, "size": 8}]},
                        {"ev": "event_record", "backend": k, "event": k},
                        {"ev": "event_wait", "backend": (k + 1) % count, "event": k})
        ]  # fmt: skip
        return [HUGE, *queues, *work]

    list(Session(open_trace(write(tmp_path / "few.jsonl", chain(40))).batches()))
    refused(write(tmp_path / "many.jsonl", chain(100)), "entries of vector clocks")
    threads = [
        row for t in range(150)
        for row in ({"ev": "acquire", "thread": t, "object": "l"}, {"ev": "host_access", "thread": t,
                    "writes": [{"buffer": 0, "size": 8}]}, {"ev": "release", "thread": t, "object": "l"})
    ]  # fmt: skip
    meta = {"ev": "meta", "version": 1, "threads": "ordered"}
    refused(write(tmp_path / "threads.jsonl", [meta, HUGE, *threads]), "entries of vector clocks")
    again = [
        row for k in range(150)
        for row in ({"ev": "backend", "id": 0, "name": "Q"}, {"ev": "kernel", "backend": 0,
                    "writes": [{"buffer": 0, "size": 8}]}, {"ev": "synchronize", "backend": 0})
    ]  # fmt: skip
    refused(write(tmp_path / "again.jsonl", [HUGE, *again]), "entries of vector clocks")


def test_chains_of_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.session.FOLLOWED", Share("links from views to their roots", 10_000, 0))

    def chain(count: int) -> list[dict[str, Any]]:
        views = [
            row for k in range(1, count)
            for row in ({**X, "id": k, "size": 8, "view_of": k - 1},
                        {"ev": "kernel", "backend": 0, "reads": [{"tensor": k}]})
        ]  # fmt: skip
        return [*DEFINED, *views]

    session = Session(open_trace(write(tmp_path / "few.jsonl", chain(100))).batches())
    list(session)
    assert session._lowering.followed == 99 * 100 // 2
    refused(write(tmp_path / "many.jsonl", chain(150)), "links from views to their roots")


def test_races_of_very_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes that race a million times: the reports would take all memory, also those of one access."""
    monkeypatch.setattr("hbtrace.replay.session.REPORTED", Share("races to be reported", 50, 0))
    writes = [{"ev": "kernel", "backend": k % 2, "writes": [{"tensor": 0, "size": 64}]} for k in range(60)]
    assert len(list(Session(open_trace(write(tmp_path / "a.jsonl", [*DEFINED, *writes[:51]])).batches()))) == 50
    refused(write(tmp_path / "b.jsonl", [*DEFINED, *writes]), "races to be reported")
    queues = [{"ev": "backend", "id": k, "name": f"Q{k}"} for k in range(60)]
    reads = [{"ev": "kernel", "backend": k, "reads": [{"tensor": 0, "size": 64}]} for k in range(60)]
    at_once = [*DEFINED[2:], *queues, *reads, {"ev": "tensor_set", "tensor": 0, "size": 64}]
    refused(write(tmp_path / "c.jsonl", at_once), "races to be reported")
    with raised(2):
        assert len(list(Session(open_trace(tmp_path / "c.jsonl").batches()))) == 60


def test_ranges_that_overlap_in_chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of n ranges lies over n atoms."""
    monkeypatch.setattr("hbtrace.replay.session.VISITED", Share("pieces to be visited", 10_000, 0))

    def chain(count: int, size: int, key: str = "reads") -> list[dict[str, Any]]:
        ranges = [{"tensor": 0, "offset": k, "size": size} for k in range(count)]
        return [*DEFINED, {"ev": "kernel", "backend": 0, key: ranges}]

    list(Session(open_trace(write(tmp_path / "apart.jsonl", chain(2000, 1))).batches()))
    list(Session(open_trace(write(tmp_path / "few.jsonl", chain(70, 70))).batches()))
    for key in ("reads", "writes"):
        refused(write(tmp_path / f"{key}.jsonl", chain(200, 200, key)), "pieces to be visited")


def test_what_overlaps_is_counted_as_it_is_cut() -> None:
    for pieces in ([(0, k, k + 70, k, 0) for k in range(70)], [(k % 3, 5 * k, 5 * k + 7, k, k % 2) for k in range(90)]):
        program = Program()
        program.footprints.append(0)
        program.pieces.extend(value for piece in pieces for value in piece)
        program.bounds.append(len(program.pieces))
        brute = sum(
            len({edge for s, lo, hi, *_ in pieces if s == space for edge in (lo, hi) if low <= edge < high})
            for space, low, high, *_ in pieces
        )
        assert program.overlaps() == brute


def test_a_wide_range_over_many_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece to the eye; each access goes over all that was remembered below it, and is stopped amid a batch."""
    monkeypatch.setattr("hbtrace.replay.session.VISITED", Share("pieces to be visited", 20_000, 0))
    seen: list[int] = []
    original = Kernel._visit_many
    monkeypatch.setattr("hbtrace.replay.session.new_kernel", lambda *, ordered: Kernel(closed=not ordered))
    monkeypatch.setattr(Kernel, "_visit_many", lambda self, *a: seen.append(1) or original(self, *a))
    wide = [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 0, "size": 1 << 20}]}] * 100
    for of, rows in (("queue", wide), ("host", [{"ev": "tensor_get", "tensor": 0, "size": 1 << 20}] * 100)):
        trace = write(tmp_path / f"{of}.jsonl", [*DEFINED, strided(16, rows=1000), *rows])
        refused(trace, "pieces to be visited")
    assert 2000 <= len(seen) < 2 * 1000 + 2 * 25  # the strided pieces of each trace, then few of the 100


def test_a_kernel_without_bounds_goes_on() -> None:
    rows = [*DEFINED, strided(16, rows=1000), *[{"ev": "tensor_get", "tensor": 0, "size": 1 << 20}] * 50]
    assert len(analyze_events(rows).reports) == 50


def test_a_chain_of_views_is_stopped_within_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbtrace.replay.session.FOLLOWED", Share("links from views to their roots", 10_000, 0))
    monkeypatch.setattr(accesses, "_FOLLOWED_AT_ONCE", 5_000)
    views = [{**X, "id": k, "size": 8, "view_of": k - 1} for k in range(1, 1001)]
    uses = [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 1000 - k}]} for k in range(500)]
    session = Session(open_trace(write(tmp_path / "a.jsonl", [*DEFINED, *views, *uses])).batches())
    with pytest.raises(TraceError, match="links from views"):
        list(session)
    assert session._lowering.followed < 20_000
