"""The lines of one or several captures as a run: what was traced, hashed, timed and answered of each request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from hbtrace.errors import TraceError
from hbtrace.strata.logs.assign import assign
from hbtrace.strata.logs.lines import (
    LayerHashes,
    LogRecord,
    Said,
    StateHash,
    Timing,
    ToldLine,
    TraceBegin,
    TraceLine,
    broken,
    number,
    prefixes,
    record,
)
from hbtrace.strata.logs.run import CaptureError, Done, Log, LoggedRequest, Parts, TraceBlock


def read_logs(captures: Sequence[Iterable[bytes]]) -> Log:
    """All captures of one run."""
    log, parts = Log(), Parts()
    for at, lines in enumerate(captures, 1):
        path = getattr(lines, "path", None)
        log.captures.append((str(path or f"capture {at}"), set()))
        _read(lines, log, parts, "" if path is None else f"{path}: ")
    assign(log, parts)
    return log


def _read(lines: Iterable[bytes], log: Log, parts: Parts, name: str) -> None:
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
            if isinstance(found, ToldLine):
                log.places.setdefault(found.what, f"{name}line {at}")
            _keep(found, at, log, parts)
        if current.ended:
            current.line = at
            parts.replies.append(current)
            current = LoggedRequest()
    if current.tokens:
        log.cut = True
        log.unassigned.append(f"{len(current.tokens)} tokens after the last DONE: the capture ends inside a request")


def _keep(found: LogRecord, line: int, log: Log, parts: Parts) -> None:
    match found:
        case TraceBegin(p0):
            parts.blocks.append(TraceBlock(p0, line))
        case TraceLine() as step:
            if not parts.blocks:
                parts.blocks.append(TraceBlock(0, line))
            parts.blocks[-1].steps.append((line, step))
        case StateHash() as hashed:
            parts.hashes.append((line, hashed))
        case LayerHashes() as layers:
            parts.layers.append((line, layers))
        case Timing() as timing:
            parts.timings.append((line, timing))
        case ToldLine() as told:
            log.told.append((line, told))
            if "ring" in told.values:  # a start-up line that says so too
                log.told.append((line, ToldLine(told.values["ring"], told.text, {"why": told.values["why"]})))
            if told.what == "serial":
                parts.serial.append((line, told.values["why"]))
    if isinstance(found, StateHash | LayerHashes | Timing) or (isinstance(found, ToldLine) and found.what == "serial"):
        parts.said.append((len(log.captures), line, found))


def _word_for(found: LogRecord) -> str:
    """What a record is a part of, of which a run has one; "" for what may stand in any capture."""
    match found:
        case TraceBegin() | TraceLine():
            return "a pipeline trace"
        case Said("T" | "DONE"):
            return "replies"
        case ToldLine("start"):
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
