"""Spools to traces: what the library wrote becomes `run.arrow`, and for each further process `run.2.arrow`, ..."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from hbtrace.errors import HbtraceError

if TYPE_CHECKING:
    import pyarrow as pa

_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError)
"""Of a row of a spool, which may be cut or gone: one that is bad must not take the other traces with it."""


@dataclass
class Recorded:
    """One process's trace, and what is to be said of it."""

    path: Path
    spool: Path
    events: Counter[str] = field(default_factory=Counter)
    unseen: int = 0
    lost_stores: int = 0
    registries: set[str] = field(default_factory=set)
    unknown_copies: set[str] = field(default_factory=set)
    """The registries of the backends that were there, and of those whose copies run on nobody knows which queue."""
    from_outside: bool = False
    """Whether any call came from elsewhere than ggml's own libraries."""
    several_ggml: bool = False
    stopped: str = ""
    notes: str = ""
    command: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failure: str = ""
    kept: bool = True
    """Where the trace failed: whether the spool has events."""

    @property
    def rows(self) -> int:
        return self.events.total()

    @property
    def pid(self) -> str:
        """Of PREFIX.PID.jsonl, or PREFIX.PID-2.jsonl where it has begun anew."""
        return self.spool.name.split(".")[-2].partition("-")[0]

    @property
    def size(self) -> int:
        return (self.spool if self.failure else self.path).stat().st_size


def spools(prefix: Path) -> list[Path]:
    """The spools that belong to an output, in any order."""
    beginning = f"{prefix.name}."
    return [path for path in _beside(prefix) if path.name.startswith(beginning) and path.suffix == ".jsonl"]


def _beside(path: Path) -> list[Path]:
    """What its folder holds; nothing where the program has moved the folder away."""
    return list(path.parent.iterdir()) if path.parent.is_dir() else []


def trace_path(output: Path, number: int) -> Path:
    """Of the first process's trace, number 1, and of further ones."""
    return output if number == 1 else output.with_suffix(f".{number}{output.suffix}")


def further_traces(output: Path) -> list[Path]:
    """What stands where the traces of a second process and of later ones go, in their order."""
    beginning = f"{output.stem}."
    found = {}
    for path in _beside(output):
        digits = path.stem.removeprefix(beginning)
        if digits.isdecimal() and int(digits) > 1 and path.name == trace_path(output, int(digits)).name:
            found[int(digits)] = path
    return [found[number] for number in sorted(found)]


def finish(output: Path, prefix: Path, *, force: bool) -> list[Recorded]:
    """Make the traces, the earliest process's first; a spool whose trace is written is removed.

    Of one that cannot be written the spool stays: it is a trace, too, and `failure` says what was in the way.
    """
    done = []
    for number, spool in enumerate(sorted(spools(prefix), key=_start), 1):
        recorded = Recorded(trace_path(output, number), spool)
        try:
            with _claimed(spool) as stream:
                _cut(stream)
                recorded.kept = stream.tell() > 0
                if recorded.kept:
                    _convert(recorded, force=force)
                else:
                    recorded.failure = "not even its first row could be written, as on a full disk"
                spool.unlink()
        except BlockingIOError:
            recorded.failure = (
                f"process {recorded.pid} still writes it; analyze it as it is, or wait for the end of the process and "
                "`hbtrace convert` it"
            )
        except (HbtraceError, OSError) as error:
            recorded.failure = str(error)
            recorded.stopped = recorded.stopped or _last_words(spool)
        done.append(recorded)
    return done


@contextmanager
def _claimed(spool: Path) -> Iterator[BinaryIO]:
    """The spool, while nobody else writes it. Raises BlockingIOError if a process does: it outlives the command."""
    with spool.open("r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system without locks, where the process has none either
        yield stream


def _start(spool: Path) -> tuple[str, float, str]:
    """When its process began to record, by its first row; files whose first row cannot be read come last."""
    try:
        with spool.open("rb") as stream:
            meta = json.loads(stream.readline(1 << 20))
        return str(meta["started_at"]), float(meta["x_pid"]), spool.name
    except _UNREADABLE:
        return "~", 0.0, spool.name


def _last_words(spool: Path) -> str:
    """Why its recording ended early, by its last row; empty if it did not, or if that cannot be read."""
    try:
        with spool.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4096))
            row = json.loads(stream.read().rstrip(b"\n").rpartition(b"\n")[2])
        return str(row["attrs"]["reason"]) if row["what"] == "recording_stopped" else ""
    except _UNREADABLE:
        return ""


def _cut(stream: BinaryIO) -> None:
    """A program that was killed leaves the room that it had reserved: zeros behind the last line."""
    block = 1 << 16
    end = stream.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        stream.seek(start)
        data = stream.read(end - start)
        end = start + len(data.rstrip(b"\0"))
        if end > start:
            break
    stream.truncate(end)
    stream.seek(end)


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
    import pyarrow as pa
    import pyarrow.compute as pc

    from hbtrace.trace.rows import rows_from_batch

    events = batch.column("ev")
    recorded.events.update(events.to_pylist())
    if not recorded.from_outside:
        recorded.from_outside = any(map(_is_outside, batch.column("site").unique().to_pylist()))
    for row in rows_from_batch(batch.filter(pc.is_in(events, value_set=pa.array(["note", "backend"])))):
        if row["ev"] == "note":
            _note(recorded, str(row.get("what")), row.get("attrs") or {})
        elif "registry" in row:
            recorded.registries.add(str(row["registry"]))


def _is_outside(site: str | None) -> bool:
    """Of `module:function`."""
    return site is not None and not site.startswith("libggml")


def _note(recorded: Recorded, what: str, attrs: dict[str, Any]) -> None:
    if what == "direct_writes_unseen":
        recorded.unseen += int(attrs.get("assertions", 0)) - int(attrs.get("changed", 0))
    elif what == "stores_lost":
        recorded.lost_stores += int(attrs.get("stores", 0))
    elif what == "copy_rule_unknown":
        recorded.unknown_copies.add(str(attrs.get("registry")))
    elif what == "several_ggml":
        recorded.several_ggml = True
    elif what == "recording_stopped":
        recorded.stopped = str(attrs.get("reason", ""))
