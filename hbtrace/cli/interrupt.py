"""Whether Ctrl-C asked this run to end early with what it has; it ends with 130 then."""

from __future__ import annotations

from typing import Final

_ASKED: Final[list[bool]] = []


def ask() -> None:
    _ASKED.append(True)


def asked() -> bool:
    return bool(_ASKED)


def forget() -> None:
    """A new run begins."""
    _ASKED.clear()
