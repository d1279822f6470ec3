"""Rules that no fault of the model breaks alone: a right run with one note changed, and its unchanged twin."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hbtrace.checks.checked import check
from hbtrace.replay.session import analyze_events
from hbtrace.strata.checks.protocol import rules
from hbtrace.strata.checks.races import broken_rule
from hbtrace.strata.checks.rules import STRATA_RULES, TABLE
from hbtrace.strata.logs.importer import events
from hbtrace.strata.model.simulate import Request, Run, RunShape
from hbtrace.strata.model.steps import LoopStep
from hbtrace.strata.model.written_logs import write_logs
from hbtrace.trace.writer import open_writer
from tests.strata.runs import lines, run

Event = dict[str, Any]


def notes(events: list[Event], what: str, **attrs: Any) -> list[int]:
    """Rows of notes with these attributes."""
    return [
        row
        for row, event in enumerate(events)
        if event["ev"] == "note" and event["what"] == what and all(event["attrs"].get(k) == v for k, v in attrs.items())
    ]


def changed(change: Callable[[list[Event]], None], **shape: Any) -> set[str]:
    events = copy.deepcopy(run(**shape).events)
    assert not rules(events)
    change(events)
    return {finding.id for finding in rules(events)}


def note(what: str, **attrs: Any) -> Event:
    return {"ev": "note", "what": what, "attrs": attrs}


def engagement_left_out(events: list[Event]) -> None:
    del events[notes(events, "engage")[0]]


def refused(events: list[Event]) -> None:
    events[notes(events, "engage")[0]] = note("refuse", why="STRATA_QFUSE")


def launched_before_the_undo(events: list[Event]) -> None:
    undo = notes(events, "undo")[0]
    launch = next(row for row in notes(events, "window", do="launch", stage=0, kind="decode") if row > undo)
    events.insert(undo, events.pop(launch))


def guess_on_the_last_stage(events: list[Event]) -> None:
    launch = notes(events, "window", do="launch", stage=0, spec=True)[0]
    events[launch]["attrs"] |= {"stage": 1}
    events.insert(launch, note("window", do="launch", stage=0, seq=events[launch]["attrs"]["seq"] - 1, verifier=9))


def settle_in_flight(events: list[Event]) -> None:
    launch = notes(events, "window", do="launch", stage=0)[0]
    events.insert(launch + 1, note("settle", stage=0, when="end", source=0, bytes=0, word=0))


def serial_while_away(events: list[Event]) -> None:
    spec = notes(events, "commit", kind="spec commit")[0]
    attrs = {**events[spec]["attrs"], "kind": "serial commit", "src": 0, "dst": 0, "keep": 1}
    where = next(row for row in range(spec, len(events)) if events[row]["ev"] == "kernel")
    events.insert(where + 1, note("commit", **attrs))


def write_of_a_live_record(events: list[Event]) -> None:
    """Between a speculative commit and its verdict somebody commits in place into the record."""
    spec = notes(events, "commit", kind="spec commit")[0]
    kernel = next(row for row in range(spec, len(events)) if events[row].get("label") == "spec commit")
    state = events[notes(events, "stage", stage=0)[0]]["attrs"]["state"]
    record = state[events[spec]["attrs"]["src"]]
    events.insert(kernel + 1, {**events[kernel], "label": "in-place commit", "writes": [{"tensor": record}]})


def session_zero_while_away(events: list[Event]) -> None:
    spec = notes(events, "commit", kind="spec commit")[0]
    state = events[notes(events, "stage", stage=0)[0]]["attrs"]["state"]
    kernel = next(row for row in range(spec, len(events)) if events[row].get("label") == "spec commit")
    events.insert(kernel + 1, {"ev": "kernel", "backend": 0, "label": "session_zero", "writes": [{"tensor": state[0]}]})


def verifier_taken(events: list[Event]) -> None:
    launch = notes(events, "window", do="launch", stage=0, spec=True)[0]
    attrs = dict(events[launch]["attrs"])
    attrs |= {"seq": attrs["seq"] + 1, "verifier": (attrs["seq"] - 1) % 2}
    events.insert(launch + 1, note("window", **attrs))


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("X2", engagement_left_out),
        ("X2", refused),
        ("C2", launched_before_the_undo),
        ("C5", guess_on_the_last_stage),
        ("C1", verifier_taken),
        ("W3", settle_in_flight),
        ("S4", serial_while_away),
        ("P1", write_of_a_live_record),
        ("P3", session_zero_while_away),
    ],
)
def test_a_changed_run_breaks_its_rule(rule: str, change: Callable[[list[Event]], None]) -> None:
    assert f"strata.{rule}" in changed(change)


def test_r2_r4_and_r5_by_their_words() -> None:
    events = copy.deepcopy(run().events)
    row = notes(events, "commit", kind="in-place commit")[0]
    events[row]["attrs"]["dst"] = (events[row]["attrs"]["src"] + 1) % 3
    (first, *_) = rules(events)
    assert first.id == "strata.R4"
    assert first.rows == (row,)
    assert "a commit in place goes from" in first.message


def tensor_of(events: list[Event], name: str) -> int:
    return next(int(event["id"]) for event in events if event["ev"] == "tensor" and event["name"] == name)


@pytest.mark.parametrize(
    ("rule", "tensor", "label"),
    [
        ("M1", "h_commit0.0", "commit words"),
        ("M2", "h_win0.0", "stage words"),
        ("M3", "h_x0.0", "answer"),
        ("C1", "commit_in0.0", "prestage"),
        ("C3", "rows0.0", "window"),
        ("W1", "cur0", "spec commit"),
        ("W3", "cur0", "settle: word"),
        ("S2", "gdn0", "settle"),
        ("P3", "gdn0", "session_zero"),
        ("X1", "gdn0", "snap_take"),
    ],
)
def test_an_unordered_write_is_named_by_its_rule(rule: str, tensor: str, label: str) -> None:
    """A queue of its own writes what windows, commits or settles access; ordered with nobody."""
    events = copy.deepcopy(run(seed=1).events)
    target = {"tensor": tensor_of(events, tensor)}
    at = next(row for row, event in enumerate(events) if event.get("label") == "in-place commit")
    stray = {"ev": "kernel", "backend": 99, "label": label, "writes": [target]}
    intruder = {"ev": "backend", "id": 99, "name": "stray"}
    reports = analyze_events([*events[:at], intruder, stray, *events[at:]]).reports
    assert rule in {broken_rule(report) for report in reports}
    assert not analyze_events(events).reports


def test_findings_carry_the_line_of_the_log() -> None:
    steps = [
        LoopStep("L", 0, 0, 2, line=2), LoopStep("F", 0, 0, 2, line=3),
        LoopStep("L", 1, 0, 2, line=4), LoopStep("F", 1, 0, 2, line=5),
        LoopStep("V", seq=0, accepted=3, line=6),
    ]  # fmt: skip
    (found,) = rules(Run(RunShape(), [Request(steps=steps)]).events)
    assert found[:2] == ("strata.R8", "error")
    assert found.message == "line 6: stage 0: the in-place commit of 0 keeps 4 of 2 tokens"
    assert found.line == 6


def judged(rows: list[Event], tmp_path: Path) -> dict[str, str]:
    """By rule: what became of it, and of how much."""
    path = str(tmp_path / "run.jsonl")
    with open_writer(path, force=True) as writer:
        writer.write_rows(rows)
    told = {judgement.id.removeprefix("strata."): judgement for judgement in check(path).judgements}
    return {rule: f"{told[rule].status}: {told[rule].note}" for rule in (*TABLE, "copy", "coverage") if rule in told}


FOREIGN = [
    {"ev": "backend", "id": 0, "name": "Q"},
    {"ev": "buffer", "id": 0, "name": "B", "size": 8},
    {"ev": "host_access", "reads": [{"buffer": 0}]},
]
"""Of another engine."""


def test_a_rule_that_met_nothing_holds_nothing(tmp_path: Path) -> None:
    copy = judged(run("copy").events, tmp_path)
    assert copy["R1"] == "not checkable: needs at least one speculative ring commit"
    ring_only = {*(f"R{n}" for n in range(1, 8)), "P1", "P2", "P3", "W1", "W2", "W3", "W4", "W5", "X2"}
    ring_only |= {"S1", "S2", "S3", "S4", "S5"}
    missed = {rule for rule, told in copy.items() if told.startswith("not checkable")}
    assert missed == {*ring_only, "T8"}
    ring = judged(run("ring").events, tmp_path)
    windows = sum(
        row.get("what") == "window" and (attrs := row["attrs"])["do"] == "launch"
        and (attrs["stage"], attrs["kind"]) == (0, "decode") for row in run("ring").events
    )  # fmt: skip
    assert ring["T1"] == f"holds: {windows} windows"
    assert {rule for rule, told in ring.items() if told.startswith("not checkable")} == {"T8"}
    logged = judged(list(events(lines(write_logs(run("ring")).mixed))), tmp_path)
    assert logged["T8"].startswith("holds: 5 summary lines")
    assert not judged(FOREIGN, tmp_path)


def test_it_is_no_wording_that_makes_a_rule_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another engine's trace no rule of Strata says even that it is not checkable; of Strata's all have a say."""
    for rule in STRATA_RULES:
        monkeypatch.setattr(rule, "needs", "other words")
    assert not judged(FOREIGN, tmp_path)
    assert set(judged(run("ring").events, tmp_path)) == {*TABLE, "copy", "coverage"}
