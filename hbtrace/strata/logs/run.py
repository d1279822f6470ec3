"""What is known of a run of Strata: its requests, what was said once, and parts that are of no request yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath

from hbtrace.errors import TraceError
from hbtrace.strata.logs.lines import LayerHashes, StateHash, Timing, ToldLine, TraceLine


class CaptureError(TraceError):
    """A capture that cannot be of this run. The message names the capture, and the line if it is one line's fault."""


@dataclass
class TraceBlock:
    """One request's pipeline trace."""

    p0: int
    line: int
    steps: list[tuple[int, TraceLine]] = field(default_factory=list)


@dataclass
class Done:
    """`DONE <gen> <prompt> <prompt ms> <decode ms> <finish> <accepted> <offered> <reused>`."""

    generated: int
    prompt: int
    prompt_ms: float = 0.0
    decode_ms: float = 0.0
    finish: str = ""
    accepted: int = -1
    offered: int = -1
    reused: int = -1
    """Tokens of the session before that were used again; -1 where it is not told."""


@dataclass
class LoggedRequest:
    """What is known of one request. Lines are those of the capture in which each part stood; 0 is none."""

    tokens: list[int] = field(default_factory=list)
    done: Done | None = None
    error: str = ""
    block: TraceBlock | None = None
    hash: StateHash | None = None
    layers: LayerHashes | None = None
    timing: Timing | None = None
    timing_line: int = 0
    serial: str = ""
    resumed: bool = False
    reused: int = -1
    """What a line of its own says; `done` has it too."""
    line: int = 0

    @property
    def ended(self) -> bool:
        return self.done is not None or bool(self.error)


@dataclass
class Log:
    """A run: its requests, and what was said once."""

    requests: list[LoggedRequest] = field(default_factory=list)
    told: list[tuple[int, ToldLine]] = field(default_factory=list)
    lines: int = 0
    cut: bool = False
    """The last request has no end: a capture ends inside it."""
    unassigned: list[str] = field(default_factory=list)
    """What could not be given to a request, or only by a guess, as sentences."""
    loose: bool = False
    """Some summaries were given to no request."""
    crowded: str = ""
    """Why no pipeline trace was given to a request, where there are too many of both to look at."""
    captures: list[tuple[str, set[str]]] = field(default_factory=list)
    """Each capture's name, and what was found in it in words: a run has each of these once. "" is anything else."""
    places: dict[str, str] = field(default_factory=dict)
    """Where each kind of what was told stands first: the capture, if it has a name, and the line."""

    def was_serial(self, request: LoggedRequest) -> bool:
        """Whether a request without a pipeline trace had none to have: each reason is told once a run only."""
        if request.serial or request.timing is not None or self.loose:
            return bool(request.serial)
        return any(other.serial or other.timing is not None for other in self.requests)

    def values(self, what: str) -> list[ToldLine]:
        return [told for _, told in self.told if told.what == what]

    @property
    def ring(self) -> bool:
        return bool(self.values("engage"))

    @property
    def refused(self) -> str:
        found = self.values("refuse")
        return (found[0].values.get("why") or found[0].text) if found else ""

    @property
    def told_mode(self) -> bool:
        """Whether the mode is the log's word: the ring says so, and a start-up line without the ring is copy mode."""
        words = {told.what for _, told in self.told}
        return bool(words & {"engage", "refuse"}) or ("start" in words and "unclear" not in words)

    @property
    def unclear(self) -> list[str]:
        """What is said of the ring such that one cannot say whether it is on, as sentences."""
        return [
            f"line {line}: it does not say clearly whether the snapshot ring is on: {told.text!r}"
            for line, told in self.told if told.what == "unclear"
        ]  # fmt: skip

    @property
    def windows(self) -> int:
        started = self.values("start")
        return int(started[0].values["windows"]) if started else 2

    @property
    def names(self) -> dict[str, str]:
        """The capture's name by what was found in it, where there are several: a line number alone says little then."""
        if len(self.captures) == 1:
            return {}
        return {what: PurePath(name).name for name, found in self.captures for what in found}

    def only(self) -> None:
        """Raises `CaptureError` unless each capture has something of Strata, and nothing that another has as well."""
        owners: dict[str, str] = {}
        for name, found in self.captures:
            if not found:
                raise CaptureError(f"{name}: nothing of Strata is in it: leave it out")
            for what in sorted(found & owners.keys() - {""}):
                other = "it is given twice" if owners[what] == name else f"so has {owners[what]}: give one run's only"
                raise CaptureError(f"{name}: it has {what}, and {other}")
            owners |= dict.fromkeys(found, name)


@dataclass
class Parts:
    """The parts of one file, with where they stood."""

    replies: list[LoggedRequest] = field(default_factory=list)
    blocks: list[TraceBlock] = field(default_factory=list)
    hashes: list[tuple[int, StateHash]] = field(default_factory=list)
    layers: list[tuple[int, LayerHashes]] = field(default_factory=list)
    timings: list[tuple[int, Timing]] = field(default_factory=list)
    serial: list[tuple[int, str]] = field(default_factory=list)
    said: list[tuple[int, int, StateHash | LayerHashes | Timing | ToldLine]] = field(default_factory=list)
    """The capture, the line, and what it says of a request on standard error, in order."""
