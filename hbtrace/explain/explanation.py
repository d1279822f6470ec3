"""`explain` as a function: everything there is to say about one race of a triage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from hbtrace.consequence.taint import Consequence, Trail, Verdict, trail
from hbtrace.errors import TraceError
from hbtrace.explain.causes import Cause, Window, window_of
from hbtrace.explain.chain import Chain, chain_of
from hbtrace.explain.mends import Advice, advice
from hbtrace.explain.row_words import rows_in_words
from hbtrace.explain.schedule import Lines, lines_of
from hbtrace.explain.triage import Triage, triage, wanted_of, worst_of
from hbtrace.explain.witness import Witness, witness
from hbtrace.importers.source import open_source
from hbtrace.replay.recording import Recording
from hbtrace.replay.reports import Access, Report

_NEIGHBOURS = 2


@dataclass(frozen=True)
class Explanation:
    """One race in full. others: how many more reports the id stands for; races: of how many distinct races they all
    are; means: of what they all are; which: the place of this one among them, from 1; effects: how many of them come
    to what, of those that were judged. words: rows in words.

    around: for the earlier and the current side the rows next to it in its actor's program, itself among them.
    """

    path: str
    ident: str
    report: Report
    others: int
    cause: Cause
    advice: Advice
    consequence: Consequence
    window: Window
    chain: Chain
    witness: Witness
    around: tuple[list[int], list[int]]
    words: dict[int, str]
    trail: Trail
    actors: list[str]
    races: int
    means: Literal["race", "cause", "row"]
    which: int
    effects: Counter[Verdict]


def explain_race(path: str, ident: str, **settings: Any) -> Explanation:
    """One race of a trace in full. ident: a distinct race's `R-...`, a root cause's `C-...`, or a racing row's number.

    settings: those of `Settings`, by name. Raises TraceError as `triage` does, UsageError where no race has the id.
    """
    found = triage(path, **settings)
    return explain(found, wanted_of(found, ident), open_source(path).batches)


def explain(
    found: Triage, reports: list[Report], batches: Callable[[], Iterable[pa.RecordBatch]]
) -> Explanation:
    """The worst of `reports` (see `triage.wanted_of`) in full; the trace is read once more for its rows' words."""
    if found.reported:
        raise TraceError(f"{found.path}: {found.reported}: no race of it can be explained")
    place, recording = worst_of(found, reports), found.recording
    report = reports[place]
    lines = lines_of(recording)
    cause = next(cause for cause in found.causes if report in cause.reports)
    chain, shown = chain_of(recording, report), witness(recording, report, lines)
    around = tuple(_around(recording, lines, side) for side in (report.earlier, report.current))
    rows = {row for side in around for row in side} | {lane.row for lane in shown.lanes}
    rows |= {link.row for link in chain.links} | {chain.learns_at, chain.knows_since}
    rows |= {chain.stale.wait, *chain.stale.issued} if chain.stale is not None else set()
    rows |= {version[0] for version in (*shown.recorded, *shown.seen) if version is not None}
    spread = trail(recording, report)
    rows.add(spread.doubt)
    races = len({one.signature for one in reports})
    return Explanation(
        found.path, found.ids[report.canonical], report, len(reports) - 1, cause, advice(cause),
        found.consequence_of(report), window_of(report, recording), chain, shown, (around[0], around[1]),
        rows_in_words(batches(), rows - {-1}), spread, recording.actors, races,
        "race" if races == 1 else "cause" if reports == cause.reports else "row", place + 1, found.effects_of(reports),
    )  # fmt: skip


def _around(recording: Recording, lines: Lines, side: Access) -> list[int]:
    """Rows of the actor's own program next to the access."""
    actor = recording.actors.index(side.actor)
    rows = list(dict.fromkeys(its.row for its in lines.operations if its.actor == actor))
    at = rows.index(side.row)
    return rows[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]
