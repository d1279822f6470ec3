"""The lines of one or several captures as requests: what was traced, hashed, timed and answered, each with its lines.

A run may be captured in one file, or the trace, standard error and standard output apart. Then what belongs to which
request is told by order, by lengths (`p0` beside the prompt, a hash's `L` beside prompt and reply) and by what standard
error says of a request before its hash. An error path writes no trace, and a serial request has none. What fits several
requests alike is given to none of them, or said to be a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field
from math import isfinite
from pathlib import PurePath
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
    broken,
    number,
    prefixes,
    record,
)
from hbtrace.importers.strata_match import Match, match


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
    reused: int = -1
    """Tokens of the session before that were used again; -1 where it is not told."""


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
    told: list[tuple[int, Told]] = field(default_factory=list)
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
class _Capture:
    """The parts of one file, with where they stood."""

    replies: list[LoggedRequest] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    hashes: list[tuple[int, StateHash]] = field(default_factory=list)
    layers: list[tuple[int, LayerHashes]] = field(default_factory=list)
    timings: list[tuple[int, Timing]] = field(default_factory=list)
    serial: list[tuple[int, str]] = field(default_factory=list)
    said: list[tuple[int, int, StateHash | LayerHashes | Timing | Told]] = field(default_factory=list)
    """The capture, the line, and what it says of a request on standard error, in order."""


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
    if iter(lines) is lines:
        lines = list(lines)
    before = prefixes(lines)
    for at, line in enumerate(broken(lines), 1):
        log.lines += 1
        try:
            found = record(line, before)
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
        log.cut = True
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
            if "ring" in told.values:  # a start-up line that says so too
                log.told.append((line, Told(told.values["ring"], told.text, {"why": told.values["why"]})))
            if told.what == "serial":
                parts.serial.append((line, told.values["why"]))
    if isinstance(found, StateHash | LayerHashes | Timing) or (isinstance(found, Told) and found.what == "serial"):
        parts.said.append((len(log.captures), line, found))


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
    elif said.what == "REUSED":
        current.reused = number(said.words[0]) if said.words and said.words[0].isdecimal() else -1
    elif said.what == "DONE":
        current.done = _done(said.words)
        if current.done.reused < 0:
            current.done.reused = current.reused


def _done(words: Sequence[str]) -> Done:
    kinds: list[tuple[str, Any]] = [
        ("generated", number), ("prompt", number), ("prompt_ms", _finite), ("decode_ms", _finite), ("finish", str),
        ("accepted", number), ("offered", number), ("reused", number),
    ]  # fmt: skip
    values: dict[str, Any] = {}
    for (name, kind), word in zip(kinds, words, strict=False):
        try:
            values[name] = kind(word)
        except ValueError:
            break
    return Done(**values)


def _finite(word: str) -> float:
    value = float(word)
    if not isfinite(value):
        raise ValueError
    return value


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
    replies = list(log.requests)
    hashes = int(_behind(log, _lines(parts.hashes)) and _nearer_behind(log, parts.hashes))
    timings = int(_behind(log, _lines(parts.timings)))
    kinds = (
        ([(block.line, block) for block in parts.blocks], 0), (parts.hashes, hashes), (parts.layers, hashes),
        (parts.timings, timings), (parts.serial, 0),
    )  # fmt: skip
    lines = [line for told, behind in kinds if not behind for line in _lines(told)]
    if any(_owner(line, replies) == len(replies) for line in lines):
        log.requests.append(LoggedRequest(line=max(lines)))
        log.cut = True
        if not log.unassigned:  # its tokens may have told already
            log.unassigned.append("the capture ends inside a request: it has no DONE")
    for told, behind in kinds:
        for line, found in told:
            _give(log.requests[_owner(line, replies) - behind], line, found)


def _give(request: LoggedRequest, line: int, found: Block | StateHash | LayerHashes | Timing | str) -> None:
    match found:
        case Block():
            request.block = found
        case StateHash():
            request.hash = found
        case LayerHashes():
            request.layers = found
        case Timing():
            request.timing, request.timing_line = found, line
        case _:
            request.serial = found


def _behind(log: Log, lines: Sequence[int]) -> bool:
    """Whether lines of a kind stand behind their requests' ends: none before the first, one behind the last."""
    ends = [request.line for request in log.requests]
    return bool(lines) and not log.cut and min(lines) > ends[0] and max(lines) > ends[-1]


