"""`hbtrace_recorder.h`: a C or C++ program that records itself gives the trace that the Python API gives."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.trace import vocabulary as v
from tests.record.test_recorder_api import read, two_ubatches

PROGRAM = Path(__file__).with_name("recorder_program.c")
HEADER = hbtrace.recorder_header()
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", f"-I{HEADER.parent}")


def compiler(names: tuple[str, ...]) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"no compiler here: none of {', '.join(names)}")
    return found


def compiled(language: str, source: Path, folder: Path, *more: str) -> Path:
    """A program of the source as C99 or C++17, without a warning."""
    if language == "C99":
        command = [compiler(("cc", "gcc", "clang")), "-std=c99", "-x", "c"]
    else:
        command = [compiler(("c++", "g++", "clang++")), "-std=c++17", "-x", "c++"]
    program = folder / language
    subprocess.run([*command, *STRICT, *more, str(source), "-o", str(program)], check=True, timeout=300)
    return program


@pytest.fixture(scope="session", params=["C99", "C++17"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(request.param, PROGRAM, tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="session")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For what the language has no part in."""
    return compiled("C99", PROGRAM, tmp_path_factory.mktemp("recorder"))


def run(program: Path, what: str, path: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, what, path], capture_output=True, check=False, encoding="utf-8", timeout=120, **more
    )


