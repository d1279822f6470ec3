"""Trials of a gate: small runs with and without a race, and what command lines must make of them.

It is the installation as a user has it that is tried: each trial is a process of its own, and counts by its exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from hbtrace.trace.writer import open_writer

_QUEUE: Final = {"ev": "backend", "id": 0, "name": "GPU0", "type": "igpu"}
_SYNC: Final = {"ev": "synchronize", "backend": 0}


class Trial(NamedTuple):
    """What is tried, the command line, the exit code that it must have."""

    what: str
    arguments: list[str]
    wanted: int

    def exit_code(self) -> int:
        """That which gets out of a process, of this very package, whatever the working directory is."""
        path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "hbtrace", *self.arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            check=False,
        )
        return done.returncode


def trials(folder: Path) -> list[Trial]:
    """All of them; their runs are written into the folder."""
    racy, fixed, other, cut, known, foreign, mistyped, blind = (
        str(folder / name)
        for name in (
            "racy.arrow", "fixed.arrow", "other.arrow", "cut.arrow", "races.toml", "foreign.jsonl", "mistyped.arrow",
            "blind.arrow",
        )
    )  # fmt: skip
    _write(racy, _run(ubatches=3, waits=False))
    _write(fixed, _run(ubatches=3, waits=True))
    _write(other, _run(ubatches=2, waits=True))
    _write(foreign, [{"name": "inp_tokens", "ph": "X", "ts": 1, "dur": 2}] * 3)
    _write(mistyped, [*_run(ubatches=3, waits=True), {"ev": "kernel", "backend": 0, "read": [{"tensor": 0}]}])
    _write(blind, [*_run(ubatches=3, waits=True), {"ev": "note", "what": "blind", "attrs": {"why": "a trial"}}])
    _cut_off(cut)
    return [
        Trial("a planted race is found", ["analyze", racy], 1),
        Trial("its fix is clean", ["analyze", fixed], 0),
        Trial("a new race turns the gate red", ["diff", fixed, racy], 1),
        Trial("a fixed race turns it green", ["diff", racy, fixed], 0),
        Trial("the same run twice is green", ["diff", racy, racy], 0),
        Trial("a shorter run is not comparable", ["diff", racy, other, "--require-comparable"], 4),
        Trial("half a trace is refused", ["diff", racy, cut], 3),
        Trial("a missing trace is refused", ["diff", racy, racy + ".not-there"], 3),
        Trial("a filter that matches nothing is refused", ["diff", racy, racy, "--tensor", "no such tensor"], 2),
        Trial("a filter that matches nothing is refused by analyze, too", ["analyze", racy, "--actor", "GPU1"], 2),
        Trial("an actor's name as the table has it shows its race", ["diff", fixed, racy, "--actor", "GPU0"], 1),
        Trial("a trace that is not understood is refused", ["analyze", foreign], 3),
        Trial("a trace that is not understood is refused by check", ["check", foreign], 3),
        Trial("a trace that is not understood is refused by diff", ["diff", fixed, foreign], 3),
        Trial("a key that nobody reads is refused by --strict", ["analyze", mistyped, "--strict"], 3),
        Trial("without that key --strict is green", ["analyze", fixed, "--strict"], 0),
        Trial("what the recorder could not see is no clean run", ["diff", fixed, blind], 4),
        Trial("a baseline is written", ["baseline", "write", fixed, "-o", known], 0),
        Trial("a race that is not in it is red", ["baseline", "check", known, racy], 1),
        Trial("a run without one is green", ["baseline", "check", known, fixed], 0),
        Trial("half a trace is refused there, too", ["baseline", "check", known, cut], 3),
        Trial("an output for machines changes no code", ["diff", fixed, racy, "--format", "sarif"], 1),
    ]


def _write(path: str, rows: list[dict[str, Any]]) -> None:
    with open_writer(path) as writer:
        writer.write_rows(rows)


def _cut_off(path: str) -> None:
    """A clean run whose recorder was killed: what is left of it can be read, and looks like a fix."""
    rows = _run(ubatches=6, waits=True)
    with open_writer(path) as writer:
        for half in (rows[:-9], rows[-9:]):
            writer.write_rows(half)
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: len(whole) * 4 // 5])


def _run(*, ubatches: int, waits: bool) -> list[dict[str, Any]]:
    """A run whose host sets the inputs of each ubatch, after waiting for the queue or not."""
    rows: list[dict[str, Any]] = [
        {"ev": "meta", "version": 1, "producer": "hbtrace selftest"},
        {**_QUEUE, "id": 1},  # a name for two, so that outputs tell them apart
        _QUEUE,
        {"ev": "buffer", "id": 0, "name": "GPU_Host", "size": 256, "host": True},
        {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "offset": 0, "size": 128},
        {"ev": "graph", "id": 0, "nodes": [{"op": "GET_ROWS", "reads": [{"tensor": 0}], "writes": []}]},
    ]
    for n in range(ubatches):
        rows += [_SYNC] if waits else []
        rows += [
            {"ev": "ubatch", "n": n, "tokens": 32, "phase": "prefill"},
            {"ev": "set_direct", "tensor": 0, "ubatch": n},
            {"ev": "compute", "backend": 0, "graph": 0, "split": 0, "ubatch": n},
        ]
    return rows
