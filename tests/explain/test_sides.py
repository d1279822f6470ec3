"""No text loses a side: actors of one name have their `#n`, bytes of no tensor are told, a stale event is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.cli import run
from hbtrace.compare.race_text import sentence
from hbtrace.report import explain as explain_report
from hbtrace.report import triage as triage_report

Event = dict[str, Any]

X: Event = {"ev": "tensor", "id": 0, "name": "cache_k_l0", "buffer": 0, "offset": 0, "size": 64}
Y: Event = {"ev": "tensor", "id": 1, "name": "y", "buffer": 0, "offset": 64, "size": 64}
BUFFER: Event = {"ev": "buffer", "id": 0, "name": "CUDA0", "size": 4096}
PINNED: Event = {"ev": "buffer", "id": 1, "name": "CUDA_Host", "size": 4096, "host": True}


def queues(*names: str) -> list[Event]:
    rows: list[Event] = [{"ev": "backend", "id": n, "name": name, "events": True} for n, name in enumerate(names)]
    return [*rows, BUFFER, PINNED, X, Y]


def kernel(queue: int, label: str, **keys: Any) -> Event:
    return {"ev": "kernel", "backend": queue, "label": label, **keys}


def both(queue: int) -> Event:
    return kernel(queue, "k", reads=[{"tensor": 0}], writes=[{"tensor": 0}])


def written(folder: Path, rows: list[Event]) -> str:
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def texts(path: str, capfd: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """What `triage -v`, `explain` of each cause and `whatif --fix` say of a trace."""
    found = hbtrace.triage(path)
    told = "".join(explain_report.render(hbtrace.explain_race(path, cause.ident)) for cause in found)
    capfd.readouterr()
    assert run(["whatif", path, "--fix"]) == 0
    return triage_report.render(found, verbose=True), told, capfd.readouterr().out


@pytest.mark.parametrize(
    ("order", "also"),
    [
        ((0, 1), ""),
        ((0, 1, 0, 1), " and the other way round"),
        ((0, 1, 2), " and 1 more pair of that name"),
    ],
)
def test_queues_of_one_name_are_told_apart(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], order: tuple[int, ...], also: str
) -> None:
    rows = [*queues("CUDA0", "CUDA0", "CUDA0"), *map(both, order)]
    path = written(tmp_path, rows)
    (cause,) = hbtrace.triage(path).causes
    assert (cause.earlier, cause.current) == ("CUDA0", "CUDA0#1")
    triaged, explained, fixed = texts(path, capfd)
    assert f"CUDA0#1 (k) does not wait for CUDA0 (k){also}" in triaged
    assert f"CUDA0#1 waits for CUDA0{also}" in triaged
    assert f"record an event on CUDA0 after k and wait for it on CUDA0#1 before k{also}\n" in explained
    assert f"{cause.ident}: CUDA0#1 waits for CUDA0{also}, the last user of cache_k_l0" in fixed
    assert "CUDA0#1 (k)" in sentence(cause.reports[0])
    capfd.readouterr()
    assert run(["analyze", path]) == 1
    table = capfd.readouterr().out.partition("\nid ")[2]
    assert all(" CUDA0 (k)  " in line and "CUDA0#" in line for line in table.split("\n")[1:2])


def test_host_threads_are_told_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows: list[Event] = [{"ev": "meta", "version": 1, "threads": "ordered"}, *queues("CUDA0")]
    for first, then in ((0, 1), (1, 0)):
        rows += [{"ev": "tensor_set", "tensor": 0, "thread": first}, {"ev": "tensor_get", "tensor": 0, "thread": then}]
    path = written(tmp_path, rows)
    triaged, explained, fixed = texts(path, capfd)
    for text in (triaged, explained, fixed):
        assert "HOST waits for HOST" not in text
        assert "HOST (tensor_set) does not wait for HOST (" not in text
    assert "HOST#1 (tensor_get) does not wait for HOST (tensor_set)" in triaged
    assert "HOST#1 waits for HOST" in fixed
    assert "release a lock or a flag on HOST after tensor_set, and acquire it for HOST#1" in explained


def test_queues_of_two_names_are_called_as_before(tmp_path: Path) -> None:
    rows = [*queues("CUDA0", "CUDA0", "CUDA1"), both(0), both(2), {"ev": "synchronize", "backend": 0}, both(1), both(2)]
    causes = hbtrace.triage(written(tmp_path, rows)).causes
    between = [cause for cause in causes if cause.current == "CUDA1"]
    assert {cause.earlier for cause in between} == {"CUDA0"}
    assert all("more pair" not in triage_report.missing_order(cause) for cause in between)


GET: Event = {
    "ev": "get_async", "backend": 0, "tensor": 0, "host_range": {"buffer": 1, "offset": 0, "size": 64},
}  # fmt: skip


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ({"ev": "host_access", "label": "row", "reads": [{"buffer": 1, "offset": 0, "size": 32}]}, "CUDA_Host[0, 32)"),
        ({"ev": "buffer_free", "buffer": 1}, "CUDA_Host[0, 64)"),
        ({"ev": "kernel", "backend": 1, "label": "m", "writes": [{"buffer": 1, "offset": 16, "size": 16}]},
         "CUDA_Host[16, 32)"),
    ],
)  # fmt: skip
def test_bytes_of_no_tensor_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], use: Event, told: str
) -> None:
    rows = [*queues("CUDA0", "CUDA1"), GET, use]
    path = written(tmp_path, rows)
    triaged, explained, fixed = texts(path, capfd)
    assert f"CUDA0, the last user of {told}" in fixed
    assert f"  {told}  " in triaged
    assert triaged.startswith("1 report, 1 distinct race, 0 tensors, 1 root cause\n")
    assert f"earlier side: CUDA0 writes {told}, row 6, access 1\n" in explained
    assert f"s {told}, row 7, access 0\n" in explained
    assert "get_async cache_k_l0 -> CUDA_Host[0, 64)" in explained
    assert f"access {told} with no happens-before edge" in sentence(hbtrace.analyze(path).reports[0])
    assert hbtrace.triage(path).causes[0].tensors == ["-"], "as JSON has it"


def test_the_bytes_of_a_cause_are_those_of_all_its_races(tmp_path: Path) -> None:
    second = GET | {"host_range": {"buffer": 1, "offset": 128, "size": 64}}
    read = {"ev": "host_access", "reads": [{"buffer": 1, "offset": 0, "size": 64}, {"buffer": 1, "offset": 160}]}
    (cause,) = hbtrace.triage(written(tmp_path, [*queues("CUDA0"), GET, second, read])).causes
    assert cause.touched == ["CUDA_Host[0, 192)"]


def test_a_copy_between_bytes_is_told_by_them(tmp_path: Path) -> None:
    copy: Event = {"ev": "copy_async", "backend": 1, "src_backend": 0, "dst": {"buffer": 1, "offset": 8, "size": 8}}
    rows = [*queues("CUDA0", "CUDA1"), both(0), copy | {"src": {"buffer": 0, "offset": 0, "size": 8}, "runs_on": "dst"}]
    rows += [kernel(0, "z", writes=[{"tensor": 0}])]
    found = hbtrace.explain_race(written(tmp_path, rows), "8")
    assert found.words[7] == "copy_async CUDA0[0, 8) -> CUDA_Host[8, 16)"


def test_rows_name_the_queue_that_is_waited_for(tmp_path: Path) -> None:
    rows = [*queues("CUDA0", "CUDA0"), both(1), {"ev": "tensor_set", "tensor": 0}, {"ev": "synchronize", "backend": 1}]
    text = explain_report.render(hbtrace.explain_race(written(tmp_path, rows), "7"))
    assert "HOST learns of it in row 8 (synchronize CUDA0#1), 1 row too late" in text


RECORD: Event = {"ev": "event_record", "backend": 0, "event": 7}


@pytest.mark.parametrize(
    ("wait", "current", "who"),
    [
        ({"ev": "event_wait", "backend": 1, "event": 7}, kernel(1, "m", writes=[{"tensor": 0}]), "CUDA1"),
        ({"ev": "event_synchronize", "event": 7}, {"ev": "tensor_set", "tensor": 0}, "HOST"),
        ({"ev": "event_synchronize", "event": 7}, kernel(1, "m", writes=[{"tensor": 0}]), "CUDA1"),
    ],
)
def test_a_stale_event_is_told(tmp_path: Path, wait: Event, current: Event, who: str) -> None:
    """It was recorded before the work that should have been waited for."""
    rows = [*queues("CUDA0", "CUDA1"), both(0), RECORD, kernel(0, "far"), both(0), wait, current]
    found = hbtrace.explain_race(written(tmp_path, rows), "11")
    text = explain_report.render(found)
    ev = wait["ev"]
    assert f"BREAKS before row 11: {who} knows CUDA0@1, needs >=3" in text
    assert f"\n  stale: row 10, {ev} event 7, waits for what row 7 recorded on CUDA0\n" in text
    assert "\n    issued there after it: row 8, far: kernel; row 9, k: kernel\n" in text
    assert json.loads(explain_report.document(found))["chain"]["stale"] == {
        "wait": 10, "record": 7, "queue": "CUDA0", "issued": [8, 9],
    }  # fmt: skip


def test_a_wait_that_came_before_the_earlier_side_is_not_called_stale(tmp_path: Path) -> None:
    wait: Event = {"ev": "event_wait", "backend": 1, "event": 7}
    for rows in ([both(0), RECORD, wait, both(0)], [both(0), RECORD | {"backend": 1}, wait], [both(0), wait]):
        path = written(tmp_path, [*queues("CUDA0", "CUDA1"), *rows, kernel(1, "m", writes=[{"tensor": 0}])])
        found = hbtrace.explain_race(path, str(6 + len(rows)))
        assert found.chain.stale is None
        assert "stale" not in explain_report.render(found)


def test_a_copy_into_bytes_of_no_tensor_is_named_by_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    copy: Event = {"ev": "copy_async", "backend": 1, "src_backend": 0, "src": {"tensor": 1}, "runs_on": "src"}
    read: Event = kernel(1, "k", reads=[{"buffer": 1, "offset": 0, "size": 64}])
    rows = [*queues("CUDA0", "CUDA1"), read, copy | {"dst": {"buffer": 1, "offset": 0, "size": 64}}]
    capfd.readouterr()
    run(["check", written(tmp_path, rows)])
    out = " ".join(capfd.readouterr().out.split())
    assert "CUDA_Host[0, 64) (read by CUDA1, copied by CUDA0)" in out
    assert "None" not in out
