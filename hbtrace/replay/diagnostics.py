"""What is wrong with a trace without being a race: counted by kind, one sentence a kind, an error in strict mode.

The kinds and which of them strict mode turns into errors are those of the contract (sections 1, 3 and 9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hbtrace.errors import TraceError

SKIPPED: Final = "skipped"
VALUE: Final = "value"
KEY: Final = "key"
LATE_META: Final = "late meta"
CUT: Final = "cut"
NOTHING: Final = "nothing"
DENSE: Final = "dense"
BACKEND: Final = "backend"
BUFFER: Final = "buffer"
TENSOR: Final = "tensor"
GRAPH: Final = "graph"
FREED_BACKEND: Final = "freed backend"
USE_AFTER_FREE: Final = "use-after-free"
HOST_NAME: Final = "HOST"

STRICT: Final = frozenset({SKIPPED, KEY, CUT, BACKEND, BUFFER, TENSOR, GRAPH, USE_AFTER_FREE, HOST_NAME})
_UNDEFINED: Final = frozenset({BACKEND, BUFFER, TENSOR, GRAPH})

_SENTENCES: Final = {
    SKIPPED: "{rows} skipped: the event is unknown or lacks a key it cannot do without",
    VALUE: "{rows} with a value of the wrong type or of no known meaning: its default counts instead",
    KEY: "{rows} with a key that nobody reads",
    LATE_META: "{rows} with a `meta` that is not the first event: it counts for nothing",
    CUT: "{rows} with a range that leaves its buffer: the range is cut to the buffer",
    NOTHING: "{rows} with a range that touches nothing: a tensor without a buffer, or neither a tensor nor a buffer",
    DENSE: "{rows} with ranges of too many separate pieces: each is taken as one span, and as approx",
    FREED_BACKEND: "{rows} that use a backend after it was freed: it keeps its actor",
    USE_AFTER_FREE: "use-after-free: {rows} that use a buffer after it was freed",
    HOST_NAME: "{rows} with a backend named HOST, which is reserved for host threads",
}

_BREACHES: Final = {
    SKIPPED: "{detail}: the row cannot be replayed",
    KEY: "{detail}",
    CUT: "the range {detail}, leaves its buffer",
    **dict.fromkeys(_UNDEFINED, "{detail} is used before any definition"),
    USE_AFTER_FREE: "use-after-free: {detail} is used after it was freed",
    HOST_NAME: "{detail}, which is reserved for host threads",
}
"""The same of one row, as strict mode says it."""


@dataclass(slots=True)
class _Tally:
    row: int
    detail: str
    count: int = 0
    last_row: int = -1
    idents: set[int] = field(default_factory=set)


class Diagnostics:
    """Counts what was met; `strict` raises at the first that the contract calls an error."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._tallies: dict[str, _Tally] = {}
        self.added = 0
        """Calls of `add` so far."""

    def add(self, kind: str, row: int, detail: str = "", ident: int = 0) -> None:
        """One occurrence in `row`; rows are counted once a kind, undefined ids once an id."""
        self.added += 1
        if self._strict and kind in STRICT:
            raise TraceError(f"row {row}: {_BREACHES[kind].format(detail=detail)}", row=row)
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._tallies[kind] = _Tally(row, detail)
        if kind in _UNDEFINED:
            tally.idents.add(ident)
        elif tally.last_row != row:
            tally.count += 1
            tally.last_row = row

    def count(self, kind: str) -> int:
        """Rows of a kind; for undefined ids the number of ids."""
        tally = self._tallies.get(kind)
        return 0 if tally is None else len(tally.idents) if kind in _UNDEFINED else tally.count

    def first(self, kind: str) -> str:
        """What was met first of a kind, empty for nothing."""
        tally = self._tallies.get(kind)
        return "" if tally is None else f"first in row {tally.row}: {tally.detail}"

    @property
    def late(self) -> bool:
        """Something was used that no row had defined: the recording began late."""
        return not _UNDEFINED.isdisjoint(self._tallies)

    def sentences(self) -> list[str]:
        """One sentence a kind, by the row in which the kind was first met."""
        met = sorted(self._tallies.items(), key=lambda entry: (entry[1].row, entry[0]))
        return [self._sentence(kind, tally) for kind, tally in met]

    def _sentence(self, kind: str, tally: _Tally) -> str:
        first = f"(first in row {tally.row}: {tally.detail})"
        if kind in _UNDEFINED:
            number = len(tally.idents)
            ids = f"{number} {kind} ids were" if number > 1 else f"1 {kind} id was"
            return f"{ids} used before any definition: the recording began late {first}"
        rows = f"{tally.count} rows" if tally.count > 1 else "1 row"
        return f"{_SENTENCES[kind].format(rows=rows)} {first}"
