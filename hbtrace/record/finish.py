"""Spools to traces: what the library wrote becomes `run.arrow`, and for each further process `run.2.arrow`, ..."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbtrace.errors import HbtraceError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Recorded:
    """One process's trace, and what is to be said of it."""

    path: Path
    spool: Path
    events: Counter[str] = field(default_factory=Counter)
    unseen: int = 0
    several_ggml: bool = False
    stopped: str = ""
    notes: str = ""
    command: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failure: str = ""

    @property
    def rows(self) -> int:
        return self.events.total()

    @property
    def size(self) -> int:
        return (self.spool if self.failure else self.path).stat().st_size


def spools(prefix: Path) -> list[Path]:
    """The spools that belong to an output, in any order."""
    beginning = f"{prefix.name}."
    return [path for path in prefix.parent.iterdir() if path.name.startswith(beginning) and path.suffix == ".jsonl"]


def finish(output: Path, prefix: Path, *, force: bool) -> list[Recorded]:
    """Make the traces, the earliest process's first; a spool whose trace is written is removed.

    Of one that cannot be written the spool stays: it is a trace, too, and `failure` says what was in the way.
    """
    done = []
    for number, spool in enumerate(sorted(spools(prefix), key=_start), 1):
        path = output if number == 1 else output.with_suffix(f".{number}{output.suffix}")
        recorded = Recorded(path, spool)
        try:
            _cut(spool)
            _convert(recorded, force=force)
            spool.unlink()
        except (HbtraceError, OSError) as error:
            recorded.failure = str(error)
        done.append(recorded)
    return done


def _start(spool: Path) -> tuple[str, float, str]:
    """When its process began to record, by its first row; files whose first row is cut come last."""
    with spool.open("rb") as stream:
        line = stream.readline(1 << 20)
    try:
        meta = json.loads(line)
        return str(meta["started_at"]), float(meta["pid"]), spool.name
    except (ValueError, KeyError, TypeError):
        return "~", 0.0, spool.name


def _cut(spool: Path) -> None:
    """A program that was killed leaves the room that it had reserved: zeros behind the last line."""
    block = 1 << 16
    with spool.open("r+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - block)
            stream.seek(start)
            data = stream.read(end - start)
            end = start + len(data.rstrip(b"\0"))
            if end > start:
                break
        stream.truncate(end)


def _convert(recorded: Recorded, *, force: bool) -> None:
    from hbtrace.trace.reader import STOPPED, open_trace
    from hbtrace.trace.writer import write_batches

    with open_trace(str(recorded.spool)) as trace:
        # What goes wrong leaves nothing: the spool has it all.
        write_batches(recorded.path, _counted(recorded, trace.batches()), force=force)
        recorded.warnings = [told for told in trace.warnings if STOPPED not in told]  # `stopped` has it
        recorded.notes = str(trace.meta.get("notes") or "")
        recorded.command = [str(word) for word in trace.meta.get("command") or []]


def _counted(recorded: Recorded, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        _count(recorded, batch)


def _count(recorded: Recorded, batch: pa.RecordBatch) -> None:
    events = batch.column("ev").to_pylist()
    recorded.events.update(events)
    if "note" not in events:
        return
    for what, attrs in _notes(batch):
        if what == "direct_writes_unseen":
            recorded.unseen += int(attrs.get("assertions", 0)) - int(attrs.get("changed", 0))
        elif what == "several_ggml":
            recorded.several_ggml = True
        elif what == "recording_stopped":
            recorded.stopped = str(attrs.get("reason", ""))


def _notes(batch: pa.RecordBatch) -> Iterator[tuple[str, dict[str, Any]]]:
    from hbtrace.trace.rows import rows_from_batch

    for row in rows_from_batch(batch):
        if row["ev"] == "note":
            yield str(row.get("what")), row.get("attrs") or {}
