"""One physical line of a ggml scheduler sanitizer log: from bytes to the records that stand in it.

What it is: the printf shapes of `GGML_SCHED_SANITIZE=2` (llama.cpp PR #26167 and #27311), blind to what stands in
front of them (time stamps, log levels, container prefixes), to ANSI colours and to line endings. Lines are cut at
fixed words, so that the work is linear in the line whatever it holds; a regular expression here is anchored or of
bounded length. What it is not: it knows no clocks and no order; `ggml_trace` turns records into events,
`ggml_reports` reads the RACE blocks.
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
_RANGE: Final = re.compile(rf"\[{_NUMBER}\+{_NUMBER}\] ")
_EVENT: Final = re.compile(rf"(event_record|event_wait|event_sync)(?:hronize)? +ev={_NUMBER}")
_COUNTS: Final = re.compile(rf"{_NUMBER} nodes, r={_NUMBER} w={_NUMBER} ranges")
_INPUTS: Final = re.compile(rf"{_NUMBER} inputs?\b")


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
    head = _head(piece) if len(piece) <= _LONGEST else None
    if head is None:
        return Unread(piece[:_LONGEST])
    return _access(*head) or _operation(*head) or Unread(piece)


def _head(piece: str) -> tuple[int, str] | None:
    """The split, and what stands behind the brackets. The name in them is the running split's backend."""
    number, _, rest = piece.strip(" ").partition(" ")
    digits = number.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):
        return None
    name, _, after = rest.lstrip(" ").partition(" ")
    after = after.lstrip(" ")
    if after.startswith("] "):  # padded; a name of RPC has brackets of its own
        after = after[2:]
    elif not name.endswith("]") or name == "]":  # a name with a blank in it
        name, bracket, after = rest.partition("] ")
        if not bracket or not name.strip(" "):
            return None
    return int(number), after.strip()


def is_name(text: str) -> bool:
    """Whether it can be a backend's: these may hold a blank, but are padded with them: never two in a row."""
    return bool(text) and " ".join(text.split()) == text


def _access(split: int, rest: str) -> AccessLine | None:
    """`ACTOR read|write BUFFER[OFFSET+SIZE] TENSOR (WHAT)`"""
    actor, mode, after = _cut_at(rest, " read ", " write ")
    text, bracket, what = after.rpartition(" (")
    if not mode or not bracket or not is_name(actor) or not what.endswith(")"):
        return None
    text, what = text.lstrip(" "), what[:-1]
    where = None if "(" in what or ")" in what else _RANGE.search(text + " ", 1)
    if where is None or int(where[1]) + int(where[2]) >= 2**63:
        return None
    tensor, root = split_root(text[where.end() :])
    return AccessLine(
        split, actor, mode.strip(), text[: where.start()], int(where[1]), int(where[2]), tensor, root, what
    )  # fmt: skip


def _cut_at(text: str, *words: str) -> tuple[str, str, str]:
    """What stands before the first of these words, the word, and what stands behind it; as `str.partition`."""
    places = {place: word for word in words if (place := text.find(word)) > 0}
    if not places:
        return text, "", ""
    first = min(places)
    return text[:first].rstrip(" "), places[first], text[first + len(places[first]) :]


def _operation(split: int, rest: str) -> SanitizerRecord | None:
    record: EdgeLine | Computed | Copied | SplitMark | None = None
    actor, word, after = _cut_at(rest, " EDGE ", " compute ", " cpy_async ", " split ")
    after = after.strip(" ")
    if not is_name(actor):
        return None
    if word == " EDGE " and after.split() == ["synchronize", "->", "HOST"]:
        record = EdgeLine(split, actor, "synchronize", -1)
    elif word == " EDGE " and (m := _EVENT.fullmatch(after)):
        record = EdgeLine(split, actor, m[1], int(m[2]))
    elif word == " compute " and (m := _COUNTS.fullmatch(after)):
        record = Computed(split, actor, int(m[1]), int(m[2]), int(m[3]))
    elif word == " cpy_async ":
        tensor, arrow, _ = f"{after} ".partition(" -> ")  # the destination may have no name
        reader = tensor.rpartition("@")[2]
        record = Copied(split, actor, reader) if arrow and "@" in tensor and is_name(reader) else None
    elif word == " split " and (m := _INPUTS.match(after)):
        record = SplitMark(split, actor, int(m[1]))
    # Only queues do these things; the host stands there in one edge alone, the wait for an event.
    if record is None or (HOST in (record.actor, getattr(record, "reader", "")) and not _hosts(record)):
        return None
    return record


def _hosts(record: EdgeLine | Computed | Copied | SplitMark) -> bool:
    return isinstance(record, EdgeLine) and record.op == "event_sync"
