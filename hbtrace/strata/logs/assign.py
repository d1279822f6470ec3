"""Which part of a log belongs to which request.

A run may be captured in one file, or the trace, standard error and standard output apart. Then what belongs to which
request is told by order, by lengths (`p0` beside the prompt, a hash's `L` beside prompt and reply) and by what standard
error says of a request before its hash. An error path writes no trace, and a serial request has none. What fits several
requests alike is given to none of them, or said to be a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

from hbtrace.strata.logs.lines import LayerHashes, StateHash, Timing, ToldLine
from hbtrace.strata.logs.match import Match, match
from hbtrace.strata.logs.run import Done, Log, LoggedRequest, Parts, TraceBlock


def assign(log: Log, parts: Parts) -> None:
    """Give the parts to the requests, which are the replies if there are any."""
    if not parts.replies:
        _without_replies(log, parts)
    elif len(log.captures) == 1 and _interleaved(parts):
        log.requests = parts.replies
        _by_line(log, parts)
    else:
        log.requests = parts.replies
        _by_order(log, parts)


def _owner(line: int, requests: Sequence[LoggedRequest]) -> int:
    """In one capture, what stands before a reply's end belongs to it; behind the last, to one that was cut off."""
    return next((number for number, request in enumerate(requests) if request.line >= line), len(requests))


def _interleaved(parts: Parts) -> bool:
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


def _by_line(log: Log, parts: Parts) -> None:
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


def _give(request: LoggedRequest, line: int, found: TraceBlock | StateHash | LayerHashes | Timing | str) -> None:
    match found:
        case TraceBlock():
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


def _by_order(log: Log, parts: Parts) -> None:
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


def _give_hashes(log: Log, parts: Parts, served: Sequence[LoggedRequest]) -> None:
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


def _give_by_hash(log: Log, parts: Parts, served: Sequence[LoggedRequest]) -> None:
    """What stands between two hashes is said of the later one's request, and of those between that have no hash."""
    numbers = {id(request.hash): number for number, request in enumerate(served) if request.hash is not None}
    # If the first is a hash and the last is none, the rest is said behind the hash.
    behind = isinstance(parts.said[0][2], StateHash) and not isinstance(parts.said[-1][2], StateHash | LayerHashes)
    first, newest = 0, -1
    items: list[tuple[int, Timing | ToldLine]] = []
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


def _give_items(log: Log, items: Sequence[tuple[int, Timing | ToldLine]], requests: Sequence[LoggedRequest]) -> None:
    """Summaries and reasons: a request has one of either."""
    if len(items) != len(requests):
        for line, found in items:
            what = "a summary" if isinstance(found, Timing) else "a reason to decode serially"
            log.unassigned.append(f"line {line}: {what} is of no request that can be told")
            log.loose |= isinstance(found, Timing)
        return
    for (line, found), request in zip(items, requests, strict=True):
        _give(request, line, found if isinstance(found, Timing) else found.values["why"])


def _give_blocks(log: Log, parts: Parts, served: Sequence[LoggedRequest]) -> None:
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


def _give_timings(log: Log, parts: Parts, served: Sequence[LoggedRequest]) -> None:
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


def _windows_of(timing: Timing, block: TraceBlock | None) -> int | None:
    """0 where a trace has as many verdicts as its summary counts windows."""
    return 0 if block and sum(step.event == "V" for _, step in block.steps) == timing.windows else None


def _blockless(served: Iterable[LoggedRequest]) -> list[LoggedRequest]:
    return [request for request in served if request.block is None]


def _fits(block: TraceBlock, request: LoggedRequest) -> bool:
    return request.done is None or block.p0 + 1 == request.done.prompt


def _without_replies(log: Log, parts: Parts) -> None:
    """No standard output: so many requests as there are traces, or else hashes or summaries."""
    log.requests = [LoggedRequest() for _ in range(max(len(parts.blocks), len(parts.hashes), len(parts.timings)))]
    _by_order(log, parts)
    for request in log.requests:
        request.line = request.block.line if request.block is not None else 0
