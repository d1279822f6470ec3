"""Notes of the protocol that rules can trust, and the list of breaches that several rule families fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_NUMBERS: Final = frozenset(
    {"a", "attempt", "buffer", "buffers", "bytes", "dst", "keep", "layer_bytes", "layers", "line", "mirror", "on",
     "on_path", "ple_steps", "request", "rolled_back", "seq", "source", "speculative", "src", "stage", "tokens",
     "verifier", "windows", "word"}
)  # fmt: skip
_WORDS: Final = frozenset({"capture", "do", "kind", "side", "stream", "when"})
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "bind": ("stage", "verifier"), "capture": ("stage", "verifier"), "commit": ("stage", "seq", "verifier", "kind"),
    "flag": ("stage", "seq"), "request": ("do",), "ring": ("stage", "do"), "settle": ("stage",),
    "snap_take": ("stage",), "stage": ("stage",), "undo": ("seq",), "verdict": ("seq",),
    "window": ("stage", "seq", "do", "verifier"),
}  # fmt: skip
READ: Final = frozenset(
    {"bind", "capture", "commit", "drain", "engage", "flag", "refuse", "request", "ring", "session", "settle",
     "snap_take", "stage", "state_hash", "state_hash_items", "strata", "summary", "undo", "verdict", "window"}
)  # fmt: skip
"""Notes that some rule or counter reads; what others hold is nobody's business here."""
_PAIRS: Final = {"src": "dst", "dst": "src", "layers": "layer_bytes", "layer_bytes": "layers"}


def is_sound(what: str, attrs: dict[str, Any]) -> bool:
    """Whether a note of the protocol has the keys that its rules need, each of its type.

    Notes are free text as far as the contract goes: another program may write the same words and mean something else.
    """
    if what not in READ:
        return True
    if any(key not in attrs for key in _NEEDED.get(what, ())):
        return False
    if what == "ring" and attrs["do"] not in ("drop", "clear") and "buffer" not in attrs:
        return False
    if not isinstance(attrs.get("state", []), list):
        return False
    numbers = what in ("state_hash", "state_hash_items")
    if not isinstance(attrs.get("stages", [] if numbers else 2), list if numbers else int):
        return False
    return all(
        (type(value) is int if key in _NUMBERS else isinstance(value, str) if key in _WORDS else True)
        and _PAIRS.get(key, key) in attrs
        for key, value in attrs.items()
    )


class Breach(NamedTuple):
    """One breach of a rule. id: `strata.R1` and so on. rows: in the trace. line: in the log, 0 for none."""

    id: str
    severity: str
    rows: tuple[int, ...]
    message: str
    line: int = 0


@dataclass
class Breaches:
    """In the order in which they were met."""

    found: list[Breach] = field(default_factory=list)

    def add(
        self, rule: str, severity: str, rows: tuple[int, ...], message: str, line: int = 0, capture: str = ""
    ) -> None:
        """capture: the name of the one that the line stands in, if the log had several."""
        place = f"{capture}, line {line}: " if capture else f"line {line}: "
        text = f"{place}{message}" if line else message
        self.found.append(Breach(f"strata.{rule}", severity, rows, text, line))