def recorded(program: Path, what: str, path: Path) -> list[dict[str, Any]]:
    done = run(program, what, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("closed: 0\n")
    return read(path)


# the same vocabulary, the same rows


def at(number: int) -> dict[str, Any]:
    return {
        "thread": 2, "split": 0, "ubatch": number, "time": 1000 + number, "site": "engine.c", "label": 'a "label"',
        "duration": 10 * number, "frames": ["0x1234", "engine.c:7 decode"],
    }  # fmt: skip


def record_everything(run: hbtrace.Recorder) -> None:
    """Every event with every key. The twin of `everything` in recorder_program.c."""
    attrs = {"state": "tab\there, é", "step": -7, "share": 0.25, "good": True}
    part: Any = {"offset": 4, "size": 8, "rows": 2, "stride": 16, "approx": True}
    whole: Any = {"tensor": 0, **part}
    other: Any = {"buffer": 0, "offset": 32, "size": 16}
    every = [whole, other, {"tensor": 0, "offset": 0, "size": 8, "by": 1, "pitch": 16}]
    runs = [{"first": -1, "count": 2, "repeat": 3, "step": 4}, {"first": 9}]
    picked: Any = [{"tensor": 1, "runs": runs}, {"tensor": 2, "runs": []}, {"tensor": 3}]
    module: Any = {"path": "libengine.so", "build_id": "ab12", "base": 4096, "size": 64}
    run.meta(
        producer="a test", engine="engine", engine_version="1.2", command=["engine", "-m", "model.gguf"], env=attrs,
        started_at="2026-01-02T03:04:05+00:00", threads="ordered", notes="every event with every key",
        modules=[module, {}], **at(0),
    )  # fmt: skip
    run.backend(
        0, "GPU0", device="GPU", type="igpu", async_=True, events=False, integrated=True, host_buffer=True,
        accepts=["GPU0", "GPU_Host"], synchronous=False, drains=["get", "set"], registry="GPU", queue_of=-1,
        **at(0),
    )  # fmt: skip
    run.buffer(0, "GPU_Host", 4096, host=True, backend=0, device="GPU", usage="compute", **at(0))
    run.tensor(
        0, "inp_tokens", buffer=0, offset=64, size=32, view_of=-1, flags=["input", "output"], type="f32", ne=[4, 2],
        nb=[4, 16], **at(0),
    )  # fmt: skip
    add: Any = {"op": "ADD", "tensor": 0, "backend": 0, "reads": every, "writes": [other]}
    run.graph(0, uid=77, nodes=[add, {"op": "VIEW"}], **at(0))
    run.sched(0, backends=[1, 0], cpu_buffer_type="GPU_Host", copies=1, ring=0, **at(0))

    run.tensor_set(0, **part, **at(1))
    run.tensor_memset(0, **part, **at(1))
    run.tensor_get(0, **part, **at(1))
    run.set_direct(0, inferred=True, **part, **at(1))
    run.get_direct(0, inferred=False, **part, **at(1))
    run.tensor_copy(whole, other, **at(1))
    run.buffer_clear(0, **at(1))
    run.host_access(reads=every, writes=[other], picked=picked, **at(1))

    run.set_async(0, 0, host_range=other, **part, **at(2))
    run.get_async(0, 0, host_range=other, **part, **at(2))
    run.copy_async(0, whole, other, src_backend=0, runs_on="both", after_dst=True, **at(2))
    run.compute(0, 0, picked=picked, **at(2))
    run.kernel(0, reads=every, writes=[other], picked=picked, **at(2))

    run.synchronize(0, **at(3))
    run.event_record(0, 5, **at(3))
    run.event_wait(0, 5, **at(3))
    run.event_synchronize(5, **at(3))
    run.event_free(5, **at(3))
    run.release("door", backend=0, **at(3))
    run.acquire("door", backend=0, **at(3))

    run.sched_alloc(0, graph_uid=77, slot=0, reserve=False, realloc=True, inputs=[1, 0], **at(3))
    run.sched_reuse(0, **at(3))
    run.sched_prepare(0, slot=1, rotated=True, **at(3))
    run.sched_compute(0, **at(3))
    run.sched_compute_end(0, **at(3))
    run.ubatch(0, n=3, tokens=512, phase="prefill", **at(3))
    run.note("verdict", attrs=attrs, sched=0, **at(3))
    run.buffer_free(0, backend=0, **at(3))
    run.backend_free(0, **at(3))


@pytest.fixture(scope="session")
def everything(program: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return recorded(program, "everything", tmp_path_factory.mktemp("everything") / "run.jsonl")


def test_the_rows_are_those_of_the_python_api(everything: list[dict[str, Any]], tmp_path: Path) -> None:
    with hbtrace.Recorder(tmp_path / "run.arrow") as python:
        record_everything(python)
    assert everything == read(tmp_path / "run.arrow")


@pytest.mark.parametrize("ev", v.EVENTS)
def test_every_event_has_a_function_that_knows_its_keys(ev: str, everything: list[dict[str, Any]]) -> None:
    assert re.search(rf"^int hbtrace_{ev}\(", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
    (row,) = [row for row in everything if row["ev"] == ev]
    assert set(row) == {"ev", *v.EVENTS[ev].keys, *v.COMMON}


def test_functions_that_know_fewer_keys_leave_them_out(program: Path, tmp_path: Path) -> None:
    assert recorded(program, "fewer_keys", tmp_path / "run.jsonl")[1:] == [
        {"ev": "note", "what": "verdict", "thread": 0, "time": 1},
        {"ev": "buffer_free", "buffer": 0, "thread": 0, "time": 1},
    ]


def test_the_named_sets_are_those_of_the_vocabulary() -> None:
    text = HEADER.read_text(encoding="utf-8")
    found = {
        key: frozenset(words.split())
        for key, words in re.findall(r'hbtr_(?:word|texts)\(run, "(\w+)", " ([\w ]+) "', text)
    }
    assert found == {key: words for (_, key), words in v.SETS.items()}


def test_a_race_is_found_and_its_mend_is_clean(program: Path, tmp_path: Path) -> None:
    for what in ("race", "mended"):
        rows = recorded(program, what, tmp_path / f"{what}.jsonl")
        with hbtrace.Recorder(tmp_path / f"{what}.python.jsonl", times=what == "mended") as python:
            two_ubatches(python, mended=what == "mended")
        twin = read(tmp_path / f"{what}.python.jsonl")
        assert [{**row, "time": 0} for row in rows[1:]] == [{**row, "time": 0} for row in twin[1:]]
        assert [set(row) for row in rows[1:]] == [set(row) for row in twin[1:]]
        outcome = hbtrace.analyze(str(tmp_path / f"{what}.jsonl"), strict=True)
        assert outcome.warnings == []
        assert [report.kind for report in outcome] == (["write-after-read"] if what == "race" else [])


def test_rows_that_an_index_picks_race_only_where_they_meet(program: Path, tmp_path: Path) -> None:
    recorded(program, "picked", tmp_path / "run.jsonl")
    outcome = hbtrace.analyze(str(tmp_path / "run.jsonl"), strict=True)
    assert outcome.warnings == []
    assert [(one.current.row, one.lo, one.hi, one.approx) for one in outcome.reports] == [(8, 16, 24, False)]


# what is refused


def test_a_wrong_argument_is_named_and_not_recorded(program: Path, tmp_path: Path) -> None:
    done = run(program, "wrong", tmp_path / "run.jsonl")
    assert done.stdout.splitlines() == [
        "-1 compute: backend must be 0 or more, not -1",
        "-1 compute: graph is needed",
        "-1 backend: name is needed",
        "-1 backend: name must not be HOST: reports call the host so",
        "-1 backend: type must be one of cpu gpu igpu accel, not gp",
        "-1 backend: drains must be one of set get, not fill",
        "-1 backend: accepts holds a NULL",
        "-1 buffer: size must be 0 or more, not -64",
        "-1 buffer: usage must be one of any weights compute, not any weights",
        "-1 tensor_set: offset must be 0 or more, not -4",
        "-1 tensor_set: tensor must be a range of a tensor, not of a buffer",
        "-1 tensor_set: tensor has rows, which need a stride of 1 or more",
        "-1 kernel: reads must name a tensor or a buffer, and one of them only",
        "-1 kernel: reads must name a tensor or a buffer, and one of them only",
        "-1 kernel: reads is NULL, with a count",
        "-1 graph: nodes is NULL, with a count",
        "-1 note: attrs is NULL, with a count",
        "-1 copy_async: runs_on must be one of src dst both, not source",
        "-1 tensor_copy: dst must name a tensor or a buffer, and one of them only",
        "-1 release: object is needed",
        "-1 note: attrs holds what JSON cannot say, at x",
        "-1 note: attrs holds a NULL",
        "-1 note: attrs holds the key x twice",
        "-1 sched_reuse: ubatch must be -1 or more, not -2",
        "-1 meta: must be the first event, not row 2",
        "closed: 0",
    ]
    assert [row["ev"] for row in read(tmp_path / "run.jsonl")] == ["meta", "synchronize"]


def test_wrong_rows_frames_and_modules_are_named_and_not_recorded(program: Path, tmp_path: Path) -> None:
    done = run(program, "wrong_additions", tmp_path / "run.jsonl")
    nowhere = "picked is of compute, kernel and host_access only"
    assert done.stdout.splitlines() == [
        "-1 meta: modules is NULL, with a count",
        "-1 meta: base must be 0 or more, not -4096",
        f"-1 meta: {nowhere}",
        "-1 kernel: reads has by, which picks rows of a tensor, not of a buffer",
        "-1 kernel: reads has by, which goes without rows and stride",
        "-1 kernel: reads has by, which goes without rows and stride",
        "-1 kernel: reads has by, which needs a size",
        "-1 kernel: reads has by, which needs a pitch",
        "-1 kernel: pitch must be 1 or more, not 0",
        "-1 kernel: by must be -1 or more, not -2",
        "-1 tensor_set: tensor must not be rows that an index picks",
        "-1 set_async: tensor must not be rows that an index picks",
        "-1 get_async: host_range must name a tensor or a buffer, and one of them only",
        "-1 get_async: host_range must name a tensor or a buffer, and one of them only",
        "-1 compute: picked must name the index tensor",
        "-1 compute: picked must name the index tensor",
        "-1 compute: runs is NULL, with a count",
        "-1 compute: picked has a run without first",
        "-1 kernel: picked is NULL, with a count",
        f"-1 synchronize: {nowhere}",
        f"-1 tensor_set: {nowhere}",
        f"-1 graph: {nowhere}",
        "-1 synchronize: duration must be 0 or more, not -1",
        "-1 synchronize: frames is NULL, with a count",
        "-1 synchronize: frames holds a NULL",
        "-1 backend: queue_of must be -1 or more, not -2",
        "-1 buffer_free: backend is needed",
        "-1 buffer_free: backend must be 0 or more, not -1",
        "-1 note: sched must be -1 or more, not -2",
        "closed: 0",
    ]
    assert [row["ev"] for row in read(tmp_path / "run.jsonl")] == ["meta"]


def test_only_these_events_take_rows_that_an_index_picks() -> None:
    takes = {ev for ev, event in v.EVENTS.items() if "picked" in event.keys}
    body = HEADER.read_text(encoding="utf-8").split("static int hbtr_picking(")[1].split("}")[0]
    assert set(re.findall(r'"(\w+)"', body)) == takes


def test_without_a_recorder_nothing_happens(program: Path, tmp_path: Path) -> None:
    assert run(program, "off", tmp_path / "run.jsonl").stdout == "0 0\n"
    assert os.listdir(tmp_path) == []


def test_nothing_is_overwritten_without_force(c_program: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("mine")
    done = run(c_program, "race", path)
    assert (done.returncode, done.stdout) == (1, f"{path} exists; give HBTRACE_FORCE to overwrite it\n")
    assert path.read_text() == "mine"
    assert run(c_program, "force", path).returncode == 0
    assert [row["ev"] for row in read(path)] == ["meta"]
    spool = tmp_path / "other.jsonl.spool.jsonl"
    spool.write_text("mine")
    assert f"{spool} exists: a crash left it" in run(c_program, "race", tmp_path / "other.jsonl").stdout
    assert spool.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "words"), [("run.arrow", "name it .jsonl"), ("no/run.jsonl", "cannot be written"), ("f.jsonl", "a folder")]
)
def test_a_path_that_cannot_be(c_program: Path, name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").mkdir()
    done = run(c_program, "race", tmp_path / name)
    assert done.returncode == 1
    assert done.stdout.startswith(str(tmp_path / name))
    assert words in done.stdout
    assert os.listdir(tmp_path) == ["f.jsonl"]


# what must not break the trace


def test_texts_come_back_and_what_is_no_text_does_no_harm(program: Path, tmp_path: Path) -> None:
    words = [row["what"] for row in recorded(program, "texts", tmp_path / "run.jsonl")[1:]]
    assert words == [
        'quote " backslash \\ newline \n bell \a delete \x7f',
        "é € 😀",
        "stray \ufffd, cut \ufffd\ufffd, overlong \ufffd\ufffd, surrogate \ufffd\ufffd\ufffd, high " + "\ufffd" * 4,
        "",
    ]


def test_numbers_come_back(program: Path, tmp_path: Path) -> None:
    attrs = recorded(program, "numbers", tmp_path / "run.jsonl")[1]["attrs"]
    assert attrs == {
        "whole": 3.0, "tenth": 0.1, "small": -2.5e-300, "large": 1e300, "least": -(2**63), "most": 2**63 - 1,
    }  # fmt: skip
    assert isinstance(attrs["whole"], float)


def test_threads_share_a_recorder(program: Path, tmp_path: Path) -> None:
    rows = recorded(program, "threads", tmp_path / "run.jsonl")
    assert (rows[1]["what"], rows[1]["thread"]) == ("begin", 0)
    times = [row["time"] for row in rows[1:]]
    assert times == sorted(times)
    events = rows[2:]
    assert len(events) == 5 * 1000
    for first, second in zip(events[::2], events[1::2], strict=True):  # the lock holds them together
        assert (first["ev"], second["ev"]) == ("ubatch", "sched_compute")
        assert first["thread"] == second["thread"]
    for thread in range(1, 6):
        assert [row["n"] for row in events if row["thread"] == thread and row["ev"] == "ubatch"] == list(range(500))


def test_a_killed_program_leaves_all_that_it_told(c_program: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    process = subprocess.Popen([c_program, "forever", path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = [int(line) for line in islice(process.stdout, 200)]
    process.kill()
    told += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    spool = tmp_path / "run.jsonl.spool.jsonl"
    assert os.listdir(tmp_path) == [spool.name]
    rows = read(spool)
    assert [row["n"] for row in rows[1:]] == list(range(len(rows) - 1))
    assert len(rows) - 2 - told[-1] in (0, 1)  # one may have been written and not told
    with pytest.raises(hbtrace.TraceError, match=f"none of its {len(rows):,} rows makes an access$"):
        hbtrace.analyze(str(spool), strict=True)


def test_a_full_disk_stops_the_recording_and_not_the_program(program: Path, tmp_path: Path) -> None:
    """A limit on the size of files, of which the program is not told by the signal that would end it."""
    path = tmp_path / "run.jsonl"
    done = run(
        program, "until_stopped", path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    )
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    *rows, note = read(path, stopped=True)
    assert note == {"ev": "note", "what": "recording_stopped", "attrs": {"reason": "write_failed"}}
    numbers = [row["n"] for row in rows[1:]]
    assert numbers == list(range(len(numbers)))
    why = f"{path}: File too large: the recording stops, the trace ends with row {len(rows)}"
    assert done.stderr == f"hbtrace: {why}\n"
    stopped, error, closed = done.stdout.splitlines()
    assert len(numbers) <= 2000 - int(stopped.split()[0]) <= len(numbers) + 16
    assert error == f"-2 {why}"[: len(error)]
    assert closed == "closed: -2"


@pytest.mark.parametrize(
    ("what", "signals"),
    [
        ("limited", "pending: 0, blocked: 0"),
        ("limited_blocked", "pending: 0, blocked: 1"),
        ("limited_pending", "pending: 1, blocked: 1"),
    ],
)
def test_a_limit_that_comes_later_does_not_end_the_program(
    what: str, signals: str, program: Path, tmp_path: Path
) -> None:
    """And the program has the signal as it had it before: one of its own is not taken, and none is left behind."""
    path = tmp_path / "run.jsonl"
    done = run(program, what, path)
    assert done.returncode == 0
    assert done.stderr.startswith(f"hbtrace: {path}: File too large: the recording stops")
    assert done.stdout.splitlines()[2:] == [signals, "closed: -2"]
    *rows, note = read(path, stopped=True)
    assert note["what"] == "recording_stopped"
    assert [row["n"] for row in rows[2:]] == list(range(len(rows) - 2))


def test_a_standard_error_that_takes_nothing_does_not_end_the_program(program: Path, tmp_path: Path) -> None:
    """A file beyond the limit of sizes, and a pipe that nobody reads."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 20_000)
    reads, writes = os.pipe()
    os.close(reads)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    with log.open("ab") as file, os.fdopen(writes, "wb") as pipe:
        for number, errors in enumerate([file, pipe]):
            done = subprocess.run(
                [program, "until_stopped", tmp_path / f"{number}.jsonl"], stdout=subprocess.PIPE, stderr=errors,
                check=False, timeout=120, preexec_fn=limit,
            )  # fmt: skip
            assert (done.returncode, done.stdout[-11:]) == (0, b"closed: -2\n")


def test_a_second_recorder_does_not_take_the_spool(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    done = run(program, "second", path)
    assert done.stdout.splitlines() == [
        f"{path}.spool.jsonl is still written by another recorder, or by what was forked from it", "closed: 0",
    ]  # fmt: skip
    assert [row["what"] for row in read(path)[1:]] == ["first"]


def test_the_recorders_of_both_languages_see_each_other(c_program: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with hbtrace.Recorder(path):
        done = run(c_program, "force", path)
    assert (done.returncode, "is still written by another recorder" in done.stdout) == (1, True)
    assert [row["ev"] for row in read(path)] == ["meta"]


@pytest.mark.parametrize(
    ("what", "words"), [("removed", "removed or renamed"), ("replaced", "replaced by another file")]
)
def test_a_spool_that_is_not_its_own_is_left_alone(what: str, words: str, program: Path, tmp_path: Path) -> None:
    path, spool = tmp_path / "run.jsonl", tmp_path / "run.jsonl.spool.jsonl"
    done = run(program, what, path)
    assert done.stdout == "closed: -2\n"
    assert done.stderr == f"hbtrace: {path}: {spool} was {words} while it was written\n"
    assert {found.name: found.read_text() for found in tmp_path.iterdir()} == (
        {spool.name: "another's"} if what == "replaced" else {}
    )


def test_a_fork_leaves_the_trace_to_its_parent(c_program: Path, tmp_path: Path) -> None:
    done = run(c_program, "fork", tmp_path / "run.jsonl")
    assert done.stdout.splitlines() == [
        "-1 note: the recorder is another process's", "the child ended with 0", "closed: 0",
    ]  # fmt: skip
    assert [row["what"] for row in read(tmp_path / "run.jsonl")[1:]] == ["before", "after"]


# how it is used


def test_the_example_of_its_first_lines_compiles_and_records(tmp_path: Path) -> None:
    comment = HEADER.read_text(encoding="utf-8").split("*/")[0]
    code = [line[7:] for line in comment.splitlines() if line.startswith(" *     ")]
    include, body = code[:2], [line.replace("    NULL: `error` says why", "") for line in code[2:]]
    source = tmp_path / "example.c"
    source.write_text("\n".join([*include, "int main(void) {", *body, "return 0; }", ""]))
    done = subprocess.run([compiled("C99", source, tmp_path)], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 0
    rows = read(tmp_path / "run.jsonl")
    assert [row["ev"] for row in rows] == ["meta", "backend", "buffer", "tensor", "tensor_set", "synchronize"]


@pytest.mark.parametrize("language", ["C99", "C++17"])
def test_several_files_share_it(language: str, tmp_path: Path) -> None:
    """Without the macro it declares only, and in no file does it warn."""
    user = tmp_path / "user.c"
    user.write_text(
        '#include "hbtrace_recorder.h"\n'
        "int hbtrace_used(hbtrace_recorder *run);\n"
        "int hbtrace_used(hbtrace_recorder *run) { return hbtrace_synchronize(run, 0, NULL); }\n"
    )
    main = tmp_path / "main.c"
    main.write_text(
        "#define HBTRACE_RECORDER_IMPLEMENTATION\n"
        '#include "hbtrace_recorder.h"\n#include "hbtrace_recorder.h"\n'
        "int hbtrace_used(hbtrace_recorder *run);\n"
        "int main(void) { return hbtrace_used(NULL); }\n"
    )
    assert subprocess.run([compiled(language, main, tmp_path, str(user))], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("more", [(), ("-D_GNU_SOURCE",), ("-D_DEFAULT_SOURCE", "-std=c11"), ("-std=gnu99",)])
def test_it_hides_nothing_from_the_file_that_includes_it(more: tuple[str, ...], tmp_path: Path) -> None:
    """What the compiler's mode offers beyond POSIX is there as it is without the header."""
    source = tmp_path / "user.c"
    source.write_text(
        "#define HBTRACE_RECORDER_IMPLEMENTATION\n"
        '#include "hbtrace_recorder.h"\n#include <math.h>\n#include <strings.h>\n'
        'int main(void) { usleep(1); return M_PI > 3 ? strcasecmp("a", "A") : 1; }\n'
    )
    program = tmp_path / "user"
    command = [compiler(("gcc", "clang", "cc")), *STRICT, *more, str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=300)
    assert subprocess.run([program], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("more", ["-D_XOPEN_SOURCE=500", "-D_XOPEN_SOURCE=700", "-D_POSIX_C_SOURCE=200809L"])
@pytest.mark.parametrize("standard", ["c99", "gnu99"])
def test_it_compiles_where_the_program_asks_for_a_standard(standard: str, more: str, tmp_path: Path) -> None:
    command = [compiler(("gcc", "clang", "cc")), f"-std={standard}", more, *STRICT, str(PROGRAM)]
    subprocess.run([*command, "-o", str(tmp_path / "program")], check=True, timeout=300)


def test_cxx11_is_enough(tmp_path: Path) -> None:
    command = [compiler(("c++", "g++", "clang++")), "-std=c++11", "-x", "c++", *STRICT, str(PROGRAM)]
    subprocess.run([*command, "-o", str(tmp_path / "program")], check=True, timeout=300)


def test_its_path_is_printed_and_it_is_in_the_package() -> None:
    from importlib.resources import files

    assert HEADER.is_file()
    assert (files("hbtrace") / "record" / "hbtrace_recorder.h").read_text(encoding="utf-8") == HEADER.read_text(
        encoding="utf-8"
    )
