"""Where a trace's batches end changes nothing, in any verb: every output is compared whole.

What it is: the law of re-batching over random programs, simulated runs, and runs that once broke it. The batches of a
trace are its writer's; 1 row each is what a crash-safe recorder may write, one batch what `convert` makes.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from hbtrace.cli import run
from hbtrace.simulate.ggml import Config, parse_device, simulate
from hbtrace.strata.model.simulate import Mix, RunShape
from hbtrace.strata.model.simulate import simulate as simulate_strata
from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.writer import open_writer
from tests.oracle.programs import random_program

Event = dict[str, Any]

SIZES = (1000, 1, 2, 7, 9, 10)
"""The first is what the others must equal."""
FEW = (1000, 9)
"""Of a long run, for time's sake."""
LONG = 60


def _odd(seed: int, weird: float = 0.0) -> list[Event]:
    return random_program(random.Random(seed), weird=weird)


SYNCHRONOUS: list[Event] = [
    {"ev": "backend", "id": 0, "name": "CPU", "type": "cpu", "synchronous": True},
    {"ev": "buffer", "id": 0, "name": "CPU", "size": 64},
    {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "size": 64, "flags": ["input"]},
    {"ev": "graph", "id": 0, "nodes": [{"op": "ADD"}]},
    {"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "reads": [{"tensor": 0}]}]},
    *[{"ev": "compute", "backend": 0, "graph": 0}, {"ev": "tensor_set", "tensor": 0}] * 2,
    {"ev": "compute", "backend": 0, "graph": 1},
]
"""A queue that only shows by its last row that it accesses memory: whether it is synchronous its definition says."""

NO_RING = simulate(Config(ring=0, prompt=64, decode=1, warmup=False)).rows
LATE = [row for row in NO_RING if row["ev"] not in ("backend", "graph")]
"""What ids mean is never told, so it is made up as the rows come."""

TRACES: dict[str, list[Event]] = {
    "a synchronous queue": SYNCHRONOUS,
    "a synchronous queue beside another": [
        {"ev": "backend", "id": 1, "name": "GPU0", "type": "gpu"}, *SYNCHRONOUS, {"ev": "synchronize", "backend": 1},
    ],
    "no ring": NO_RING,
    "a pipeline": simulate(
        Config(devices=(parse_device("CUDA0"), parse_device("CUDA1")), ubatch=16, prompt=80, decode=0, warmup=False,
               fault="copy-unordered")
    ).rows,
    "a late recording": LATE,
    "strata": simulate_strata(RunShape(mode="copy", fault="snap-wait-removed"), Mix(requests=1), 1).events,
    **{f"random {seed}": _odd(seed) for seed in (1, 2)},
    **{f"odd {seed}": _odd(seed, 0.1) for seed in (3, 6)},
}  # fmt: skip

VERBS: dict[str, tuple[str, ...]] = {
    "analyze": ("analyze", "{}", "--all", "-v"),
    "analyze, live": ("analyze", "{}", "--format", "json", "--only", "live"),
    "check": ("check", "{}"),
    "check, JSON": ("check", "{}", "--format", "json", "--skip-weights"),
    "info": ("info", "{}", "--format", "json"),
    "triage": ("triage", "{}", "-v"),
    "explain": ("explain", "{}", "ID"),
    "minimize": ("minimize", "{}", "ID", "-o", "small.jsonl", "-f"),
    "whatif": ("whatif", "{}", "--ring", "2", "--sync", "ubatch"),
    "whatif --fix": ("whatif", "{}", "--fix", "--format", "json"),
    "diff": ("diff", "{}", "base.arrows", "--format", "json"),
    "baseline": ("baseline", "check", "base.toml", "{}", "--format", "json"),
    "convert": ("convert", "{}", "small.jsonl", "-f"),
}  # fmt: skip
"""One command line for each verb that reads a trace."""
SEARCHES = ("minimize", "whatif --fix")
"""They replay a trace many times over: of a short one."""


def written(path: Path, events: list[Event], size: int) -> None:
    """An Arrow stream with so many rows in each batch."""
    with open_writer(path, force=True) as writer:
        for start in range(0, len(events), size):
            writer.write_batch(batch_from_rows(events[start : start + size]))


@pytest.fixture
def told(capfd, tmp_path, monkeypatch):
    """What a command line says, and the file that it writes: (exit code, output, errors, file)."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.jsonl"

    def call(*arguments: str) -> tuple[Any, ...]:
        file.unlink(missing_ok=True)
        capfd.readouterr()
        code = run(list(arguments))
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert code != 70, err
        return code, out, err, file.read_bytes() if file.exists() else b""

    return call


@pytest.mark.parametrize("name", TRACES)
def test_where_batches_end_no_verb_can_tell(told, tmp_path, name: str) -> None:
    events, trace = TRACES[name], tmp_path / "run.arrows"
    written(trace, events, SIZES[0])
    written(tmp_path / "base.arrows", events[: len(events) * 3 // 4], SIZES[0])
    told("baseline", "write", "base.arrows", "-o", "base.toml")
    reports = orjson.loads(told("analyze", trace.name, "--format", "json")[1] or b"{}").get("reports", [])
    ident = reports[0]["id"] if reports else "R-000000"

    verbs = [verb for verb in VERBS if len(events) <= LONG or verb not in SEARCHES]

    def everything() -> dict[str, tuple[Any, ...]]:
        lines = {verb: [{"{}": trace.name, "ID": ident}.get(word, word) for word in VERBS[verb]] for verb in verbs}
        return {verb: told(*line) for verb, line in lines.items()}

    whole = everything()
    for size in (SIZES if len(events) <= LONG else FEW)[1:]:
        written(trace, events, size)
        for verb, found in everything().items():
            assert found == whole[verb], f"{verb}, batches of {size}"


def test_something_is_compared(told, tmp_path) -> None:
    """Every verb has an answer for the run without a ring: none of them is compared by its refusal."""
    written(tmp_path / "run.arrows", TRACES["no ring"], 7)
    written(tmp_path / "base.arrows", TRACES["no ring"], 7)
    assert told("baseline", "write", "base.arrows", "-o", "base.toml")[0] == 0
    ident = orjson.loads(told("analyze", "run.arrows", "--format", "json")[1])["reports"][0]["id"]
    for verb, line in VERBS.items():
        code, out, err, file = told(*({"{}": "run.arrows", "ID": ident}.get(word, word) for word in line))
        assert code in (0, 1), (verb, err)
        assert out or file or err, verb
