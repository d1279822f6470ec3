"""The program's own affairs: its input, output, status, signals, its children; limits of what is recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hbtrace.record.build import library
from hbtrace.record.launch import Options, environment_for
from tests.record import engine as engines
from tests.record.runs import HANG, Recorder, Run, events_of, hbtrace, start_hbtrace
from tests.registry import MissingError


@pytest.fixture(scope="module")
def whole(engine: Path, plugin: Path, driver: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that others are cut short of."""
    return Recorder(engine, plugin, driver, model, tmp_path_factory.mktemp("whole")).record(HBTEST_HOLD="1")


def test_input_output_and_status_are_its_own(recorder: Recorder) -> None:
    script = f'read line; echo "got $line"; echo complaint >&2; {recorder.driver}; exit 9'
    done = hbtrace(
        "record", "-o", recorder.folder / "run.arrow", "--", "sh", "-c", script, input="given\n",
        env=recorder.environment({}),
    )
    assert done.returncode == 9
    assert done.stdout.startswith("got given\n")
    assert "complaint\n" in done.stderr


def test_options_behind_the_program_are_the_programs(tmp_path: Path) -> None:
    done = hbtrace("record", "-o", tmp_path / "run.arrow", "echo", "-f", "--help")
    assert done.stdout == "-f --help\n"


def test_every_process_has_its_own_trace(recorder: Recorder) -> None:
    run = recorder.record(command=["sh", "-c", f"{recorder.driver}; echo; {recorder.driver}"], LAYERS="0")
    second = run.trace.with_name("run.2.arrow")
    assert f"recorded {run.trace}" in run.told
    assert f"recorded {second}" in run.told
    assert len(events_of(second)) == len(run.events)
    assert list(run.trace.parent.glob("*.jsonl")) == []


def test_a_signals_status(recorder: Recorder) -> None:
    run = recorder.record(command=["sh", "-c", f"{recorder.driver}; kill -SEGV $$"])
    assert run.status == 128 + signal.SIGSEGV
    assert run.events


def test_signals_reach_the_program(tmp_path: Path) -> None:
    script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    process = start_hbtrace(
        "record", "-o", tmp_path / "run.arrow", "--", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=HANG)
    assert output == b"caught\n"
    assert process.returncode == 5


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    # As `nohup` has it: both the launcher and the program live on.
    ours = f"{sys.executable} -m hbtrace record -o {tmp_path / 'run.arrow'}"
    script = f"trap '' HUP; exec {ours} -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo alive; kill -USR1 $$'"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=HANG)
    assert done.stdout == "alive\n"
    assert done.returncode == 128 + signal.SIGUSR1


def test_a_window_of_ubatches(recorder: Recorder) -> None:
    run = recorder.record("--ubatches", "2-4", HBTEST_HOLD="1")
    assert {event["ubatch"] for event in run.rows("compute", "tensor_set", "set_direct")} == {2, 3, 4}
    # Three ubatches have two boundaries between them.
    assert run.races == dict.fromkeys(
        ("inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask"), 2
    )
    assert run.warnings == []
    assert "only ubatches 2-4 are recorded" in run.told


def test_a_limit_of_size_ends_the_trace_and_not_the_program(recorder: Recorder, whole: Run) -> None:
    run = recorder.record("--max-size", "100K", HBTEST_HOLD="1")
    assert run.status == 0
    assert run.tokens == whole.tokens
    assert "the trace ends early: it reached the size of --max-size" in run.told
    *events, last = run.events
    assert (last["ev"], last["what"], last["attrs"]["reason"]) == ("note", "recording_stopped", "max_size")
    assert _comparable(events) == _comparable(whole.events)[: len(events) - 1]


def test_a_first_row_beyond_the_limit_is_followed_by_the_reason(recorder: Recorder) -> None:
    run = recorder.record("--max-size", "16K", LAYERS="0", PLUGIN="", GGML_FILLER="x" * 20000)
    assert [event.get("what", event["ev"]) for event in run.events] == ["meta", "recording_stopped"]
    assert "the trace ends early: it reached the size of --max-size" in run.told


