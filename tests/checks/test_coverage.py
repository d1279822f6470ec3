"""What a run exercised: the counters, the verdict and what it asks for."""

from __future__ import annotations

import pytest

from hbtrace.checks.coverage import COUNTERS, Coverage
from hbtrace.checks.require import parse, unmet
from hbtrace.errors import UsageError
from hbtrace.simulate.ggml import Config, parse_device, simulate
from tests.checks.traces import Event, checked, compute, reuse, set_up, ubatch, wait, write


def coverage(config: Config) -> Coverage:
    return checked(simulate(config).rows).coverage


def test_a_run_that_exercises_the_ring() -> None:
    found = coverage(Config())
    assert found.verdict == "exercised"
    assert found.line() == "coverage: exercised"
    assert found.counters == {
        "ubatches": 24, "open_windows": 6, "direct_writes": 72, "inferred_writes": 0, "reuse": 20, "prepare": 20,
        "warmup": 1, "prefill": 7, "decode": 16, "max_in_flight": 2, "async_queues": 1,
    }  # fmt: skip
    assert tuple(found.counters) == COUNTERS


def test_a_single_ubatch_is_not_exercised() -> None:
    """The first way to measure nothing."""
    found = coverage(Config(prompt=200, ubatch=256, decode=0, warmup=False))
    assert found.verdict == "not-exercised"
    assert "a single ubatch" in found.line()
    assert "a smaller `-ub` or a longer prompt" in found.line()
    # with decodes behind it the host has read, and waited, each time
    assert "none of 17 windows" in coverage(Config(prompt=200, ubatch=256)).line()
    assert coverage(Config(prompt=200, ubatch=256)).verdict == "not-exercised"


def test_a_graph_that_is_rebuilt_each_time() -> None:
    """The second way: the reuse path never runs."""
    found = coverage(Config(reuse=False, decode=1))
    assert found.verdict == "partly"
    assert (found.counters["reuse"], found.more["rebuilt"]) == (0, 9)
    assert "the reuse path never ran" in found.line()


def test_no_warm_up_is_a_hint() -> None:
    assert "drop `--no-warmup`: some graphs are only built after a warm-up" in coverage(Config(warmup=False)).advice
    assert coverage(Config(warmup=False)).verdict == "exercised"


def test_an_eval_callback_hides_everything() -> None:
    found = coverage(Config(eval_callback=True))
    assert found.verdict == "not-exercised"
    assert found.more["eval_callback"]
    assert "run without an eval callback" in found.line()


def test_synchronous_devices_cannot_race() -> None:
    found = coverage(Config(devices=(parse_device("BLAS"),)))
    assert found.verdict == "not-exercised"
    assert found.counters["async_queues"] == 0


def test_a_queue_that_never_has_two_computes_in_flight() -> None:
    found = coverage(Config(devices=(parse_device("CUDA0"),)))
    assert found.verdict == "partly"
    assert found.more["serial_queues"] == 1
    assert coverage(Config(devices=(parse_device("CUDA0"), parse_device("CUDA1")))).more["serial_queues"] == 0


def test_declared_asynchronous_and_waited_for_at_once() -> None:
    step = [reuse(), ubatch(1), write(), *compute()[:2], wait(), compute()[2]]
    found = checked([*set_up(ring=0), *step, *step, *step]).coverage
    assert found.more["waited_at_once"] == 1
    assert found.verdict == "not-exercised"


def test_forgotten_prepare_is_told() -> None:
    assert "prepare was never called" in coverage(Config(fault="prepare-forgotten")).line()


def test_a_recording_that_began_late() -> None:
    rows = simulate(Config()).rows
    late = [row for row in rows if row["ev"] != "tensor" or row["name"] != "token_embd.weight"]
    found = checked(late).coverage
    assert found.more["recording_late"]
    assert any("began late" in reason for reason in found.reasons)


