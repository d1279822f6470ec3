"""The id of a distinct race: a hash of its canonical signature. It holds no address, clock, count or time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import orjson

from hbtrace.replay.reports import Report, Signature

_DIGITS: Final = 6
SHORTEST: Final = len("R-") + _DIGITS
_MOST_DIGITS: Final = 18


@lru_cache(maxsize=1 << 16)
def full_identity(canonical: Signature) -> str:
    """`R-` and all digits: what an id is the beginning of."""
    return "R-" + hashlib.sha256(orjson.dumps(canonical)).hexdigest()


def tensor_names(report: Report) -> tuple[str | None, ...]:
    """All names that a report's tensors go by: their own and their roots', and what outputs call the latter."""
    sides = (report.earlier, report.current)
    return (*(a.tensor for a in sides), *(a.root for a in sides), *printed_names(report.signature, report.canonical))


def printed_names(*signatures: Signature) -> tuple[str | None, ...]:
    """What outputs call the roots of a race: a scheduler's copy without its slot, say."""
    return tuple(signature[which] for signature in signatures for which in (3, 6))


def identities(canonicals: Iterable[Signature]) -> dict[Signature, str]:
    """`R-` and the first six hex digits of each signature's hash; more digits where two of these collide."""
    full = {canonical: full_identity(canonical) for canonical in canonicals}
    lengths = dict.fromkeys(full, SHORTEST)
    while True:
        taken: dict[str, list[Signature]] = {}
        for canonical, digits in lengths.items():
            taken.setdefault(full[canonical][:digits], []).append(canonical)
        rivals = [canonical for sharing in taken.values() if len(sharing) > 1 for canonical in sharing]
        if not rivals:
            return {canonical: full[canonical][:digits] for canonical, digits in lengths.items()}
        for canonical in rivals:
            lengths[canonical] += 1


def is_row(word: str) -> bool:
    """Decimal digits, no more than any trace has rows; `str.isdigit` would take superscripts as well."""
    return word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS
