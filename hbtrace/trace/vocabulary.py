"""The event vocabulary: every event, its keys, what it accesses and orders, and the named sets.

What it is: the contract's tables as data (docs: `hbtrace docs format`), the one place that says what an event does. All
that replay, checks, info and what-if rules know of events by name is derived from it. What it is not: a reader or a
replay. Nothing here touches Arrow, so `--help` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

EventRow = dict[str, Any]
"""One row of a trace as JSON has it: `ev` and its keys. What the event of that name is, `EVENTS` says."""

SUFFIXES: Final = (".arrow", ".arrows", ".jsonl")
"""Of files that hold a trace: Arrow IPC as a file and as a stream, and JSON Lines."""

VERSION: Final = 1
"""The highest trace version this package reads (`hbtrace.version` in the schema, `version` in `meta`)."""

# Kinds of value a key can hold. An `id` is an integer of which -1 means none.
INT: Final = "int"
ID: Final = "id"
BOOL: Final = "bool"
STR: Final = "str"
INTS: Final = "ints"
STRS: Final = "strs"
RANGE: Final = "range"
RANGES: Final = "ranges"
NODES: Final = "nodes"
PICKS: Final = "picks"
RUNS: Final = "runs"
JSON: Final = "json"
"""Any object; kept as JSON text in the column `extra`."""
LIST: Final = "list"
"""A list of anything; kept as JSON text in the column `extra`."""
KEPT: Final = frozenset({JSON, LIST})
"""Kinds that have no column of their own."""

COMMON: Final[dict[str, str]] = {
    "thread": INT, "split": INT, "ubatch": INT, "time": INT, "duration": INT, "site": STR, "frames": LIST,
    "label": STR,
}  # fmt: skip
"""Keys every event may carry."""

OWN_KEYS: Final = "x_"
"""Keys that begin so are the producer's own, on any event, range, node or pick."""

_SPAN: Final = {"offset": INT, "size": INT, "rows": INT, "stride": INT, "approx": BOOL}
_DIRECT: Final = {"tensor": ID, **_SPAN, "inferred": BOOL}
_TRANSFER: Final = {"backend": ID, "tensor": ID, **_SPAN, "host_range": RANGE}

RANGE_KEYS: Final[dict[str, str]] = {"tensor": ID, "buffer": ID, **_SPAN, "by": ID, "pitch": INT}
RUN_KEYS: Final[dict[str, str]] = {"first": INT, "count": INT, "repeat": INT, "step": INT}
PICK_KEYS: Final[dict[str, str]] = {"tensor": ID, "runs": RUNS}
NODE_KEYS: Final[dict[str, str]] = {"op": STR, "tensor": ID, "backend": ID, "reads": RANGES, "writes": RANGES}

# Ranges that an event accesses, beside those that stand under a key of their own.
OWN: Final = "own"
"""The range that the event's own keys are: of its `tensor`."""
WHOLE: Final = "whole"
"""All of its `buffer`."""
GRAPH: Final = "graph"
"""Those of the nodes of its `graph`."""


class Access(NamedTuple):
    """One range, or one list of ranges, that an event accesses. drains: what a blocking access waits for (`set`,
    `get`), None where it waits for nothing."""

    write: bool
    where: str
    drains: str | None = None


def _r(where: str, drains: str | None = None) -> Access:
    return Access(False, where, drains)


def _w(where: str, drains: str | None = None) -> Access:
    return Access(True, where, drains)


Role = Literal["definition", "access", "edge", "marker"]
Runner = Literal["host", "queue", "copy"]
Edge = Literal["synchronize", "record", "queue waits", "host waits", "forget", "release", "acquire"]


@dataclass(frozen=True, slots=True)
class Event:
    """What one event is and does: contract, sections 2, 3 and 5, a row of its tables each.

    keys: its own, by kind of value; needs: those it cannot do without. runner: who makes its accesses. `host`: the
    calling thread, each range in a step of its own; `queue`: its `backend`, all in one epoch; `copy`: the queue that
    `runs_on` names. accesses: in order. edge: what it orders. ends: the life of its buffer is over.
    """

    role: Role
    keys: dict[str, str]
    needs: tuple[str, ...] = ()
    runner: Runner | None = None
    accesses: tuple[Access, ...] = ()
    edge: Edge | None = None
    ends: bool = False
    used: tuple[str, ...] = ()
    """Of a definition or a marker, the keys that the replay looks at; of what makes accesses or edges it is all."""
    reads: str | None = field(init=False)
    """Where what it reads is listed, None for nowhere."""
    writes: str | None = field(init=False)
    blocks: bool = field(init=False)
    """Whether an access of its waits for who drains the buffer."""
    moves: bool = field(init=False)
    """Whether it carries bytes from one range to another, as transfers and copies do, and computes nothing."""

    def __post_init__(self) -> None:
        for name, write in (("reads", False), ("writes", True)):
            where = next((access.where for access in self.accesses if access.write == write), None)
            object.__setattr__(self, name, where)
        object.__setattr__(self, "blocks", any(access.drains is not None for access in self.accesses))
        listed = any(access.where in (GRAPH, "reads", "writes") for access in self.accesses)
        object.__setattr__(self, "moves", self.runner != "host" and not listed)

    @property
    def whole(self) -> bool:
        """Whether it accesses a whole buffer."""
        return any(access.where == WHOLE for access in self.accesses)


