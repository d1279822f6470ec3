"""Text for a terminal: lines that are too long for it are broken between columns or words, never inside one."""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile("\x1b\\[[0-9;]*m")
_GAP: Final = re.compile(" {2,}")
_HANGING: Final = 4
NARROWEST: Final = 20
"""Characters. A terminal that tells less is not believed."""


def fit(text: str, width: int) -> str:
    """The text in lines of at most `width` characters where words allow; what was broken goes on behind an indent."""
    if width < NARROWEST:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    if len(_CODE.sub("", line)) <= width or _CODE.search(line):  # a coloured head is one name: nothing to break at
        return [line]
    indent = " " * (len(line) - len(line.lstrip(" ")) + _HANGING)
    parts = []
    while len(line) > width:
        at = _break(line, width, len(line) - len(line.lstrip(" ")))
        if at < 0:
            break
        parts.append(line[:at].rstrip(" "))
        line = indent + line[at:].lstrip(" ")
    return [*parts, line]


def _break(line: str, width: int, start: int) -> int:
    """Where to break: at the last gap between columns in the second half of the line, or else between words."""
    gaps = [found.start() for found in _GAP.finditer(line, start) if found.start() <= width]
    if gaps and gaps[-1] > max(start, width // 2):
        return gaps[-1]
    at = line.rfind(" ", start + 1, width + 1)
    return at if at > start else -1
