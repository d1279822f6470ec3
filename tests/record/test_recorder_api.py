"""`hbtrace.Recorder`: what an engine tells it comes back, what is wrong is refused at the call, and nothing is lost."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.trace import vocabulary as v

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".jsonl", ".arrow", ".arrows")


def read(path: Path, *, stopped: bool = False) -> list[dict[str, Any]]:
    with hbtrace.open(str(path)) as trace:
        rows = list(trace)
        told = [warning for warning in trace.warnings if stopped and "the recording stopped" in warning]
        assert trace.warnings == told
        assert len(told) == stopped
    return rows


def python(text: str, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", text, *words], env=environment, capture_output=True, check=False, encoding="utf-8",
        timeout=120, **more,
    )  # fmt: skip


# every event of the vocabulary


def sample(ev: str, key: str, kind: str) -> Any:
    """A value that the key can have and that is not its default."""
    if (ev, key) in v.SETS:
        words = sorted(v.SETS[ev, key])
        return words if kind == v.STRS else words[0]
    if key in ("version", "size", "stride"):
        return {"version": 1, "size": 64, "stride": 128}[key]
    if kind == v.LIST:
        module = {"path": "libengine.so", "build_id": "ab12", "base": 4096, "size": 64}
        return {"frames": [4660, "engine.cpp:7 decode", 0], "modules": [module, {"path": "a module"}, {}]}[key]
    piece = {"tensor": 3, "offset": 4, "size": 8, "rows": 2, "stride": 16, "approx": True}
    by_index = {"tensor": 3, "offset": 4, "size": 8, "by": 9, "pitch": 16}
    pieces = [piece, {"buffer": 1, "offset": 0, "size": 32}, {"tensor": 0}, by_index]
    runs = [{"first": 0}, {"first": -1, "count": 2, "repeat": 3, "step": -4}]
    return {
        v.INT: 2, v.ID: 5, v.BOOL: True, v.STR: f"a {key}", v.INTS: [4, -2, 0], v.STRS: ["one", "two"],
        v.RANGE: piece, v.RANGES: pieces, v.JSON: {"deep": [1, 2.5, None, {"x": "y"}], "yes": False},
        v.PICKS: [{"tensor": 9, "runs": runs}, {"tensor": 8, "runs": []}, {"tensor": 7}],
        v.NODES: [{"op": "ADD", "tensor": 1, "backend": 0, "reads": pieces, "writes": [piece]}, {"op": "VIEW"}, {}],
    }[kind]  # fmt: skip


def arguments(row: dict[str, Any]) -> dict[str, Any]:
    """A row as a method is called: `async` is a word of Python's own."""
    return {"async_" if key == "async" else key: value for key, value in row.items()}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("ev", v.EVENTS)
