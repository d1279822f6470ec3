"""The smallest trace that still shows a race: valid, and nothing in it can be left out.

Mostly it shows only this race. Where the two sides are nodes of one graph that is computed on both, leaving out an
access takes it from both, so that another race of the graph may stay beside it.

First a guess: the definitions in force at the two sides and the two sides. Where this does not race as the whole trace
does, everything up to the current side is the start. Then events are left out, many at once and at last one by one,
then nodes, ranges and keys, as long as the race is still there and no rule of the contract is broken. What it is cut
from must be whole: a row that names what the recording does not define breaks a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from hbtrace.errors import HbtraceError, UsageError
from hbtrace.replay.reports import Report, Signature
from hbtrace.replay.session import analyze_events
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import rows_from_batch
from hbtrace.trace.vocabulary import EventRow

_BYSTANDERS: Final = ("time", "site", "started_at", "producer", "engine", "engine_version", "command", "env", "notes")
_DEFINING: Final = {"backend": "id", "buffer": "id", "tensor": "id", "graph": "id"}

Test = Callable[[list[EventRow]], bool]


def minimize(batches: Iterable[pa.RecordBatch], report: Report, settings: Settings | None = None) -> list[EventRow]:
    """The events of the smallest trace with this race, which shows when it is read without any settings for threads.

    Raises UsageError for a race that only a broken trace has.
    """
    how = settings or Settings()
    test = _same_race(report, how)
    recorded = (rows_from_batch(batch, fitting=True) for batch in _until(batches, report.current.row))
    events = list(chain.from_iterable(recorded))[: report.current.row + 1]
    start = _told(_slice(events, report), how)
    if not test(start):
        start = _told([dict(event) for event in events], how)
        if not test(start):
            raise UsageError("this race needs rows that break a rule of the format: no valid trace shows it alone")
    for index in range(len(start)):  # first what names the most other rows
        start = _fewer_lists(start, index, test)
    start = _shrunk(start, test)
    start = _without_third_parties(start, report.buffer_id, test)
    start = _shrunk(_simpler(start, test), test)
    return _looser(start, _same_race(report, how, exactly=False))


def _told(events: list[EventRow], settings: Settings) -> list[EventRow]:
    """How threads were to be read is said by the trace itself: whoever has it may not know."""
    if settings.threads is None:
        return events
    named = bool(events) and events[0].get("ev") == "meta"
    meta: EventRow = events[0] if named else {"ev": "meta", "version": 1}
    return [meta | {"threads": settings.threads}, *events[named:]]


def _until(batches: Iterable[pa.RecordBatch], row: int) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        if first > row:
            return
        yield batch
        first += batch.num_rows


def _looser(events: list[EventRow], test: Test) -> list[EventRow]:
    """What only kept the number of bytes as it was goes, too: events, nodes and ranges, but not their sizes."""
    for index in range(len(events)):
        events = _fewer_lists(events, index, test)
        if isinstance(events[index].get("nodes"), list):
            events = _slimmer(events, index, test)
    return _shrunk(events, test)


def _same_race(report: Report, settings: Settings, *, exactly: bool = True) -> Test:
    """Whether events break no rule, give no warning, and show the race; exactly: of the same bytes."""
    wanted = _look(report)

    def test(events: list[EventRow]) -> bool:
        try:
            found = analyze_events(
                events, skip_weights=settings.skip_weights, strict=True, fold_layers=settings.fold_layers
            )
        except HbtraceError:
            return False
        looks = list(map(_look, found.reports))
        return not found.warnings and (wanted in looks if exactly else any(look[0] == wanted[0] for look in looks))

    return test


def _look(report: Report) -> tuple[Signature, int, int, int]:
    return report.signature, report.lo, report.hi, report.bytes


def _slice(events: list[EventRow], report: Report) -> list[EventRow]:
    """The two sides, each after the definitions that are in force there."""
    kept: set[int] = set()
    for row in (report.earlier.row, report.current.row):
        kept.add(row)
        kept |= _definitions(events, row)
    if events and events[0].get("ev") == "meta":
        kept.add(0)
    return [dict(events[row]) for row in sorted(kept)]


def _definitions(events: list[EventRow], row: int) -> set[int]:
    """Rows of the newest definitions before `row` of what it needs, and of what these need."""
    newest: dict[tuple[str, int], int] = {}
    for at in range(row):
        ev = events[at].get("ev")
        if ev in _DEFINING and "id" in events[at]:
            newest[ev, events[at].get("id", -1)] = at
    found: set[int] = set()
    todo = list(_needs(events[row]))
    while todo:
        at = newest.get(todo.pop(), -1)
        if at >= 0 and at not in found:
            found.add(at)
            todo += _needs(events[at])
    return found


def _needs(event: EventRow) -> Iterator[tuple[str, int]]:
    """What ids an event or a range in it names."""
    for key, value in event.items():
        if key in ("backend", "src_backend") and isinstance(value, int):
            yield "backend", value
        elif key in ("tensor", "view_of") and isinstance(value, int):
            yield "tensor", value
        elif key in ("buffer", "graph") and isinstance(value, int):
            yield key, value
        elif isinstance(value, dict):
            yield from _needs(value)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, dict):
                    yield from _needs(element)


def _shrunk(items: list[Any], test: Callable[[list[Any]], bool]) -> list[Any]:
    """Nothing of the result can be left out alone. Large pieces are tried first."""
    size = max(1, len(items) // 2)
    while True:
        at, changed = 0, False
        while at < len(items):
            fewer = items[:at] + items[at + size :]
            if test(fewer):
                items, changed = fewer, True
            else:
                at += size
        if size == 1 and not changed:
            return items
        size = max(1, size // 2) if not changed or size > 1 else 1


def _without_third_parties(events: list[EventRow], buffer: int, test: Test) -> list[EventRow]:
    """The other end of a transfer, and the other backend of a copy, where they have no part in the race.

    The key must stay, so it is made to name nothing that the race does not need.
    """
    nothing = {"buffer": buffer, "size": 0}
    for index, event in enumerate(events):
        changes: list[EventRow] = [{key: nothing} for key in ("src", "dst", "host_range") if key in event]
        if "src_backend" in event:
            changes.append({"backend": event["src_backend"]})
        for change in changes:
            changed = [*events[:index], events[index] | change, *events[index + 1 :]]
            events = changed if test(changed) else events
    return events


def _simpler(events: list[EventRow], test: Test) -> list[EventRow]:
    """Nodes, ranges and keys that are not needed go; names of bystanders with them."""
    for index in range(len(events)):
        events = _fewer_lists(events, index, test)
        if isinstance(events[index].get("nodes"), list):
            events = _slimmer(events, index, test)
        for key in [key for key in events[index] if key != "ev"]:
            fewer = {k: v for k, v in events[index].items() if k != key}
            if key in _BYSTANDERS or test([*events[:index], fewer, *events[index + 1 :]]):
                events = [*events[:index], fewer, *events[index + 1 :]]
    return events


def _fewer_lists(events: list[EventRow], index: int, test: Test) -> list[EventRow]:
    for key in ("nodes", "reads", "writes"):
        if isinstance(events[index].get(key), list):
            events = _shorter(events, index, key, test)
    return events


def _shorter(events: list[EventRow], index: int, key: str, test: Test) -> list[EventRow]:
    def still(items: list[Any]) -> bool:
        return test([*events[:index], events[index] | {key: items}, *events[index + 1 :]])

    return [*events[:index], events[index] | {key: _shrunk(events[index][key], still)}, *events[index + 1 :]]


def _slimmer(events: list[EventRow], index: int, test: Test) -> list[EventRow]:
    """Within the nodes that are left, the ranges and keys that are needed."""
    for place, node in enumerate(events[index]["nodes"]):
        if not isinstance(node, dict):
            continue
        for key in list(node):
            lesser = [{k: v for k, v in node.items() if k != key}]
            if isinstance(node[key], list):
                lesser += [node | {key: [one]} for one in node[key]]
            for candidate in lesser:
                nodes = [*events[index]["nodes"]]
                nodes[place] = candidate
                changed = [*events[:index], events[index] | {"nodes": nodes}, *events[index + 1 :]]
                if test(changed):
                    events, node = changed, candidate
                    break
    return events
