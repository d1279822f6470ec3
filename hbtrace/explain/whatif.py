"""`whatif` as a function: the same trace under other rules, before and after by root cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from hbtrace.compare.select import Filters
from hbtrace.explain.causes import Cause, causes_of
from hbtrace.explain.draft import Entry, Price, Rule, batches_of, entries_of
from hbtrace.explain.pace import Pace, pace_of
from hbtrace.explain.recording import Recording, Settings, record

Batches = Callable[[], Iterable[pa.RecordBatch]]
"""The trace, again from its beginning at each call."""


@dataclass
class Side:
    """A replay: its races and their root causes."""

    recording: Recording
    causes: list[Cause]
    pace: Pace

    @property
    def races(self) -> int:
        return sum(len(cause.reports) for cause in self.causes)

    @property
    def distinct(self) -> int:
        return len({report.signature for cause in self.causes for report in cause.reports})


@dataclass
class WhatIf:
    """Before and after. rules: as they are spelled on the command line. price: of all rules together."""

    before: Side
    after: Side
    rules: list[str]
    price: Price
    warnings: list[str] = field(default_factory=list)

    @property
    def removed(self) -> list[Cause]:
        """Causes that are gone."""
        left = {cause.ident for cause in self.after.causes}
        return [cause for cause in self.before.causes if cause.ident not in left]

    @property
    def added(self) -> list[Cause]:
        """Causes that only the rules make."""
        known = {cause.ident for cause in self.before.causes}
        return [cause for cause in self.after.causes if cause.ident not in known]


def rewrite(batches: Batches, rules: Sequence[Rule]) -> Iterator[Entry]:
    """The events under the rules, one rule after the other."""
    stream: Iterable[Entry] = entries_of(batches())
    return iter(reduce(lambda entries, rule: rule.apply(entries), rules, stream))


def side_of(batches: Iterable[pa.RecordBatch], settings: Settings, filters: Filters | None = None) -> Side:
    """Replay one side."""
    recording = record(batches, settings)
    causes = causes_of(recording)
    if filters:
        for cause in causes:
            cause.reports = [report for report in cause.reports if filters.accepts(report)]
        causes = [cause for cause in causes if cause.reports]
    return Side(recording, causes, pace_of(recording))


def whatif(
    batches: Batches, rules: Sequence[Rule], settings: Settings | None = None, filters: Filters | None = None,
    *, before: Side | None = None,
) -> WhatIf:  # fmt: skip
    """Replay a trace as it is and under the rules. before: the first of the two, if it is known already."""
    how = settings or Settings()
    first = before or side_of(batches(), how, filters)
    second = side_of(batches_of(rewrite(batches, rules)), how, filters)
    price = reduce(lambda a, b: a + b, (rule.price for rule in rules), Price())
    return WhatIf(first, second, [str(rule) for rule in rules], price, second.recording.warnings)
