"""A race with the free of its memory is live in every verb, whatever its kind and whoever frees: heap corruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hbtrace.cli import run
from hbtrace.consequence import sampling

Event = dict[str, Any]

SET_UP: list[Event] = [
    {"ev": "meta", "version": 1, "threads": "ordered"},
    {"ev": "backend", "id": 0, "name": "Q0", "events": True},
    {"ev": "backend", "id": 1, "name": "Q1", "events": True},
    {"ev": "buffer", "id": 0, "name": "seq", "size": 1024, "host": True},
    {"ev": "buffer", "id": 1, "name": "dev", "size": 4096},
    {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "size": 256},
    {"ev": "tensor", "id": 1, "name": "y", "buffer": 1, "size": 256},
]
SPAN: Event = {"buffer": 0, "offset": 0, "size": 256}
WORK: dict[str, Event] = {
    "a transfer writes it": {"ev": "get_async", "backend": 0, "tensor": 1, "host_range": SPAN},
    "a transfer reads it": {"ev": "set_async", "backend": 0, "tensor": 1, "host_range": SPAN},
    "a kernel reads it": {"ev": "kernel", "backend": 0, "label": "k", "reads": [SPAN], "writes": [{"tensor": 1}]},
    "a kernel writes it": {"ev": "kernel", "backend": 0, "label": "k", "writes": [{"tensor": 0}]},
    "a copy fills it": {
        "ev": "copy_async", "backend": 0, "src_backend": 0, "src": {"tensor": 1}, "dst": {"tensor": 0},
    },
    "a kernel reads some of it": {"ev": "kernel", "backend": 0, "label": "k", "reads": [{**SPAN, "approx": True}]},
    "a host thread reads it": {"ev": "tensor_get", "tensor": 0, "thread": 1},
    "a host thread writes it": {"ev": "host_access", "label": "h", "writes": [SPAN], "thread": 1},
}  # fmt: skip
FREES: dict[str, Event] = {
    "the host": {"ev": "buffer_free", "buffer": 0},
    "a queue": {"ev": "buffer_free", "buffer": 0, "backend": 1},
    "a queue, by another name": {"ev": "buffer_free", "buffer": 0, "backend": 1, "label": "cudaFreeAsync"},
}
AGAIN: list[Event] = [  # another life, all of it overwritten: nothing of the value is left
    SET_UP[3], {"ev": "host_access", "writes": [{"buffer": 0}]}, {"ev": "synchronize", "backend": 0},
    {"ev": "host_access", "writes": [{"buffer": 1}]},
]  # fmt: skip


def written(path: Path, rows: list[Event]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def told(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capfd.readouterr()
    code = run(list(arguments))
    return code, capfd.readouterr().out


@pytest.mark.parametrize("free", FREES)
@pytest.mark.parametrize("work", WORK)
def test_a_race_with_a_free_is_live_in_every_verb(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], work: str, free: str
) -> None:
    racy = written(tmp_path / "racy.jsonl", [*SET_UP, WORK[work], FREES[free], *AGAIN])
    why = "its memory is freed while it may still be used: the bytes are somebody else's then"
    code, out = told(capfd, "analyze", racy, "--only", "live", "-v")
    assert code == 1
    assert f"    effect   visible: {why}\n" in out
    code, out = told(capfd, "analyze", racy, "--only", "live", "--format", "json")
    (report,) = json.loads(out)["reports"]
    assert (code, report["consequence"], report["consequence_why"]) == (1, "live", why)
    assert report["kind"] == ("write-after-read" if "reads" in work else "write-after-write")
    assert told(capfd, "analyze", racy, "--only", "dead", "--only", "unknown")[0] == 0
    code, out = told(capfd, "triage", racy, "--format", "json")
    (cause,) = json.loads(out)["causes"]
    assert (code, cause["consequence"], cause["live"]) == (1, "live", 1)
    code, out = told(capfd, "explain", racy, report["id"])
    assert code == 1
    assert f"\neffect: visible: {why}\n" in out
    assert json.loads(told(capfd, "explain", racy, report["id"], "--format", "json")[1])["consequence"] == {
        "verdict": "live", "why": why, "row": -1, "doubt_row": -1,
    }  # fmt: skip
    ordered = written(tmp_path / "ordered.jsonl", [*SET_UP, WORK[work], *order(WORK[work]), FREES[free], *AGAIN])
    assert told(capfd, "analyze", ordered)[0] == 0
    code, out = told(capfd, "diff", ordered, racy, "--format", "json")
    assert (code, [entry["id"] for entry in json.loads(out)["new"]]) == (1, [report["id"]])


def order(work: Event) -> list[Event]:
    """What the free would have had to wait for."""
    if "backend" in work:
        return [{"ev": "synchronize", "backend": work["backend"]}]
    return [{"ev": "release", "object": "o", "thread": 1}, {"ev": "acquire", "object": "o"}]


def test_neither_many_reports_nor_many_rows_hide_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = WORK["a kernel reads it"]
    life = [SET_UP[3], SET_UP[5], work, FREES["the host"], {"ev": "synchronize", "backend": 0}]
    path = written(tmp_path / "run.jsonl", [*SET_UP, *life * 4])
    for name, bound in (("MOST_JUDGED", 2), ("MOST_TOGETHER", 1), ("MOST_ROWS", len(SET_UP))):
        monkeypatch.setattr(sampling, name, bound)
        code, out = told(capfd, "analyze", path, "--only", "live", "--format", "json")
        document = json.loads(out)
        assert (code, document["shown"], document["reports"][0]["consequence"]) == (1, 4, "live"), name
