"""Names that come from outside, a trace's or a file's, as text that can be printed or put into a document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What ends a line, steers a terminal, or turns the order of what is read."""


def as_text(path: str) -> str:
    """A path; bytes of a file's name that are no text are told, for machine formats are text."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def harmless(line: str) -> str:
    r"""One line, whatever names are in it: control characters are told (`\n`, `\x1b`), not sent.

    In the log of a CI job a line of its own could be a command to the runner.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), line)


def page(lines: Iterable[str]) -> str:
    """Lines of ours, none of them a report's: whatever names are in them, they stay lines."""
    return "\n".join(map(harmless, lines)) + "\n"
