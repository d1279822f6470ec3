"""What `info` prints: text for people, one JSON document for programs. Computes nothing, decides nothing.

The keys of the JSON are documented in `hbtrace.info`.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable
from typing import Any, Final

from hbtrace.escape import as_text, json_document, page
from hbtrace.info.hazard import CAN_ARISE, NOT_KNOWN, Hazard, assumed, assumed_of
from hbtrace.info.info import Device, Info
from hbtrace.info.records import FLAGS, Queue, Runs, Touch
from hbtrace.report.tables import table
from hbtrace.words import count

FORMAT: Final = 1
_WIDTH: Final = 80
_KEY: Final = 13
_FORMATS: Final = {"jsonl": "JSON Lines", "arrow file": "Arrow IPC file", "arrow stream": "Arrow IPC stream"}
_FLAG_WORDS: Final = {
    "async": ("asynchronous", "not asynchronous"),
    "synchronous": ("synchronous", ""),
    "events": ("events", "no events"),
    "integrated": ("integrated", "not integrated"),
    "host_buffer": ("host buffer", "no host buffer"),
}
_WORK: Final = (
    ("compute", "computes", ("compute",)),
    ("kernel", "kernels", ("kernel",)),
    ("asynchronous transfer", "asynchronous transfers", ("set_async", "get_async", "copy_async")),
    ("synchronize or event", "synchronizes and events", ("synchronize", "event_record", "event_wait")),
)


def render(info: Info) -> str:
    """The text, with a newline at its end."""
    parts = [
        _head(info),
        _pairs(("hazard", _hazard(info))),
        *[_device(info, device) for device in info.devices],
        _partial(info),
        _schedulers(info),
        _buffers(info),
        _ubatches(info),
        _events(info),
    ]
    return "\n".join(page(part) for part in parts if part)


def _pairs(*pairs: tuple[str, str | None]) -> list[str]:
    """Keys and their values, each wrapped under itself; nothing where there is no value."""
    out: list[str] = []
    for key, value in pairs:
        lines = [
            part
            for line in (value or "").splitlines()
            for part in textwrap.wrap(line, _WIDTH - _KEY, break_long_words=False, break_on_hyphens=False) or [""]
        ]
        out += [f"{key:<{_KEY}}{line}".rstrip() for line in lines[:1]] + [" " * _KEY + line for line in lines[1:]]
    return out


def _head(info: Info) -> list[str]:
    meta = info.meta
    dropped = f", {info.dropped_bytes:,} bytes dropped" if info.dropped_bytes else ""
    return _pairs(
        ("trace", info.path),
        ("format", f"{_FORMATS.get(info.format, info.format)}, {count(info.rows, 'row')}{dropped}"),
        ("engine", " ".join(word for word in (meta["engine"], meta["engine_version"]) if word) or "not said"),
        ("producer", meta["producer"]),
        ("command", shlex.join(meta["command"]) if meta["command"] else None),
        ("started", meta["started_at"]),
        ("time", _time(info)),
        ("threads", _threads(info.contents.threads, meta["threads"])),
        ("notes", meta["notes"]),
        *(("" if n else "env", f"{name}={value}") for n, (name, value) in enumerate((meta["env"] or {}).items())),
    )


def _threads(threads: Runs, mode: str) -> str:
    """How many, which, and what the replay takes them for."""
    many = len(threads)
    if not many:
        return "no access or edge by a host thread"
    which = "" if threads.pairs == [(0, 0)] else f" ({spans(threads.pairs)})"
    actors = "an actor each, ordered by release and acquire" if many > 1 and mode == "ordered" else "one actor"
    return f"{count(many, 'host thread')}{which}, {actors}"


def _time(info: Info) -> str:
    if info.contents.times is None:
        return "not recorded"
    first, last = info.contents.times
    return f"{duration(last - first)} (from {first:,} to {last:,} ns)"


def _hazard(info: Info) -> str:
    names = ", ".join(info.queues_with(info.verdict))
    if info.verdict == NOT_KNOWN:
        return f"not known for {names}" if names else "not known: no backend in the trace"
    if info.verdict != CAN_ARISE:
        return "no queue of this trace can have the in-place hazard"
    rings = {sched.ring for q, h in info.hazards.items() if h.verdict == CAN_ARISE for sched in info.schedulers_of(q)}
    ring = [_ring(depth) for depth in sorted(rings, key=lambda depth: -1 if depth is None else depth)]
    return "; ".join([f"can arise on {names}", *ring])


def _ring(depth: int | None) -> str:
    if depth is None:
        return "input ring not said"
    if depth <= 0:
        return "input ring off"
    return f"input ring engaged, depth {depth}" if depth > 1 else "input ring of one slot, which cannot rotate"


def _device(info: Info, device: Device) -> list[str]:
    """The attributes of its queues, once for queues that have the same, each time under a heading."""
    heading = f"device {device.name}" + (f" ({device.type})" if device.type else "")
    alike: dict[tuple[Any, ...], list[Queue]] = {}
    for queue in device.queues:
        key = (*queue.flags.values(), *(None if x is None else tuple(x) for x in (queue.accepts, queue.drains)))
        alike.setdefault((*key, queue.type, info.hazards[queue]), []).append(queue)
    lines: list[str] = []
    for queues in alike.values():
        first, hazard = queues[0], info.hazards[queues[0]]
        several = len(queues) > 1
        lines += ["", f"{heading}, other queues"] if lines else [heading]
        lines += _pairs(
            ("  queues", ", ".join(queue.name for queue in queues)),
            ("  hazard", f"{hazard.verdict}: {hazard.reason}"),
            ("  decided by", _decided(first, hazard)),
            ("  attributes", _attributes(first) if first.row >= 0 else "never defined"),
            ("  accepts", _words(first.accepts)),
            ("  drains", ", ".join(first.drains or ())),
            *(("  work", _work(queue, named=several)) for queue in queues),
            *(
                ("  in place", (f"{queue.name}: " if several else "") + _in_place(name, touch))
                for queue in queues
                for name, touch in sorted(queue.touched.items())
            ),
        )
    return lines


def _decided(queue: Queue, hazard: Hazard) -> str:
    """What is declared, what is assumed and of which versions; nothing where no attribute decided."""
    full = assumed(queue)
    words = [
        f"accepts {_words(full.accepts)}" if key == "accepts" else _FLAG_WORDS[key][not full.flags[key]]
        for key in hazard.assumed
    ]
    told = [f"what the trace declares ({', '.join(hazard.declared)})"] if hazard.declared else []
    return " and ".join(told + ([f"what is assumed of {assumed_of(queue)}: {', '.join(words)}"] if words else []))


def _in_place(name: str, touch: Touch) -> str:
    moved = f"{size(touch.bytes_read)} read and {size(touch.bytes_written)} written"
    return f"{count(touch.works, 'time')} on host buffers {name}, {moved}"


def _attributes(queue: Queue) -> str:
    said = {flag: value for flag, value in queue.flags.items() if value is not None}
    words = [] if "async" in said else ["asynchronous by default"]
    words += [_FLAG_WORDS[flag][not value] for flag, value in said.items()]
    silent = [_FLAG_WORDS[flag][0] for flag in FLAGS if flag not in said and flag != "async"]
    text = ", ".join(word for word in words if word)
    return f"{text}; not said: {', '.join(silent)}" if silent else text


def _words(words: list[str] | None) -> str:
    return "not said" if words is None else ", ".join(words) or "nothing"


def _work(queue: Queue, *, named: bool) -> str | None:
    """What it did; of several, those that did nothing go without a line."""
    counts = [(one, more, sum(queue.work[ev] for ev in events)) for one, more, events in _WORK]
    told = ", ".join(f"{number:,} {one if number == 1 else more}" for one, more, number in counts if number)
    if named:
        return f"{queue.name}: {told}" if told else None
    return told or "none"


def _partial(info: Info) -> list[str]:
    if not info.contents.memory.partial:
        return []
    return ["`in place` counts at least this much: the oldest graphs were forgotten to save memory"]


def _schedulers(info: Info) -> list[str]:
    rows = [
        (
            str(sched.id),
            ", ".join(info.slots(sched)) or "not said",
            sched.cpu_buffer_type or "not said",
            "-" if sched.copies is None else str(sched.copies),
            _ring(sched.ring).removeprefix("input ring "),
        )
        for sched in info.contents.schedulers
    ]
    if not rows:
        return []
    lines = table(("scheduler", "queues (CPU slot last)", "CPU slot got", "copies", "input ring"), rows)
    if rotations := info.contents.flagged["sched_prepare"]:
        lines.append(f"rotations of inputs prepared without allocating: {rotations:,}")
    return lines


def _buffers(info: Info) -> list[str]:
    memory = info.contents.memory
    groups = sorted(memory.groups.values(), key=lambda g: (-g.total_bytes, g.type, g.usage, g.host))
    rows = [
        (
            *((g.type, g.usage, "host" if g.host else "-") if g is not memory.all else (g.type, "", "")),
            *(f"{g.lives:,}", f"{g.empty_lives:,}", size(g.peak_bytes), size(g.total_bytes)),
        )
        for g in (*groups, memory.all)
    ]
    head = ("buffer type", "usage", "memory", "buffers", "empty", "peak", "in total")
    return table(head, rows, right=frozenset({3, 4, 5, 6})) if groups else []


def _ubatches(info: Info) -> list[str]:
    phases, numbers = info.contents.phases.values(), info.contents.ubatches.pairs
    rows = [(p.phase or "not said", f"{p.ubatches:,}", f"{p.tokens:,}", spans(p.numbers.pairs)) for p in phases]
    lines = table(("phase", "ubatches", "tokens", "numbers"), rows, right=frozenset({1, 2})) if rows else []
    return [*lines, f"ubatch numbers on events: {spans(numbers)}"] if numbers else lines


def _events(info: Info) -> list[str]:
    counts = [(ev, f"{number:,}") for ev, number in info.events.items()]
    lines = table(("event", "rows"), counts, right=frozenset({1}))
    for ev, word in (("set_direct", "writes"), ("get_direct", "reads")):
        if every := info.events[ev]:
            inferred = info.contents.flagged[ev]
            lines.append(f"direct {word}: {every - inferred:,} announced, {inferred:,} inferred")
    return lines


def spans(pairs: Iterable[tuple[int, int]], limit: int = 8) -> str:
    """Inclusive runs as people write them, `0-6, 9`; the rest of many is counted."""
    words = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in pairs]
    rest = len(words) - limit
    return ", ".join(words) if rest <= 0 else f"{', '.join(words[:limit])} and {rest:,} more"


def size(number: int) -> str:
    """Bytes in binary units, three digits."""
    return _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def duration(nanoseconds: int) -> str:
    """A time span in the unit that fits."""
    if nanoseconds < 60_000_000_000:
        return _scaled(nanoseconds, 1000, ("ns", "us", "ms", "s"))
    minutes, seconds = divmod(nanoseconds // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min {seconds} s" if hours else f"{minutes} min {seconds} s"


def _scaled(number: int, base: int, units: tuple[str, ...]) -> str:
    value, unit = float(number), 0
    while value >= base and unit + 1 < len(units):
        value, unit = value / base, unit + 1
    return f"{value:.0f} {units[unit]}" if not unit or value >= 100 else f"{value:.1f} {units[unit]}"


def document(info: Info) -> bytes:
    """The JSON document, with a newline at its end."""
    contents = info.contents
    first, last = contents.times or (None, None)
    phases = contents.phases.values()
    bytes_of = ("lives", "empty_lives", "peak_bytes", "total_bytes")
    whole = {
        "format": FORMAT,
        "trace": {"path": as_text(info.path), **_picked(info, "format", "rows", "dropped_bytes")},
        "meta": info.meta,
        "hazard": {"verdict": info.verdict, "queues": info.queues_with(info.verdict)},
        "devices": [
            {**_picked(device, "name", "type", "verdict"), "queues": [queue.name for queue in device.queues]}
            for device in info.devices
        ],
        "queues": [_queue_object(info, queue) for queue in contents.queues],
        "in_place_partial": contents.memory.partial,
        "schedulers": [
            {
                **_picked(sched, "id", "row", "backends"),
                "queues": info.slots(sched),
                **_picked(sched, "cpu_buffer_type", "copies", "ring"),
            }
            for sched in contents.schedulers
        ],
        "rotations": contents.flagged["sched_prepare"],
        "buffers": {
            **_picked(contents.memory.all, *bytes_of),
            "types": [_picked(group, "type", "usage", "host", *bytes_of) for group in contents.memory.groups.values()],
        },
        "events": dict(info.events),
        "skipped_rows": contents.skipped.rows,
        "direct": {
            "set": contents.events["set_direct"],
            "set_inferred": contents.flagged["set_direct"],
            "get": contents.events["get_direct"],
            "get_inferred": contents.flagged["get_direct"],
        },
        "ubatches": {
            "ubatches": sum(phase.ubatches for phase in phases),
            "tokens": sum(phase.tokens for phase in phases),
            "phases": [{**_picked(p, "phase", "ubatches", "tokens"), "numbers": p.numbers.pairs} for p in phases],
            "numbers_on_events": contents.ubatches.pairs,
        },
        "threads": [number for lo, hi in contents.threads.pairs for number in range(lo, hi + 1)],
        "time": {
            "first_ns": first,
            "last_ns": last,
            "duration_ns": None if first is None or last is None else last - first,
        },
        "warnings": [as_text(warning) for warning in info.warnings],
    }
    return json_document(whole)


def _picked(record: object, *keys: str) -> dict[str, Any]:
    return {key: getattr(record, key) for key in keys}


def _queue_object(info: Info, queue: Queue) -> dict[str, Any]:
    hazard = info.hazards[queue]
    return {
        **_picked(queue, "name", "id", "row", "freed", "device", "type"),
        **queue.flags,
        **_picked(queue, "accepts", "drains"),
        "schedulers": [sched.id for sched in info.schedulers_of(queue)],
        "work": dict(sorted(queue.work.items())),
        "in_place": [
            {"buffer_type": name, **_picked(touch, "works", "bytes_read", "bytes_written")}
            for name, touch in sorted(queue.touched.items())
        ],
        "hazard": {
            **_picked(hazard, "verdict", "reason", "buffer_types", "declared", "assumed"),
            "assumed_of": assumed_of(queue) if hazard.assumed else None,
        },
    }
