"""The ends of the scale: each has a stated behaviour, in bounded time and memory."""

from __future__ import annotations

import pytest

from hbtrace.errors import TraceError
from hbtrace.replay.accesses import MAX_PIECES
from hbtrace.replay.session import Session, analyze_events
from hbtrace.trace.rows import batch_from_rows

HUGE = 2**63 - 1
Q0, Q1 = ({"ev": "backend", "id": n, "name": f"CUDA{n}"} for n in range(2))


def buffer(size, ident=0, **keys):
    return {"ev": "buffer", "id": ident, "name": "CUDA0", "size": size, **keys}


def kernel(queue, **ranges):
    return {"ev": "kernel", "backend": queue, **ranges}


def span(offset, size, **keys):
    return {"buffer": 0, "offset": offset, "size": size, **keys}


def test_ids_and_offsets_near_the_end_of_64_bits():
    events = [
        {"ev": "backend", "id": HUGE, "name": "A"},
        {"ev": "backend", "id": HUGE - 1, "name": "B"},
        {"ev": "buffer", "id": HUGE, "name": "M", "size": HUGE},
        {"ev": "tensor", "id": HUGE, "name": "t", "buffer": HUGE, "offset": HUGE - 8, "size": 8},
        kernel(HUGE, writes=[{"tensor": HUGE}]),
        kernel(HUGE - 1, reads=[{"tensor": HUGE}]),
    ]
    (report,) = analyze_events(events).reports
    assert (report.lo, report.hi, report.buffer_id) == (HUGE - 8, HUGE, HUGE)


def test_a_range_over_all_of_64_bits_is_cut_and_counted():
    beyond = [kernel(0, writes=[span(-HUGE, HUGE)]), kernel(0, writes=[span(8, HUGE)])]
    result = analyze_events([Q0, Q1, buffer(64), *beyond])
    assert not result.reports
    assert len(result.warnings) == 1
    assert "2 rows" in result.warnings[0]


def test_an_undefined_buffer_has_no_bounds_even_at_the_ends():
    events = [kernel(0, writes=[span(-HUGE, 8)]), kernel(1, reads=[span(-HUGE, 4)])]
    events.append(kernel(0, writes=[span(HUGE - 8, HUGE)]))
    assert [(r.lo, r.bytes) for r in analyze_events(events).reports] == [(-HUGE, 4)]


def test_a_buffer_of_zero_bytes_takes_no_access():
    result = analyze_events([Q0, Q1, buffer(0), kernel(0, writes=[{"buffer": 0}]), {"ev": "buffer_clear", "buffer": 0}])
    assert (result.reports, result.warnings) == ([], [])


def test_a_trace_of_definitions_says_that_nothing_was_exercised():
    session = Session([batch_from_rows([Q0, Q1, buffer(64)])])
    assert list(session) == []
    assert session.exercise.remarks() == ["not exercised: no event of this trace accesses live memory"]


def test_one_event_with_very_many_ranges():
    count = 250_000
    many = kernel(0, writes=[span(16 * k, 8) for k in range(count)])
    last = kernel(1, reads=[span(16 * (count - 1), 16)])
    (report,) = analyze_events([Q0, Q1, buffer(16 * count), many, last]).reports
    assert (report.earlier.access, report.lo, report.bytes) == (count - 1, 16 * (count - 1), 8)


def test_strided_rows_are_exact_up_to_the_limit_and_said_beyond():
    rows = 100_000
    exact = analyze_events(
        [Q0, Q1, buffer(HUGE), kernel(0, writes=[span(0, 1, rows=rows, stride=3)]), kernel(1, reads=[span(1, 2)])]
    )
    assert (exact.reports, exact.warnings) == ([], [])
    many = kernel(0, writes=[span(0, 1, rows=MAX_PIECES + 1, stride=3)])
    beyond = analyze_events([Q0, Q1, buffer(HUGE), many, kernel(1, reads=[span(1, 2)])])
    assert [r.approx for r in beyond.reports] == [True]
    assert "too many separate pieces" in beyond.warnings[0]


def test_rows_that_meet_are_one_span_however_many():
    result = analyze_events(
        [Q0, Q1, buffer(HUGE), kernel(0, writes=[span(0, 8, rows=2**40, stride=8)]), kernel(1, reads=[span(2**42, 8)])]
    )
    assert [r.bytes for r in result.reports] == [8]


