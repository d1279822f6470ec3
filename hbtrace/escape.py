"""The door for texts from outside, a trace's or a file's names: for each medium its own escape of what steers a reader.

Hostile are control characters, what ends a line or turns the order of what is read, and what is no character at all.
Text for people tells them (`\\n`, `\\x1b`); JSON, JSON Lines and TOML keep them by the escapes of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

_WIDE: Final = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
_HOSTILE: Final = re.compile(rf"[\x00-\x1f{_WIDE}]|#(?=#\w*\[)")
"""With what the runner of a CI job takes for a command wherever it stands in a line: `##[error]`."""
_HOSTILE_IN_JSON: Final = re.compile(rf"[{_WIDE}]|#(?=#\w*\[)")
"""What JSON lets stand as it is. Below a blank is only our own newline; a `#` is in strings alone."""
_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
"""A line that is a command to such a runner: `::error::`."""


def as_text(path: str) -> str:
    """A path; bytes of a file's name that are no text are told, for machine formats are text."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def harmless(line: str) -> str:
    r"""One line, whatever names are in it: hostile characters are told (`\n`, `\x1b`), not sent.

    In the log of a CI job a line of its own could be a command to the runner.
    """
    return _HOSTILE.sub(lambda found: r"\x23" if found[0] == "#" else found[0].encode("unicode_escape").decode(), line)


def page(lines: Iterable[str]) -> str:
    """Lines of ours: whatever names are in them, they stay lines."""
    return "\n".join(map(harmless, lines)) + "\n"


def printed(text: str) -> str:
    """Whole lines on their way out, as the last door: no line steers a terminal or is a command to a CI runner."""
    return _COMMAND.sub(r"\1\\x3a", "\n".join(map(harmless, text.split("\n"))))


def json_document(value: Any) -> bytes:
    """A JSON document over several lines, with a newline at its end; what is hostile is escaped in it."""
    return _json(value, indent=2)


def json_line(value: Any) -> bytes:
    """A JSON document on a line, with the newline; what is hostile is escaped in it."""
    return _json(value, indent=None)


def _json(value: Any, indent: int | None) -> bytes:
    import orjson

    try:
        layout = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
        return in_json(orjson.dumps(value, option=layout))
    except TypeError:  # half a surrogate pair, of a file's name or an option's value
        separators = None if indent else (",", ":")
        return json.dumps(value, indent=indent, separators=separators).encode() + b"\n"


def in_json(document: bytes) -> bytes:
    """JSON text in which what is hostile is escaped, each as JSON does."""
    if document.isascii() and b"\x7f" not in document and b"##" not in document:
        return document
    return _HOSTILE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document.decode()).encode()
