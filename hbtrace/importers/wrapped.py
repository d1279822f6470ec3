"""What a log driver put around every line, taken off again: docker, journald, GitHub Actions, Kubernetes.

What it is: lines in, lines out, by the shapes that these programs document. What it is not: it knows nothing of what
the lines say; a line of none of the shapes stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

_LOOKED_AT: Final = 50
"""Lines in which a wrapper must show itself; journald begins with a line of its own."""

_PIECE: Final = 16 << 10
"""Docker's log driver breaks longer lines; what is shorter and has no line end was written by another driver."""
_MOST_HELD: Final = 1 << 22

_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)")
_SYSLOG_TIME: Final = re.compile(rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?")
_SYSLOG_NAME: Final = re.compile(rb" [^ :\[\]]{1,255} [^ :\[\]]{1,255}(?:\[\d{1,9}\])?: ")
_ISO_NAME: Final = re.compile(rb"[^ :\[\]]{1,255} [^ :\[\]]{1,255}\[\d{1,9}\]: ")
_LONGEST_TIME: Final = 40
_COMMAND: Final = re.compile(rb"##\[[a-z]{1,16}\]")
_BOM: Final = b"\xef\xbb\xbf"


class _Inner(NamedTuple):
    """What was wrapped; whole: a line, and not a piece of one that goes on in the next."""

    text: bytes
    whole: bool = True


def is_wrapped(head: bytes) -> bool:
    """Whether the first lines of a file are wrapped ones."""
    lines = head.removeprefix(_BOM).split(b"\n")
    return any(_inner(line + b"\n") is not None for line in islice(filter(bytes.strip, lines), _LOOKED_AT))


def wraps_rows(head: bytes) -> bool:
    """Whether the file's first line is an object around a line of a log, and not a row of a trace."""
    line = head.removeprefix(_BOM).lstrip(b" \t\r\n").partition(b"\n")[0]
    return line.startswith(b"{") and _of_object(line) is not None


def unwrapped(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines inside."""
    held: list[bytes] = []
    size = 0
    for number, line in enumerate(lines):
        inner = _inner(line.removeprefix(_BOM) if number == 0 else line)
        if inner is None:
            inner = _Inner(line)
        held.append(inner.text)
        size += len(inner.text)
        if inner.whole or size > _MOST_HELD:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _inner(line: bytes) -> _Inner | None:
    if line.startswith(b"{"):
        return _of_object(line)
    if line[:1].isdigit():
        return _of_time(line)
    if b"\t" in line[:256] and line.count(b"\t", 0, 256) >= 2:  # `gh run view --log`: job, step, line
        after = line.split(b"\t", 2)[2].removeprefix(_BOM)
        return _of_time(after) if after[:1].isdigit() else None
    found = _SYSLOG_TIME.match(line)
    name = _SYSLOG_NAME.match(line, found.end()) if found else None
    return _Inner(line[name.end() :]) if name else None


def _of_object(line: bytes) -> _Inner | None:
    """Docker's `json-file`, and `journalctl -o json`."""
    try:
        found: Any = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or "ev" in found:
        return None
    text = found.get("log")
    if isinstance(text, str) and ("stream" in found or "time" in found):
        whole = text.endswith("\n") or len(text.encode()) < _PIECE
        return _Inner(_ended(text.encode()) if whole else text.encode(), whole)
    if "MESSAGE" in found and any(key.startswith("_") for key in found):
        return _Inner(_ended(_message(found["MESSAGE"])))
    return None


def _message(value: Any) -> bytes:
    """journald writes what is no UTF-8 as a list of bytes, and what is too long as null."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list) and all(type(one) is int and 0 <= one < 256 for one in value):
        return bytes(value)
    return b""


def _of_time(line: bytes) -> _Inner | None:
    """A time stamp, and what stands between it and the line."""
    end = line.find(b" ", 0, _LONGEST_TIME)
    if end < 0 or _TIME.fullmatch(line, 0, end) is None:
        return None
    after = line[end + 1 :]
    for stream in (b"stdout ", b"stderr "):  # Kubernetes: a piece is marked P, and the last one of a line F
        if after.startswith(stream) and after[7:9] in (b"F ", b"P ", b"F\n", b"P\n"):
            whole = after[7:8] == b"F"
            return _Inner(_ended(after[9:]) if whole else after[9:].rstrip(b"\r\n"), whole)
    # `journalctl -o short-iso`, or a command of GitHub Actions
    begun = _ISO_NAME.match(after) or _COMMAND.match(after)
    return _Inner(after[begun.end() :] if begun else after)


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"
