"""The lines of one or several captures as requests: what was traced, hashed, timed and answered, each with its lines.

A run may be captured in one file, or the trace, standard error and standard output apart. Then what belongs to which
request is told by order, by `p0` beside the prompt's length, and by requests that failed (an error path writes no
trace) or were served serially (which have none).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hbtrace.errors import TraceError
from hbtrace.importers.strata_lines import (
    LayerHashes,
    Record,
    Said,
    StateHash,
    Timing,
    Told,
    TraceBegin,
    TraceLine,
    number,
    record,
)


class CaptureError(TraceError):
    """A capture that cannot be of this run. The message names the capture, and the line if it is one line's fault."""


@dataclass
class Block:
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
    reused: int = 0


@dataclass
class LoggedRequest:
    """What is known of one request. Lines are those of the capture in which each part stood; 0 is none."""

    tokens: list[int] = field(default_factory=list)
    done: Done | None = None
    error: str = ""
    block: Block | None = None
    hash: StateHash | None = None
    layers: LayerHashes | None = None
    timing: Timing | None = None
    timing_line: int = 0
    serial: str = ""
    resumed: bool = False
    line: int = 0

    @property
    def ended(self) -> bool:
        return self.done is not None or bool(self.error)


@dataclass
class Log:
    """A run: its requests, and what was said once."""

    requests: list[LoggedRequest] = field(default_factory=list)
    told: list[tuple[int, Told]] = field(default_factory=list)
    lines: int = 0
    unassigned: list[str] = field(default_factory=list)
    """What could not be given to a request, as sentences."""
    captures: list[tuple[str, set[str]]] = field(default_factory=list)
    """Each capture's name, and what was found in it in words: a run has each of these once. "" is anything else."""
    places: dict[str, str] = field(default_factory=dict)
    """Where each kind of what was told stands first: the capture, if it has a name, and the line."""

    def values(self, what: str) -> list[Told]:
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
        return any(told.what in _MODE_WORDS for _, told in self.told)

    @property
    def windows(self) -> int:
        started = self.values("start")
        return int(started[0].values["windows"]) if started else 2

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


_MODE_WORDS = ("start", "engage", "refuse")


@dataclass
class _Capture:
    """The parts of one file, with where they stood."""

    replies: list[LoggedRequest] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    hashes: list[tuple[int, StateHash]] = field(default_factory=list)
    layers: list[tuple[int, LayerHashes]] = field(default_factory=list)
    timings: list[tuple[int, Timing]] = field(default_factory=list)
    serial: list[tuple[int, str]] = field(default_factory=list)


def read_logs(captures: Sequence[Iterable[bytes]]) -> Log:
    """All captures of one run."""
    log, parts = Log(), _Capture()
    for at, lines in enumerate(captures, 1):
        path = getattr(lines, "path", None)
        log.captures.append((str(path or f"capture {at}"), set()))
        _read(lines, log, parts, "" if path is None else f"{path}: ")
    if not parts.replies:
        _without_replies(log, parts)
    elif len(captures) == 1 and _interleaved(parts):
        log.requests = parts.replies
        _by_line(log, parts)
    else:
        log.requests = parts.replies
        _by_order(log, parts)
    return log


def _read(lines: Iterable[bytes], log: Log, parts: _Capture, name: str) -> None:
    """One capture more. name: in front of what is wrong with one of its lines."""
    current = LoggedRequest()
    for at, line in enumerate(lines, 1):
        log.lines += 1
        try:
            found = record(line)
            if isinstance(found, Said):
                _say(found, current)
        except TraceError as error:
            raise CaptureError(f"{name}line {at}: {error}") from None
        if found is not None:
            log.captures[-1][1].add(_word_for(found))
            if isinstance(found, Told):
                log.places.setdefault(found.what, f"{name}line {at}")
            _keep(found, at, log, parts)
        if current.ended:
            current.line = at
            parts.replies.append(current)
            current = LoggedRequest()
    if current.tokens:
        log.unassigned.append(f"{len(current.tokens)} tokens after the last DONE: the capture ends inside a request")


def _keep(found: Record, line: int, log: Log, parts: _Capture) -> None:
    match found:
        case TraceBegin(p0):
            parts.blocks.append(Block(p0, line))
        case TraceLine() as step:
            if not parts.blocks:
                parts.blocks.append(Block(0, line))
            parts.blocks[-1].steps.append((line, step))
        case StateHash() as hashed:
            parts.hashes.append((line, hashed))
        case LayerHashes() as layers:
            parts.layers.append((line, layers))
        case Timing() as timing:
            parts.timings.append((line, timing))
        case Told() as told:
            log.told.append((line, told))
            if told.what == "serial":
                parts.serial.append((line, told.values["why"]))


