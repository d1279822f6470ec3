"""The memo of the lowering against the lowering alone: the same programs, reports, warnings, counters, to the bit."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hbtrace.compiled.compile import BuildError
from hbtrace.errors import TraceError
from hbtrace.replay import lower, memo
from hbtrace.replay.memo import key_columns, learnable
from hbtrace.replay.session import Session
from hbtrace.trace.reader import open_trace
from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.vocabulary import COLUMNS, COMMON, EVENTS
from tests.compiled.memos import cut, replay, shaken
from tests.compiled.planted import needs_library
from tests.compiled.sanitized_memo import run, runtimes
from tests.material import RECORDINGS, cases
from tests.material import recording as recorded
from tests.oracle.programs import random_program

PROGRAMS = int(os.environ.get("HBTRACE_PROGRAMS", "2000"))
FIRST_SEED = int(os.environ.get("HBTRACE_SEED", "0"))


pytestmark = needs_library


def same(batches: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch, **settings: Any) -> int:
    """How many rows the memo knew, where all is the same with it and without."""
    got = replay(batches, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(lower, "new_memo", lambda: None)
        expected = replay(batches, **settings)
    assert got[0] == expected[0]
    for what, told in expected[1].items() if expected[1]["error"] is None else [("error", expected[1]["error"])]:
        assert (what, got[1][what]) == (what, told)
    return got[2]


def test_on_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    known = rows = 0
    for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 8, 10)):
        rng = random.Random(seed)
        events = shaken(random_program(rng, weird=rng.choice([0, 0, 0.05, 0.2])), rng)
        settings = {"skip_weights": rng.random() < 0.3, "threads": rng.choice([None, "one", "ordered"])}
        try:
            known += same(cut(events, rng.choice([1, 3, 7, 50, len(events)])), monkeypatch, **settings)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        rows += len(events)
    assert known > rows / 5


def test_on_random_programs_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + max(PROGRAMS // 40, 10)):
        rng = random.Random(seed)
        events = shaken(random_program(rng, weird=rng.choice([0, 0.05])), rng)
        same(cut(events, 40), monkeypatch, strict=True)


@pytest.mark.parametrize("trace", cases(), ids=lambda path: path.stem)
def test_on_a_case(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        batches = list(open_trace(trace).batches())
    except TraceError:
        return
    same(batches, monkeypatch)
    rows = [row for batch in batches for row in [batch]]
    same([*rows, *rows, *rows], monkeypatch)


@pytest.mark.parametrize("name", RECORDINGS)
def test_on_a_recorded_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = list(open_trace(recorded(name)).batches())
    rows = sum(batch.num_rows for batch in batches)
    assert same([*batches] * 3, monkeypatch) > rows / 2
    small = [batch.slice(start, 100) for batch in batches for start in range(0, batch.num_rows, 100)]
    same(small, monkeypatch)


# --- what a row's meaning depends on


def events_of(name: str) -> list[dict[str, Any]]:
    """A small world, and three times an event of that name, with a value in every one of its keys."""
    world: list[dict[str, Any]] = [
        *({"ev": "backend", "id": k, "name": f"Q{k}", "drains": ["set", "get"]} for k in range(2)),
        *({"ev": "buffer", "id": k, "name": f"B{k}", "size": 1 << 12, "host": k == 1, "backend": 0} for k in range(2)),
        *({"ev": "tensor", "id": k, "name": f"t{k}", "buffer": k % 2, "offset": 64 * k, "size": 256} for k in range(4)),
        {"ev": "graph", "id": 0, "nodes": [{"op": "ADD", "reads": [{"tensor": 0}], "writes": [{"tensor": 1}]}]},
        {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}], "writes": [{"tensor": 1}, {"tensor": 2}]},
        {"ev": "event_record", "backend": 0, "event": 0}, {"ev": "release", "object": "2"},
    ]  # fmt: skip
    row = {"ev": name, **{key: value(key, kind) for key, kind in EVENTS[name].keys.items() if key in COLUMNS}}
    return [*world, *([row] * 3)]


def value(key: str, kind: str) -> Any:
    """Something that a key can hold, and that means something in the small world."""
    ranges = {"tensor": 1, "offset": 8, "size": 16, "rows": 2, "stride": 32}
    known = {"runs_on": "src", "rows": 2, "stride": 32, "size": 16, "view_of": -1, "buffer": 1, "graph": 0, "id": 3}
    if key in known:
        return known[key]
    return {
        "int": 1, "id": 1, "bool": True, "str": "1", "range": ranges, "ranges": [ranges, {"tensor": 2}], "ints": [1],
        "strs": ["input"], "picks": [{"tensor": 3, "runs": [{"first": 1}]}],
        "nodes": [{"op": "MUL", "tensor": 1, "reads": [ranges], "writes": [{"tensor": 2}]}],
    }[kind]  # fmt: skip


def other(key: str, kind: str) -> Any:
    """Another value of it."""
    ranges = {"tensor": 0, "offset": 0, "size": 8}
    known = {"runs_on": "dst", "buffer": 0, "rows": 3, "stride": 48, "size": 24, "view_of": 0, "graph": 9}
    if key in known:
        return known[key]
    return {
        "int": 0, "id": 0, "bool": False, "str": "2", "range": ranges, "ranges": [ranges], "ints": [2],
        "strs": ["loss"],
        "picks": [{"tensor": 3, "runs": [{"first": 2}]}],
        "nodes": [{"op": "MUL", "tensor": 1, "reads": [ranges], "writes": [{"tensor": 3}]}],
    }[kind]  # fmt: skip


LEARNABLE = [name for name, event in EVENTS.items() if learnable(event)]


@pytest.mark.parametrize("name", LEARNABLE)
def test_a_row_like_one_before_is_known_and_one_with_another_key_is_not(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = events_of(name)
    used = set(key_columns(EVENTS[name]))
    before = same([batch_from_rows(events)], monkeypatch)
    assert before >= 1, "the same row again is not known"
    for key, kind in COLUMNS.items():
        if key not in {*EVENTS[name].keys, *COMMON}:
            continue
        changed = {**events[-1], key: other(key, kind)}
        known = same([batch_from_rows([*events, changed])], monkeypatch)
        assert (known > before) == (key not in used), key


@pytest.mark.parametrize("name", [name for name in LEARNABLE if len(key_columns(EVENTS[name])) > 1])
def test_a_column_that_is_left_out_of_the_key_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted error: rows that differ there would mean the same."""
    found = []
    for left_out in key_columns(EVENTS[name]):
        kept = [key for key in key_columns(EVENTS[name]) if key != left_out]
        monkeypatch.setattr(memo, "key_columns", lambda event, kept=kept: kept)
        events = events_of(name)
        changed = {**events[-1], left_out: other(left_out, COLUMNS[left_out])}
        uses = [{"ev": "tensor_get", "tensor": 1}, {"ev": "compute", "backend": 0, "graph": 3}]
        try:
            for threads in ("one", "ordered"):
                same([batch_from_rows([*events, changed, *uses, changed])], monkeypatch, threads=threads)
        except AssertionError:
            found.append(left_out)
    assert found


