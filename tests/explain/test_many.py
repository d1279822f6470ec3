"""Traces with very many reports: what is judged, what is said of it, and lines that stay short."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hbtrace.consequence.sampling import MOST_JUDGED, OF_EACH
from hbtrace.explain.triage import Triage, triage_recording
from hbtrace.replay.recording import record
from hbtrace.report.triage import document, few_spans, render
from hbtrace.report.whatif import render_waits
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if import waits


def racy(ubatches: int) -> Triage:
    """The host sets two inputs in every second ubatch while the queue still reads them."""
    events: list[dict[str, Any]] = [
        {"ev": "backend", "id": 0, "name": "ROCm0"},
        {"ev": "buffer", "id": 0, "name": "ROCm_Host", "size": 64, "host": True},
        {"ev": "tensor", "id": 0, "name": "inp_pos", "buffer": 0, "size": 32, "flags": ["input"]},
        {"ev": "tensor", "id": 1, "name": "inp_tokens", "buffer": 0, "offset": 32, "size": 32, "flags": ["input"]},
    ]
    for n in range(0, 2 * ubatches, 2):
        events += [{"ev": "tensor_set", "tensor": k, "ubatch": n} for k in (0, 1)]
        events.append({"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}, {"tensor": 1}], "ubatch": n})
    return triage_recording(record([batch_from_rows(events)]), "run.arrow")


def test_few_reports_are_all_judged_and_nothing_is_said() -> None:
    found = racy(11)
    assert len(found.reports) == 20
    told = json.loads(document(found))
    assert (told["judged"], told["causes"][0]["judged"]) == (20, 20)
    assert "judged" not in render(found, verbose=True)


def test_of_very_many_it_is_said_how_many_were_judged() -> None:
    found = racy(MOST_JUDGED // 2 + 2)
    assert len(found.reports) == MOST_JUDGED + 2
    told = json.loads(document(found))
    (cause,) = told["causes"]
    assert (told["judged"], cause["judged"]) == (2 * OF_EACH, 2 * OF_EACH)
    assert cause["live"] + cause["dead"] + cause["unknown"] == cause["judged"]
    assert [report["consequence"] is None for report in told["reports"]].count(False) == 2 * OF_EACH
    text = render(found, verbose=True)
    assert "\neffect sampled (4 of 2,002): the first 2 of each distinct race, and more where these are not" in text
    assert ", effect sampled (4 of 2,002)\n" in text


def test_hundreds_of_ubatches_do_not_make_a_line_of_a_page() -> None:
    assert few_spans({1, 2, 3, 7}) == "1-3, 7"
    assert few_spans({-1}) == "-"
    assert few_spans(set(range(0, 2000, 2))) == "0, 2, 4, ... (1,000)"
    assert max(map(len, render(racy(500), verbose=False).splitlines())) < 200


def test_of_a_long_trace_waits_are_left_out_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one each wait is a replay; the sum by point says as well which points carry weight."""
    events: list[dict[str, Any]] = [
        {"ev": "backend", "id": 0, "name": "ROCm0"},
        {"ev": "buffer", "id": 0, "name": "ROCm_Host", "size": 64, "host": True},
    ]
    for _ in range(5):
        events += [
            {"ev": "host_access", "writes": [{"buffer": 0}]},
            {"ev": "kernel", "backend": 0, "reads": [{"buffer": 0}]},
            {"ev": "synchronize", "backend": 0},
        ]
    single = waits.weigh([batch_from_rows(events)])
    assert (single.together, [wait.races for wait in single.waits]) == (False, [1, 1, 1, 1, 0])
    monkeypatch.setattr(waits, "MOST_STEPS", 20)
    by_point = waits.weigh([batch_from_rows(events)])
    assert by_point.together
    assert [(len(wait.rows), wait.races) for wait in by_point.waits] == [(5, 4)]
    text = render_waits(by_point, "run.jsonl")
    assert "5 waits, 0 waits load-bearing, 0 waits without which no race appears" in text
    assert "5 more waits in 1 group that are load-bearing together" in text


def test_of_very_many_waits_halves_are_left_out_until_each_that_carries_weight_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One wait of sixty-four matters: the first, between a read and the only write."""
    events: list[dict[str, Any]] = [
        {"ev": "backend", "id": 0, "name": "ROCm0"},
        {"ev": "buffer", "id": 0, "name": "ROCm_Host", "size": 64, "host": True},
        {"ev": "kernel", "backend": 0, "reads": [{"buffer": 0}]},
        {"ev": "synchronize", "backend": 0},
        {"ev": "host_access", "writes": [{"buffer": 0}]},
    ]
    for _ in range(63):
        events += [{"ev": "kernel", "backend": 0}, {"ev": "synchronize", "backend": 0}]
    monkeypatch.setattr(waits, "MOST", 20)
    found = waits.weigh([batch_from_rows(events)])
    assert [(len(wait.rows), wait.bears) for wait in found.waits] == [(1, True), (63, False)]
    assert found.waits[0].rows == (3,)
    text = render_waits(found, "run.jsonl")
    assert "64 waits, 1 wait load-bearing, 63 waits without which no race appears" in text
    assert "together" not in text
