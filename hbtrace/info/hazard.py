"""`info` as a function: what a trace holds, and for each of its queues whether the in-place hazard can arise.

The hazard: a queue reads, in place and after the call returned, memory that a host thread writes with plain stores.
Two conditions must hold together, and no device is known by its name: the backend is *asynchronous*, and it computes on
the *buffer type that the CPU slot of its scheduler was handed*. What computes on host memory synchronously (BLAS) can
not have it; what refuses that buffer type gets copies of its inputs. What a trace declares goes first; what it leaves
open is assumed from the table of backends (`hbtrace.backends`), and said to be.

JSON (`--format json`; keys may be added, never renamed or dropped within format 1; null: the trace does not say):

    format            1
    trace             path, format (`jsonl`, `arrow file`, `arrow stream`, or the kind of an imported log), rows,
                      dropped_bytes
    meta              producer, engine, engine_version, command (list), started_at, threads (`one`, `ordered`), notes,
                      env (object)
    hazard            verdict, queues (names of those that have this verdict)
    devices           [{name, type, verdict, queues}], one for each device name
    queues            [{name, id, row (of its definition; -1: none), freed, device, type, async, synchronous, events,
                      integrated, host_buffer, accepts, drains, schedulers (ids), work ({event: count}),
                      in_place ([{buffer_type, works, bytes_read, bytes_written}]),
                      hazard: {verdict, reason, buffer_types, declared, assumed, assumed_of}}]; declared and assumed:
                      the attributes that decided, by where they are from; assumed_of: the backend and the versions
                      of it that the assumed ones hold for, null where nothing is assumed
    in_place_partial  true: `in_place` may miss work, its graphs were forgotten
    schedulers        [{id, row, backends (ids), queues (names), cpu_buffer_type, copies, ring}]
    rotations         `sched_prepare` events that rotated
    buffers           lives, empty_lives, peak_bytes, total_bytes, types: [{type, usage, host, lives, empty_lives,
                      peak_bytes, total_bytes}]
    events            {event: rows}
    skipped_rows      rows among them that count for nothing
    direct            set, set_inferred, get, get_inferred
    ubatches          ubatches, tokens, phases: [{phase, ubatches, tokens, numbers}], numbers_on_events
    threads           host threads of accesses and edges
    time              first_ns, last_ns, duration_ns
    warnings          sentences

`verdict` is `can arise`, `no` or `not known`; `numbers` are lists of inclusive [first, last] pairs. `async` is null
where absent, and counts as true then (contract section 2).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Final

from hbtrace import backends
from hbtrace.errors import TraceError
from hbtrace.importers.source import Source, foreign_kind, open_source
from hbtrace.info.contents import Contents
from hbtrace.info.records import Oddity, Queue, Scheduler
from hbtrace.trace import vocabulary as v

CAN_ARISE: Final = "can arise"
NO: Final = "no"
NOT_KNOWN: Final = "not known"
_WORST_FIRST: Final = (CAN_ARISE, NOT_KNOWN, NO)

_NOBODY: Final = -2
"""No backend has this id."""

_NO_SCHEDULER: Final = (
    "no scheduler in the trace says which buffer type the CPU slot got (a `sched` row with `cpu_buffer_type` would)"
)


@dataclass(frozen=True, slots=True)
class Hazard:
    """Whether a queue can have the in-place hazard, why in words, and the buffer types that decided.

    declared, assumed: the attributes that decided, as the trace has them and as the table of backends does.
    """

    verdict: str
    reason: str
    buffer_types: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


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
    rows: int
    dropped_bytes: int
    meta: dict[str, Any]
    contents: Contents
    hazards: dict[Queue, Hazard]
    devices: list[Device]
    warnings: list[str]

    @property
    def verdict(self) -> str:
        """The worst of all queues; a trace without any queue says nothing."""
        return worst(hazard.verdict for hazard in self.hazards.values())

    def queues_with(self, verdict: str) -> list[str]:
        return [queue.name for queue, hazard in self.hazards.items() if hazard.verdict == verdict]

    def schedulers_of(self, queue: Queue) -> list[Scheduler]:
        return [sched for sched in self.contents.schedulers if _holds(sched, queue)]

    def slots(self, sched: Scheduler) -> list[str]:
        """The names of a scheduler's queues, the CPU slot last."""
        return [self.contents.alive(ident, sched.row).name for ident in sched.backends]


def info(path: str) -> Info:
    """What is in a trace (`-` is standard input) or in an imported log. Raises TraceError for what cannot be read."""
    return info_of(open_contents(path))


def open_contents(path: str) -> Source:
    """As `open_source`, but refuses a log of nothing but reports: there is no trace in it."""
    if foreign_kind(path) == "ggml-sanitizer-reports":
        raise TraceError(f"{path}: holds pasted race reports and no trace; hbtrace analyze shows them")
    return open_source(path)