def _word_for(found: Record) -> str:
    """What a record is a part of, of which a run has one; "" for what may stand in any capture."""
    match found:
        case TraceBegin() | TraceLine():
            return "a pipeline trace"
        case Said("T" | "DONE"):
            return "replies"
        case Told("start"):
            return "a start-up line"
        case StateHash() | LayerHashes():
            return "state hashes"
        case Timing():
            return "timing summaries"
    return ""


def _say(said: Said, current: LoggedRequest) -> None:
    if said.what == "T":
        current.tokens.append(number(said.words[0]))
    elif said.what == "ERR":
        current.error = " ".join(said.words) or "error"
    elif said.what == "RESUME":
        current.resumed = True
    elif said.what == "DONE":
        current.done = _done(said.words)


def _done(words: Sequence[str]) -> Done:
    kinds: list[tuple[str, Any]] = [
        ("generated", number), ("prompt", number), ("prompt_ms", float), ("decode_ms", float), ("finish", str),
        ("accepted", number), ("offered", number), ("reused", number),
    ]  # fmt: skip
    values: dict[str, Any] = {}
    for (name, kind), word in zip(kinds, words, strict=False):
        try:
            values[name] = kind(word)
        except ValueError:
            break
    return Done(**values)


def _owner(line: int, requests: Sequence[LoggedRequest]) -> int:
    """In one capture, what stands before a reply's end belongs to it; behind the last, to one that was cut off."""
    return next((number for number, request in enumerate(requests) if request.line >= line), len(requests))


def _interleaved(parts: _Capture) -> bool:
    """Whether one capture holds the parts as they were written, and not one file's behind another's."""
    requests = parts.replies
    for lines in ([block.line for block in parts.blocks], *(_lines(told) for told in (parts.hashes, parts.timings))):
        owners = [_owner(line, requests) for line in lines]
        if len(set(owners)) < len(owners):
            return False
    traced = {_owner(block.line, requests): block for block in parts.blocks}
    cut = traced.get(len(requests))
    return cut is None or not any(
        number not in traced and request.done is not None and _fits(cut, request)
        for number, request in enumerate(requests)
    )


def _lines(told: Iterable[tuple[int, Any]]) -> list[int]:
    return [line for line, _ in told]


def _by_line(log: Log, parts: _Capture) -> None:
    """One capture, as it was written."""
    last = len(log.requests)
    lines = [block.line for block in parts.blocks] + [
        line for told in (parts.hashes, parts.layers, parts.timings, parts.serial) for line in _lines(told)
    ]
    if any(_owner(line, log.requests) == last for line in lines):
        log.requests.append(LoggedRequest(line=max(lines)))
        if not log.unassigned:  # its tokens may have told already
            log.unassigned.append("the capture ends inside a request: it has no DONE")

    def owner(line: int) -> LoggedRequest:
        return log.requests[_owner(line, log.requests)]

    for block in parts.blocks:
        owner(block.line).block = block
    for line, found in parts.hashes:
        owner(line).hash = found
    for line, layers in parts.layers:
        owner(line).layers = layers
    for line, timing in parts.timings:
        request = owner(line)
        request.timing, request.timing_line = timing, line
    for line, why in parts.serial:
        owner(line).serial = why


def _by_order(log: Log, parts: _Capture) -> None:
    """Captures apart: in order, by what each request can have."""
    served = [request for request in log.requests if not request.error]
    at = 0
    for block in parts.blocks:
        fitting = [number for number in range(at, len(served)) if _fits(block, served[number])]
        if not fitting:
            log.unassigned.append(f"line {block.line}: a pipeline trace with p0={block.p0} fits no request")
            continue
        served[fitting[0]].block = block
        at = fitting[0] + 1
    for request, (_, found) in zip(served, parts.hashes, strict=False):
        request.hash = found
    for request, (_, layers) in zip(served, parts.layers, strict=False):
        request.layers = layers
    _timings([request for request in served if request.block is not None] or served, parts)
    if len(parts.hashes) not in (0, len(served)):
        log.unassigned.append(f"{len(parts.hashes)} state hashes for {len(served)} requests: taken in order")


def _fits(block: Block, request: LoggedRequest) -> bool:
    return request.done is None or block.p0 + 1 == request.done.prompt


def _timings(requests: Sequence[LoggedRequest], parts: _Capture) -> None:
    for request, (line, timing) in zip(requests, parts.timings, strict=False):
        request.timing, request.timing_line = timing, line


def _without_replies(log: Log, parts: _Capture) -> None:
    """No standard output: a request is a trace, or else a hash."""
    log.requests = [LoggedRequest(block=block, line=block.line) for block in parts.blocks]
    while len(log.requests) < max(len(parts.hashes), len(parts.timings)):
        log.requests.append(LoggedRequest())
    for request, (_, found) in zip(log.requests, parts.hashes, strict=False):
        request.hash = found
    for request, (_, layers) in zip(log.requests, parts.layers, strict=False):
        request.layers = layers
    _timings(log.requests, parts)
