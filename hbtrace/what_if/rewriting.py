"""A trace being rewritten: its events as a stream, and what a rule that changes it is.

A rule of `whatif` is a function from such a stream to another. Events keep their row of the recorded trace, inserted
ones have none, so that several rules can be put one behind the other and still mean the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

import pyarrow as pa

from hbtrace.explain.ways import Way
from hbtrace.trace.rows import batch_from_rows, rows_from_batch, rows_not_fitting
from hbtrace.what_if.state import Event, State

Entry = tuple[int, Event]
"""The row in the recorded trace, `INSERTED` for none, and the event."""

UNFIT: Final = " unfit"
"""Key of an event with values of the wrong type, which count as absent: what rules see of each key (None is nothing)
and what stands in the trace. Where no rule changed the key, that goes into what is written."""

_BATCH_ROWS: Final = 1 << 14


@dataclass(frozen=True)
class Wants:
    """What a rule asks to see. events: kinds. rows: these, whatever they are. ubatches: rows with another ubatch.

    nodes: graphs with their nodes, which cost more to decode than all else.
    """

    events: frozenset[str] = frozenset()
    rows: frozenset[int] = frozenset()
    ubatches: bool = False
    nodes: bool = False

    def __or__(self, other: Wants) -> Wants:
        return Wants(
            self.events | other.events, self.rows | other.rows, self.ubatches or other.ubatches,
            self.nodes or other.nodes,
        )  # fmt: skip


class Rule(Protocol):
    """One change of the rules. `price` is complete when the stream was read to its end."""

    price: Price
    lane: int
    threads: str | None

    @property
    def wants(self) -> Wants:
        """The rows that it looks at."""

    def apply(self, entries: Iterable[Entry]) -> Iterator[Entry]: ...

    def __str__(self) -> str: ...


@dataclass(slots=True)
class Price:
    """What a rule costs: waits that it adds, of the host and between queues, and bytes of memory."""

    waits: int = 0
    queue_waits: int = 0
    bytes: int = 0
    changed: int = 0
    """Events that are changed, moved or left out."""

    def __add__(self, other: Price) -> Price:
        return Price(
            self.waits + other.waits, self.queue_waits + other.queue_waits, self.bytes + other.bytes,
            self.changed + other.changed,
        )  # fmt: skip


@dataclass(kw_only=True)
class Ruling:
    """What every rule has beside its own. lane: its place among the rules of a rewriting, for the ids that they give
    out must differ. threads: how the trace is replayed, if not as it says itself.
    """

    price: Price = field(default_factory=Price)
    lane: int = 0
    threads: str | None = None

    def state(self) -> State:
        """For one pass over the stream."""
        return State(lane=self.lane, threads=self.threads)


def entries_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Entry]:
    """The events of a trace with their rows, as the replay reads them: what is of the wrong type is put aside."""
    row = 0
    for batch in batches:
        for event in _conformed(batch):
            yield row, event
            row += 1


def _conformed(batch: pa.RecordBatch) -> list[Event]:
    events = rows_from_batch(batch, fitting=True)
    numbers = rows_not_fitting(batch)
    if len(numbers):
        for number, whole in zip(numbers.tolist(), rows_from_batch(batch.take(pa.array(numbers))), strict=True):
            event = events[number]
            unfit = {
                key: (event.get(key), value)
                for key, value in whole.items()
                if key not in event or event[key] != value
            }
            if unfit:
                event[UNFIT] = unfit
    return events


def _as_recorded(event: Event) -> Event:
    """With the values of the wrong type, where no rule has set others."""
    if UNFIT not in event:
        return event
    whole = {key: value for key, value in event.items() if key != UNFIT}
    for key, (seen, value) in event[UNFIT].items():
        if whole.get(key) is seen:
            whole[key] = value
    return whole


def chained(rules: Sequence[Rule], entries: Iterable[Entry], threads: str | None = None) -> Iterator[Entry]:
    """One rule after the other. threads: as `Settings` has it."""
    for lane, rule in enumerate(rules):
        rule.lane, rule.threads = lane, threads
        entries = rule.apply(entries)
    return iter(entries)


def batches_of(entries: Iterable[Entry]) -> Iterator[pa.RecordBatch]:
    """The stream as batches again."""
    stream = iter(entries)
    while rows := [_as_recorded(event) for _, event in islice(stream, _BATCH_ROWS)]:
        yield batch_from_rows(rows)


def inserted(like: Event, ev: str, **keys: Any) -> Event:
    """An event to stand before or after `like`: of its thread, ubatch and time."""
    kept: Event = {key: like[key] for key in ("thread", "split", "ubatch", "time") if key in like}
    return {"ev": ev, **keys, **kept}


def waits_for(like: Event, queue: int, runner: int, ident: int, way: Way, price: Price) -> list[Event]:
    """The events by which a queue (`runner`; -1: the host) waits for all that `queue` was given. ident: of an event.

    Of what was done with its call the host knows that it is, and who is given work next does, too.
    """
    if way == "hand-over":
        return []
    if way == "drain":
        price.waits += 1
        return [inserted(like, "synchronize", backend=queue)]
    record = inserted(like, "event_record", backend=queue, event=ident)
    if way == "host":
        price.waits += 1
        return [record, inserted(like, "event_synchronize", event=ident)]
    price.queue_waits += 1
    return [record, inserted(like, "event_wait", backend=runner, event=ident)]
