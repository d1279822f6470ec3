"""`hbtrace simulate strata` as it is typed, the registry's checks on what it writes, and the documentation page."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hbtrace.checks.checked import check
from hbtrace.cli import run
from hbtrace.errors import UsageError
from hbtrace.strata.checks.rules import STRATA_RULES, TABLE
from hbtrace.strata.cli.simulate import command
from hbtrace.strata.model.faults import FAULTS
from hbtrace.trace.reader import open_trace

PAGE = (files("hbtrace") / "docs" / "strata.md").read_text(encoding="utf-8")


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments], catch_exceptions=False)


def test_a_trace_is_written_and_told(tmp_path: Path) -> None:
    path = tmp_path / "ring.arrow"
    done = simulate("-o", str(path))
    assert done.exit_code == 0
    told = done.stderr.splitlines()
    assert re.fullmatch(r"ring, 2 stages, 2 windows: result [0-9a-f]{16}", told[0])
    assert told[1] == "0 of 20 random schedules end or show something else"
    assert told[2] == "the ring spares each window of a front stage a copy of 192 bytes (384 read and written)"
    with open_trace(path) as trace:
        assert sum(1 for _ in trace) > 1000
    with pytest.raises(UsageError, match="exists; give -f to overwrite it"):
        simulate("-o", str(path))


def test_both_modes_have_one_result(tmp_path: Path) -> None:
    results = {
        simulate("--mode", mode, "-o", str(tmp_path / f"{mode}.jsonl")).stderr.split("result ")[1][:16]
        for mode in ("ring", "copy")
    }
    assert len(results) == 1


def test_a_fault_brings_its_mode(tmp_path: Path) -> None:
    done = simulate("--fault", "snap-wait-removed", "-o", str(tmp_path / "live.arrow"))
    assert done.stderr.startswith("copy, 2 stages")
    assert not done.stderr.splitlines()[1].startswith("0 of")
    with pytest.raises(UsageError, match="is one of copy mode: leave --mode ring out"):
        simulate("--fault", "snap-wait-removed", "--mode", "ring", "-o", str(tmp_path / "x.arrow"))
    with pytest.raises(UsageError, match="did you mean `no-settle`"):
        simulate("--fault", "no-setle", "-o", str(tmp_path / "x.arrow"))
    with pytest.raises(UsageError, match="where to"):
        simulate("--fault", "no-settle")


def test_a_fault_that_never_showed_is_said(tmp_path: Path) -> None:
    """With two stages there is one front stage, and it is the first."""
    never = "warning: the fault never showed: every row is as in a sound run"
    common = ("--fault", "settle-first-stage-only", "--schedules", "0", "--requests", "2")
    assert never in simulate(*common, "--stages", "2", "-o", str(tmp_path / "two.arrow")).stderr
    assert never not in simulate(*common, "--stages", "3", "-o", str(tmp_path / "three.arrow")).stderr


def test_a_fault_that_nothing_shows_is_an_error(tmp_path: Path, capsys, monkeypatch) -> None:
    """No rule and no race left to find it: the trace is there, the run is no proof of anything."""
    line = ("simulate", "strata", "--fault", "no-settle", "--requests", "1", "--schedules", "0")
    assert run([*line, "-o", str(tmp_path / "found.arrow")]) == 0
    monkeypatch.setattr("hbtrace.strata.checks.protocol.rules", lambda events: [])
    assert run([*line, "-o", str(tmp_path / "missed.arrow")]) == 4
    assert "the fault changed the run, and neither a rule nor a race shows it" in capsys.readouterr().err
    assert (tmp_path / "missed.arrow").exists()


def test_the_faults_are_listed() -> None:
    entries = json.loads(simulate("--list-faults", "--format", "json").stdout)
    assert [entry["name"] for entry in entries] == [fault.name for fault in FAULTS]
    known = {rule.id for rule in STRATA_RULES} | {"race"}
    assert all(entry["engine"] == "strata" and entry["expects"] in known for entry in entries)
    assert len(simulate("--list-faults").stdout.splitlines()) == len(FAULTS)


def test_logs_are_written_too(tmp_path: Path) -> None:
    simulate("-o", str(tmp_path / "r.arrow"), "--state-hash", "--logs", str(tmp_path / "r"))
    assert (tmp_path / "r.trace").read_text().startswith("# request p0=")
    assert "STATE_HASH L=" in (tmp_path / "r.stderr").read_text()
    assert "\nDONE " in (tmp_path / "r.stdout").read_text()


@pytest.mark.parametrize("stages", ["2", "3"])
@pytest.mark.parametrize("mode", ["ring", "copy"])
def test_the_registry_is_silent_on_a_right_run(tmp_path: Path, mode: str, stages: str) -> None:
    """Over all checks, not Strata's alone; copy mode's races are told as what they are, and by nobody else."""
    path = tmp_path / "run.arrow"
    simulate("--mode", mode, "--stages", stages, "-o", str(path))
    checked = check(str(path))
    assert [finding for finding in checked.findings if finding.severity != "info"] == []
    told = {finding.message[:6] for finding in checked.findings if finding.id == "strata.copy"}
    assert told == (set() if mode == "ring" else {"copy-1", "copy-2"})


def test_the_schedulers_rules_judge_the_same_rows_of_another_engine(tmp_path: Path) -> None:
    """They step back for Strata alone: it is the engine's name that decides, not the labels."""
    simulate("--mode", "copy", "-o", str(tmp_path / "copy.jsonl"))
    text = (tmp_path / "copy.jsonl").read_text(encoding="utf-8")
    (tmp_path / "other.jsonl").write_text(text.replace('"engine":"strata"', '"engine":"other"', 1), encoding="utf-8")
    failed = {found.id for found in check(str(tmp_path / "other.jsonl")).findings if found.severity != "info"}
    assert {"copy-unordered", "event-order"} <= failed


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.seeded], ids=lambda fault: fault.name)
def test_the_registry_finds_a_fault_by_its_id(tmp_path: Path, fault: object) -> None:
    assert fault in FAULTS
    path = tmp_path / "run.arrow"
    simulate("--fault", fault.name, "--schedules", "0", "--seed", "2", "-o", str(path))  # type: ignore[attr-defined]
    (found,) = [f for f in check(str(path)).findings if f.id == fault.expects]  # type: ignore[attr-defined]
    assert found.rows


def test_every_rule_and_fault_is_documented() -> None:
    words = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert {f"strata.{rule}" for rule in TABLE} | {"strata.copy", "strata.coverage"} <= words
    assert {fault.name for fault in FAULTS} <= words
    assert {rule.id for rule in STRATA_RULES} - {f"strata.{rule}" for rule in TABLE} == {
        "strata.copy",
        "strata.coverage",
    }


def test_the_notes_of_state_hashes_are_documented() -> None:
    words = set(re.findall(r"`([^`\n]+)`", PAGE))
    assert {"state_hash_items", "state_hash_layers", "hashes", "stages"} <= words


def test_a_run_that_exercised_nothing_says_so(tmp_path: Path) -> None:
    simulate("--requests", "1", "--seed", "5", "--force-miss", "0", "-o", str(tmp_path / "short.arrow"))
    (found,) = [found for found in check(str(tmp_path / "short.arrow")).findings if found.id == "strata.coverage"]
    assert found.severity == "info"
    assert re.match(r"(not-exercised|partly): stage 0 never had ", found.message)
