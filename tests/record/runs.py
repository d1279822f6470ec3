"""One recorded run of the driver: what it printed, and what `analyze` says of its trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from hbtrace.compare.outcome import analyze
from hbtrace.report.objects import outcome_object
from hbtrace.trace.reader import open_trace

Event = dict[str, Any]
HANG = 600
"""Seconds after which something hangs: under load, all else may take long."""

_STEERING = {
    "LIBS", "PLUGIN", "MODEL", "LAYERS", "THREADS", "FLASH", "REPEATS", "PROMPT", "LENGTHS", "UBATCH", "CONTEXT",
    "DECODE", "CALLBACK", "ROUNDS", "ENDS",
}  # fmt: skip


def _steers(variable: str) -> bool:
    """Whether a variable would change what the driver or the engine does."""
    return variable in _STEERING or variable.startswith(("HBTEST_", "FORK_", "GGML_", "LLAMA_", "HBTRACE_RECORD_"))


def hbtrace(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    command = [sys.executable, "-m", "hbtrace", *map(str, arguments)]
    return subprocess.run(command, check=False, **{"capture_output": True, "text": True, "timeout": HANG, **options})


def start_hbtrace(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "hbtrace", *map(str, arguments)], **options)


def events_of(path: Path) -> list[Event]:
    with open_trace(str(path)) as trace:
        return list(trace)


@dataclass
class Run:
    """What a recorded run left."""

    status: int
    output: str
    told: str
    trace: Path

    @property
    def tokens(self) -> str:
        """The tokens and the hash of all logits."""
        return self.output.strip()

    @cached_property
    def events(self) -> list[Event]:
        return events_of(self.trace)

    def rows(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event["ev"] in kinds]

    @cached_property
    def analysis(self) -> dict[str, Any]:
        """As `analyze --strict --all --format json` prints it: a recorded trace breaks no rule of the format."""
        outcome = analyze(str(self.trace), strict=True, consequence=False)
        result: dict[str, Any] = json.loads(orjson.dumps(outcome_object(outcome)))
        return result

    @property
    def races(self) -> Counter[str]:
        """How many reports there are of each tensor, by its name on the current side."""
        return Counter(report["current"]["root"] for report in self.analysis["reports"])

    @property
    def warnings(self) -> list[str]:
        return list(self.analysis["warnings"])


@dataclass(frozen=True)
class Recorder:
    """Runs the driver, with and without the recorder."""

    engine: Path
    plugin: Path
    driver: Path
    model: Path
    folder: Path

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        base = {"LIBS": str(self.engine), "MODEL": str(self.model), "PLUGIN": str(self.plugin), "LAYERS": "99"}
        inherited = {key: value for key, value in os.environ.items() if not _steers(key)}
        return {key: value for key, value in {**inherited, **base, **settings}.items() if value}

    def plain(self, *command: str | Path, **settings: str) -> str:
        """The tokens of an unrecorded run on the CPU alone: the right ones."""
        environment = self.environment({"LAYERS": "0", "PLUGIN": "", **settings})
        done = subprocess.run(
            command or [self.driver], env=environment, capture_output=True, text=True, check=True, timeout=HANG
        )
        return done.stdout.strip()

    def record(
        self, *options: str, command: Sequence[str | Path] = (), copies: str = "src", name: str = "run.arrow",
        **settings: str,
    ) -> Run:
        trace = self.folder / name
        given = ["-o", trace, "--copies", f"HBTEST={copies}", *options]
        done = hbtrace("record", *given, "--", *(command or [self.driver]), env=self.environment(settings))
        return Run(done.returncode, done.stdout, done.stderr, trace)
