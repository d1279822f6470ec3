"""One physical line of a ggml scheduler sanitizer log: from bytes to the records that stand in it.

What it is: the printf shapes of `GGML_SCHED_SANITIZE=2` (llama.cpp PR #26167 and #27311) as regular
expressions, blind to what stands in front of them (time stamps, log levels, container prefixes), to ANSI
colours and to line endings. What it is not: it knows no clocks and no order; `ggml_trace` turns records into
events, `ggml_reports` reads the RACE blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MARK: Final = b"san [split"
"""What every level-2 line holds; a byte search for it spares most lines of a log the decoding."""

HOST: Final = "HOST"


@dataclass(frozen=True, slots=True)
class AccessLine:
    """`actor` touched `[offset, offset + size)` of a buffer whose *type* is named `buffer`."""

    split: int
    actor: str
    mode: str
    buffer: str
    offset: int
    size: int
    tensor: str
    root: str | None
    what: str


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """`op` is `synchronize`, `event_record`, `event_wait` or `event_sync`; `event` is -1 for the first."""

    split: int
    actor: str
    op: str
    event: int


@dataclass(frozen=True, slots=True)
class Computed:
    """Ends a graph compute: printed *after* the accesses it counts (those on weights print no line)."""

    split: int
    actor: str
    nodes: int
    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class Copied:
    """Ends an asynchronous copy: printed after its accesses; `reader` is the queue that read the source."""

    split: int
    actor: str
    reader: str


@dataclass(frozen=True, slots=True)
class SplitMark:
    """A split without inputs begins: nothing made the scheduler wait for anybody."""

    split: int
    actor: str
    inputs: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A level-2 line of no known shape: cut off, or other output was written into it."""

    text: str


SanitizerRecord = AccessLine | EdgeLine | Computed | Copied | SplitMark | Unread

_ANSI: Final = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
_LONGEST: Final = 4096
"""No line is longer (a tensor name has 63 bytes); what is, is no line of ours and would only cost time."""

_NUMBER: Final = r"([0-9]{1,19})"
_NAME: Final = r"(\S+(?: \S+)*?)"  # backend names may hold a blank, but are padded with them: never two in a row
# The name in the brackets is the running split's backend; those of RPC have brackets of their own, so a name
# without blanks is tried first.
_HEAD: Final = re.compile(r" *(-?[0-9]{1,9}) +(?:\S+|\S.*?) *\] +(.*)", re.DOTALL)
_ACCESS: Final = re.compile(rf"{_NAME} +(read|write) +(\S.*?)\[{_NUMBER}\+{_NUMBER}\] (.*) \(([^()]*)\)\s*")
_EDGE: Final = re.compile(
    rf"{_NAME} +EDGE +(?:(synchronize) +-> +HOST|(event_record|event_wait|event_sync)(?:hronize)? +ev={_NUMBER})\s*"
)
_COMPUTED: Final = re.compile(rf"{_NAME} +compute +{_NUMBER} nodes, r={_NUMBER} w={_NUMBER} ranges\s*")
_COPIED: Final = re.compile(rf"{_NAME} +cpy_async +.*@{_NAME} -> .*")
_SPLIT: Final = re.compile(rf"{_NAME} +split +{_NUMBER} inputs?\b.*")


def plain(line: bytes) -> str:
    """The line as text without colours and line ending. Bytes that are no UTF-8 become U+FFFD.

    NUL bytes go too: a log that Windows PowerShell redirected is UTF-16, and all that matters here is ASCII.
    """
    if b"\0" in line:
        line = line.replace(b"\0", b"")
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    return line.rstrip(b"\r\n").decode("utf-8", "replace")


def split_root(text: str) -> tuple[str, str | None]:
    """`accessed <- root` as its two names; a name alone has no root."""
    name, arrow, root = text.partition(" <- ")
    return (name, root) if arrow else (text, None)


def records(line: bytes) -> Iterator[SanitizerRecord]:
    """The level-2 records of one physical line: mostly none or one; several where a line ending was lost."""
    if b"\0" in line:
        line = line.replace(b"\0", b"")
    if MARK not in line:
        return
    for piece in plain(line).split(MARK.decode())[1:]:
        yield _record(piece)


def _record(piece: str) -> SanitizerRecord:
    head = _HEAD.fullmatch(piece) if len(piece) <= _LONGEST else None
    if head is None:
        return Unread(piece[:_LONGEST])
    split, rest = int(head[1]), head[2]
    if m := _ACCESS.fullmatch(rest):
        tensor, root = split_root(m[6])
        access = AccessLine(split, m[1], m[2], m[3], int(m[4]), int(m[5]), tensor, root, m[7])
        return access if access.offset + access.size < 2**63 else Unread(piece)
    return _operation(split, rest) or Unread(piece)


def _operation(split: int, rest: str) -> SanitizerRecord | None:
    record: EdgeLine | Computed | Copied | SplitMark | None = None
    if m := _EDGE.fullmatch(rest):
        record = EdgeLine(split, m[1], m[2] or m[3], int(m[4]) if m[4] else -1)
    elif m := _COMPUTED.fullmatch(rest):
        record = Computed(split, m[1], int(m[2]), int(m[3]), int(m[4]))
    elif m := _COPIED.fullmatch(rest):
        record = Copied(split, m[1], m[2])
    elif m := _SPLIT.fullmatch(rest):
        record = SplitMark(split, m[1], int(m[2]))
    # Only queues do these things; the host stands there in one edge alone, the wait for an event.
    if record is None or (HOST in (record.actor, getattr(record, "reader", "")) and not _hosts(record)):
        return None
    return record


def _hosts(record: EdgeLine | Computed | Copied | SplitMark) -> bool:
    return isinstance(record, EdgeLine) and record.op == "event_sync"
