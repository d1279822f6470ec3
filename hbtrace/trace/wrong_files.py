"""Files that are no trace and no log with races in it: what each is, and what its owner does next.

What it is: one table, asked when nothing else could make sense of a file or of its rows. What it is not: it decides
nothing; a file that it knows has been refused already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import orjson

UNDECODED: Final = "x_undecoded"
"""The key of a row that stands for such a line, with what can be told of it."""

_BLANK: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_RECORD: Final = "record the run with `hbtrace record -- COMMAND`"
_SANITIZE: Final = f"run it with GGML_SCHED_SANITIZE=2 and -v and give that log, or {_RECORD}"
_NO_MEMORY: Final = f"it does not tell which memory the work touches; {_RECORD}"


class WrongFile(NamedTuple):
    """what: the end of the sentence `it is no trace but ...`. step: what to do instead."""

    what: str
    step: str


class _Known(NamedTuple):
    """How a kind of file is told: by how it begins, by one of `holds` and all of `beside` in its head, by its suffix;
    its rows, if it is read as JSON Lines, by all keys of one of `rows`."""

    what: str
    step: str
    begins: tuple[bytes, ...] = ()
    holds: tuple[bytes, ...] = ()
    beside: tuple[bytes, ...] = ()
    suffixes: tuple[str, ...] = ()
    rows: tuple[frozenset[str], ...] = ()


def _keys(*rows: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(row.split()) for row in rows)


# The order is that of asking: what quotes another kind stands before it.
_KNOWN: Final = (
    _Known("a SQLite database, as Nsight Systems exports it", _NO_MEMORY, (b"SQLite format 3\0",)),
    _Known("a report of Nsight Systems", _NO_MEMORY, suffixes=(".nsys-rep", ".qdrep", ".qdstrm")),
    _Known("a model (GGUF)", f"a run of it is what can race: {_RECORD}", (b"GGUF",)),
    _Known(
        "a Perfetto trace", "give the trace that it was converted from", suffixes=(".pftrace", ".perfetto-trace")
    ),
    _Known(
        "a trace of the PyTorch profiler", _NO_MEMORY, holds=(b'"schemaVersion"',), beside=(b'"traceEvents"',),
        rows=_keys("schemaVersion traceEvents"),
    ),
    _Known("a Chrome trace", _NO_MEMORY, holds=(b'"traceEvents"',), rows=_keys("traceEvents")),
    _Known(
        "a Chrome trace", _NO_MEMORY, holds=(b'"ph"',), beside=(b'"pid"',), rows=_keys("ph name", "ph ts", "ph pid")
    ),
    _Known("an export of Nsight Systems", _NO_MEMORY, rows=_keys("CudaEvent", "TraceProcessEvent")),
    _Known("the log of a container", f"it holds no line of the sanitizer: {_SANITIZE}", rows=_keys("log stream")),
    _Known(
        "a log of journald", f"it holds no line of the sanitizer: {_SANITIZE}",
        rows=_keys("MESSAGE PRIORITY", "MESSAGE __REALTIME_TIMESTAMP"),
    ),
    _Known("an OpenTelemetry trace", _NO_MEMORY, rows=_keys("resourceSpans")),
    _Known("a SARIF file", "give the trace that it was made of", rows=_keys("$schema runs")),
    _Known(
        "a result of `hbtrace analyze`", "give the trace that it was made of",
        rows=_keys("signature earlier current", "format reports"),
    ),
    _Known(
        "a line whose strings cannot be decoded", "it was written by a program that cuts text between bytes",
        rows=_keys(UNDECODED),
    ),
    _Known(
        "the output of compute-sanitizer", f"it looks inside kernels, hbtrace between queues: {_RECORD}",
        holds=(b"========= COMPUTE-SANITIZER", b"========= ERROR SUMMARY"),
    ),
    _Known(
        "the output of ThreadSanitizer", f"it sees the host's threads and no queue of a device: {_RECORD}",
        holds=(b"WARNING: ThreadSanitizer:",),
    ),
    _Known(
        "the output of Helgrind or DRD", f"it sees the host's threads and no queue of a device: {_RECORD}",
        holds=(b"== Possible data race", b"== Conflicting "),
    ),
    _Known(
        "a paste of race reports whose lines were broken or cut off",
        "paste them as they were printed, a line a line, or give the log itself",
        holds=(b"RACE (", b"no happens-before edge", b"SYNC-HAZARD-", b"CSAN detected"),
    ),
    _Known(
        "a log of the ggml scheduler sanitizer whose lines were broken or cut off",
        "give the log as it was written", holds=(b"san [split",),
    ),
    _Known(
        "what GGML_SCHED_DEBUG prints", f"that is how graphs are split, not what a run touched: {_SANITIZE}",
        holds=(b"## SPLIT #",),
    ),
    _Known(
        "a log of llama.cpp without a line of the sanitizer", _SANITIZE,
        holds=(
            b"llama_context:", b"llama_model_loader:", b"load_backend:", b"_init: found ", b"ggml_backend_",
            b"system_info:", b"llama_kv_cache", b"srv  ", b"slot ", b"ggml-sched-sanitize",
        ),
    ),
    _Known("a web page", "save the raw text of the log", (b"<!DOCTYPE", b"<!doctype", b"<html")),
    _Known("a Parquet file", "write it as Arrow IPC", (b"PAR1",)),
    _Known("a Feather version 1 file", "write it as Arrow IPC, which is Feather version 2", (b"FEA1",)),
    _Known("a bzip2 file", "unpack it first", (b"BZh",)),
    _Known("a zip file", "unpack it first", (b"PK\x03\x04",)),
    _Known("a PNG picture", "give the text that it shows", (b"\x89PNG",)),
    _Known("a JSON array", "a trace has one object a line: `jq -c '.[]'` makes that of it", (b"[",)),
)  # fmt: skip


def wrong_file(head: bytes, path: str = "") -> WrongFile | None:
    """What a file is whose first bytes (64 KiB are plenty) make no trace, None if nobody knows."""
    plain = head.replace(b"\0", b"")  # Windows writes UTF-16
    start = head.removeprefix(_BOM).lstrip(_BLANK)
    for known in _KNOWN:
        holds = any(one in plain for one in known.holds) and all(one in plain for one in known.beside)
        if start.startswith(known.begins) or holds or path.endswith(known.suffixes):
            return WrongFile(known.what, known.step)
    return None


def wrong_rows(keys: Iterable[str]) -> WrongFile | None:
    """What rows without `ev` are, by the keys of one of them, None if nobody knows."""
    present = set(keys)
    found = (known for known in _KNOWN if any(keys <= present for keys in known.rows))
    return next((WrongFile(known.what, known.step) for known in found), None)


def may_be_rows(text: bytes) -> bool:
    """Whether what begins with a brace begins with a whole object in its line, or with one longer than `text`."""
    line, newline, _ = text.partition(b"\n")
    if not newline:
        return True
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True