def computes(*between: Event, markers: int = 0) -> list[Event]:
    """Two computes, the input written before each of them, with so many markers of ubatches."""
    step = [write(), compute()[1]]
    marked = [ubatch(number) for number in range(markers)]
    return [*set_up(ring=0), *marked[:1], *step, *between, *marked[1:], *step]


def test_where_something_raced_something_was_exercised() -> None:
    single = checked(computes(markers=1))
    assert (single.races, single.coverage.counters["ubatches"]) == (1, 1)
    assert (single.coverage.verdict, single.coverage.reasons) == ("partly", ["no decode was seen"])
    # the same without the race: two computes that nobody has input for in between
    none = checked([*set_up(ring=0), ubatch(), write(), compute()[1], compute()[1], wait()]).coverage
    assert (none.verdict, none.reasons) == (
        "not-exercised",
        ["a single ubatch: nothing was written after a compute was issued"],
    )


def test_a_race_beside_windows_that_were_not_open() -> None:
    """What keeps input races away does not keep others away; it is one more thing that did not run."""
    early = {"ev": "get_direct", "tensor": 1}
    rows = [*set_up(ring=0), write(), compute()[1], early]
    found = checked(rows)
    assert (found.races, found.coverage.verdict) == (1, "partly")
    assert found.coverage.reasons[0] == "the host wrote no input after a compute was issued"
    assert checked(rows[:-1]).coverage.verdict == "not-exercised"
    assert checked(rows[:-1]).coverage.reasons == found.coverage.reasons[:1]


def test_without_markers_the_trace_does_not_tell() -> None:
    reason = "reuse, prefill, decode: the trace does not tell"
    assert checked(computes()).coverage.reasons == [reason]
    assert reason not in checked(computes(markers=2)).coverage.reasons
    assert reason not in checked([*computes(), {"ev": "sched_compute", "sched": 0}]).coverage.reasons


def test_a_race_in_spite_of_an_eval_callback() -> None:
    step = [reuse(), ubatch(1), write(), *[row for _ in range(2) for row in (compute()[1], wait())]]
    quiet = checked([*set_up(ring=0), *step, *step]).coverage
    assert quiet.reasons == ["each node was waited for, which hides everything"]
    read = [{"ev": "get_async", "backend": 0, "tensor": 1}, {"ev": "set_direct", "tensor": 1}]
    raced = checked([*set_up(ring=0), *step, *step, *read])
    assert (raced.races, raced.coverage.verdict) == (1, "partly")
    assert raced.coverage.reasons[0] == "each node was waited for, which hides other races"


def test_direct_writes() -> None:
    rows = simulate(Config(ring=0)).rows
    found = checked(rows).coverage
    # 3 of the 5 inputs are written through `tensor->data`, at each of 6 boundaries
    assert (found.hidden, found.reports) == (18, 30)
    assert found.hidden_line() == "without direct writes 18 of 30 reports would have been invisible"
    quiet = [row for row in rows if row["ev"] != "set_direct"]
    assert checked(quiet).races == found.reports - found.hidden
    assert "no direct write was announced or inferred" in checked(quiet).coverage.reasons
    inferred = [{**row, "inferred": True} if row["ev"] == "set_direct" else row for row in rows]
    assert checked(inferred).coverage.counters["inferred_writes"] == 72


def test_a_trace_of_nothing() -> None:
    nothing: list[Event] = [{"ev": "note", "what": "x"}]
    assert checked(nothing).coverage.verdict == "not-exercised"


def test_requirements() -> None:
    found = coverage(Config())
    assert unmet(parse("ubatches>=2, reuse >= 1,direct-writes>=1"), found) == []
    assert unmet(parse("Open_Windows>6, prepare=20, decode<16"), found) == [
        "open_windows>6 is not met: open_windows is 6",
        "decode<16 is not met: decode is 16",
    ]
    for text, message in (("ubatchs>=2", "no counter 'ubatchs'"), ("ubatches", "is no term"), ("", "is no term")):
        with pytest.raises(UsageError, match=message):
            parse(text)
