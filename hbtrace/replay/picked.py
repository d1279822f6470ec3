"""Rows that an index chose (contract, section 10): from what an event says was picked to spans of bytes.

A run may name more rows than there is memory, so none is listed but those that have a byte between two bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from hbtrace.trace.columns import Range, Run

Span = tuple[int, int]
"""Half-open, of rows or of bytes."""


class Picked(NamedTuple):
    """The rows of a range that have a byte between two bounds, and whether there are others."""

    spans: list[Span]
    """Not cut to the bounds; they may overlap. Rows without a gap between them are one span."""
    outside: Span | None
    """The first row found that leaves the bounds."""
    dense: bool
    """There are more spans than were asked for: the one that is given holds them all."""


def anything_picked(asked: Range) -> bool:
    """Whether some row has a byte."""
    return asked.size > 0 and any(True for run in asked.picked or () for _ in _blocks(run, 0, None))


def rows_between(asked: Range, base: int, least: int, most: int, limit: int) -> Picked:
    """The rows of a range with bytes, of which row 0 begins at `base`, in at most `limit` spans."""
    runs, pitch, size = asked.picked or (), asked.pitch, asked.size

    def span(block: Span) -> Span:
        return base + block[0] * pitch, base + (block[1] - 1) * pitch + size

    fits = max(0, -((base - least) // pitch)), max(0, (most - size - base) // pitch + 1)
    beyond = (block for run in runs for part in ((0, fits[0]), (fits[1], None)) for block in _blocks(run, *part))
    outside = next((span((first, first + 1)) for first, _ in beyond), None)

    meets = max(0, (least - size - base) // pitch + 1), (most - 1 - base) // pitch + 1
    blocks = (block for run in runs for block in _blocks(run, *meets))
    if pitch > size:
        blocks = ((row, row + 1) for first, past in blocks for row in range(first, past))
    spans = list(islice(map(span, blocks), limit + 1))
    if len(spans) <= limit:
        return Picked(spans, outside, dense=False)
    ends = [_ends(run) for run in runs if run[1] >= 1 and run[2] >= 1]
    first, past = max(meets[0], min(low for low, _ in ends)), min(meets[1], max(high for _, high in ends))
    return Picked([span((first, past))], outside, dense=True)


def _blocks(run: Run, begin: int, end: int | None) -> Iterator[Span]:
    """The rows of a run that are in [begin, end), as far as they stand together."""
    first, count, repeat, step = run
    if count < 1 or repeat < 1 or (end is not None and begin >= end):
        return
    if step < 0:
        first, step = first + (repeat - 1) * step, -step
    if step <= count:  # each meets the next
        count, repeat, step = count + (repeat - 1) * step, 1, 1
    last = repeat - 1 if end is None else min(repeat - 1, (end - 1 - first) // step)
    for number in range(max(0, (begin - first - count) // step + 1), last + 1):
        low = first + number * step
        yield max(low, begin), low + count if end is None else min(low + count, end)


def _ends(run: Run) -> Span:
    """From its lowest row to past its highest, of a run that has some."""
    first, count, repeat, step = run
    last = first + (repeat - 1) * step
    return min(first, last), max(first, last) + count
