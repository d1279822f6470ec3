"""`hbtrace selftest` is green here, and red wherever a fault is planted in the gate."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hbtrace
from hbtrace.cli import run
from hbtrace.compare import baseline, sides
from hbtrace.compare.selftest import Trial

PACKAGE = Path(hbtrace.__file__).parent


@pytest.fixture
def verdict(hbtrace, monkeypatch):
    """The selftest, its processes run as functions of this one, so that faults can be planted: (code, what is red)."""
    monkeypatch.setattr(Trial, "exit_code", lambda trial: run(trial.arguments))

    def call():
        code, out, _ = hbtrace("selftest")
        assert out.splitlines()[-1].startswith("the gate does not work" if code else "the gate works")
        return code, [line[6:].split(" (exit code")[0] for line in out.splitlines() if line.startswith("FAIL  ")]

    return call


def test_without_a_fault(verdict):
    assert verdict() == (0, [])


def whole(path, options):
    outcome = real_outcome(path, options)
    outcome.truncated = False
    return outcome


def checked(known, side, *rest):
    known.races.update({c: baseline.Known("R-000000", c) for c in side.races})
    return real_check(known, side, *rest)


real_outcome, real_check = sides._outcome, baseline.check
FAULTS = {
    # where, what, instead, what must be red
    "no race ever fails": ("hbtrace.compare.race_result.RaceResult.failed", False, "a planted race is found"),
    "every race fails": ("hbtrace.compare.race_result.RaceResult.failed", True, "its fix is clean"),
    "all workloads are comparable": ("hbtrace.compare.workload.obstacles", lambda *_: [],
                                     "a shorter run is not comparable"),
    "truncated traces pass": ("hbtrace.compare.sides._outcome", whole, "half a trace is refused"),
    "filters may match nothing": ("hbtrace.compare.sides.check_filters", lambda *_: None,
                                  "a filter that matches nothing is refused"),
    "filters may match nothing anywhere": ("hbtrace.races.unmatched._unmatched", lambda *_: iter(()),
                                           "a filter that matches nothing is refused by analyze, too"),
    "filters know only printed names": ("hbtrace.races.filters._actors", lambda report: (report.current.actor,),
                                        "an actor's name as the table has it shows its race"),
    "what was not understood is clean": ("hbtrace.replay.session.nothing_in", lambda _: "",
                                         "a trace that is not understood is refused"),
    "strict lets every key pass": ("hbtrace.replay.diagnostics.STRICT", frozenset(),
                                   "a key that nobody reads is refused by --strict"),
    "nobody heeds what was not seen": ("hbtrace.replay.exercise.Exercise.unseen", "",
                                       "what the recorder could not see is no clean run"),
    "every race is known": ("hbtrace.compare.baseline.check", checked, "a race that is not in it is red"),
    "a missing trace is empty": ("hbtrace.compare.sides.traces_of", lambda place: [place.removesuffix(".not-there")],
                                 "a missing trace is refused"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_with_a_fault(verdict, monkeypatch, name):
    where, instead, red = FAULTS[name]
    monkeypatch.setattr(where, instead)
    code, told = verdict()
    assert code == 70
    assert red in told


def test_with_a_blind_replay(verdict, monkeypatch):
    for kernel in ("kernel.Kernel", "native_kernel.NativeKernel"):  # whichever of them replays here
        monkeypatch.setattr(f"hbtrace.replay.{kernel}.run", lambda self, program: iter(()))
    code, told = verdict()
    assert code == 70
    assert {"a planted race is found", "a new race turns the gate red", "a race that is not in it is red"} <= set(told)


def process(cwd, package, *options):
    code = "from hbtrace.cli import main; main()"
    return subprocess.run(
        [sys.executable, *options, "-c", code, "selftest"],
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(package.parent)}, capture_output=True, check=False, text=True,
    )  # fmt: skip


def test_as_a_process_it_tests_itself_and_not_what_lies_in_the_working_directory(tmp_path):
    (tmp_path / "hbtrace").mkdir()
    (tmp_path / "hbtrace/__init__.py").write_text("")
    (tmp_path / "hbtrace/__main__.py").write_text("raise SystemExit(1)")
    done = process(tmp_path, PACKAGE, "-P")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1] == "the gate works"


def test_an_installation_whose_exit_code_gets_lost(tmp_path):
    copy = tmp_path / "broken" / "hbtrace"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "native", "docs"))
    (copy / "__main__.py").write_text("raise SystemExit(0)\n")
    done = process(tmp_path, copy)
    assert done.returncode == 70
    assert "FAIL  a planted race is found (exit code 0, wanted 1)" in done.stdout
