"""Triage of real recordings: what the mends remove, what they cost, what each race is a race of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from click.testing import CliRunner

import hbtrace
from hbtrace.cli import cli
from hbtrace.explain.minimize import minimize
from hbtrace.explain.triage import Triage, find, triage
from hbtrace.report.explain import render
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.fix import fix
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.place import Place
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import CopyOn, Drop, HideDirect, Synchronous, Wait
from hbtrace.what_if.waits import weigh
from hbtrace.what_if.whatif import WhatIf, whatif
from tests.material import recording

INPUTS = {"inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask"}


def path(name: str) -> str:
    return str(recording(name))


def tried(name: str, *rules: Any) -> WhatIf:
    return whatif(hbtrace.open(path(name)).batches, list(rules))


def roots(reports: Iterable[Any]) -> set[str | None]:
    return {report.current.root for report in reports}


def natures(found: Triage) -> list[str]:
    return [cause.nature for cause in found]


@pytest.mark.parametrize("name", ["integrated", "ngl2"])
def test_the_input_races_are_one_root_cause(name: str) -> None:
    found = triage(path(name))
    assert natures(found) == ["input"]
    (cause,) = found
    assert len(cause.reports) == found.races
    assert cause.primary == len(cause.reports)
    assert set(cause.tensors) - {"inp_tokens"} == INPUTS
    assert found.advice(cause).rules[0] == "--ring 2"


def test_a_cpu_split_in_place_is_a_cause_of_its_own() -> None:
    found = triage(path("cuda_integrated"))
    assert natures(found) == ["input", "cpu-split"]
    inputs, split = found
    assert (set(inputs.tensors), split.tensors) == (INPUTS, ["embd"])
    assert (len(inputs.reports), len(split.reports)) == (24, 6)


def test_depth_two_removes_the_input_races_and_nothing_else() -> None:
    for depth in (2, 3, 4):
        assert tried("integrated", Ring(depth)).after.races == 0
        assert tried("ngl2", Ring(depth)).after.races == 0
        found = tried("cuda_integrated", Ring(depth))
        assert [cause.nature for cause in found.removed] == ["input"]
        assert [(cause.nature, len(cause.reports)) for cause in found.after.causes] == [("cpu-split", 6)]
        assert found.added == []
        assert found.price.waits == 7 - depth
        assert found.price.bytes == 33_536 * (depth - 1)


def test_a_synchronize_at_each_ubatch_removes_them_at_another_price() -> None:
    for name in ("integrated", "cuda_integrated", "ngl2"):
        found = tried(name, Wait("ubatch"))
        assert found.after.races == 0
        assert found.price.waits > 0
        assert found.price.bytes == 0
        assert found.after.pace.in_flight < found.before.pace.in_flight
        assert found.before.pace.beside is not None
        assert found.after.pace.beside is not None
        assert found.after.pace.beside < found.before.pace.beside
    ring = tried("integrated", Ring(2))
    assert ring.after.pace.beside == ring.before.pace.beside, "a ring stalls nobody here"


def test_only_a_wait_before_embd_removes_embd() -> None:
    found = tried("cuda_integrated", Wait("before:embd"))
    assert [cause.nature for cause in found.removed] == ["cpu-split"]
    both = tried("cuda_integrated", Ring(2), Wait("before:embd"))
    assert both.after.races == 0


def test_with_direct_writes_hidden_there_are_fewer() -> None:
    found = tried("integrated", HideDirect())
    assert (found.before.races, found.after.races) == (30, 12)
    assert roots(r for c in found.after.causes for r in c.reports) == {"inp_tokens", "inp_pos"}


def test_the_copy_between_devices_is_named_with_its_edge() -> None:
    found = triage(path("cuda"))
    (cause,) = found
    assert (cause.nature, cause.tensors, len(cause.reports)) == ("copy", ["CUDA1#l_out-2"], 9)
    assert found.advice(cause).short == "CUDA0 waits for the slot's last reader on CUDA1"
    drained = tried("cuda", CopyOn(after_dst=True))
    assert (drained.before.races, drained.after.races) == (9, 0)
    assert tried("cuda", Ring(4)).after.races == 9
    before = drained.before
    edge = tried("cuda", edges_for(before.causes[0], before.recording, stall=False))
    assert (edge.after.races, edge.price.queue_waits) == (0, 9)
    assert edge.after.pace.side_by_side == before.pace.side_by_side, "the pipeline is as deep as it was"
    assert drained.after.pace.side_by_side < before.pace.side_by_side


def test_on_the_destination_other_copies_race() -> None:
    """The verdict depends on the queue that copies run on, as measured on the devices."""
    assert tried("pipeline_src", CopyOn("src")).after.races == 0


def test_fix_finds_the_ring_and_the_stall() -> None:
    found = fix(hbtrace.open(path("integrated")).batches)
    options = [answer.mends[0].option for answer in found.answers]
    assert options[0] == "--ring 2"
    assert all(answer.minimal and answer.result.after.races == 0 for answer in found.answers)
    memory = {answer.price.bytes > 0 for answer in found.answers}
    assert memory == {True, False}, "one at the price of memory, one at that of waits"


def test_fix_of_two_causes_offers_one_stall_or_two_mends() -> None:
    found = fix(hbtrace.open(path("cuda_integrated")).batches)
    assert [len(answer.mends) for answer in found.answers][:3] == [1, 1, 2]
    assert [answer.mends[0].option for answer in found.answers][1:3] == ["--sync ubatch", "--ring 2"]


def test_rules_combine_and_can_be_written(tmp_path: Any) -> None:
    out = tmp_path / "mended.jsonl"
    command = ["whatif", path("cuda_integrated"), "--ring", "2", "--sync", "before:embd", "-o", str(out)]
    result = CliRunner().invoke(cli, command, standalone_mode=False)
    assert (result.exception, result.return_value) == (None, 0)
    assert hbtrace.analyze(str(out)).races == 0
    assert hbtrace.analyze(str(out)).warnings == []
    events = list(hbtrace.open(str(out)))
    assert {event.get("slot") for event in events if event["ev"] == "sched_prepare"} == {0, 1}


def test_other_rules() -> None:
    assert tried("integrated", Synchronous("FAKE0")).after.races == 0
    assert tried("integrated", Pin()).after.races == 30, "a ring's races are not the allocator's"
    assert tried("integrated", Place("GET_ROWS", "CPU")).price.changed > 0
    with pytest.raises(hbtrace.UsageError, match="is no edge"):
        tried("integrated", Drop(1))


def test_waits_of_a_clean_run() -> None:
    weighed = weigh(hbtrace.open(path("discrete")).batches())
    assert weighed.reports == 0
    assert any(wait.bears for wait in weighed.waits)
    assert any(not wait.bears for wait in weighed.waits)
    row = next(wait.rows[0] for wait in weighed.waits if wait.bears)
    assert tried("discrete", Drop(row)).after.races > 0


def test_minimized_recordings_still_race() -> None:
    for name in ("integrated", "cuda", "cuda_integrated"):
        found = triage(path(name))
        for cause in found:
            small = minimize(hbtrace.open(path(name)).batches(), cause.reports[0])
            assert len(small) < 12
            again = hbtrace.analyze_events(small, strict=True).reports
            assert cause.reports[0].signature in {report.signature for report in again}


@pytest.mark.parametrize("verb", ["triage", "explain", "whatif"])
def test_json(verb: str) -> None:
    options = {"triage": [], "explain": ["431"], "whatif": ["--fix"]}[verb]
    command = [verb, path("integrated"), *options, "--format", "json"]
    result = CliRunner().invoke(cli, command, standalone_mode=False)
    document = json.loads(result.output)
    assert document["format"] == 1
    if verb == "triage":
        assert [cause["reports"] for cause in document["causes"]] == [30]
        assert {report["cause"] for report in document["reports"]} == {document["causes"][0]["id"]}
        assert {report["consequence"] for report in document["reports"]} <= {"live", "dead", "unknown"}
    elif verb == "explain":
        assert document["witness"]["recorded"] == [[276, 0]]
        assert document["witness"]["seen"] == [[431, 0]]
    else:
        assert document["before"]["races"] == 30
        assert document["after"]["races"] == 0
        assert {"mends", "removes", "price", "minimal"} <= document["answers"][0].keys()


def test_explain_finds_by_id_cause_and_row() -> None:
    found = triage(path("integrated"))
    (cause,) = found
    race = found.ids[cause.reports[0].canonical]
    assert len(find(found, cause.ident)) == 30
    assert len(find(found, race)) == 6
    assert len(find(found, "431")) == 1
    assert find(found, "R-000000") == []


def test_explain_race_is_the_verb_in_python() -> None:
    found = hbtrace.explain_race(path("integrated"), "431")
    assert (found.report.current.row, found.witness.seen) == (431, [(431, 0)])
    assert hbtrace.explain_race(path("integrated"), found.cause.ident).others == 29
    with pytest.raises(hbtrace.UsageError, match="no race R-000000"):
        hbtrace.explain_race(path("integrated"), "R-000000")


def drawing(text: str) -> list[str]:
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("  in this one")) + 2
    return lines[start : lines.index("", start)]


def test_lanes_fit_the_terminal() -> None:
    found = hbtrace.explain_race(path("cuda"), "612")
    whole = drawing(render(found))
    assert max(map(len, whole)) > 80
    narrow = drawing(render(found, 80))
    assert max(map(len, narrow)) <= 80
    assert drawing(render(found, 160)) == whole
    assert len(narrow) == len(whole)
    column = whole[0].index("CUDA1")
    assert whole[0][2:7] == "CUDA0"
    assert [line[column] for line in whole if " C 612 " in line or " V 344 " in line] == ["|", "|"]
    assert next(line for line in whole if "E 404" in line)[column:].startswith("E 404 compute")
    assert sum("596 event_wait" in line for line in whole) == 1, "an event is one line, whatever it is made of"
