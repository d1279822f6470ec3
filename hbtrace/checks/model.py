"""What a check says beside its findings: judgements, and what is counted on the way to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

_SHOWN_ROWS: Final = 100
"""Rows of one finding that are kept; `count` goes on."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one rule: `findings`, which speak for themselves; `holds`, with what it saw; or `not checkable`,
    with the reason."""

    id: str
    status: Literal["findings", "holds", "not checkable"]
    note: str
    foreign: bool = False
    """Whether the rule is of an engine that is not in the trace: not even "not checkable", it has no say."""


class Tally:
    """Occurrences of one kind of thing: how many, and their rows, the first ones only."""

    __slots__ = ("count", "rows", "words")

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[int] = []
        self.words: dict[str, int] = {}

    def add(self, rows: Iterable[int] = (), word: str | None = None) -> None:
        """Count one more; `word` says of whom, for `names`."""
        self.count += 1
        for row in rows:
            if len(self.rows) < _SHOWN_ROWS and row not in self.rows:
                self.rows.append(row)
        if word is not None:
            self.words[word] = self.words.get(word, 0) + 1

    def __bool__(self) -> bool:
        return self.count > 0

    def names(self, most: int = 6) -> str:
        """The words by how often, `a 6, b 2`; no more than `most` of them."""
        ordered = sorted(self.words.items(), key=lambda pair: (-pair[1], pair[0]))
        told = ", ".join(word if number == 1 else f"{word} {number}" for word, number in ordered[:most])
        return told + (f" and {len(ordered) - most} more" if len(ordered) > most else "")
