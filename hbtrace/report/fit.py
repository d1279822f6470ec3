"""Text for a terminal: lines that are too long for it are broken between columns or words, never inside one.

Nor inside a command that somebody may copy: a line of one stays whole, and so does one in backquotes.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

_CODE: Final = re.compile("\x1b\\[[0-9;]*m")
_GAP: Final = re.compile(" {2,}")
_COMMAND_LINE: Final = re.compile(r" *([\w-]+:? +)?hbtrace ")
"""Such as `next: hbtrace explain run.arrow R-2a1d6a`."""
_QUOTED: Final = re.compile("`hbtrace [^`]*`")
_HELD: Final = "\0"
"""Stands for a blank that is no place to break at; text on its way out holds none."""
_HANGING: Final = 4
NARROWEST: Final = 20
"""Characters. A terminal that tells less is not believed."""


def fit(text: str, width: int) -> str:
    """The text in lines of at most `width` characters where words allow; what was broken goes on behind an indent."""
    if width < NARROWEST:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def wrap(text: str, width: int, indent: str = "", hanging: str = "") -> list[str]:
    """Prose in lines of at most `width` characters where words allow; no line for no words.

    indent: of the first line; hanging: of those below it.
    """
    lines = textwrap.wrap(
        _hold(text), width, initial_indent=indent, subsequent_indent=hanging, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_HELD, " ") for line in lines]


def _hold(text: str) -> str:
    return _QUOTED.sub(lambda found: found[0].replace(" ", _HELD), text)


def _broken(line: str, width: int) -> list[str]:
    if len(_CODE.sub("", line)) <= width or _CODE.search(line):  # a coloured head is one name: nothing to break at
        return [line]
    if _COMMAND_LINE.match(line):
        return [line]
    line = _hold(line)
    indent = " " * (len(line) - len(line.lstrip(" ")) + _HANGING)
    parts = []
    while len(line) > width:
        at = _break(line, width, len(line) - len(line.lstrip(" ")))
        if at < 0:
            break
        parts.append(line[:at].rstrip(" "))
        line = indent + line[at:].lstrip(" ")
    return [part.replace(_HELD, " ") for part in (*parts, line)]


def _break(line: str, width: int, start: int) -> int:
    """Where to break: at the last gap between columns in the second half of the line, or else between words."""
    gaps = [found.start() for found in _GAP.finditer(line, start) if found.start() <= width]
    if gaps and gaps[-1] > max(start, width // 2):
        return gaps[-1]
    at = line.rfind(" ", start + 1, width + 1)
    return at if at > start else -1
