"""Numbers and guesses in sentences, as people say them."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """A question with the known name that is nearest to a word; otherwise what to say where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, 0.5)
    return f"did you mean `{near[0]}`?" if near else otherwise


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """A question with up to three known names that are near to a word, in any case; otherwise what to say."""
    from difflib import get_close_matches

    lowered: dict[str, str] = {}
    for name in known:
        lowered.setdefault(name.lower(), name)
    near = [f"`{lowered[name]}`" for name in get_close_matches(word.lower(), lowered, 3, 0.5)]
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def left_out(hidden: int, of: int, noun: str) -> str:
    """What filters hide."""
    return f"left out by filters: {hidden:,} of {count(of, noun)}"


def times(number: int) -> str:
    """How often: `once`, `3 times`."""
    return "once" if number == 1 else f"{number:,} times"


def count(number: int, noun: str) -> str:
    """`1 race`, `2 races`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
