"""`whatif` as a function: the same trace under other rules, before and after by root cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from hbtrace.explain.causes import Cause, causes_of
from hbtrace.races.filters import Filters
from hbtrace.races.unmatched import check_recording
from hbtrace.replay.recording import Recording, record
from hbtrace.replay.settings import Settings
from hbtrace.what_if.overlap import Pace, pace_of
from hbtrace.what_if.rewriting import Entry, Price, Rule, batches_of, chained, entries_of
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.variants import replayed

Batches = Callable[[], Iterable[pa.RecordBatch]]
"""The trace, again from its beginning at each call."""


@dataclass
class Side:
    """A replay: its races and their root causes, without what the filters hide."""

    recording: Recording
    causes: list[Cause]
    pace: Pace

    @property
    def races(self) -> int:
        return sum(len(cause.reports) for cause in self.causes)

    @property
    def distinct(self) -> int:
        return len({report.signature for cause in self.causes for report in cause.reports})

    @property
    def left_out(self) -> int:
        """Reports that the filters hide."""
        return len(self.recording.reports) - self.races


@dataclass
class WhatIf:
    """Before and after. rules: as they are spelled on the command line. price: of all rules together. warnings: of the
    trace, and what no race tells of the rules."""

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


def rewrite(batches: Batches, rules: Sequence[Rule], threads: str | None = None) -> Iterator[Entry]:
    """The events under the rules, one rule after the other. threads: as `Settings` has it."""
    return chained(rules, entries_of(batches()), threads)


def side_of(batches: Iterable[pa.RecordBatch], settings: Settings, filters: Filters | None = None) -> Side:
    """Replay a trace as it is. Raises NothingToJudgeError where it has no access, UsageError for a filter that matches
    no name of it."""
    return _as_it_is(record(batches, settings), filters)


def _as_it_is(recording: Recording, filters: Filters | None) -> Side:
    recording.demand_accesses()
    check_recording(filters, recording)
    return _side(recording, filters)


def _side(recording: Recording, filters: Filters | None) -> Side:
    return Side(recording, causes_of(recording, filters), pace_of(recording))


def whatif(
    batches: Batches, rules: Sequence[Rule], settings: Settings | None = None, filters: Filters | None = None,
    *, before: Side | None = None,
) -> WhatIf:  # fmt: skip
    """Replay a trace as it is and under the rules. before: the first of the two, if it is known already."""
    return whatifs(batches, [rules], settings, filters, before=before)[0]


def whatifs(
    batches: Batches, variants: Sequence[Sequence[Rule]], settings: Settings | None = None,
    filters: Filters | None = None, *, before: Side | None = None,
) -> list[WhatIf]:  # fmt: skip
    """As `whatif`, for several sets of rules: the trace is read once for all of them, where the rules allow it."""
    how = settings or Settings()
    patched: list[Recording | None] = [None] * len(variants)
    if before is None or variants:
        recording, patched = replayed(batches(), variants, how, base=before is None)
    first = before or _as_it_is(recording, filters)
    return [_compared(batches, rules, how, filters, first, its) for rules, its in zip(variants, patched, strict=True)]


def _compared(
    batches: Batches, rules: Sequence[Rule], settings: Settings, filters: Filters | None, first: Side,
    patched: Recording | None,
) -> WhatIf:  # fmt: skip
    if patched is None:
        for rule in rules:
            rule.price = Price()  # it began to count
        patched = record(batches_of(rewrite(batches, rules, settings.threads)), settings)
    second = _side(patched, filters)
    price = reduce(lambda a, b: a + b, (rule.price for rule in rules), Price())
    told = [sentence for rule in rules if isinstance(rule, Ring) for sentence in rule.warnings]
    return WhatIf(first, second, [str(rule) for rule in rules], price, [*patched.warnings, *told])