def test_an_event_comes_back(ev: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    row = {key: sample(ev, key, kind) for key, kind in (v.EVENTS[ev].keys | v.COMMON).items()}
    with hbtrace.Recorder(path) as run:
        number = getattr(run, ev)(**arguments(row))
    assert number == (0 if ev == "meta" else 1)
    assert read(path)[number:] == [{"ev": ev, **row}]
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ev", v.EVENTS)
def test_an_event_with_what_it_needs_and_no_more(ev: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    row = {key: sample(ev, key, v.EVENTS[ev].keys[key]) for key in v.EVENTS[ev].needs}
    with hbtrace.Recorder(path, times=False) as run:
        getattr(run, ev)(*row.values())
    found = read(path)[-1]
    if ev == "meta":
        assert set(found) == {"ev", "version", "producer", "started_at", "command"}
    else:
        assert found == {"ev": ev, **row, "thread": 0}


@pytest.mark.parametrize("ev", v.EVENTS)
def test_a_method_says_what_its_event_needs(ev: str) -> None:
    parameters = inspect.signature(getattr(hbtrace.Recorder, ev)).parameters.values()
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind != one.VAR_KEYWORD]
    assert needed[1:] == list(v.EVENTS[ev].needs)
    assert getattr(hbtrace.Recorder, ev).__doc__


def test_there_is_no_method_for_an_event_that_the_vocabulary_lacks() -> None:
    from hbtrace.record.recorder_events import Events

    assert {name for name in vars(Events) if not name.startswith("_")} == set(v.EVENTS)


# what comes of it


def two_ubatches(run: hbtrace.Recorder, *, mended: bool) -> None:
    """The host writes the tokens of the second ubatch while the queue may still read those of the first."""
    run.backend(0, "GPU0")
    run.buffer(0, "GPU_Host", 64)
    run.tensor(0, "inp_tokens", buffer=0)
    run.graph(0, nodes=[{"op": "GET_ROWS", "reads": [{"tensor": 0}]}])
    for number in range(2):
        run.tensor_set(0, ubatch=number)
        run.compute(0, 0, ubatch=number)
        if mended:
            run.synchronize(0, ubatch=number)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_race_is_found_and_its_mend_is_clean(suffix: str, tmp_path: Path) -> None:
    for mended in (False, True):
        path = tmp_path / f"run{mended}{suffix}"
        with hbtrace.Recorder(path) as run:
            two_ubatches(run, mended=mended)
        outcome = hbtrace.analyze(str(path), strict=True)
        assert outcome.warnings == []
        assert [report.kind for report in outcome] == ([] if mended else ["write-after-read"])
        if not mended:
            (report,) = outcome.reports
            assert (report.earlier.actor, report.earlier.row, report.current.row) == ("GPU0", 6, 7)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_that_an_index_picks_race_only_where_they_meet(suffix: str, tmp_path: Path) -> None:
    """The queue still writes row 2 of the cache when the host reads row 5, then row 2."""
    path = tmp_path / f"run{suffix}"
    with hbtrace.Recorder(path) as run:
        run.backend(0, "GPU0", registry="GPU", queue_of=-1)
        run.buffer(0, "GPU_Host", 128)
        run.tensor(0, "cache", buffer=0, size=64)
        run.tensor(1, "index", buffer=0, offset=64, size=64)
        rows: Any = {"tensor": 0, "offset": 0, "size": 8, "by": 1, "pitch": 8}
        run.graph(0, nodes=[{"op": "SET_ROWS", "reads": [{"tensor": 1}], "writes": [rows]}])
        run.compute(0, 0, picked=[{"tensor": 1, "runs": [{"first": 2}]}])
        run.host_access(reads=[rows], picked=[{"tensor": 1, "runs": [{"first": 5, "count": 2}]}])
        run.host_access(reads=[rows], picked=[{"tensor": 1, "runs": [{"first": 0, "repeat": 2, "step": 2}]}])
    outcome = hbtrace.analyze(str(path), strict=True)
    assert outcome.warnings == []
    assert [(one.current.row, one.lo, one.hi, one.approx) for one in outcome.reports] == [(8, 16, 24, False)]


def test_a_free_on_a_queue_is_ordered_there(tmp_path: Path) -> None:
    for backend in (None, -1, 0):
        path = tmp_path / f"run{backend}.jsonl"
        with hbtrace.Recorder(path) as run:
            run.backend(0, "GPU0")
            run.buffer(0, "GPU0", 64)
            run.kernel(0, writes=[{"buffer": 0, "size": 64}])
            run.buffer_free(0, backend=backend)
        assert hbtrace.analyze(str(path), strict=True).races == (0 if backend == 0 else 1)


def test_the_run_is_told_in_row_0(tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "a.jsonl", meta={"engine": "mine", "threads": "ordered"}) as run:
        assert run.rows == 1
    (meta,) = read(tmp_path / "a.jsonl")
    assert meta["engine"] == "mine"
    assert meta["threads"] == "ordered"
    assert meta["producer"] == f"hbtrace.Recorder {hbtrace.__version__}"
    with hbtrace.Recorder(tmp_path / "b.jsonl") as run:
        assert run.meta(producer="another", command=["x"]) == 0
        assert run.synchronize(0) == 1
    assert read(tmp_path / "b.jsonl")[0].items() >= {"producer": "another", "command": ["x"]}.items()


def test_an_empty_recording_is_a_trace(tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.arrow"):
        pass
    assert [row["ev"] for row in read(tmp_path / "run.arrow")] == ["meta"]


def test_times_are_filled_in_unless_they_are_given_or_not_wanted(tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.jsonl") as run:
        run.synchronize(0)
        run.synchronize(0, time=5, thread=7)
        run.synchronize(0)
    first, given, last = read(tmp_path / "run.jsonl")[1:]
    assert 0 < first["time"] <= last["time"]
    assert (given["time"], given["thread"]) == (5, 7)
    with hbtrace.Recorder(tmp_path / "none.jsonl", times=False) as run:
        run.synchronize(0)
    assert "time" not in read(tmp_path / "none.jsonl")[1]


@pytest.mark.parametrize(
    "text", ['quote " backslash \\ newline \n', "é € 😀", "\x00\x07\x7f", "", "{}", "a" * 100_000]
)
def test_texts_come_back(text: str, tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.arrow", meta={"env": {text: text}}) as run:
        run.tensor(0, text, label="x", site=text)
    meta, tensor = read(tmp_path / "run.arrow")
    assert meta["env"] == {text: text}
    assert (tensor["name"], tensor["site"]) == (text, text)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_half_a_character_is_kept_as_its_escape(suffix: str, tmp_path: Path) -> None:
    """Two file names that are no UTF-8 stay two."""
    path = tmp_path / f"run{suffix}"
    with hbtrace.Recorder(path, meta={"command": ["é \udcff"]}) as run:
        run.note("name \udcff", attrs={"\udcfe": ["\ud800", {"é": "é"}]}, label="name \udcfe")
    meta, note = read(path)
    assert meta["command"] == ["é \\udcff"]
    assert (note["what"], note["label"]) == ("name \\udcff", "name \\udcfe")
    assert note["attrs"] == {"\\udcfe": ["\\ud800", {"é": "é"}]}


def test_the_programs_own_arguments_are_kept_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["engine", "\udcff.gguf"])
    hbtrace.Recorder(tmp_path / "run.jsonl").close()
    assert read(tmp_path / "run.jsonl")[0]["command"] == ["engine", "\\udcff.gguf"]


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    import numpy as np

    with hbtrace.Recorder(tmp_path / "run.jsonl", times=False) as run:
        run.tensor(np.int64(1), np.str_("x"), size=np.uint32(8), ne=np.arange(2))
        run.note("n", attrs={"i": np.int32(3), "f": np.float64(0.5)})
    tensor, note = read(tmp_path / "run.jsonl")[1:]
    assert tensor == {"ev": "tensor", "id": 1, "name": "x", "size": 8, "ne": [0, 1], "thread": 0}
    assert note["attrs"] == {"i": 3, "f": 0.5}


# what is refused, and with which words


class UnspeakableError(Exception):
    """What cannot be shown or told."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


class UnspeakableInt(int):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


RANGE = "tensor, buffer, offset, size, rows, stride, approx, by, pitch"
BY: Any = {"tensor": 0, "size": 8, "by": 1, "pitch": 8}


def picking(picked: Any) -> Callable[[hbtrace.Recorder], Any]:
    return lambda run: run.compute(0, 0, picked=picked)


def reading(**more: Any) -> Callable[[hbtrace.Recorder], Any]:
    return lambda run: run.kernel(0, reads=[{**BY, **more}])


WRONG: list[tuple[Callable[[hbtrace.Recorder], Any], type[Exception], str]] = [
    (lambda run: run.compute("0", 0), TypeError, "compute: backend must be an integer, not '0'"),
    (lambda run: run.compute(True, 0), TypeError, "compute: backend must be an integer, not True"),
    (lambda run: run.compute(8.0, 0), TypeError, "compute: backend must be an integer, not 8.0"),
    (lambda run: run.compute(0, None), TypeError, "compute: graph is needed"),
    (lambda run: run.compute(-1, 0), ValueError, "compute: backend must be 0 or more, not -1"),
    (lambda run: run.compute(0, 2**63), ValueError, "compute: graph must fit 64 bits, not 9223372036854775808"),
    (lambda run: run.tensor_set(10**5000), ValueError, "tensor_set: tensor must fit 64 bits, not a value of type int"),
    (
        lambda run: run.tensor_set(UnspeakableError()), TypeError,
        "tensor_set: tensor must be an integer, not a value of type UnspeakableError",
    ),
    (lambda run: run.tensor_set(UnspeakableInt(-5)), ValueError, "tensor_set: tensor must be -1 or more, not -5"),
    (lambda run: run.buffer(0, "B", 8, backend=-2), ValueError, "buffer: backend must be -1 or more, not -2"),
    (lambda run: run.buffer(0, "B", -8), ValueError, "buffer: size must be 0 or more, not -8"),
    (lambda run: run.buffer(0, 5, 8), TypeError, "buffer: name must be text, not 5"),
    (lambda run: run.buffer(0, "B", 8, host=1), TypeError, "buffer: host must be True or False, not 1"),
    (
        lambda run: run.buffer(0, "B", 8, usage="kv"), ValueError,
        "buffer: usage must be one of any, compute, weights, not 'kv'",
    ),
    (lambda run: run.backend(0, "HOST"), ValueError, "backend: name must not be HOST: reports call the host so"),
    (
        lambda run: run.backend(0, "G", drains="set"), TypeError,
        "backend: drains must be a list of texts, not 'set'",
    ),
    (
        lambda run: run.backend(0, "G", drains=["get", "fill"]), ValueError,
        "backend: drains[1] must be one of get, set, not 'fill'",
    ),
    (lambda run: run.tensor(0, "t", ne=[1, 2.0]), TypeError, "tensor: ne[1] must be an integer, not 2.0"),
    (lambda run: run.tensor_set(0, offset=-4), ValueError, "tensor_set: offset must be 0 or more, not -4"),
    (lambda run: run.tensor_set(0, rows=0), ValueError, "tensor_set: rows must be 1 or more, not 0"),
    (lambda run: run.tensor_set(0, rows=2), ValueError, "tensor_set: rows needs a stride of 1 or more"),
    (
        lambda run: run.tensor_set(0, ofset=4), TypeError,
        "tensor_set: has no key 'ofset'; its keys are tensor, offset, size, rows, stride, approx, thread, split, "
        "ubatch, time, duration, site, frames, label",
    ),
    (lambda run: run.synchronize(0, ubatch=-2), ValueError, "synchronize: ubatch must be -1 or more, not -2"),
    (
        lambda run: run.kernel(0, reads={"tensor": 0}), TypeError,
        "kernel: reads must be a list of ranges, not {'tensor': 0}",
    ),
    (lambda run: run.kernel(0, reads=[0]), TypeError, f"kernel: reads[0] must be a range ({{{RANGE}}}), not 0"),
    (
        lambda run: run.kernel(0, reads=[{"tensor": 0}, {}]), ValueError,
        "kernel: reads[1] must name a tensor or a buffer, and one of them only",
    ),
    (
        lambda run: run.kernel(0, writes=[{"tensor": 0, "buffer": 1}]), ValueError,
        "kernel: writes[0] must name a tensor or a buffer, and one of them only",
    ),
    (
        lambda run: run.kernel(0, writes=[{"tensor": 0, "length": 1}]), TypeError,
        f"kernel: writes[0] has a key 'length'; the keys of a range are {RANGE}",
    ),
    (
        lambda run: run.tensor_copy({"tensor": 0, "size": "all"}, {"tensor": 1}), TypeError,
        "tensor_copy: src.size must be an integer, not 'all'",
    ),
    (
        lambda run: run.tensor_copy({"tensor": 0, "rows": 2}, {"tensor": 1}), ValueError,
        "tensor_copy: src.rows needs a stride of 1 or more",
    ),
    (
        lambda run: run.graph(0, nodes=[{"reads": [{"tensor": 0}, {"tensor": None}]}]), ValueError,
        "graph: nodes[0].reads[1] must name a tensor or a buffer, and one of them only",
    ),
    (lambda run: run.graph(0, nodes=["ADD"]), TypeError,
     "graph: nodes[0] must be a node ({op, tensor, backend, reads, writes}), not 'ADD'"),
    (lambda run: run.note("n", attrs=[1]), TypeError, "note: attrs must be an object (a dict), not [1]"),
    (lambda run: run.note("n", attrs={"x": {1}}), TypeError, "note: attrs holds {1}, which JSON cannot say"),
    (lambda run: run.note("n", attrs={1: 2}), TypeError, "note: attrs holds the key 1, which is no text"),
    (lambda run: run.note("n", attrs={"x": float("nan")}), ValueError, "note: attrs holds nan, which JSON has not"),
    (
        lambda run: run.note("n", attrs={"a": 10**5000}), ValueError,
        "note: attrs holds an integer beyond 1.8e308, which readers of JSON refuse",
    ),
    (reading(tensor=None, buffer=0), ValueError, "kernel: reads[0].by picks rows of a tensor, not of a buffer"),
    (reading(rows=2, stride=8), ValueError, "kernel: reads[0].by goes without rows and stride"),
    (reading(stride=8), ValueError, "kernel: reads[0].by goes without rows and stride"),
    (reading(size=None), ValueError, "kernel: reads[0].by needs a size"),
    (reading(pitch=None), ValueError, "kernel: reads[0].by needs a pitch"),
    (reading(pitch=0), ValueError, "kernel: reads[0].pitch must be 1 or more, not 0"),
    (reading(by=-2), ValueError, "kernel: reads[0].by must be -1 or more, not -2"),
    (picking({"tensor": 1}), TypeError, "compute: picked must be a list of picks, not {'tensor': 1}"),
    (picking([1]), TypeError, "compute: picked[0] must be a pick ({tensor, runs}), not 1"),
    (picking([{"runs": []}]), TypeError, "compute: picked[0].tensor is needed"),
    (picking([{"tensor": -1}]), ValueError, "compute: picked[0].tensor must be 0 or more, not -1"),
    (picking([{"tensor": 1, "rows": []}]), TypeError,
     "compute: picked[0] has a key 'rows'; the keys of a pick are tensor, runs"),
    (picking([{"tensor": 1, "runs": [{"first": 0}, {"count": 2}]}]), TypeError,
     "compute: picked[0].runs[1].first is needed"),
    (picking([{"tensor": 1, "runs": [{"first": 0, "last": 2}]}]), TypeError,
     "compute: picked[0].runs[0] has a key 'last'; the keys of a run are first, count, repeat, step"),
    (picking([{"tensor": 1, "runs": [{"first": "0"}]}]), TypeError,
     "compute: picked[0].runs[0].first must be an integer, not '0'"),
    (
        lambda run: run.tensor_set(0, picked=[]), TypeError,
        "tensor_set: has no key 'picked'; its keys are tensor, offset, size, rows, stride, approx, thread, split, "
        "ubatch, time, duration, site, frames, label",
    ),
    (lambda run: run.synchronize(0, duration=-1), ValueError, "synchronize: duration must be 0 or more, not -1"),
    (
        lambda run: run.synchronize(0, frames="decode"), TypeError,
        "synchronize: frames must be a list of addresses and texts, not 'decode'",
    ),
    (
        lambda run: run.synchronize(0, frames=["decode", 1.5]), TypeError,
        "synchronize: frames[1] must be an address or text, not 1.5",
    ),
    (
        lambda run: run.synchronize(0, frames=[-1]), ValueError,
        "synchronize: frames[0] must be 0 or more, not -1",
    ),
    (lambda run: run.meta(modules=["a.so"]), TypeError,
     "meta: modules[0] must be a module ({path, build_id, base, size}), not 'a.so'"),
    (lambda run: run.meta(modules=[{"base": "0x10"}]), TypeError,
     "meta: modules[0].base must be an integer, not '0x10'"),
    (lambda run: run.backend(0, "G", queue_of=-2), ValueError, "backend: queue_of must be -1 or more, not -2"),
    (lambda run: run.meta(), ValueError, "meta: must be the first event, not row 2"),
    (
        lambda run: run.ubatch(0, 1, 2, "foo"), TypeError,
        "Recorder.ubatch() takes from 1 to 2 positional arguments but 5 were given",
    ),
    (
        lambda run: run.compute(0), TypeError,
        "Recorder.compute() missing 1 required positional argument: 'graph'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), WRONG, ids=[words[:40] for _, _, words in WRONG])
def test_a_wrong_argument_is_named_and_not_recorded(
    call: Callable[[hbtrace.Recorder], Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with hbtrace.Recorder(tmp_path / "run.jsonl") as run:
        run.synchronize(0)
        with pytest.raises(error) as caught:
            call(run)
        assert type(caught.value) is error
        assert str(caught.value) == words
        run.synchronize(1)
    assert [row.get("backend") for row in read(tmp_path / "run.jsonl")] == [None, 0, 1]


def test_the_longest_integer_that_is_taken_comes_back(tmp_path: Path) -> None:
    most = 2**1024 - 2**970 - 1
    with hbtrace.Recorder(tmp_path / "run.jsonl") as run:
        run.note("n", attrs={"most": most, "least": -most})
        with pytest.raises(ValueError, match=r"beyond 1\.8e308"):
            run.note("n", attrs={"deep": [-most - 1]})
    assert read(tmp_path / "run.jsonl")[1]["attrs"] == {"most": most, "least": -most}


def test_an_object_that_holds_itself_is_refused(tmp_path: Path) -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with hbtrace.Recorder(tmp_path / "run.jsonl") as run, pytest.raises(ValueError, match="64 levels"):
        run.note("n", attrs=endless)


def test_a_wrong_meta_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^meta: threads must be one of one, ordered, not 'two'$"):
        hbtrace.Recorder(tmp_path / "run.jsonl", meta={"threads": "two"})
    with pytest.raises(ValueError, match=r"^meta: version must be 1, not 2$"):
        hbtrace.Recorder(tmp_path / "run.jsonl", meta={"version": 2})
    not_a_dict: Any = 5
    with pytest.raises(TypeError, match=r"^meta: must be its keys and their values \(a dict\), not 5$"):
        hbtrace.Recorder(tmp_path / "run.jsonl", meta=not_a_dict)
    assert os.listdir(tmp_path) == []


# the file


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_is_overwritten_without_force(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="exists; give force=True to overwrite it"):
        hbtrace.Recorder(path)
    assert path.read_text() == "mine"
    with hbtrace.Recorder(path, force=True) as run:
        run.synchronize(0)
        assert path.read_text() == "mine"  # until the trace is whole
    assert len(read(path)) == 2


def test_the_spool_of_a_crash_is_kept_without_force(tmp_path: Path) -> None:
    spool = tmp_path / "run.arrow.spool.jsonl"
    spool.write_text('{"ev":"note"}\n')
    with pytest.raises(FileExistsError, match="a crash left it"):
        hbtrace.Recorder(tmp_path / "run.arrow")
    assert spool.exists()
    hbtrace.Recorder(tmp_path / "run.arrow", force=True).close()
    assert os.listdir(tmp_path) == ["run.arrow"]


def test_two_recorders_do_not_share_a_path(tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.jsonl"), pytest.raises(FileExistsError, match="still written"):
        hbtrace.Recorder(tmp_path / "run.jsonl")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_force_leaves_the_spool_of_a_recorder_that_lives(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    with hbtrace.Recorder(path, force=True) as run:
        run.note("first")
        with pytest.raises(FileExistsError, match=r"spool\.jsonl is still written by another recorder"):
            hbtrace.Recorder(path, force=True)
        run.note("second")
    assert [row["what"] for row in read(path)[1:]] == ["first", "second"]
    hbtrace.Recorder(path, force=True).close()  # what has ended is overwritten
    assert [row["ev"] for row in read(path)] == ["meta"]
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("happened", ["removed", "renamed", "replaced"])
def test_a_spool_that_is_not_its_own_is_left_alone(happened: str, suffix: str, tmp_path: Path) -> None:
    path, other = tmp_path / f"run{suffix}", tmp_path / "mine.jsonl"
    run = hbtrace.Recorder(path, force=True)
    run.note("first")
    if happened == "renamed":
        run.spool.rename(other)
    else:
        run.spool.unlink()
    if happened == "replaced":
        run.spool.write_text("another's")
    with pytest.raises(hbtrace.UsageError) as caught:
        run.close()
    what = "replaced by another file" if happened == "replaced" else "removed or renamed"
    left = "its events have another name now" if happened == "renamed" else "its events are lost"
    assert str(caught.value) == f"{path}: {run.spool} was {what} while it was written: {left}"
    run.close()
    assert not path.exists()
    if happened == "replaced":
        assert run.spool.read_text() == "another's"
    if happened == "renamed":
        assert [row.get("what") for row in read(other)] == [None, "first"]


@pytest.mark.parametrize("name", ["run.txt", "run", "folder.jsonl", "none/run.jsonl"])
def test_a_path_that_cannot_be(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(hbtrace.UsageError) as caught:
        hbtrace.Recorder(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert os.listdir(tmp_path) == ["folder.jsonl"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_appeared_at_the_path_meanwhile_is_kept(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    run = hbtrace.Recorder(path)
    run.synchronize(0)
    path.write_text("mine")
    with pytest.raises(hbtrace.UsageError, match="the events are kept in"):
        run.close()
    assert path.read_text() == "mine"
    assert len(read(run.spool)) == 2


def test_a_closed_recorder_takes_no_event(tmp_path: Path) -> None:
    run = hbtrace.Recorder(tmp_path / "run.jsonl")
    run.close()
    run.close()
    with pytest.raises(ValueError, match=r"^synchronize: the recording of .*run\.jsonl is closed$"):
        run.synchronize(0)
    assert len(read(tmp_path / "run.jsonl")) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_exception_in_the_block_ends_the_trace_and_is_passed_on(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"

    def engine() -> None:
        with hbtrace.Recorder(path) as run:
            run.backend(0, "GPU0")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        engine()
    *_, backend, note = read(path, stopped=True)
    assert backend["name"] == "GPU0"
    assert (note["what"], note["attrs"]) == ("recording_ended", {"exception": "KeyError: 'mine'"})


@pytest.mark.parametrize(("code", "whole"), [(0, True), (None, True), (3, False), ("no model", False)])
def test_a_program_that_exits_well_in_the_block_leaves_a_whole_trace(
    code: object, whole: bool, tmp_path: Path
) -> None:
    def engine() -> None:
        with hbtrace.Recorder(tmp_path / "run.jsonl") as run:
            run.backend(0, "GPU0")
            sys.exit(code)  # type: ignore[arg-type]

    with pytest.raises(SystemExit):
        engine()
    rows = read(tmp_path / "run.jsonl", stopped=not whole)
    assert (rows[-1]["ev"] == "backend") == whole


def test_the_exception_of_the_block_comes_before_that_of_closing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    def engine() -> None:
        with hbtrace.Recorder(path):
            path.write_text("mine")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), pytest.warns(RuntimeWarning, match="exists"):
        engine()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UnspeakableError(), "UnspeakableError"),
        (ValueError("x" * (1 << 20)), "ValueError: " + "x" * 985 + "..."),
        (ValueError("x" * 988), "ValueError: " + "x" * 988),
    ],
    ids=["no words", "too many", "just enough"],
)
def test_no_exception_keeps_the_trace_from_its_name(error: Exception, told: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    def engine() -> None:
        with hbtrace.Recorder(path):
            raise error

    with pytest.raises(type(error)) as caught:
        engine()
    assert caught.value is error
    assert os.listdir(tmp_path) == [path.name]
    assert read(path, stopped=True)[1]["attrs"] == {"exception": told}


def test_a_trace_gets_its_name_though_its_last_note_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> int:
        raise MemoryError("no room")

    def engine(path: Path) -> None:
        with hbtrace.Recorder(path):
            raise KeyError("mine")

    monkeypatch.setattr(hbtrace.Recorder, "note", fails)
    with pytest.raises(KeyError, match="mine"), pytest.warns(RuntimeWarning, match="no room"):
        engine(tmp_path / "a.jsonl")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="no room"):
            engine(tmp_path / "b.jsonl")
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "b.jsonl"]


FULL = """
import resource, sys, warnings
import hbtrace
warnings.simplefilter("always")
with hbtrace.Recorder(sys.argv[1]) as run:
    run.backend(0, "GPU0")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    told = [run.ubatch(0, n=number) for number in range(1000)]
print(told.index(-1), set(told[told.index(-1):]), run.stopped)
"""


@pytest.mark.parametrize("suffix", [".jsonl", ".arrow"])
def test_a_full_disk_stops_the_recording_and_not_the_engine(suffix: str, tmp_path: Path) -> None:
    """A limit on the size of files is as good: `write` fails, at first in the middle of a line."""
    path = tmp_path / f"run{suffix}"
    done = python(FULL, str(path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the recording stops, the trace ends with row") == 1
    first, rest, why = done.stdout.strip().split(" ", 2)
    assert (rest, why) == ("{-1}", "File too large")
    if suffix == ".arrow":  # there is no room for it, either
        path = tmp_path / "run.arrow.spool.jsonl"
        assert f"the events are kept in {path}" in done.stderr
    assert os.listdir(tmp_path) == [path.name]
    *rows, note = read(path, stopped=True)
    assert note == {"ev": "note", "what": "recording_stopped", "attrs": {"reason": "write_failed"}}
    numbers = [row["n"] for row in rows[2:]]
    assert numbers == list(range(len(numbers)))
    assert int(first) - 16 <= len(numbers) <= int(first)
    assert f"ends with row {len(rows)}\n" in done.stderr


FOREVER = """
import itertools, sys
import hbtrace
with hbtrace.Recorder(sys.argv[1], times=False) as run:
    run.backend(0, "GPU0")
    for number in itertools.count():
        print(run.ubatch(0, n=number), flush=True)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("after", [1, 300])
def test_a_killed_process_leaves_all_that_it_told(suffix: str, after: int, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    process = subprocess.Popen(
        [sys.executable, "-c", FOREVER, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    told = [int(line) for line in itertools.islice(process.stdout, after)]
    process.kill()
    told += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert os.listdir(tmp_path) == [f"{path.name}.spool.jsonl"]
    spool = tmp_path / f"{path.name}.spool.jsonl"
    rows = [json.loads(line) for line in spool.read_text().splitlines()]
    assert len(rows) - 1 - told[-1] in (0, 1)  # one may have been written and not told
    assert [row["n"] for row in rows[2:]] == list(range(len(rows) - 2))
    with pytest.raises(hbtrace.TraceError, match=f"none of its {len(rows):,} rows makes an access$"):
        hbtrace.analyze(str(spool), strict=True)


# threads and processes


def test_threads_share_a_recorder(tmp_path: Path) -> None:
    path = tmp_path / "run.arrow"
    told: dict[int, list[int]] = {}
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that they do get between each other
    try:
        with hbtrace.Recorder(path) as run:
            start = threading.Barrier(4)

            def work(name: int) -> None:
                start.wait()
                told[name] = [run.note(str(name), attrs={"k": k}) for k in range(300)]

            threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
            run.note("begin")
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            run.note("end")
    finally:
        sys.setswitchinterval(switch)
    rows = read(path)
    assert [rows[place]["what"] for place in (1, -1)] == ["begin", "end"]
    assert rows[1]["thread"] == rows[-1]["thread"] == 0
    times = [row["time"] for row in rows[1:]]
    assert times == sorted(times)
    numbers = set()
    for name, places in told.items():
        assert [(rows[place]["what"], rows[place]["attrs"]["k"]) for place in places] == [
            (str(name), k) for k in range(300)
        ]
        (number,) = {rows[place]["thread"] for place in places}
        numbers.add(number)
    assert numbers == {1, 2, 3, 4}
    assert sorted(itertools.chain(*told.values())) == list(range(2, 1202))


def test_a_thread_does_not_get_the_number_of_one_that_has_ended(tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.jsonl") as run:
        for _ in range(3):
            thread = threading.Thread(target=run.sched_reuse, args=(0,))
            thread.start()
            thread.join()
    assert [row["thread"] for row in read(tmp_path / "run.jsonl")[1:]] == [1, 2, 3]


def test_no_event_comes_between_what_the_lock_holds_together(tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.jsonl") as run:
        other = threading.Thread(target=run.note, args=("other",))
        with run.lock:
            run.note("first")
            other.start()
            other.join(0.05)
            assert other.is_alive()
            run.note("second")
        other.join()
    assert [row["what"] for row in read(tmp_path / "run.jsonl")[1:]] == ["first", "second", "other"]


@pytest.mark.parametrize("ordered", [True, False])
def test_threads_that_are_ordered_by_a_lock_do_not_race(ordered: bool, tmp_path: Path) -> None:
    """`threads: ordered`: each is its own actor, and what orders them is what the engine told."""
    with hbtrace.Recorder(tmp_path / "run.jsonl", meta={"threads": "ordered"}) as run:
        run.buffer(0, "CPU", 64)
        run.tensor(0, "shared", buffer=0)

        def work() -> None:
            if ordered:
                run.acquire("door")
            run.tensor_set(0)

        run.tensor_set(0)
        if ordered:
            run.release("door")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    reports = hbtrace.analyze(str(tmp_path / "run.jsonl"), strict=True).reports
    assert [(one.earlier.actor, one.current.actor) for one in reports] == ([] if ordered else [("HOST", "HOST#1")])


FORK = """
import os, sys
import hbtrace
with hbtrace.Recorder(sys.argv[1]) as run:
    run.note("before")
    child = os.fork()
    if child == 0:
        try:
            run.note("in the child")
        except ValueError as error:
            print(error, flush=True)
        run.close()
        os._exit(0)
    os.waitpid(child, 0)
    run.note("after")
"""


def test_a_fork_leaves_the_trace_to_its_parent(tmp_path: Path) -> None:
    done = python(FORK, str(tmp_path / "run.jsonl"))
    assert done.returncode == 0, done.stderr
    assert "note: " in done.stdout
    assert "a fork needs a recorder of its own" in done.stdout
    assert [row["what"] for row in read(tmp_path / "run.jsonl")[1:]] == ["before", "after"]


# what it costs to import


def test_recording_needs_neither_arrow_nor_numpy(tmp_path: Path) -> None:
    text = (
        "import sys, hbtrace\n"
        "assert not any(name.startswith('hbtrace.record') for name in sys.modules)\n"
        "with hbtrace.Recorder(sys.argv[1]) as run:\n"
        "    run.kernel(0, reads=[{'tensor': 0}])\n"
        "    heavy = {'pyarrow', 'numpy', 'click', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    for suffix in SUFFIXES:
        done = python(text, str(tmp_path / f"run{suffix}"))
        assert done.returncode == 0, done.stderr