def test_rows_far_outside_the_buffer_cost_nothing():
    result = analyze_events([Q0, buffer(64), kernel(0, writes=[span(0, 1, rows=2**50, stride=16)])])
    assert "cut to the buffer" in result.warnings[0]


KV = {"ev": "tensor", "id": 0, "name": "kv", "buffer": 0}


def picked(*runs, size=1, pitch=3):
    given = {"tensor": 0, "by": 1, "pitch": pitch, "size": size}
    return kernel(0, writes=[given], picked=[{"tensor": 1, "runs": list(runs)}])


@pytest.mark.parametrize(
    "runs",
    [
        [{"first": 0, "count": MAX_PIECES + 1}],
        [{"first": 0, "repeat": MAX_PIECES + 1, "step": 2}],
        [{"first": 2 * MAX_PIECES, "repeat": MAX_PIECES + 1, "step": -2}],
        [{"first": 0, "count": 2**60, "repeat": 2**60, "step": 2**61}],
    ],
)
def test_picked_rows_are_exact_up_to_the_limit_and_said_beyond(runs):
    few = analyze_events(
        [Q0, Q1, buffer(HUGE), KV, picked({"first": 0, "count": 99_999}), kernel(1, reads=[span(1, 2)])]
    )
    assert (few.reports, few.warnings) == ([], [])
    beyond = analyze_events([Q0, Q1, buffer(2**62), KV, picked(*runs), kernel(1, reads=[span(1, 2)])])
    assert [r.approx for r in beyond.reports] == [True]
    assert any("too many separate pieces" in warning for warning in beyond.warnings)


def test_picked_rows_that_meet_are_one_span_however_many():
    rows = picked({"first": 2**40, "count": 2**40}, size=8, pitch=8)
    result = analyze_events([Q0, Q1, buffer(HUGE), KV, rows, kernel(1, reads=[span(2**43 - 8, 16), span(2**44, 8)])])
    assert [(r.lo, r.bytes) for r in result.reports] == [(2**43, 8)]


@pytest.mark.parametrize("run", [{"count": 2**62}, {"repeat": 2**62, "step": 1}, {"repeat": 2**62, "step": 0}])
def test_picked_rows_without_end_cost_nothing(run):
    result = analyze_events([Q0, Q1, buffer(64), KV, picked({"first": 20, **run}), kernel(1, reads=[span(0, 64)])])
    assert [r.lo for r in result.reports] == [60]


@pytest.mark.parametrize("definition", ["tensor", "buffer", "backend", "graph"])
def test_very_many_definitions(definition):
    count = 250_000
    row = {"ev": definition, "name": "n", "size": 8, "buffer": 0}
    keys = {"tensor": ("name", "buffer", "size"), "buffer": ("name", "size"), "backend": ("name",), "graph": ()}
    kept = {key: row[key] for key in ("ev", *keys[definition])}
    step = 50_000
    session = Session(
        batch_from_rows([kept | {"id": k} for k in range(first, first + step)]) for first in range(0, count, step)
    )
    assert list(session) == []
    assert session.rows == count


def test_many_queues_used_once_each():
    queues = [{"ev": "backend", "id": k, "name": "CUDA0"} for k in range(2000)]
    work = [e for k in range(2000) for e in (kernel(k, reads=[span(0, 8)]), {"ev": "synchronize", "backend": k})]
    assert analyze_events([*queues, buffer(8), *work, {"ev": "buffer_free", "buffer": 0}]).reports == []


def test_no_footprint_outlives_the_budget(monkeypatch):
    """When all footprints are forgotten, what was remembered of memory is not."""
    import hbtrace.replay.accesses as accesses

    monkeypatch.setattr(accesses, "_FOOTPRINT_BUDGET", 4)
    rows = [Q0, Q1, buffer(4096), *[kernel(0, writes=[span(8 * k, 8)]) for k in range(64)]]
    rows += [kernel(1, reads=[span(0, 512)])]
    found = [list(Session([batch_from_rows(rows[k : k + n]) for k in range(0, len(rows), n)])) for n in (1, 7, 1000)]
    assert [len(reports) for reports in found] == [64, 64, 64]
    assert found[0] == found[1] == found[2]


def test_strict_names_the_row():
    with pytest.raises(TraceError) as caught:
        analyze_events([Q0, buffer(64), kernel(0, writes=[span(60, 8)])], strict=True)
    assert caught.value.row == 2
    assert "row 2" in str(caught.value)
