"""What `info` prints: text for people, one JSON document for programs. Computes nothing, decides nothing.

The keys of the JSON are documented in `hbtrace.info`.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from hbtrace.escape import as_text, page
from hbtrace.info.hazard import CAN_ARISE, NOT_KNOWN, Device, Hazard, Info, assumed, assumed_of, event_counts
from hbtrace.info.records import FLAGS, Queue, Touch
from hbtrace.report.tables import table

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
_TRANSFERS: Final = ("set_async", "get_async", "copy_async")
_SYNCS: Final = ("synchronize", "event_record", "event_wait")


def render(info: Info) -> str:
    """The text, with a newline at its end."""
    parts = [
        _head(info),
        _hazard(info),
        *[_device(info, device) for device in info.devices],
        _partial(info),
        _schedulers(info),
        _buffers(info),
        _ubatches(info),
        _events(info),
    ]
    return "\n".join(page(part) for part in parts if part)


def _head(info: Info) -> list[str]:
    meta, contents = info.meta, info.contents
    engine = " ".join(word for word in (meta["engine"], meta["engine_version"]) if word)
    dropped = f", {info.dropped_bytes:,} bytes dropped" if info.dropped_bytes else ""
    lines = [
        *_pair("trace", info.path),
        *_pair("format", f"{_FORMATS.get(info.format, info.format)}, {info.rows:,} {_s('row', info.rows)}{dropped}"),
        *_pair("engine", engine or "not said"),
        *_pair("producer", meta["producer"]),
        *_pair("command", shlex.join(meta["command"]) if meta["command"] else None),
        *_pair("started", meta["started_at"]),
        *_pair("time", _time(info)),
        *_pair("threads", _threads(contents.threads, meta["threads"])),
        *_pair("notes", meta["notes"]),
    ]
    for number, (name, value) in enumerate((meta["env"] or {}).items()):
        lines += _pair("" if number else "env", f"{name}={value}")
    return lines


def _threads(numbers: set[int], mode: str) -> str:
    """How many, which, and what the replay takes them for."""
    if not numbers:
        return "no access or edge by a host thread"
    many = len(numbers)
    which = "" if numbers == {0} else f" ({spans((number, number) for number in sorted(numbers))})"
    actors = "an actor each, ordered by release and acquire" if mode == "ordered" else "one actor"
    return f"{many:,} host {_s('thread', many)}{which}, {actors if many > 1 else 'one actor'}"


def _time(info: Info) -> str:
    first, last = info.contents.first_time, info.contents.last_time
    if first is None or last is None:
        return "not recorded"
    return f"{duration(last - first)} (from {first:,} to {last:,} ns)"


def _hazard(info: Info) -> list[str]:
    names = info.queues_with(info.verdict)
    if info.verdict == NOT_KNOWN:
        return _pair("hazard", f"not known for {', '.join(names)}" if names else "not known: no backend in the trace")
    if info.verdict != CAN_ARISE:
        return _pair("hazard", "no queue of this trace can have the in-place hazard")
    rings = {sched.ring for q, h in info.hazards.items() if h.verdict == CAN_ARISE for sched in info.schedulers_of(q)}
    ring = "; ".join(_ring(depth) for depth in sorted(rings, key=lambda d: -1 if d is None else d))
    return _pair("hazard", f"can arise on {', '.join(names)}" + (f"; {ring}" if ring else ""))


def _ring(depth: int | None) -> str:
    if depth is None:
        return "input ring not said"
    if depth <= 0:
        return "input ring off"
    return f"input ring engaged, depth {depth}" if depth > 1 else "input ring of one slot, which cannot rotate"


def _device(info: Info, device: Device) -> list[str]:
    """The attributes of its queues, once for queues that have the same, each time under a heading."""
    heading = f"device {device.name}" + (f" ({device.type})" if device.type else "")
    lines = [heading]
    alike: dict[tuple[Any, ...], list[Queue]] = {}
    for queue in device.queues:
        key = (*queue.flags.values(), *(None if x is None else tuple(x) for x in (queue.accepts, queue.drains)))
        alike.setdefault((*key, queue.type, info.hazards[queue]), []).append(queue)
    for queues in alike.values():
        if len(lines) > 1:
            lines += ["", f"{heading}, other queues"]
        first, hazard = queues[0], info.hazards[queues[0]]
        lines += _pair("  queues", ", ".join(queue.name for queue in queues))
        lines += _pair("  hazard", f"{hazard.verdict}: {hazard.reason}")
        lines += _pair("  decided by", _decided(first, hazard))
        lines += _pair("  attributes", _attributes(first) if first.row >= 0 else "never defined")
        lines += _pair("  accepts", _words(first.accepts))
        lines += _pair("  drains", ", ".join(first.drains) if first.drains else None)
        for queue in queues:
            lines += _pair("  work", _work(queue, named=len(queues) > 1))
        for queue in queues:
            for name, touch in sorted(queue.touched.items()):
                lines += _pair("  in place", _in_place(queue, name, touch, named=len(queues) > 1))
    return lines


def _decided(queue: Queue, hazard: Hazard) -> str | None:
    """What is declared, what is assumed and of which versions; nothing where no attribute decided."""
    declared = f"what the trace declares ({', '.join(hazard.declared)})" if hazard.declared else ""
    if not hazard.assumed:
        return declared
    full = assumed(queue)
    words = [_assumption(key, full) for key in hazard.assumed]
    told = f"what is assumed of {assumed_of(queue)}: {', '.join(words)}"
    return f"{declared} and {told}" if declared else told


def _assumption(key: str, full: Queue) -> str:
    return f"accepts {_words(full.accepts)}" if key == "accepts" else _FLAG_WORDS[key][not full.flags[key]]


def _in_place(queue: Queue, name: str, touch: Touch, *, named: bool) -> str:
    told = (
        f"{touch.works:,} {_s('time', touch.works)} on host buffers {name},"
        f" {size(touch.read)} read and {size(touch.written)} written"
    )
    return f"{queue.name}: {told}" if named else told


def _attributes(queue: Queue) -> str:
    said = {flag: value for flag, value in queue.flags.items() if value is not None}
    words = [_FLAG_WORDS[flag][not value] for flag, value in said.items()]
    if "async" not in said:
        words.insert(0, "asynchronous by default")
    silent = [_FLAG_WORDS[flag][0] for flag in FLAGS if flag not in said and flag != "async"]
    text = ", ".join(word for word in words if word)
    return f"{text}; not said: {', '.join(silent)}" if silent else text


def _words(words: list[str] | None) -> str:
    return "not said" if words is None else ", ".join(words) or "nothing"


def _work(queue: Queue, *, named: bool) -> str | None:
    counts = (
        ("compute", queue.work["compute"]),
        ("kernel", queue.work["kernel"]),
        ("asynchronous transfer", sum(queue.work[ev] for ev in _TRANSFERS)),
        ("synchronize or event", sum(queue.work[ev] for ev in _SYNCS)),
    )
    told = ", ".join(f"{count:,} {_s(noun, count)}" for noun, count in counts if count)
    return (f"{queue.name}: {told or 'none'}" if told or not named else None) if named else told or "none"


def _partial(info: Info) -> list[str]:
    if not info.contents.partial:
        return []
    return ["`in place` counts at least this much: the oldest graphs were forgotten to save memory"]


def _schedulers(info: Info) -> list[str]:
    if not info.contents.schedulers:
        return []
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
    lines = table(("scheduler", "queues (CPU slot last)", "CPU slot got", "copies", "input ring"), rows)
    if info.contents.rotations:
        lines.append(f"rotations of inputs prepared without allocating: {info.contents.rotations:,}")
    return lines


def _buffers(info: Info) -> list[str]:
    contents = info.contents
    groups = sorted(contents.groups.values(), key=lambda g: (-g.total, g.type, g.usage, g.host))
    if not groups:
        return []
    rows = [
        (g.type, g.usage, "host" if g.host else "-", f"{g.lives:,}", f"{g.empty:,}", size(g.peak), size(g.total))
        for g in groups
    ]
    lives, empty, total = contents.buffer_totals()
    rows.append(("all", "", "", f"{lives:,}", f"{empty:,}", size(contents.peak), size(total)))
    head = ("buffer type", "usage", "memory", "buffers", "empty", "peak", "in total")
    return table(head, rows, right=frozenset({3, 4, 5, 6}))


def _ubatches(info: Info) -> list[str]:
    phases = info.contents.phases.values()
    lines = []
    if phases:
        rows = [(p.name or "not said", f"{p.ubatches:,}", f"{p.tokens:,}", spans(p.numbers.pairs)) for p in phases]
        lines = table(("phase", "ubatches", "tokens", "numbers"), rows, right=frozenset({1, 2}))
    on_events = info.contents.ubatches
    if on_events.pairs:
        lines.append(f"ubatch numbers on events: {spans(on_events.pairs)}")
    return lines


def _events(info: Info) -> list[str]:
    contents = info.contents
    counts = [(ev, f"{count:,}") for ev, count in event_counts(contents).items()]
    lines = table(("event", "rows"), counts, right=frozenset({1}))
    for ev, word in (("set_direct", "writes"), ("get_direct", "reads")):
        inferred, all_of_them = contents.inferred[ev], contents.events[ev]
        if all_of_them:
            lines.append(f"direct {word}: {all_of_them - inferred:,} announced, {inferred:,} inferred")
    return lines


def _pair(key: str, value: str | None) -> list[str]:
    """A key and its value, wrapped under itself; nothing where there is no value."""
    if not value:
        return []
    indent = " " * _KEY
    out: list[str] = []
    for line in value.splitlines():
        out += textwrap.wrap(line, _WIDTH - _KEY, break_long_words=False, break_on_hyphens=False) or [""]
    return [
        f"{key if not k else '':<{_KEY}}{line}".rstrip() if not k else f"{indent}{line}" for k, line in enumerate(out)
    ]


def _s(noun: str, count: int) -> str:
    return noun if count == 1 else "synchronizes and events" if noun.startswith("sync") else f"{noun}s"


def spans(pairs: Iterable[tuple[int, int]], limit: int = 8) -> str:
    """Inclusive runs as people write them, `0-6, 9`; the rest of many is counted."""
    words = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in _joined(pairs)]
    rest = len(words) - limit
    return ", ".join(words) if rest <= 0 else f"{', '.join(words[:limit])} and {rest:,} more"


def _joined(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    current: tuple[int, int] | None = None
    for lo, hi in pairs:
        if current is not None and lo == current[1] + 1:
            current = (current[0], hi)
            continue
        if current is not None:
            yield current
        current = (lo, hi)
    if current is not None:
        yield current


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
    contents, first, last = info.contents, info.contents.first_time, info.contents.last_time
    whole = {
        "format": FORMAT,
        "trace": {
            "path": as_text(info.path),
            "format": info.format,
            "rows": info.rows,
            "dropped_bytes": info.dropped_bytes,
        },
        "meta": info.meta,
        "hazard": {"verdict": info.verdict, "queues": info.queues_with(info.verdict)},
        "devices": [
            {"name": d.name, "type": d.type, "verdict": d.verdict, "queues": [queue.name for queue in d.queues]}
            for d in info.devices
        ],
        "queues": [_queue_object(info, queue) for queue in contents.queues],
        "in_place_partial": contents.partial,
        "schedulers": [
            {
                "id": sched.id,
                "row": sched.row,
                "backends": sched.backends,
                "queues": info.slots(sched),
                "cpu_buffer_type": sched.cpu_buffer_type,
                "copies": sched.copies,
                "ring": sched.ring,
            }
            for sched in contents.schedulers
        ],
        "rotations": contents.rotations,
        "buffers": _buffers_object(info),
        "events": dict(event_counts(contents)),
        "skipped_rows": contents.skipped.rows,
        "direct": {
            "set": contents.events["set_direct"],
            "set_inferred": contents.inferred["set_direct"],
            "get": contents.events["get_direct"],
            "get_inferred": contents.inferred["get_direct"],
        },
        "ubatches": _ubatches_object(info),
        "threads": sorted(contents.threads),
        "time": {
            "first_ns": first,
            "last_ns": last,
            "duration_ns": None if first is None or last is None else last - first,
        },
        "warnings": [as_text(warning) for warning in info.warnings],
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _queue_object(info: Info, queue: Queue) -> dict[str, Any]:
    hazard = info.hazards[queue]
    return {
        "name": queue.name,
        "id": queue.id,
        "row": queue.row,
        "freed": queue.freed,
        "device": queue.device,
        "type": queue.type,
        **{flag: queue.flags[flag] for flag in FLAGS},
        "accepts": queue.accepts,
        "drains": queue.drains,
        "schedulers": [sched.id for sched in info.schedulers_of(queue)],
        "work": dict(sorted(queue.work.items())),
        "in_place": [
            {"buffer_type": name, "works": t.works, "bytes_read": t.read, "bytes_written": t.written}
            for name, t in sorted(queue.touched.items())
        ],
        "hazard": {
            "verdict": hazard.verdict,
            "reason": hazard.reason,
            "buffer_types": hazard.buffer_types,
            "declared": hazard.declared,
            "assumed": hazard.assumed,
            "assumed_of": assumed_of(queue) if hazard.assumed else None,
        },
    }


def _buffers_object(info: Info) -> dict[str, Any]:
    contents = info.contents
    lives, empty, total = contents.buffer_totals()
    return {
        "lives": lives,
        "empty_lives": empty,
        "peak_bytes": contents.peak,
        "total_bytes": total,
        "types": [
            {
                "type": g.type,
                "usage": g.usage,
                "host": g.host,
                "lives": g.lives,
                "empty_lives": g.empty,
                "peak_bytes": g.peak,
                "total_bytes": g.total,
            }
            for g in contents.groups.values()
        ],
    }


def _ubatches_object(info: Info) -> dict[str, Any]:
    phases = info.contents.phases.values()
    return {
        "ubatches": sum(phase.ubatches for phase in phases),
        "tokens": sum(phase.tokens for phase in phases),
        "phases": [
            {"phase": p.name, "ubatches": p.ubatches, "tokens": p.tokens, "numbers": p.numbers.pairs} for p in phases
        ],
        "numbers_on_events": info.contents.ubatches.pairs,
    }