EVENTS: Final[dict[str, Event]] = {
    "meta": Event(
        "definition",
        {
            "version": INT, "producer": STR, "engine": STR, "engine_version": STR, "command": STRS, "env": JSON,
            "started_at": STR, "threads": STR, "notes": STR, "modules": LIST,
        },
    ),
    "backend": Event(
        "definition",
        {
            "id": ID, "name": STR, "device": STR, "type": STR, "async": BOOL, "events": BOOL, "integrated": BOOL,
            "host_buffer": BOOL, "accepts": STRS, "synchronous": BOOL, "drains": STRS, "registry": STR,
            "queue_of": ID,
        },
        ("id", "name"),
    ),
    "backend_free": Event("definition", {"backend": ID}, ("backend",)),
    "buffer": Event(
        "definition",
        {"id": ID, "name": STR, "size": INT, "host": BOOL, "backend": ID, "device": STR, "usage": STR},
        ("id", "name", "size"),
    ),
    "tensor": Event(
        "definition",
        {
            "id": ID, "name": STR, "buffer": ID, "offset": INT, "size": INT, "view_of": ID, "flags": STRS, "type": STR,
            "ne": INTS, "nb": INTS,
        },
        ("id", "name"),
        used=("id", "name", "buffer", "offset", "size", "view_of"),
    ),
    "graph": Event("definition", {"id": ID, "uid": INT, "nodes": NODES}, ("id",), used=("id", "nodes")),
    "sched": Event(
        "definition", {"id": ID, "backends": INTS, "cpu_buffer_type": STR, "copies": INT, "ring": INT}, ("id",)
    ),
    "tensor_set": Event("access", {"tensor": ID, **_SPAN}, ("tensor",), "host", (_w(OWN, "set"),)),
    "tensor_memset": Event("access", {"tensor": ID, **_SPAN}, ("tensor",), "host", (_w(OWN, "set"),)),
    "tensor_get": Event("access", {"tensor": ID, **_SPAN}, ("tensor",), "host", (_r(OWN, "get"),)),
    "set_direct": Event("access", _DIRECT, ("tensor",), "host", (_w(OWN),)),
    "get_direct": Event("access", _DIRECT, ("tensor",), "host", (_r(OWN),)),
    "tensor_copy": Event(
        "access", {"src": RANGE, "dst": RANGE}, ("src", "dst"), "host", (_r("src", "get"), _w("dst", "set"))
    ),
    "buffer_clear": Event("access", {"buffer": ID}, ("buffer",), "host", (_w(WHOLE, "set"),)),
    "buffer_free": Event("access", {"buffer": ID, "backend": ID}, ("buffer",), "host", (_w(WHOLE),), ends=True),
    "set_async": Event("access", _TRANSFER, ("backend", "tensor"), "queue", (_r("host_range"), _w(OWN))),
    "get_async": Event("access", _TRANSFER, ("backend", "tensor"), "queue", (_r(OWN), _w("host_range"))),
    "copy_async": Event(
        "access",
        {"backend": ID, "src_backend": ID, "src": RANGE, "dst": RANGE, "runs_on": STR, "after_dst": BOOL},
        ("backend", "src", "dst"),
        "copy",
        (_r("src"), _w("dst")),
    ),
    "compute": Event(
        "access", {"backend": ID, "graph": ID, "picked": PICKS}, ("backend", "graph"), "queue", (_r(GRAPH), _w(GRAPH))
    ),
    "kernel": Event(
        "access",
        {"backend": ID, "reads": RANGES, "writes": RANGES, "picked": PICKS},
        ("backend",),
        "queue",
        (_r("reads"), _w("writes")),
    ),
    "host_access": Event(
        "access", {"reads": RANGES, "writes": RANGES, "picked": PICKS}, (), "host", (_r("reads"), _w("writes"))
    ),
    "synchronize": Event("edge", {"backend": ID}, ("backend",), edge="synchronize"),
    "event_record": Event("edge", {"backend": ID, "event": ID}, ("backend", "event"), edge="record"),
    "event_wait": Event("edge", {"backend": ID, "event": ID}, ("backend", "event"), edge="queue waits"),
    "event_synchronize": Event("edge", {"event": ID}, ("event",), edge="host waits"),
    "event_free": Event("edge", {"event": ID}, ("event",), edge="forget"),
    "release": Event("edge", {"object": STR, "backend": ID}, ("object",), edge="release"),
    "acquire": Event("edge", {"object": STR, "backend": ID}, ("object",), edge="acquire"),
    "sched_alloc": Event(
        "marker", {"sched": ID, "graph_uid": INT, "slot": INT, "reserve": BOOL, "realloc": BOOL, "inputs": INTS}
    ),
    "sched_reuse": Event("marker", {"sched": ID}),
    "sched_prepare": Event("marker", {"sched": ID, "slot": INT, "rotated": BOOL}),
    "sched_compute": Event("marker", {"sched": ID}),
    "sched_compute_end": Event("marker", {"sched": ID}),
    "ubatch": Event("marker", {"sched": ID, "n": INT, "tokens": INT, "phase": STR}, used=("tokens",)),
    "note": Event("marker", {"what": STR, "attrs": JSON, "sched": ID}, used=("what",)),
}
"""By name, in the order of the contract. A row that lacks a needed key is skipped and counted (strict: an error)."""


