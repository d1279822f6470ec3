"""What a rule found, and the list that several rule families fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Event = dict[str, Any]

_NUMBERS: Final = frozenset(
    {"a", "attempt", "buffer", "buffers", "bytes", "dst", "keep", "layer_bytes", "layers", "line", "mirror", "on",
     "on_path", "ple_steps", "request", "rolled_back", "seq", "source", "speculative", "src", "stage", "tokens",
     "verifier", "windows", "word"}
)  # fmt: skip
_WORDS: Final = frozenset({"do", "kind", "side", "stream", "when"})
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "bind": ("stage", "verifier"), "capture": ("stage", "verifier"), "commit": ("stage", "seq", "verifier", "kind"),
    "flag": ("stage", "seq"), "request": ("do",), "ring": ("stage", "do"), "settle": ("stage",),
    "snap_take": ("stage",), "stage": ("stage",), "undo": ("seq",), "verdict": ("seq",),
    "window": ("stage", "seq", "do", "verifier"),
}  # fmt: skip
_PAIRS: Final = {"src": "dst", "dst": "src", "layers": "layer_bytes", "layer_bytes": "layers"}


def is_sound(what: str, attrs: dict[str, Any]) -> bool:
    """Whether a note of the protocol has the keys that its rules need, each of its type.

    Notes are free text as far as the contract goes: another program may write the same words and mean something else.
    """
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


class Finding(NamedTuple):
    """One breach of a rule. id: `strata.R1` and so on. rows: in the trace. line: in the log, 0 for none."""

    id: str
    severity: str
    rows: tuple[int, ...]
    message: str
    line: int = 0


@dataclass
class Findings:
    """In the order in which they were met."""

    found: list[Finding] = field(default_factory=list)

    def add(self, rule: str, severity: str, rows: tuple[int, ...], message: str, line: int = 0) -> None:
        text = f"line {line}: {message}" if line else message
        self.found.append(Finding(f"strata.{rule}", severity, rows, text, line))