def info_of(source: Source) -> Info:
    """As `info`, for what is open already."""
    contents, meta = Contents(), {}
    for batch in source.batches():
        if not contents.rows:
            from hbtrace.trace.rows import rows_from_batch

            first = rows_from_batch(batch.slice(0, 1))
            meta = _meta(first[0]) if first else {}
        contents.add(batch)
    contents.finish()
    schedulers = with_cpu_slots(contents)
    hazards = {queue: hazard_in(queue, schedulers) for queue in contents.queues}
    form = str(getattr(source, "format", None) or getattr(source, "kind", "events"))
    return Info(
        source.path,
        form,
        contents.rows,
        source.dropped_bytes,
        meta or _meta({}),
        contents,
        hazards,
        _devices(hazards),
        [*source.warnings, *_warnings(contents)],
    )


def _meta(row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the `meta` row; what is of the wrong type counts as absent."""
    if row.get("ev") != "meta":
        row = {}
    kinds: dict[str, type] = {v.STR: str, v.STRS: list, v.JSON: dict, v.INT: int}
    keys = {key: kind for key, kind in v.EVENTS["meta"].keys.items() if key != "version"}
    meta = {key: row[key] if isinstance(row.get(key), kinds[kind]) else None for key, kind in keys.items()}
    if meta["threads"] not in v.SETS["meta", "threads"]:
        meta["threads"] = "one"
    if meta["command"] is not None:
        meta["command"] = [word for word in meta["command"] if isinstance(word, str)]
    return meta


def worst(verdicts: Any) -> str:
    """Of several verdicts the one to act on; of none `not known`."""
    return min(verdicts, key=_WORST_FIRST.index, default=NOT_KNOWN)


def with_cpu_slots(contents: Contents) -> list[Scheduler]:
    """The schedulers, each with a list that ends in its CPU slot, as it should; one by hand may have left that out."""
    return [_with_cpu(sched, contents) for sched in contents.schedulers]


def _with_cpu(sched: Scheduler, contents: Contents) -> Scheduler:
    last = contents.alive(sched.backends[-1], sched.row) if sched.backends else None
    if last is None or last.type in (None, "cpu") or last.flags["synchronous"] or last.flags["async"] is False:
        return sched
    return replace(sched, backends=[*sched.backends, _NOBODY])


def hazard_in(queue: Queue, schedulers: list[Scheduler]) -> Hazard:
    """The predicate on what a trace declares; where that leaves it open, on what the table of backends has as well."""
    declared, full = hazard_of(queue, schedulers), assumed(queue)
    found = hazard_of(full, schedulers)
    if found.verdict == declared.verdict:
        if declared.verdict == NOT_KNOWN and queue.accepts is None and _integrated(queue) is None:
            more = f"; a {queue.family} that is integrated computes on its host buffers, and the trace tells neither"
            return replace(declared, reason=declared.reason + more)
        return _sourced(declared, queue, queue)
    return _sourced(found, queue, full)


def assumed(queue: Queue) -> Queue:
    """A queue with what the trace leaves open as the table of backends has it, itself if that is nothing.

    Of a backend that accepts host memory on integrated devices only, nobody knows what it accepts where the trace
    does not say that the device is one: a clean verdict might be wrong.
    """
    integrated = _integrated(queue)
    if integrated and queue.flags["integrated"] is None:
        queue = replace(queue, flags={**queue.flags, "integrated": True})
    full = backends.completed(queue)
    return replace(full, accepts=queue.accepts) if integrated is None else full


def assumed_of(queue: Queue) -> str:
    """The backend of the table that a queue is taken for, and the versions that its facts hold for."""
    known = backends.of_device(queue.family)
    return f"{known.name} in {known.holds_for}" if known is not None else f"{queue.family} in {backends.HOLDS_FOR}"


def _integrated(queue: Queue) -> bool | None:
    """Whether a queue's device counts as integrated: declared, or told by its type; None if it matters and is open."""
    known = backends.of_device(queue.family)
    matters = known is not None and known.accepts_host == "if integrated" and known.reports_integrated
    said = queue.flags["integrated"]
    if said is None and queue.type is not None:
        said = queue.type == "igpu"
    return bool(said) if said is not None or not matters else None


def _sourced(hazard: Hazard, queue: Queue, full: Queue) -> Hazard:
    """A hazard with the attributes that decided it, by whether the trace has them. full: the queue that decided."""
    keys: tuple[str, ...] = ()
    if full.flags["synchronous"]:
        keys = ("synchronous",)
    elif full.flags["async"] is False:
        keys = ("async",)
    elif hazard.buffer_types and hazard.verdict != NOT_KNOWN:
        keys = ("async", "accepts")
    own, known = ({**each.flags, "accepts": each.accepts} for each in (queue, full))
    return replace(
        hazard,
        declared=tuple(key for key in keys if own[key] is not None),
        assumed=tuple(key for key in keys if own[key] is None and known[key] is not None),
    )


def hazard_of(queue: Queue, schedulers: list[Scheduler]) -> Hazard:
    """The predicate: asynchronous, and computes on the buffer type that the CPU slot was handed."""
    if queue.flags["synchronous"]:
        return Hazard(NO, "synchronous (its work is complete when the call returns)")
    if queue.flags["async"] is False:
        return Hazard(NO, "not asynchronous")
    mine = [sched for sched in schedulers if _holds(sched, queue)]
    if mine and all(sched.backends and sched.backends[-1] == queue.id for sched in mine):
        return Hazard(NO, "it is the CPU slot itself")
    if not mine:
        if schedulers and not queue.work["compute"] + queue.work["kernel"]:
            return Hazard(NO, "no scheduler uses it, and nothing was computed on it")
        mine = schedulers  # driven by hand beside a scheduler: the memory it may meet is that scheduler's
    found = [_in_scheduler(queue, sched) for sched in mine]
    if not found:
        return Hazard(NOT_KNOWN, _NO_SCHEDULER)
    verdict = worst(hazard.verdict for hazard in found)
    decisive = [hazard for hazard in found if hazard.verdict == verdict]
    reasons = dict.fromkeys(hazard.reason for hazard in decisive)
    types = dict.fromkeys(word for hazard in decisive for word in hazard.buffer_types)
    return Hazard(verdict, "; ".join(reasons), tuple(types))


def _holds(sched: Scheduler, queue: Queue) -> bool:
    """Whether a scheduler names the queue: its id, in force at some time while the scheduler's row is."""
    overlaps = (sched.end is None or queue.row < sched.end) and (queue.end is None or queue.end > sched.row)
    return overlaps and (not sched.backends or queue.id in sched.backends)


def _in_scheduler(queue: Queue, sched: Scheduler) -> Hazard:
    handed = sched.cpu_buffer_type
    if handed is None:
        return Hazard(
            NOT_KNOWN,
            "the trace does not say which buffer type the CPU slot got"
            f" (scheduler {sched.id} has no `cpu_buffer_type`)",
        )
    asynchronous = "asynchronous" if queue.flags["async"] else "asynchronous (the default: the trace does not say)"
    slot = f"{handed}, which the CPU slot was handed"
    if queue.accepts is not None and handed in queue.accepts:
        return Hazard(CAN_ARISE, f"{asynchronous} and computes in place on {slot}", (handed,))
    if handed in queue.touched:
        # What it did outweighs what it is said to accept: a clean verdict would be wrong.
        but = "the trace does not say what it accepts" if queue.accepts is None else "though `accepts` does not name it"
        return Hazard(CAN_ARISE, f"{asynchronous} and did compute in place on {slot}; {but}", (handed,))
    if queue.row < 0:
        return Hazard(NOT_KNOWN, "the trace never defines it (a `backend` row would)", (handed,))
    if queue.accepts is None:
        return Hazard(
            NOT_KNOWN,
            f"the trace does not say what the backend accepts (`accepts`); the CPU slot was handed {handed}",
            (handed,),
        )
    return Hazard(NO, f"does not accept {slot}", (handed,))


def _devices(hazards: dict[Queue, Hazard]) -> list[Device]:
    by_name: dict[str, list[Queue]] = {}
    for queue in hazards:
        by_name.setdefault(queue.device or queue.family, []).append(queue)
    return [
        Device(
            name,
            next((queue.type for queue in queues if queue.type), None),
            queues,
            worst(hazards[queue].verdict for queue in queues),
        )
        for name, queues in by_name.items()
    ]


def _warnings(contents: Contents) -> list[str]:
    """The sentences that `analyze` has for the same rows; it knows of more."""
    kinds = (
        (contents.skipped, "skipped: the event is unknown or lacks a key it cannot do without"),
        (contents.values, "with a value of the wrong type or of no known meaning: its default counts instead"),
        (contents.late_meta, "with a `meta` that is not the first event: it counts for nothing"),
    )
    return [_sentence(oddity, text) for oddity, text in kinds if oddity.rows]


def _sentence(oddity: Oddity, text: str) -> str:
    rows = f"{oddity.rows} rows" if oddity.rows > 1 else "1 row"
    return f"{rows} {text} (first in row {oddity.row}: {oddity.detail})"


def event_counts(contents: Contents) -> Counter[str]:
    """Rows by event: those of the vocabulary in its order, then the others by name."""
    known = {ev: contents.events[ev] for ev in v.EVENTS if contents.events[ev]}
    return Counter(known | {ev: contents.events[ev] for ev in sorted(set(contents.events) - set(known))})
