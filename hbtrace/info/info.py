"""`info` as a function: what a trace holds, and for each of its queues whether the in-place hazard can arise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hbtrace.importers.source import Source, open_source
from hbtrace.info.contents import Contents
from hbtrace.info.hazard import Hazard, hazard_in, holds, with_cpu_slots, worst
from hbtrace.info.records import Queue, Scheduler
from hbtrace.trace import vocabulary as v


@dataclass(frozen=True, slots=True)
class Device:
    """All queues of one device, by its name; a queue without one is a device of its own name."""

    name: str
    type: str | None
    queues: list[Queue]
    verdict: str


@dataclass(slots=True)
class Info:
    """What a trace holds. Sizes are bytes, times nanoseconds."""

    path: str
    format: str
    dropped_bytes: int
    meta: dict[str, Any]
    contents: Contents
    hazards: dict[Queue, Hazard]
    warnings: list[str]

    @property
    def rows(self) -> int:
        return self.contents.rows

    @property
    def verdict(self) -> str:
        """The worst of all queues; a trace without any queue says nothing."""
        return worst(hazard.verdict for hazard in self.hazards.values())

    @property
    def devices(self) -> list[Device]:
        by_name: dict[str, list[Queue]] = {}
        for queue in self.hazards:
            by_name.setdefault(queue.device or queue.family, []).append(queue)
        return [
            Device(
                name,
                next((queue.type for queue in queues if queue.type), None),
                queues,
                worst(self.hazards[queue].verdict for queue in queues),
            )
            for name, queues in by_name.items()
        ]

    @property
    def events(self) -> Counter[str]:
        """Rows by event: those of the vocabulary in its order, then the others by name."""
        counts = self.contents.events
        return Counter({ev: counts[ev] for ev in (*v.EVENTS, *sorted(counts.keys() - v.EVENTS)) if counts[ev]})

    def queues_with(self, verdict: str) -> list[str]:
        return [queue.name for queue, hazard in self.hazards.items() if hazard.verdict == verdict]

    def schedulers_of(self, queue: Queue) -> list[Scheduler]:
        return [sched for sched in self.contents.schedulers if holds(sched, queue)]

    def slots(self, sched: Scheduler) -> list[str]:
        """The names of a scheduler's queues, the CPU slot last."""
        return [self.contents.alive(ident, sched.row).name for ident in sched.backends]


def info(path: str) -> Info:
    """What is in a trace (`-` is standard input) or in an imported log. Raises TraceError for what cannot be read."""
    return info_of(open_source(path))


def info_of(source: Source) -> Info:
    """As `info`, for what is open already."""
    from hbtrace.trace.rows import rows_from_batch

    contents, first = Contents(), {}
    for batch in source.batches():
        if not contents.rows and batch.num_rows:
            (first,) = rows_from_batch(batch.slice(0, 1))
        contents.add(batch)
    contents.finish()
    schedulers = with_cpu_slots(contents)
    return Info(
        source.path,
        str(getattr(source, "format", None) or getattr(source, "kind", "events")),
        source.dropped_bytes,
        _meta(first),
        contents,
        {queue: hazard_in(queue, schedulers) for queue in contents.queues},
        [*source.warnings, *contents.warnings],
    )


def _meta(row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the `meta` row; what is of the wrong type counts as absent."""
    if row.get("ev") != "meta":
        row = {}
    kinds: dict[str, type] = {v.STR: str, v.STRS: list, v.JSON: dict, v.INT: int, v.LIST: list}
    keys = {key: kind for key, kind in v.EVENTS["meta"].keys.items() if key != "version"}
    meta = {key: row[key] if isinstance(row.get(key), kinds[kind]) else None for key, kind in keys.items()}
    if meta["threads"] not in v.SETS["meta", "threads"]:
        meta["threads"] = "one"
    if meta["command"] is not None:
        meta["command"] = [word for word in meta["command"] if isinstance(word, str)]
    return meta
