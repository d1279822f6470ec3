"""Calls that llama.cpp of the registry makes in corners only, or not at all: made here by small programs."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.record import engine as engines
from tests.record.runs import Event, Recorder, Run, hbtrace
from tests.registry import MissingError


def _built(make: Callable[..., Path], *arguments: object) -> Path:
    try:
        return make(*arguments)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def recorder(
    engine: Path, plugin: Path, driver: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recorder:
    return Recorder(engine, plugin, driver, model, tmp_path_factory.mktemp("calls"))


@pytest.fixture(scope="module")
def transfers(recorder: Recorder) -> Run:
    return recorder.record(command=[_built(engines.build_calls, recorder.engine, "transfers")])


@pytest.fixture(scope="module")
def unscheduled(recorder: Recorder) -> Run:
    program = _built(engines.build_calls, recorder.engine, "unscheduled")
    return recorder.record(command=[program], name="unscheduled.arrow")


@pytest.fixture(scope="module")
def forked(recorder: Recorder) -> Run:
    """A ring of two slots, and nothing that waits."""
    return _fork(recorder, FORK_SLOTS="2")


def _named(run: Run, *kinds: str) -> list[tuple[str, ...]]:
    """The rows of these kinds, each with the names of the tensors that it touches, or the buffer's."""
    names = {event["id"]: event["name"] for event in run.rows("tensor")}
    buffers = {event["id"]: event["name"] for event in run.rows("buffer")}

    def words(event: Event) -> tuple[str, ...]:
        ranges = [event[key] for key in ("src", "dst") if key in event] or [event]
        touched = [names[part["tensor"]] for part in ranges if "tensor" in part]
        buffer = event.get("buffer", event.get("attrs", {}).get("buffer"))
        return (event.get("what", event["ev"]), *touched, *([buffers[buffer]] if buffer is not None else []))

    return [words(event) for event in run.rows(*kinds)]


def test_each_call_is_one_event_whatever_it_calls_itself(transfers: Run) -> None:
    assert transfers.output == "1 0\n"
    kinds = (
        "buffer_clear", "tensor_memset", "tensor_set", "tensor_get", "tensor_copy", "copy_async", "synchronize", "note",
        "buffer_free",
    )  # fmt: skip
    assert _named(transfers, *kinds) == [
        ("buffer_clear", "CPU"),
        ("tensor_memset", "a"),
        ("tensor_set", "a"),
        ("tensor_copy", "a", "b"),  # buffer_copy_tensor; the one that refused copied nothing and is none
        ("tensor_copy", "a", "c"),
        ("tensor_copy", "c", "d"),
        ("copy_async", "c", "d"),
        ("copy_refused",),
        ("synchronize",),
        ("synchronize",),
        ("tensor_copy", "a", "c"),
        ("tensor_get", "d"),
        ("buffer_reset", "CPU"),
        ("tensor_set", "again"),
        ("buffer_free", "CPU"),
        ("buffer_free", "TEST0"),
    ]
    assert transfers.warnings == []


def test_a_copy_names_its_queue_by_the_rule_of_its_backend(transfers: Run) -> None:
    (copy,) = transfers.rows("copy_async")
    assert (copy["runs_on"], copy["after_dst"]) == ("src", False)
    assert {event["registry"] for event in transfers.rows("backend")} == {"HBTEST", "CPU"}
    assert "--copies" not in transfers.told


def test_a_copy_of_an_unknown_backend_names_the_default_and_a_note_says_so(recorder: Recorder) -> None:
    program = _built(engines.build_calls, recorder.engine, "transfers")
    done = hbtrace(
        "record", "-o", recorder.folder / "typo.arrow", "--copies", "Hbtest=dst", "--", program,
        env=recorder.environment({}),
    )  # fmt: skip
    run = Run(done.returncode, done.stdout, done.stderr, recorder.folder / "typo.arrow")
    (copy,) = run.rows("copy_async")
    assert (copy["runs_on"], copy["after_dst"]) == ("src", False)
    noted = [event["attrs"] for event in run.rows("note") if event["what"] == "copy_rule_unknown"]
    assert noted == [{"backend": copy["backend"], "registry": "HBTEST"}]
    assert "the asynchronous copies of HBTEST is not known" in run.told
    assert "--copies Hbtest: the program has no such backend; it has CPU, HBTEST" in run.told


def test_rows_of_a_write_are_kept(transfers: Run) -> None:
    first, _ = transfers.rows("tensor_set")
    assert (first["offset"], first["size"], first["rows"], first["stride"]) == (16, 8, 4, 64)


