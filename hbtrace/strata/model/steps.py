"""What a run of the pipelined loop did, in the engine's own steps: made by a plan, or read out of a log.

What it is: the shared language of the planner (`strata_plan`), the engine model (`strata_engine`), the log writer and
the importer. What it is not: it says nothing of buffers, streams or edges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_TOKENS: Final = 16
"""Tokens of a window at most; the seed's parity test covers one to eight."""

COPY: Final = "copy"
RING: Final = "ring"


class LoopStep(NamedTuple):
    """One step of the loop. op: launch `L`, finished `F`, verdict `V`, undo `U`, or a gate or late guess `C`."""

    op: str
    stage: int = 0
    seq: int = 0
    tokens: int = 0
    spec: bool = False
    accepted: int = 0
    """Of a verdict: accepted drafts, one less than what is kept."""
    on: int = 0
    """1 the next window's guess was right, -1 wrong, 0 it was not launched."""
    keep: int = 0
    line: int = 0
    """In the pipeline trace, from 1; 0 if the step came from no log."""
    time: float = 0.0
    """Milliseconds since the loop started."""
    forced: bool = False
    kind: str = ""
    """Of a gate line, as the log prints it."""
    value: int = 0


@dataclass
class Request:
    """One request. A pipelined one reads its prompt in windows, then runs `steps`; a serial one has `serial`."""

    number: int = 0
    pipelined: bool = True
    why: str = ""
    """Why it was served serially."""
    untraced: bool = False
    """Nothing is known of how it was served: its log has no trace of it, and should have."""
    fresh: bool = False
    """A new session: the state is zeroed first."""
    resume: bool = False
    """The state is restored from what was parked."""
    prompt: list[int] = field(default_factory=list)
    """Tokens of each window of the prompt."""
    steps: list[LoopStep] = field(default_factory=list)
    serial: list[tuple[int, int]] = field(default_factory=list)
    """(tokens, kept) of each window that ran serially."""
    finish: str = "stop"
    """`stop`, `length` or `error`."""
    after: str = ""
    """`checkpoint` or `park` once it is through."""
    p0: int = 0
    line: int = 0

    @property
    def kept(self) -> int:
        """Tokens that its verdicts and serial windows kept."""
        return sum(step.accepted + 1 for step in self.steps if step.op == "V") + sum(kept for _, kept in self.serial)


@dataclass(frozen=True)
class RunShape:
    """What stays the same over a run. layer_bytes: of one layer's state, as the model really holds it."""

    mode: str = RING
    stages: int = 2
    windows: int = 2
    """The depth: so many windows may be in flight."""
    layers: int = 3
    layer_bytes: int = 64
    fault: str = ""
    state_hash: bool = False
    """Print state hashes after each request. The synchronization before it hides copy-3."""
    refused: str = ""
    """Why the ring was refused, so that copy mode is kept."""

    @property
    def state_bytes(self) -> int:
        return self.layers * self.layer_bytes

    @property
    def ring(self) -> bool:
        return self.mode == RING and not self.refused

    @property
    def last(self) -> int:
        return self.stages - 1

    @property
    def kept_apart(self) -> int:
        """Buffers that a front stage's state can be in."""
        return self.windows + 1


@dataclass
class Observed:
    """What the host saw while a tape was carried out; a schedule's result beside the memory it leaves."""

    replies: dict[int, bytearray] = field(default_factory=dict)
    """By request: the rows of all tokens that were kept."""
    hashes: dict[int, dict[str, int]] = field(default_factory=dict)
    """By request: the state-hash items."""
    saved: list[bytes] = field(default_factory=list)
    """What checkpoints and parking read."""

    def clear(self) -> None:
        """Before another schedule."""
        for reply in self.replies.values():
            reply.clear()  # not the table: actions of the tape hold its values
        self.hashes.clear()
        self.saved.clear()
