"""What an id means is told by the worst of its reports: a live race is not explained as a dead one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.consequence import sampling
from hbtrace.explain import triage as triage_room
from hbtrace.report import explain as report

Event = dict[str, Any]

SET_UP: list[Event] = [
    {"ev": "backend", "id": 0, "name": "G0"},
    {"ev": "buffer", "id": 0, "name": "H", "size": 64},
    {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "size": 16},
    {"ev": "tensor", "id": 1, "name": "y", "buffer": 0, "offset": 16, "size": 16},
]
WRITE: Event = {"ev": "tensor_set", "tensor": 0}
DONE: Event = {"ev": "synchronize", "backend": 0}
DEAD: list[Event] = [  # what it read is overwritten before anybody looks
    {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}], "writes": [{"tensor": 1}]}, WRITE,
    {"ev": "kernel", "backend": 0, "writes": [{"tensor": 1}]}, DONE,
]  # fmt: skip
LIVE: list[Event] = [*DEAD[:2], DONE, {"ev": "tensor_get", "tensor": 1}]
OTHER: list[Event] = [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 1}]}, WRITE | {"tensor": 1}, DONE]


def told(folder: Path, *parts: list[Event], ident: str = "") -> tuple[hbtrace.Explanation, str]:
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for part in (SET_UP, *parts) for row in part), encoding="utf-8")
    (race, *_) = hbtrace.triage(str(path)).ids.values()
    found = hbtrace.explain_race(str(path), ident or race)
    return found, report.render(found)


@pytest.mark.parametrize(
    ("parts", "which", "line"),
    [
        ((DEAD, LIVE), 2, "report 2 of 2 of this race, the first of the worst: 1 visible, 1 overwritten"),
        ((LIVE, DEAD), 1, "report 1 of 2 of this race, the first of the worst: 1 visible, 1 overwritten"),
        ((DEAD, DEAD, LIVE, LIVE), 3, "report 3 of 4 of this race, the first of the worst: 2 visible, 2 overwritten"),
        ((DEAD, DEAD), 1, "report 1 of 2 of this race: 2 overwritten"),
    ],
)
def test_a_race_is_explained_by_its_worst_report(
    tmp_path: Path, parts: tuple[list[Event], ...], which: int, line: str
) -> None:
    found, text = told(tmp_path, *parts)
    assert f"\n  {line}\n" in text
    verdict = "live" if LIVE in parts else "dead"
    assert (found.which, found.others, found.consequence.verdict) == (which, len(parts) - 1, verdict)
    assert found.report.current.row == len(SET_UP) + 1 + 4 * (which - 1)
    document = json.loads(report.document(found))
    assert (document["which"], document["consequence"]["verdict"]) == (which, verdict)
    assert document["effects"] == {"live": parts.count(LIVE), "dead": parts.count(DEAD), "unknown": 0}


def test_a_cause_is_explained_by_its_worst_race(tmp_path: Path) -> None:
    """Another race of the same cause, and a later one, is what makes it live."""
    written = [event | {"site": "engine.cpp:1"} for event in DEAD]
    later = [event | {"site": "engine.cpp:1"} for event in OTHER]
    read = [{"ev": "tensor_get", "tensor": 1}]
    found, text = told(tmp_path, written, written, later, read)
    cause = found.cause.ident
    found, text = told(tmp_path, written, written, later, read, ident=cause)
    assert found.means == "race" or found.races == 2
    assert found.consequence.verdict == hbtrace.triage(str(tmp_path / "run.jsonl")).causes[0].consequence
    assert f"report {found.which} of " in text


def test_a_row_is_explained_by_its_worst_race(tmp_path: Path) -> None:
    both: list[Event] = [
        {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}], "writes": []},
        {"ev": "kernel", "backend": 0, "writes": [{"tensor": 1}]},
        {"ev": "host_access", "writes": [{"tensor": 0}, {"tensor": 1}]}, DONE,
        {"ev": "host_access", "reads": [{"tensor": 1}]},
    ]  # fmt: skip
    found, text = told(tmp_path, both, ident=str(len(SET_UP) + 2))
    assert (found.means, found.which) == ("row", 2)
    assert found.report.kind == "write-after-write"
    assert "report 2 of 2 of this row (2 distinct races), the first of the worst: 1 visible, 1 " in text


@pytest.mark.parametrize("place", [2, 3, 7, 9, 12])
def test_where_most_reports_are_not_judged_a_live_one_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    for room in (sampling, triage_room):
        monkeypatch.setattr(room, "MOST_JUDGED", 2)
    found, text = told(tmp_path, *[DEAD] * (place - 1), LIVE, *[DEAD] * (12 - place))
    assert (found.which, found.consequence.verdict) == (place, "live")
    assert f"report {place} of 12 of this race, the first of the worst: 1 visible, " in text
    judged = found.effects.total()
    assert 2 <= judged < 12
    assert f"overwritten, effect sampled ({judged} of 12)\n" in text