def test_a_copy_that_runs_on_meets_what_the_host_does_next(transfers: Run) -> None:
    # copy_async is queued behind nothing that is waited for. The refused copy waits for the queue before it writes `c`,
    # so the queued copy's read of it is over, and its write of `d` before the host reads that.
    assert transfers.races == {}


def test_a_copy_of_backends_that_made_themselves_is_seen(unscheduled: Run) -> None:
    assert _named(unscheduled, "copy_async", "tensor_copy", "synchronize", "compute", "backend_free") == [
        ("copy_async", "from", "to"), ("synchronize",), *[("compute",)] * 4, ("synchronize",), *[("backend_free",)] * 2,
    ]  # fmt: skip
    assert unscheduled.warnings == []


def test_direct_writes_are_seen_without_a_scheduler(unscheduled: Run) -> None:
    writes = [(event["ev"], event.get("inferred", False)) for event in unscheduled.rows("set_direct", "compute")]
    written, computed = ("set_direct", True), ("compute", False)
    assert writes == [written, computed] * 3 + [computed]  # the last one finds the input as it was
    assert unscheduled.races == {"input": 2}


def test_a_tensor_made_where_another_was_is_another(transfers: Run) -> None:
    ids = {event["name"]: event["id"] for event in transfers.rows("tensor")}
    places = {event["name"]: (event["buffer"], event["offset"]) for event in transfers.rows("tensor")}
    assert places["again"] == places["a"]
    assert ids["again"] != ids["a"]


def _fork(recorder: Recorder, *options: str, **settings: str) -> Run:
    program = _built(engines.build_fork, recorder.engine)
    name = f"fork{len(list(recorder.folder.glob('fork*')))}.arrow"
    return recorder.record(*options, command=[program], name=name, HBTEST_HOLD="1", **settings)


def _prepared(run: Run) -> list[tuple[int, bool]]:
    return [(event.get("slot", -1), event["rotated"]) for event in run.rows("sched_prepare")]


def test_announced_writes_and_preparations_without_a_ring(recorder: Recorder) -> None:
    run = _fork(recorder, FORK_SLOTS="1")
    # The device adds when the next input is written over the one it reads: 2 + 4 + 4.
    assert run.output == "10 3\n"
    assert [event["rotated"] for event in run.rows("sched_prepare")] == [False] * 3
    # The writes of the second and third ubatch meet the computes of the first and second.
    assert run.races == {"input": 2}
    assert run.warnings == []
    # Announced, so not inferred a second time, and none of the three assertions before them is left unexplained.
    assert [event.get("inferred", False) for event in run.rows("set_direct")] == [False] * 3
    assert "about to write an input" not in run.told


def test_a_rotation_points_the_input_to_another_slot(forked: Run) -> None:
    assert forked.output == "7 3\n"
    assert _prepared(forked) == [(-1, False), (1, True), (0, True)]
    offsets = [event["offset"] for event in forked.rows("tensor") if event["name"] == "input"]
    assert offsets == [0, 256, 0]
    assert len(forked.rows("graph")) == 1  # computed at new places, not defined again
    # Nothing waits for the first slot's reader before the third ubatch writes it: right by luck.
    assert forked.races == {"input": 1}
    assert forked.warnings == []


def test_a_rotation_that_waits_has_no_race(recorder: Recorder) -> None:
    run = _fork(recorder, FORK_SLOTS="2", FORK_WAITS="1")
    assert run.output == "7 3\n"
    assert run.races == {}


def test_a_preparation_belongs_to_the_round_that_it_begins(forked: Run) -> None:
    kinds = ("sched_alloc", "sched_reuse", "sched_prepare", "ubatch")
    assert [(event["ev"], event["ubatch"]) for event in forked.rows(*kinds)] == [
        ("sched_alloc", 0), ("sched_prepare", 0), ("ubatch", 0),
        ("sched_reuse", 1), ("sched_prepare", 1), ("ubatch", 1),
        ("sched_reuse", 2), ("sched_prepare", 2), ("ubatch", 2),
    ]  # fmt: skip


@pytest.mark.skipif(platform.machine() != "x86_64", reason="single stepping needs x86-64")
def test_exact_stores_and_announcements_agree(recorder: Recorder) -> None:
    run = _fork(recorder, "--exact-writes", FORK_SLOTS="2")
    assert run.output == "7 3\n"
    assert run.races == {"input": 1}
