"""What is said of a spool, from the notes that are in it: no program is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hbtrace.record.finish import Recorded, finish, further_traces, trace_path
from hbtrace.record.launch import tell, tell_earlier, tell_unused

STARTED = "2026-01-02T03:04:05.000000Z"
META = {"ev": "meta", "version": 1, "producer": "hbtrace record", "x_pid": 7, "started_at": STARTED}


def _note(what: str, **attrs: Any) -> dict[str, Any]:
    return {"ev": "note", "what": what, "attrs": attrs}


def _spool(output: Path, *rows: dict[str, Any], name: str = "7", meta: dict[str, Any] = META) -> Path:
    path = output.with_name(f"{output.name}.spool.{name}.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in (meta, *rows)))
    return path


def _finished(output: Path, *, force: bool = False) -> list[Recorded]:
    return finish(output, output.with_name(f"{output.name}.spool"), force=force)


def _told(output: Path, *rows: dict[str, Any]) -> str:
    _spool(output, *rows)
    sentences: list[str] = []
    (trace,) = _finished(output)
    tell(trace, sentences.append, exact=True)
    return "\n".join(sentences)


def test_stores_that_were_not_kept_are_told(tmp_path: Path) -> None:
    told = _told(tmp_path / "run.arrow", _note("stores_lost", stores=1200), _note("stores_lost", stores=34))
    assert "warning: 1,234 stores into inputs are not in the trace" in told
    assert "stores into" not in _told(tmp_path / "other.arrow", _note("direct_writes_unseen", assertions=2, changed=1))


def test_a_spool_without_a_row_is_no_trace(tmp_path: Path) -> None:
    # Room, and nothing in it: the disk was full when the first row was written.
    output = tmp_path / "run.arrow"
    output.with_name("run.arrow.spool.7.jsonl").write_bytes(bytes(5000))
    sentences: list[str] = []
    (trace,) = _finished(output)
    tell(trace, sentences.append, exact=False)
    (sentence,) = sentences
    assert sentence.startswith("warning: process 7 is not recorded: not even its first row could be written")
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_stays_and_ends_early_is_told_as_both(tmp_path: Path) -> None:
    output = tmp_path / "run.arrow"
    output.touch()  # what is in the way of the trace here; on a full disk it is the disk
    told = _told(output, _note("recording_stopped", reason="disk_full"))
    assert "the trace is not written, its events are kept in" in told
    assert told.endswith("warning: the trace ends early: the disk was full")
    assert "ends early" not in _told(output, _note("recording"))


def test_a_process_that_runs_itself_anew_is_the_first_one_first(tmp_path: Path) -> None:
    output = tmp_path / "run.arrow"
    first = {**META, "command": ["first"]}
    second = {**META, "command": ["second"], "started_at": "2026-01-02T03:04:05.000900Z"}
    _spool(output, _note("a"), meta=first)
    _spool(output, _note("b"), name="7-2", meta=second)
    commands = {trace.path.name: trace.command for trace in _finished(output)}
    assert commands == {"run.arrow": ["first"], "run.2.arrow": ["second"]}


def test_traces_of_further_processes_are_known_by_their_names(tmp_path: Path) -> None:
    for name in ("run.10", "run.2", "run.1", "run.02", "run.x", "other.3"):
        (tmp_path / f"{name}.arrow").touch()
    (tmp_path / "run.3.jsonl").touch()
    assert [path.name for path in further_traces(tmp_path / "run.arrow")] == ["run.2.arrow", "run.10.arrow"]


def test_a_folder_that_is_gone_has_no_traces(tmp_path: Path) -> None:
    assert further_traces(tmp_path / "gone" / "run.arrow") == []
    assert _finished(tmp_path / "gone" / "run.arrow") == []


def test_a_spool_that_cannot_be_opened_leaves_the_others_their_traces(tmp_path: Path) -> None:
    output = tmp_path / "run.arrow"
    output.with_name("run.arrow.spool.6.jsonl").symlink_to(tmp_path / "gone")
    _spool(output, _note("a"))
    whole, failed = _finished(output)
    assert (whole.path.name, whole.failure, whole.rows) == ("run.arrow", "", 2)
    assert "No such file" in failed.failure
    assert failed.stopped == ""


def test_a_trace_that_an_earlier_recording_left_is_named_and_kept(tmp_path: Path) -> None:
    output = tmp_path / "run.arrow"
    for number in (2, 3):
        trace_path(output, number).write_text("earlier")
    _spool(output, _note("a"))
    _spool(output, _note("b"), name="8", meta={**META, "x_pid": 8})
    sentences: list[str] = []
    tell_earlier(output, _finished(output, force=True), sentences.append)
    assert sentences == [
        f"note: {tmp_path / 'run.3.arrow'} is of an earlier recording: remove it, or keep it under another name"
    ]
    assert (tmp_path / "run.3.arrow").read_text() == "earlier"
    assert (tmp_path / "run.2.arrow").read_bytes() != b"earlier"
    tell_earlier(output, [], sentences.append)
    assert len(sentences) == 1


def _computed(*sites: str) -> list[dict[str, Any]]:
    computes = [{"ev": "compute", "backend": 0, "graph": 0, "site": site} for site in sites]
    return [{"ev": "backend", "id": 0, "name": "CPU"}, {"ev": "graph", "id": 0, "nodes": []}, *computes]


def test_a_program_that_takes_functions_by_handle_is_told(tmp_path: Path) -> None:
    inside = "libggml-base.so:ggml_backend_graph_compute"
    assert "all recorded calls are ggml's own" in _told(tmp_path / "a.arrow", *_computed(inside, inside))
    assert "ggml's own" not in _told(tmp_path / "b.arrow", *_computed(inside, "libllama.so:llama_decode"))
    assert "ggml's own" not in _told(tmp_path / "c.arrow", _note("copy_refused"))


def test_copies_of_an_unknown_backend_are_told(tmp_path: Path) -> None:
    told = _told(tmp_path / "run.arrow", _note("copy_rule_unknown", backend=0, registry="OWN"))
    assert "the asynchronous copies of OWN is not known" in told
    assert "--copies OWN=src, dst or both" in told


def test_a_rule_for_a_backend_that_is_not_there_is_told(tmp_path: Path) -> None:
    sentences: list[str] = []
    rows = ({"ev": "backend", "id": i, "name": f"{name}0", "registry": name} for i, name in enumerate(("CUDA", "CPU")))
    _spool(tmp_path / "run.arrow", *rows)
    tell_unused(["CUDA=src", "cuda=dst,after-dst"], _finished(tmp_path / "run.arrow"), sentences.append)
    assert sentences == ["warning: --copies cuda: the program has no such backend; it has CPU, CUDA"]
    tell_unused(["cuda=dst"], [], sentences.append)
    assert len(sentences) == 1