def _those(which: Callable[[Event], bool]) -> frozenset[str]:
    return frozenset(name for name, event in EVENTS.items() if which(event))


# Named sets of events. None is listed by hand: whoever adds a row to the table has told all of them.
DEFINITIONS: Final = _those(lambda e: e.role == "definition")
TABLED: Final = _those(lambda e: e.role == "definition" and "id" in e.keys)
"""Definitions that give a meaning to an id: of each the newest counts."""
ACCESSES: Final = _those(lambda e: e.role == "access")
EDGES: Final = _those(lambda e: e.role == "edge")
QUEUED: Final = _those(lambda e: e.runner in ("queue", "copy"))
"""Work of a queue."""
COMPUTING: Final = _those(lambda e: e.runner == "queue" and not e.moves)
"""Work that reads and writes lists of ranges: computes and kernels."""
COPIES: Final = _those(lambda e: e.reads == "src")
"""From `src` to `dst`, on the host or a queue."""
SLOT_FILLS: Final = _those(lambda e: e.writes == "dst" or (e.writes == OWN and (e.blocks or e.moves)))
"""Calls of a backend that fill one tensor: what a scheduler feeds a split by."""
HOST_SETS: Final = _those(lambda e: e.runner == "host" and e.writes == OWN)
"""The host writes one tensor."""
HOST_WRITES: Final = _those(lambda e: e.runner == "host" and e.writes not in (None, WHOLE))
"""The host writes tensors: the ways in which an engine sets inputs."""
UNASKED_WRITES: Final = _those(lambda e: e.runner == "host" and not e.blocks and e.writes not in (None, WHOLE))
"""The host writes tensors through its own pointers: no backend is asked."""
ENDS: Final = _those(lambda e: e.ends)
"""The life of a buffer is over."""
DIRECT: Final = _those(lambda e: e.runner == "host" and e.accesses[0].where == OWN and e.accesses[0].drains is None)
"""Through `tensor->data`, no call of a backend."""
HOST_WAITS: Final = _those(lambda e: e.edge in ("synchronize", "host waits"))
"""The host waits for queues."""
EVENT_WAITS: Final = _those(lambda e: e.edge in ("queue waits", "host waits"))
"""Somebody waits for what an event was recorded behind."""
WAITS: Final = HOST_WAITS | _those(lambda e: e.edge in ("queue waits", "acquire"))
"""Somebody learns what others did."""

SETS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("meta", "threads"): frozenset({"one", "ordered"}),
    ("backend", "type"): frozenset({"cpu", "gpu", "igpu", "accel"}),
    ("backend", "drains"): frozenset({"set", "get"}),
    ("buffer", "usage"): frozenset({"any", "weights", "compute"}),
    ("tensor", "flags"): frozenset({"input", "output", "weight"}),
    ("copy_async", "runs_on"): frozenset({"src", "dst", "both"}),
    ("ubatch", "phase"): frozenset({"prefill", "decode", "warmup"}),
}
"""Keys whose values come from a named set: an unknown value is the default, an unknown list element is dropped."""

COLUMNS: Final[dict[str, str]] = {
    key: kind
    for keys in ({"ev": STR}, COMMON, *(event.keys for event in EVENTS.values()))
    for key, kind in keys.items()
    if kind not in KEPT
}
"""Every column of the flat table but `extra`, in order; `type` and the like serve several events."""

DICTIONARY_COLUMNS: Final = frozenset(
    {"ev", "site", "label", "name", "device", "type", "usage", "runs_on", "object", "phase", "what", "registry"}
)
"""String columns that repeat, hence dictionary-encoded."""
