"""Numbers, verdicts and guesses in sentences, as people say them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

EFFECTS: Final = {"live": "visible", "dead": "overwritten", "unknown": "unknown"}
"""What a race comes to: for machines, and for people."""


def effect_of(verdict: str | None) -> str:
    """What a race comes to, in people's word; `-` where nobody judged it."""
    return "-" if verdict is None else EFFECTS[verdict]


def effects(counts: Mapping[Any, int]) -> str:
    """How many reports come to what: `4 visible, 2 overwritten`."""
    return ", ".join(f"{counts[verdict]:,} {word}" for verdict, word in EFFECTS.items() if counts.get(verdict))


def sampled(judged: int, reports: int) -> str:
    """That not all reports were judged: `effect sampled (10 of 87,690)`; nothing where they were."""
    return f"effect sampled ({judged:,} of {reports:,})" if judged < reports else ""


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


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 race`, `2 races`; plural: where it is no noun and an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"