def _comparable(events: list[dict[str, object]]) -> list[dict[str, object]]:
    """Without what differs between runs: times, and of the first row the process."""
    return [{key: value for key, value in event.items() if key != "time"} for event in events[1:]]


@pytest.mark.parametrize("part", range(4))
def test_killed_at_any_moment_it_leaves_a_readable_prefix(recorder: Recorder, whole: Run, part: int) -> None:
    unkilled = _comparable(whole.events)
    output = recorder.folder / "run.arrow"
    environment = recorder.environment({"HBTEST_HOLD": "1", "HBTEST_DELAY": "5000"})
    for step in range(5):
        process = start_hbtrace(
            "record", "-f", "-o", output, "--copies", "HBTEST=src", "--", recorder.driver, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        _wait_for_spool(output, process)
        time.sleep((part * 5 + step) * 0.009)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the launcher and the program
        process.wait()
        if not (spools := list(output.parent.glob("run.arrow.spool.*.jsonl"))):
            continue  # it was through
        events = _comparable(events_of(spools[0]))
        assert events == unkilled[: len(events)]
    if spools:
        done = hbtrace("analyze", spools[0])
        assert done.returncode in (0, 1) or (done.returncode == 3 and ": nothing to judge: " in done.stderr)


def test_a_spool_has_a_whole_row_before_it_has_room(recorder: Recorder, whole: Run) -> None:
    # Killed between the two, a file of nothing but room would be left, which is no trace. Here no room is granted: 4
    # blocks of 512 bytes hold the first row and no page.
    options = Options(recorder.folder / "run.arrow")
    environment = environment_for(options, recorder.folder / "spool", library(print))
    preload = environment.pop("LD_PRELOAD")
    script = f"ulimit -f 4; LD_PRELOAD={preload} exec {recorder.driver}"
    settings = recorder.environment({"HBTEST_HOLD": "1"})
    ours = {key: value for key, value in environment.items() if key.startswith("HBTRACE_RECORD_")}
    done = subprocess.run(["sh", "-c", script], env={**settings, **ours}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == whole.tokens
    (spool,) = recorder.folder.glob("spool.*.jsonl")
    (row,) = events_of(spool)
    assert row["ev"] == "meta"


def _wait_for_spool(output: Path, process: subprocess.Popen[bytes]) -> None:
    """Until it records, or is through already."""
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        found = list(output.parent.glob("run.arrow.spool.*.jsonl"))
        if any(path.stat().st_size for path in found):
            return
        if process.poll() is not None:
            assert process.returncode == 0
            return
        time.sleep(0.002)
    raise AssertionError("no spool")


def test_a_process_that_outlives_the_command_goes_on(recorder: Recorder, whole: Run) -> None:
    # Its spool is mapped into it: cut by the launcher, the next event would end it. It is stopped until the launcher is
    # through, which may take long.
    behind = f"setsid sh -c '{recorder.driver} >out 2>&1; echo $? >status' >log 2>&1 &"
    script = f"{behind} until ls run.arrow.spool.*.jsonl; do sleep 0.01; done; kill -STOP $(ls *.jsonl | cut -d. -f4)"
    done = hbtrace(
        "record", "-o", recorder.folder / "run.arrow", "--copies", "HBTEST=src", "--", "sh", "-c", script,
        env=recorder.environment({"HBTEST_HOLD": "1", "HBTEST_DELAY": "100000"}), cwd=recorder.folder,
    )  # fmt: skip
    assert done.returncode == 0
    (spool,) = recorder.folder.glob("*.jsonl")
    pid = int(spool.name.split(".")[3])
    os.kill(pid, signal.SIGCONT)
    assert f"process {pid} still writes it; analyze it as it is" in done.stderr
    assert f"next: hbtrace analyze {spool}" in done.stderr
    assert not (recorder.folder / "run.arrow").exists()
    assert _soon(recorder.folder / "status") == "0\n"
    assert (recorder.folder / "out").read_text().strip() == whole.tokens
    assert _comparable(events_of(spool)) == _comparable(whole.events)


@pytest.mark.parametrize(("calls", "is_whole"), [(9, True), (20000, False)])
def test_a_file_of_the_program_is_not_written(recorder: Recorder, calls: int, is_whole: bool) -> None:
    # 9 calls end in the room that is there already, 20000 need more of it.
    own = recorder.folder / "own.txt"
    run = recorder.record(command=[engines.build_calls(recorder.engine, "closing"), own, str(calls)])
    assert run.status == 0
    assert own.read_text() == "of the program\n"
    assert (len(run.rows("buffer_clear")) == calls) == is_whole
    assert ("the trace ends early: the program closed all files" in run.told) == (not is_whole)
    assert run.rows("buffer_clear")


def test_a_closed_standard_output_is_not_taken(recorder: Recorder, whole: Run) -> None:
    run = recorder.record(command=["sh", "-c", f"exec {recorder.driver} >&- <&-"], HBTEST_HOLD="1")
    assert run.output == ""
    assert run.warnings == []
    assert _comparable(run.events) == _comparable(whole.events)


def _soon(path: Path) -> str:
    """What a file holds once it does."""
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"no {path.name}")


def test_a_killed_program_leaves_a_trace(recorder: Recorder) -> None:
    rows = f"$(cat {recorder.folder}/run.arrow.spool.*.jsonl | wc -l)"
    script = f'{recorder.driver} & until [ "{rows}" -gt 100 ]; do sleep 0.01; done; kill -9 $!; wait $!'
    run = recorder.record(command=["sh", "-c", script], HBTEST_DELAY="500000")
    assert run.status == 128 + signal.SIGKILL
    assert len(run.events) > 100
    assert run.events[-1]["ev"] != "buffer_free"


def test_a_full_disk_ends_the_trace_and_not_the_program(recorder: Recorder, whole: Run) -> None:
    # A limit of the file's size is refused by the system as a full disk is.
    script = f"ulimit -f 64; trap '' XFSZ; exec {recorder.driver}"
    run = recorder.record(command=["sh", "-c", script], HBTEST_HOLD="1")
    assert run.status == 0
    assert run.tokens == whole.tokens
    assert "the trace ends early" in run.told
    events = [event for event in run.events if event["ev"] != "note" or event["what"] != "recording_stopped"]
    assert _comparable(events) == _comparable(whole.events)[: len(events) - 1]


def test_a_fork_writes_its_own(recorder: Recorder) -> None:
    program = recorder.folder / "fork.py"
    program.write_text(
        "import os, sys\n"
        "sys.path.insert(0, os.environ['TESTS'])\n"
        "from tests.record.python_driver import Engine\n"
        "engine = Engine()\n"
        "engine.run()\n"
        "sys.stdout.flush()\n"
        "if os.fork() == 0:\n"
        "    engine.run()\n"
        "    sys.stdout.flush()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "engine.run()\n"
    )
    tests = str(Path(__file__).resolve().parents[2])
    run = recorder.record(command=[sys.executable, program], LAYERS="0", TESTS=tests, PLUGIN="")
    second = events_of(run.trace.with_name("run.2.arrow"))
    _, forked, again = run.output.splitlines()
    assert forked == again
    assert sum(event["ev"] == "compute" for event in second) == 23
    assert second[0]["x_pid"] != run.events[0]["x_pid"]
    # All that its rows name is defined in it, and its one thread is its first.
    (scheduler,) = (event for event in second if event["ev"] == "sched")
    assert {event["sched"] for event in second if "sched" in event} == {scheduler["id"]} == {0}
    assert set(scheduler["backends"]) <= {event["id"] for event in second if event["ev"] == "backend"}
    assert [event["n"] for event in second if event["ev"] == "ubatch"] == list(range(23))
    assert {event.get("thread", 0) for event in second} == {0}


def test_a_fork_between_an_allocation_and_its_inputs_knows_the_scheduler(recorder: Recorder) -> None:
    try:
        program = engines.build_fork(recorder.engine)
    except MissingError as error:
        pytest.skip(str(error))
    run = recorder.record(command=[program], FORK_CHILD="1", FORK_WAITS="1")
    assert run.output == "7 3\n"
    second = events_of(run.trace.with_name("run.2.arrow"))
    (scheduler,) = (event for event in second if event["ev"] == "sched")
    (ubatch,) = (event for event in second if event["ev"] == "ubatch")
    assert ubatch["sched"] == scheduler["id"] == 0