def _nearer_behind(log: Log, hashes: Sequence[tuple[int, StateHash]]) -> bool:
    """Whether the hashes' lengths are not those of the requests that end behind them."""

    def away(shift: int) -> int:
        owners = [(found, _owner(line, log.requests) - shift) for line, found in hashes]
        told = (_beyond(found, log.requests[at].done) for found, at in owners if at < len(log.requests))
        return sum(1000 if each is None else each for each in told)

    return away(1) <= away(0)


def _by_order(log: Log, parts: _Capture) -> None:
    """Captures apart: in order, by what each request can have."""
    served = [request for request in log.requests if not request.error]
    _give_hashes(log, parts, served)
    spoken = parts.hashes and len({capture for capture, _, _ in parts.said}) == 1
    if spoken and sum(request.hash is not None for request in served) == len(parts.hashes):
        _give_by_hash(log, parts, served)
        _give_blocks(log, parts, served)
    else:
        _give_blocks(log, parts, served)
        _give_timings(log, parts, served)
        if len(parts.layers) == len(served):
            for request, (_, layers) in zip(served, parts.layers, strict=True):
                request.layers = layers
        for request, (_, why) in zip(_blockless(served), parts.serial, strict=False):
            request.serial = why


def _give_hashes(log: Log, parts: _Capture, served: Sequence[LoggedRequest]) -> None:
    """As many as there are requests: in order. Else by length, each where no other request would do as well."""
    if len(parts.hashes) == len(served):
        for request, (_, found) in zip(served, parts.hashes, strict=True):
            request.hash = found
        return
    given = match(
        len(parts.hashes), len(served), lambda at, number: _beyond(parts.hashes[at][1], served[number].done)
    )
    if given is None:
        log.unassigned.append(_too_many("state hashes", parts.hashes, "requests", served))
        return
    for (line, found), where in zip(parts.hashes, given, strict=True):
        if where.certain and where.column >= 0:
            served[where.column].hash = found
        else:
            length = found.items.get("L", "?")
            log.unassigned.append(f"line {line}: a state hash with L={length} is of no request that can be told")


def _too_many(rows: str, its: Sized, columns: str, others: Sized) -> str:
    return f"{len(its):,} {rows} and {len(others):,} {columns} are too many to tell which belong together"


def _beyond(found: StateHash, done: Done | None) -> int | None:
    """How far a hash's length is from that of a prompt and its reply, None for too far."""
    length = found.items.get("L", "")
    if done is None or not length.isdecimal():
        return 0
    beyond = abs(int(length) - done.prompt - done.generated)
    return beyond if beyond <= _LAST_WINDOW else None


_LAST_WINDOW = 16
"""Tokens that a session can be longer or shorter than its prompt and reply: the last window's."""


def _give_by_hash(log: Log, parts: _Capture, served: Sequence[LoggedRequest]) -> None:
    """What stands between two hashes is said of the later one's request, and of those between that have no hash."""
    numbers = {id(request.hash): number for number, request in enumerate(served) if request.hash is not None}
    # If the first is a hash and the last is none, the rest is said behind the hash.
    behind = isinstance(parts.said[0][2], StateHash) and not isinstance(parts.said[-1][2], StateHash | LayerHashes)
    first, newest = 0, -1
    items: list[tuple[int, Timing | Told]] = []
    for _, line, found in parts.said:
        if isinstance(found, LayerHashes):
            served[max(newest, 0)].layers = found
        elif isinstance(found, StateHash):
            newest = numbers[id(found)]
            end = newest if behind else newest + 1
            _give_items(log, items, served[first:end])
            first, items = end, []
        else:
            items.append((line, found))
    _give_items(log, items, served[first:])