def test_a_definition_that_the_memo_does_not_hear_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other planted error: what rows need would stay as it was."""
    monkeypatch.setattr(memo.Memo, "changed", lambda self, what, content: None)
    with pytest.raises(AssertionError):
        test_on_random_programs(monkeypatch)


# --- what it costs


@pytest.mark.parametrize("size", [500, 1000, 5000, 30_000])
@pytest.mark.parametrize("repeats", [0, 30, 90], ids=lambda share: f"{share} % repeat")
def test_a_trace_that_seldom_repeats_is_left_alone(size: int, repeats: int) -> None:
    """Counted over batches of any size: how many rows were looked up in vain."""
    rng = random.Random(size)
    row = {"ev": "kernel", "backend": 0}
    events = [{"ev": "backend", "id": 0, "name": "Q"}, {"ev": "buffer", "id": 0, "name": "B", "size": 1 << 40}]
    for k in range(30_000):
        offset = 8 * (rng.randrange(3) if rng.randrange(100) < repeats else k + 3)
        events.append({**row, "writes": [{"buffer": 0, "offset": offset, "size": 8}]})
    session = Session([batch_from_rows(events[start : start + size]) for start in range(0, len(events), size)])
    taught: list[int] = []
    teach = session._lowering._teach
    session._lowering._teach = lambda *told: taught.append(1) or teach(*told)  # type: ignore[method-assign,func-returns-value]
    session.run()
    if repeats == 90:
        assert 2_000 < len(taught) < 4_500  # all that do not repeat
    else:
        assert len(taught) <= 3 * 4_096  # windows with pauses between them


def test_what_is_learnt_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every version of a tensor is another meaning of the rows that use it: a key keeps a few."""
    events = [{"ev": "backend", "id": 0, "name": "Q"}, {"ev": "buffer", "id": 0, "name": "B", "size": 1 << 40}]
    for k in range(300):
        events.append({"ev": "tensor", "id": 0, "name": "t", "buffer": 0, "offset": 64 * (k % 100), "size": 64})
        events += [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}] * 2
    assert same([batch_from_rows(events)], monkeypatch) > 300
    monkeypatch.setattr(memo, "_MOST_KEPT", 20)
    assert same(cut(events, 50), monkeypatch) > 100


def test_under_sanitizers() -> None:
    """A small run of what `make native-asan` does at length."""
    try:
        runtimes()
    except BuildError as error:
        pytest.skip(str(error))
    assert run(25) > 100


@pytest.mark.parametrize("native", [True, False], ids=["memo", "alone"])
def test_what_is_kept_does_not_grow_with_the_trace(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of ever new numbers, made, waited for and freed; host writes of a batch that the memo is not asked of."""
    monkeypatch.setattr(memo, "_MOST_KEPT", 100)
    monkeypatch.setattr(memo, "_WINDOW", 50)
    if not native:
        monkeypatch.setattr(lower, "new_memo", lambda: None)
    one = [
        row for k in range(400)
        for row in (
            {"ev": "tensor_set", "tensor": 0, "offset": k}, {"ev": "event_record", "backend": 0, "event": k},
            {"ev": "event_synchronize", "event": k}, {"ev": "event_free", "event": k},
        )
    ]  # fmt: skip
    world = [
        {"ev": "backend", "id": 0, "name": "Q"}, {"ev": "buffer", "id": 0, "name": "B", "size": 1 << 20},
        {"ev": "tensor", "id": 0, "name": "t", "buffer": 0},
    ]  # fmt: skip
    session = Session([batch_from_rows(world), *cut(one, 100)])
    session.run()
    lowering = session._lowering
    assert len(lowering._slots_used) <= 200
    if (known := lowering._memo) is not None:
        assert len(known.windows.told[1]) <= 100
        assert len(known._now) < 10
        assert max(map(len, (known._places, known._contents, known._definitions, known._templates))) <= 400
