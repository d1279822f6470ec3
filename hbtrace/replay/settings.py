"""How a trace is replayed: one object, handed to whoever replays."""

from __future__ import annotations

from dataclasses import dataclass

from hbtrace.errors import UsageError
from hbtrace.trace.vocabulary import SETS


@dataclass(frozen=True, slots=True)
class Settings:
    """threads: `one` or `ordered`, None for the trace's own word. skip_weights: leave out accesses of weight buffers.
    strict: raise TraceError at the first breach of the contract. fold_layers: signatures do not tell layers apart.
    """

    threads: str | None = None
    skip_weights: bool = False
    strict: bool = False
    fold_layers: bool = False

    def __post_init__(self) -> None:
        known = SETS["meta", "threads"]
        if self.threads is not None and self.threads not in known:
            raise UsageError(f"threads is {', '.join(map(repr, sorted(known)))} or None, not {self.threads!r}")
