"""The event vocabulary: every event, its keys, their types, and the named sets.

What it is: the contract's tables as data (docs: `hbtrace docs format`). What it is not: a reader or a
replay. Nothing here touches Arrow, so `--help` stays cheap.
"""

from __future__ import annotations

from typing import Final

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
JSON: Final = "json"
"""Any object; kept as JSON text in the column `extra`."""

COMMON: Final[dict[str, str]] = {"thread": INT, "split": INT, "ubatch": INT, "time": INT, "site": STR, "label": STR}
"""Keys every event may carry."""

_SPAN: Final = {"offset": INT, "size": INT, "rows": INT, "stride": INT, "approx": BOOL}
_DIRECT: Final = {"tensor": ID, **_SPAN, "inferred": BOOL}
_TRANSFER: Final = {"backend": ID, "tensor": ID, **_SPAN, "host_range": RANGE}

RANGE_KEYS: Final[dict[str, str]] = {"tensor": ID, "buffer": ID, **_SPAN}
NODE_KEYS: Final[dict[str, str]] = {"op": STR, "tensor": ID, "backend": ID, "reads": RANGES, "writes": RANGES}

EVENTS: Final[dict[str, dict[str, str]]] = {
    # definitions
    "meta": {
        "version": INT, "producer": STR, "engine": STR, "engine_version": STR, "command": STRS, "env": JSON,
        "started_at": STR, "threads": STR, "notes": STR,
    },
    "backend": {
        "id": ID, "name": STR, "device": STR, "type": STR, "async": BOOL, "events": BOOL, "integrated": BOOL,
        "host_buffer": BOOL, "accepts": STRS, "synchronous": BOOL, "drains": STRS,
    },
    "backend_free": {"backend": ID},
    "buffer": {"id": ID, "name": STR, "size": INT, "host": BOOL, "backend": ID, "device": STR, "usage": STR},
    "tensor": {
        "id": ID, "name": STR, "buffer": ID, "offset": INT, "size": INT, "view_of": ID, "flags": STRS, "type": STR,
        "ne": INTS, "nb": INTS,
    },
    "graph": {"id": ID, "uid": INT, "nodes": NODES},
    "sched": {"id": ID, "backends": INTS, "cpu_buffer_type": STR, "copies": INT, "ring": INT},
    # accesses and edges
    "tensor_set": {"tensor": ID, **_SPAN},
    "tensor_memset": {"tensor": ID, **_SPAN},
    "tensor_get": {"tensor": ID, **_SPAN},
    "set_direct": _DIRECT,
    "get_direct": _DIRECT,
    "tensor_copy": {"src": RANGE, "dst": RANGE},
    "buffer_clear": {"buffer": ID},
    "buffer_free": {"buffer": ID},
    "set_async": _TRANSFER,
    "get_async": _TRANSFER,
    "copy_async": {
        "backend": ID, "src_backend": ID, "src": RANGE, "dst": RANGE, "runs_on": STR, "after_dst": BOOL,
    },
    "compute": {"backend": ID, "graph": ID},
    "kernel": {"backend": ID, "reads": RANGES, "writes": RANGES},
    "host_access": {"reads": RANGES, "writes": RANGES},
    "synchronize": {"backend": ID},
    "event_record": {"backend": ID, "event": ID},
    "event_wait": {"backend": ID, "event": ID},
    "event_synchronize": {"event": ID},
    "event_free": {"event": ID},
    "release": {"object": STR, "backend": ID},
    "acquire": {"object": STR, "backend": ID},
    # markers
    "sched_alloc": {"sched": ID, "graph_uid": INT, "slot": INT, "reserve": BOOL, "realloc": BOOL, "inputs": INTS},
    "sched_reuse": {"sched": ID},
    "sched_prepare": {"sched": ID, "slot": INT, "rotated": BOOL},
    "sched_compute": {"sched": ID},
    "sched_compute_end": {"sched": ID},
    "ubatch": {"sched": ID, "n": INT, "tokens": INT, "phase": STR},
    "note": {"what": STR, "attrs": JSON},
}

REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "backend": ("id", "name"),
    "backend_free": ("backend",),
    "buffer": ("id", "name", "size"),
    "tensor": ("id", "name"),
    "graph": ("id",),
    "sched": ("id",),
    "tensor_set": ("tensor",),
    "tensor_memset": ("tensor",),
    "tensor_get": ("tensor",),
    "set_direct": ("tensor",),
    "get_direct": ("tensor",),
    "tensor_copy": ("src", "dst"),
    "buffer_clear": ("buffer",),
    "buffer_free": ("buffer",),
    "set_async": ("backend", "tensor"),
    "get_async": ("backend", "tensor"),
    "copy_async": ("backend", "src", "dst"),
    "compute": ("backend", "graph"),
    "kernel": ("backend",),
    "synchronize": ("backend",),
    "event_record": ("backend", "event"),
    "event_wait": ("backend", "event"),
    "event_synchronize": ("event",),
    "event_free": ("event",),
    "release": ("object",),
    "acquire": ("object",),
}
"""The keys an event cannot do without. A row that lacks one is skipped and counted (strict mode: an error)."""

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
    key: kind for keys in ({"ev": STR}, COMMON, *EVENTS.values()) for key, kind in keys.items() if kind != JSON
}
"""Every column of the flat table but `extra`, in order; `type` and the like serve several events."""

DICTIONARY_COLUMNS: Final = frozenset(
    {"ev", "site", "label", "name", "device", "type", "usage", "runs_on", "object", "phase", "what"}
)
"""String columns that repeat, hence dictionary-encoded."""
