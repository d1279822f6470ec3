"""`hbtrace selftest`: does this installation's gate turn red for a race and green for its fix?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click

_QUEUE: Final = {"ev": "backend", "id": 0, "name": "GPU0", "type": "igpu"}
_SYNC: Final = {"ev": "synchronize", "backend": 0}


@click.command(epilog="""\b
Examples:
  hbtrace selftest
""")
def command() -> int:
    """Plant a race and its fix, and see this very installation's gate turn red and green.

    Run it in CI before the gate, so that a gate that cannot fail is noticed. Exit code: 0 it works, 70 it does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        failed = [what for what, arguments, wanted in _plan(Path(folder)) if not _ends_with(what, arguments, wanted)]
    click.echo("the gate works" if not failed else f"the gate does not work: {', '.join(failed)}")
    return 70 if failed else 0


def _plan(folder: Path) -> list[tuple[str, list[str], int]]:
    """(what is tried, command line, exit code it must have)"""
    racy, fixed, other, cut, known = (
        str(folder / name) for name in ("racy.arrow", "fixed.arrow", "other.arrow", "cut.arrow", "races.toml")
    )
    _write(racy, ubatches=3, waits=False)
    _write(fixed, ubatches=3, waits=True)
    _write(other, ubatches=2, waits=True)
    _cut_off(cut)
    return [
        ("a planted race is found", ["analyze", racy], 1),
        ("its fix is clean", ["analyze", fixed], 0),
        ("a new race turns the gate red", ["diff", fixed, racy], 1),
        ("a fixed race turns it green", ["diff", racy, fixed], 0),
        ("the same run twice is green", ["diff", racy, racy], 0),
        ("a shorter run is not comparable", ["diff", racy, other, "--require-comparable"], 4),
        ("half a trace is refused", ["diff", racy, cut], 3),
        ("a missing trace is refused", ["diff", racy, racy + ".not-there"], 3),
        ("a filter that matches nothing is refused", ["diff", racy, racy, "--tensor", "no such tensor"], 2),
        ("a baseline is written", ["baseline", "write", fixed, "-o", known], 0),
        ("a race that is not in it is red", ["baseline", "check", known, racy], 1),
        ("a run without one is green", ["baseline", "check", known, fixed], 0),
        ("half a trace is refused there, too", ["baseline", "check", known, cut], 3),
        ("an output for machines changes no code", ["diff", fixed, racy, "--format", "sarif"], 1),
    ]


def _ends_with(what: str, arguments: list[str], wanted: int) -> bool:
    got = _exit_code(arguments)
    click.echo(f"{'ok  ' if got == wanted else 'FAIL'}  {what} (exit code {got}, wanted {wanted})")
    return got == wanted


def _exit_code(arguments: list[str]) -> int:
    """A process of its own, for the exit code must get out; of this very package, whatever the working directory is."""
    import hbtrace

    path = [str(Path(hbtrace.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hbtrace", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        check=False,
    )
    return done.returncode


def _write(path: str, *, ubatches: int, waits: bool) -> None:
    from hbtrace.trace.writer import open_writer

    with open_writer(path) as writer:
        writer.write_rows(_run(ubatches=ubatches, waits=waits))


def _cut_off(path: str) -> None:
    """A clean run whose recorder was killed: what is left of it can be read, and looks like a fix."""
    from hbtrace.trace.writer import open_writer

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
