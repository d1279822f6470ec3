"""Numbers in sentences, as people say them."""

from __future__ import annotations


def times(number: int) -> str:
    """How often: `once`, `3 times`."""
    return "once" if number == 1 else f"{number:,} times"


def count(number: int, noun: str) -> str:
    """`1 race`, `2 races`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