def _give_items(log: Log, items: Sequence[tuple[int, Timing | Told]], requests: Sequence[LoggedRequest]) -> None:
    """Summaries and reasons: a request has one of either."""
    if len(items) != len(requests):
        for line, found in items:
            what = "a summary" if isinstance(found, Timing) else "a reason to decode serially"
            log.unassigned.append(f"line {line}: {what} is of no request that can be told")
            log.loose |= isinstance(found, Timing)
        return
    for (line, found), request in zip(items, requests, strict=True):
        _give(request, line, found if isinstance(found, Timing) else found.values["why"])


def _give_blocks(log: Log, parts: _Capture, served: Sequence[LoggedRequest]) -> None:
    """Traces to requests that can have one: by their prompts' lengths, and by who has a summary where that is told."""
    told = any(request.timing is not None for request in served)
    able = [request for request in served if not request.serial and (request.timing is not None or not told)]
    given: list[Match] | None
    if len(parts.blocks) == len(able) and all(map(_fits, parts.blocks, able)):
        given = [Match(number, certain=True) for number in range(len(able))]
    else:
        given = match(
            len(parts.blocks), len(able), lambda at, number: 0 if _fits(parts.blocks[at], able[number]) else None
        )
    if given is None:
        log.crowded = _too_many("pipeline traces", parts.blocks, "requests", able)
        log.unassigned.append(log.crowded)
        return
    for block, where in zip(parts.blocks, given, strict=True):
        name = f"line {block.line}: a pipeline trace with p0={block.p0}"
        if where.column < 0:
            log.unassigned.append(f"{name} fits no request")
            continue
        able[where.column].block = block
        if not where.certain:
            number = next(at for at, request in enumerate(log.requests) if request is able[where.column])
            log.unassigned.append(f"{name} fits several requests: taken as of request {number}")


def _give_timings(log: Log, parts: _Capture, served: Sequence[LoggedRequest]) -> None:
    """Summaries to requests that were traced: in order if there are as many, else by their windows."""
    traced = [request for request in served if request.block is not None]
    able = traced or served
    if len(able) == len(parts.timings):
        for request, (line, timing) in zip(able, parts.timings, strict=True):
            request.timing, request.timing_line = timing, line
        return
    given = match(
        len(parts.timings), len(traced), lambda at, number: _windows_of(parts.timings[at][1], traced[number].block)
    )
    if given is None:
        log.unassigned.append(_too_many("summaries", parts.timings, "pipeline traces", traced))
        log.loose = True
        return
    for (line, timing), where in zip(parts.timings, given, strict=True):
        if where.certain and where.column >= 0:
            traced[where.column].timing, traced[where.column].timing_line = timing, line
        else:
            log.unassigned.append(f"line {line}: a summary of {timing.windows} windows is of no trace that can be told")
            log.loose = True


def _windows_of(timing: Timing, block: Block | None) -> int | None:
    """0 where a trace has as many verdicts as its summary counts windows."""
    return 0 if block and sum(step.event == "V" for _, step in block.steps) == timing.windows else None


def _blockless(served: Iterable[LoggedRequest]) -> list[LoggedRequest]:
    return [request for request in served if request.block is None]


def _fits(block: Block, request: LoggedRequest) -> bool:
    return request.done is None or block.p0 + 1 == request.done.prompt


def _without_replies(log: Log, parts: _Capture) -> None:
    """No standard output: so many requests as there are traces, or else hashes or summaries."""
    log.requests = [LoggedRequest() for _ in range(max(len(parts.blocks), len(parts.hashes), len(parts.timings)))]
    _by_order(log, parts)
    for request in log.requests:
        request.line = request.block.line if request.block is not None else 0
