"""What each of Strata's rules looks at, counted: a rule that met nothing of it holds nothing.

What it is: a table of nouns and a counter over the notes. What it is not: a judgement of any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

_SPECULATIVE, _IN_PLACE, _UNDO, _SERIAL = (
    "speculative ring commit", "in-place ring commit", "ring undo", "serial ring commit",
)  # fmt: skip
_COMMIT, _READ, _VERDICT, _SETTLE = "commit", "word read", "verdict", "settle"
WINDOW: Final = "window"
"""Of decode, launched on stage 0."""

LOOKED_AT: Final[dict[str, str]] = {
    "R1": _SPECULATIVE, "R2": _SPECULATIVE, "R3": _SPECULATIVE, "R4": _IN_PLACE, "R5": _UNDO, "R6": _UNDO,
    "R7": _SPECULATIVE, "R8": _COMMIT, "P1": _SPECULATIVE, "P2": _READ, "P3": "ring session write", "W1": _READ,
    "W2": _READ, "W3": _SETTLE, "W4": "bound verifier", "W5": "bound verifier", "M1": _COMMIT, "M2": WINDOW,
    "M3": "flag", "C1": WINDOW, "C2": WINDOW, "C3": WINDOW, "C4": "ple_prev count", "C5": WINDOW,
    "S1": "ring request", "S2": _SETTLE, "S3": _SETTLE, "S4": _SERIAL, "S5": _SETTLE, "X1": WINDOW, "X2": "mode line",
    "T1": WINDOW, "T2": _VERDICT, "T3": WINDOW, "T4": _VERDICT, "T5": WINDOW, "T6": _VERDICT, "T7": WINDOW,
    "T8": "summary line", "T9": WINDOW,
}  # fmt: skip
"""By rule, what it looks at."""

_NOTES: Final = {
    "settle": _SETTLE, "bind": "bound verifier", "flag": "flag", "verdict": _VERDICT, "summary": "summary line",
    "engage": "mode line", "refuse": "mode line",
}  # fmt: skip
_COMMITS: Final = {"spec commit": _SPECULATIVE, "undo commit": _UNDO, "serial commit": _SERIAL, "last commit": ""}


class Looked:
    """Counts the notes of a trace by what rules look at."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._ring = False

    def feed(self, what: str, attrs: dict[str, Any]) -> None:
        """The next sound note."""
        self._ring |= what == "engage"
        self.counts.update(noun for noun in self._nouns(what, attrs) if noun)

    def _nouns(self, what: str, attrs: dict[str, Any]) -> Iterator[str]:
        do, kind = attrs.get("do"), attrs.get("kind", "")
        yield _NOTES.get(what, "")
        if what == "window" and do == "launch":
            yield WINDOW if attrs.get("stage") == 0 and attrs.get("kind", "decode") == "decode" else ""
            yield _READ if "word" in attrs else ""
        elif what == "commit":
            yield _COMMIT
            yield _COMMITS.get(kind, _IN_PLACE) if "src" in attrs else ""
            yield "ple_prev count" if "ple_steps" in attrs else ""
        elif what == "session" and do in ("zero", "restore") and self._ring:
            yield "ring session write"
        elif what == "request" and do == "end" and self._ring:
            yield "ring request"
