"""The smallest set of mends that removes every race, each tried by replay.

Mends are the rules of `whatif` that the causes call for, for each cause the bare edge that it lacks and the waits that
its advice names, and where one or two rows are between all racing sides, a wait there. A set is an answer if the trace
replays without a selected race and without a new one under it. Sets are tried by size, so that the first answers are
the smallest; where every smaller set of these mends was tried, the answer is called minimal. There may be other mends:
minimal is a word on those tried. Where there are too many, mends are taken greedily and those that turn out to be
needless are dropped again.

The smallest set may be blunt: one wait at each write costs more than an edge where a race is. So the bare edges of all
causes are an answer as well, the last, where none before it is as cheap in every respect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from math import comb
from shlex import quote
from typing import Final

from hbtrace.backends import runs_beside
from hbtrace.explain.causes import Cause
from hbtrace.explain.mends import advice
from hbtrace.explain.ways import Way, way_between
from hbtrace.races.filters import Filters
from hbtrace.races.natures import is_host
from hbtrace.replay.settings import Settings
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.pin import Pin
from hbtrace.what_if.rewriting import Price, Rule
from hbtrace.what_if.ring import Ring
from hbtrace.what_if.rules import CopyOn, Wait
from hbtrace.what_if.whatif import Batches, Side, WhatIf, side_of, whatif, whatifs

MOST_REPLAYS: Final = 300
"""Sets tried one by one; beyond, the search is greedy."""
_MOST_ROWS: Final = 200_000
"""Of a longer trace only single mends and greedy sets are tried."""
_MOST_ANSWERS: Final = 6
MOST_CAUSES: Final = 64
"""Causes that have fixes of their own tried, those with the most reports: each is a replay of the trace."""
_MOST_ADVISED: Final = 6
"""Waits before a tensor that are tried: each is a replay."""
_MOST_EDGES: Final = 32
"""Of more causes the bare edges of all are no answer beside the others: nobody takes over so many mends by hand."""
_MOST_ROWS_BETWEEN: Final = 2
"""Rows at which one wait is tried; where more are needed, races come back with each ubatch."""

_HOW: Final[dict[Way, str]] = {
    "event": "event", "host": "event", "drain": "synchronize", "hand-over": "release and acquire",
}  # fmt: skip


@dataclass(frozen=True)
class Mend:
    """One change. option: how the command line spells it. rule: makes a new rule at each call."""

    name: str
    option: str
    rule: Callable[[], Rule]
    bare: bool = False
    """The edge that a cause lacks, in its lightest way."""

    @property
    def edge(self) -> bool:
        """Whether it waits at single races, and so is nothing that an engine could do as it is."""
        return self.option.startswith("--edge ")


@dataclass
class Answer:
    """A set of mends under which the trace is clean. removes: causes by id, of each mend alone.

    minimal: no set of fewer of the search's mends is clean, all of them were tried. None of its mends can be left out
    in any case.
    """

    mends: list[Mend]
    removes: dict[str, list[str]]
    result: WhatIf
    minimal: bool

    @property
    def price(self) -> Price:
        return self.result.price


@dataclass
class Fix:
    """All answers found, cheapest first, of sets of `mends`; `tried` replays were needed. limits: what was not tried,
    in sentences."""

    before: Side
    answers: list[Answer] = field(default_factory=list)
    tried: int = 0
    mends: list[Mend] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)


def fix(
    batches: Batches, settings: Settings | None = None, filters: Filters | None = None, *, before: Side | None = None
) -> Fix:
    """Search. Without a race there is nothing to mend and no answer."""
    how = settings or Settings()
    first = before or side_of(batches(), how, filters)
    search = _Search(batches, how, filters, first)
    return search.run()


def mends_for(side: Side) -> list[Mend]:
    """The mends that the causes call for, those of the engine's own making first."""
    natures = {cause.nature for cause in side.causes}
    mends: list[Mend] = []
    if "input" in natures:
        depths = range(2, max(3, min(4, max(max(c.steps, default=1) for c in side.causes) + 1) + 1))
        mends += [Mend(f"input ring of depth {n}", f"--ring {n}", lambda n=n: Ring(n)) for n in depths]  # type: ignore[misc]
    if "reuse" in natures:
        mends.append(Mend("keep memory in use out of the reuse pool", "--pin", Pin))
    if "copy" in natures:
        mends += _copying(side)
    if any(cause.ubatches - {-1} for cause in side.causes):
        mends.append(Mend("synchronize at each ubatch boundary", "--sync ubatch", lambda: Wait("ubatch")))
    chosen = _looked_at(side)
    for cause in chosen:
        mends += _own(cause, side)
    advised = dict.fromkeys(wait for cause in chosen for wait in _advised(cause))
    return mends + [_wait(*wait) for wait in (*islice(advised, _MOST_ADVISED), *_between(side))]


def _looked_at(side: Side) -> list[Cause]:
    """The causes that get fixes of their own, in their order."""
    if len(side.causes) <= MOST_CAUSES:
        return side.causes
    most = sorted(range(len(side.causes)), key=lambda place: (-len(side.causes[place].reports), place))
    return [side.causes[place] for place in sorted(most[:MOST_CAUSES])]


def _copying(side: Side) -> Iterator[Mend]:
    """Other queues for copies, as far as the backends of those that race can do it."""
    queues = side.recording.queues
    reports = (report for cause in side.causes if cause.nature == "copy" for report in cause.reports)
    pairs = {(report.earlier.actor, report.current.actor) for report in reports}
    between = [(first, then) for first, then in pairs if not (is_host(first) or is_host(then))]
    if all(way_between(queues, *pair) == "event" for pair in between):
        name = "copies on the source's queue wait for the destination's"
        yield Mend(name, "--after-dst", lambda: CopyOn(None, after_dst=True))
    if all(runs_beside(queues.get(actor, {})) for pair in between for actor in pair):
        yield Mend("copies run on the destination's queue", "--copy-on dst", lambda: CopyOn("dst"))


def _advised(cause: Cause) -> Iterator[tuple[str, str]]:
    """The waits that the advice on a cause names: an option and a point."""
    for rule in advice(cause).rules:
        option, _, point = rule.partition(" ")
        if option in ("--sync", "--event") and point.startswith("before:"):
            yield option, point


def _between(side: Side) -> list[tuple[str, str]]:
    """The fewest rows such that one is between the sides of each race: a wait for all that runs orders them there."""
    rows: list[int] = []
    for report in sorted((r for cause in side.causes for r in cause.reports), key=lambda report: report.current.row):
        if not rows or rows[-1] <= report.earlier.row:
            rows.append(report.current.row)
    return [("--sync", f"row:{row}") for row in rows] if len(rows) <= _MOST_ROWS_BETWEEN else []


def _wait(option: str, point: str) -> Mend:
    kind, _, what = point.partition(":")
    sync = option == "--sync"
    where = f"row {what}" if kind == "row" else f"{what} is written"
    name = f"wait for all that runs before {where} ({'synchronize' if sync else 'event'})"
    return Mend(name, f"{option} {quote(point)}", partial(Wait, point, "synchronize" if sync else "event"))


def _own(cause: Cause, side: Side) -> Iterable[Mend]:
    """The missing edge itself, in its lightest way, and as a stall of the host where that is another."""
    lightest, stalls = (edges_for(cause, side.recording, stall=stall) for stall in (False, True))
    for edges in (lightest, stalls)[: 1 + (lightest.points != stalls.points)]:
        bare = edges is lightest
        option = f"--edge {cause.ident}" + ("" if bare else "=sync")
        rule = partial(edges_for, cause, side.recording, stall=not bare)
        yield Mend(f"{edges.name} ({_HOW[edges.way]})", option, rule, bare)


class _Search:
    def __init__(self, batches: Batches, settings: Settings, filters: Filters | None, before: Side) -> None:
        self._batches = batches
        self._settings = settings
        self._filters = filters
        self._before = before
        self._known = {report.canonical for report in before.recording.reports}
        self._results: dict[tuple[int, ...], WhatIf] = {}
        self._out = Fix(before, mends=mends_for(before) if before.causes else [])

    def run(self) -> Fix:
        if not self._before.causes:
            return self._out
        if (causes := len(self._before.causes)) > MOST_CAUSES:
            self._out.limits.append(
                f"{causes:,} causes: fixes of their own were tried for the {MOST_CAUSES} with the most reports only;"
                " fix those and record again"
            )
        places = range(len(self._out.mends))
        self._try_all([(place,) for place in places])
        found, proven = self._by_size(len(places))
        if not found:
            found = [chosen] if self._clean(chosen := self._greedy()) else []
        if not found:
            self._out.tried = len(self._results)
            return self._out
        least = min(map(len, found))
        answers = [
            self._answer(chosen, proven=len(chosen) == 1 or (proven and len(chosen) == least)) for chosen in found
        ]
        self._out.answers = _cheapest(answers)
        self._out.answers += self._exact(self._out.answers)
        self._out.tried = len(self._results)
        return self._out

    def _by_size(self, count: int) -> tuple[list[tuple[int, ...]], bool]:
        """The smallest clean sets, while all sets of a size can be tried."""
        budget = MOST_REPLAYS
        for size in range(1, count + 1):
            if size > 1 and (comb(count, size) > budget or self._before.recording.rows > _MOST_ROWS):
                return [], False
            budget -= comb(count, size) if size > 1 else 0
            found = [chosen for chosen in combinations(range(count), size) if self._clean(chosen)]
            if found:
                return found + self._larger(found, count, size + 1, budget), True
        return [], False

    def _larger(self, found: list[tuple[int, ...]], count: int, size: int, budget: int) -> list[tuple[int, ...]]:
        """Sets of one mend more, none of which can be left out: they may have another price."""
        if comb(count, size) > budget or self._before.recording.rows > _MOST_ROWS:
            return []
        rivals = [c for c in combinations(range(count), size) if not any(set(f) <= set(c) for f in found)]
        return [chosen for chosen in rivals if self._clean(chosen)]

    def _exact(self, shown: list[Answer]) -> list[Answer]:
        """The bare edges of all causes, if no shown answer is at least as cheap in every respect."""
        edges = self._bare()
        if not 1 < len(edges) <= _MOST_EDGES or not self._clean(edges):
            return []
        if any(_no_dearer(answer, self._answer(edges, proven=False)) for answer in shown):
            return []
        self._try_all([tuple(other for other in edges if other != place) for place in edges])
        answer = self._answer(self._needed(edges), proven=False)
        return [] if any(_no_dearer(other, answer) for other in shown) else [answer]

    def _bare(self) -> tuple[int, ...]:
        return tuple(place for place, mend in enumerate(self._out.mends) if mend.bare)

    def _try_all(self, sets: list[tuple[int, ...]]) -> None:
        """All in one pass over the trace."""
        new = [chosen for chosen in sets if chosen not in self._results]
        variants = [[self._out.mends[place].rule() for place in chosen] for chosen in new]
        found = whatifs(self._batches, variants, self._settings, self._filters, before=self._before)
        self._results.update(zip(new, found, strict=True))

    def _try(self, chosen: tuple[int, ...]) -> WhatIf:
        if chosen not in self._results:
            rules = [self._out.mends[place].rule() for place in chosen]
            self._results[chosen] = whatif(self._batches, rules, self._settings, self._filters, before=self._before)
        return self._results[chosen]

    def _clean(self, chosen: tuple[int, ...]) -> bool:
        """No selected race is left, and none is new."""
        result = self._try(chosen)
        return not result.after.causes and self._adds_nothing(result)

    def _adds_nothing(self, result: WhatIf) -> bool:
        return all(report.canonical in self._known for report in result.after.recording.reports)

    def _greedy(self) -> tuple[int, ...]:
        """Mends that remove the most, until nothing is left; then without those that are needless.

        Only mends that make no race of their own take part. Should they not do together, the bare edges of all causes
        always do: more order never makes a race.
        """
        useful = [place for place in range(len(self._out.mends)) if self._adds_nothing(self._try((place,)))]
        chosen: tuple[int, ...] = ()
        while useful and not (chosen and self._clean(chosen)):
            left = {cause.ident for cause in (self._try(chosen).after if chosen else self._before).causes}
            best = max(useful, key=lambda place: (len(left.intersection(self._removes(place))), -place))
            useful.remove(best)
            chosen = tuple(sorted((*chosen, best)))
        if not self._clean(chosen):
            chosen = self._bare()
        return self._needed(chosen) if self._clean(chosen) else chosen

    def _needed(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """A clean set without the mends that can be left out."""
        for place in chosen:
            fewer = tuple(other for other in chosen if other != place)
            if fewer and self._clean(fewer):
                chosen = fewer
        return chosen

    def _removes(self, place: int) -> list[str]:
        return [cause.ident for cause in self._try((place,)).removed]

    def _answer(self, chosen: tuple[int, ...], *, proven: bool) -> Answer:
        mends = [self._out.mends[place] for place in chosen]
        removes = {mend.name: self._removes(place) for mend, place in zip(mends, chosen, strict=True)}
        return Answer(mends, removes, self._try(chosen), proven)


def _cheapest(answers: list[Answer]) -> list[Answer]:
    """Those that no other beats at every price, fewest waits first. Of the smallest sets the cheapest is always among
    them, before all others; and, so that there is a rule to build by, the cheapest without edges of single races."""
    costs = [_cost(answer) for answer in answers]
    size = min(len(answer.mends) for answer in answers)
    smallest = sorted(place for place, answer in enumerate(answers) if len(answer.mends) == size)
    smallest.sort(key=costs.__getitem__)
    rules = [place for place in smallest if not any(mend.edge for mend in answers[place].mends)]
    shown = {smallest[0], *rules[:1]}
    kept = [
        (cost, place)
        for place, cost in enumerate(costs)
        if place in shown
        or not any(_beats(other, cost) or (other == cost and k < place) for k, other in enumerate(costs))
    ]
    kept.sort(key=lambda entry: (entry[1] != smallest[0], not answers[entry[1]].minimal, entry))
    chosen = sorted((place for _, place in kept), key=lambda place: place not in shown)[:_MOST_ANSWERS]
    return [answers[place] for _, place in kept if place in chosen]


def _cost(answer: Answer) -> tuple[int, ...]:
    """Waits between queues cost little beside what they order: they count after that."""
    price, after = answer.price, answer.result.after.pace
    return (
        price.waits, -after.side_by_side, price.queue_waits, price.bytes, -(after.beside or 0), -after.in_flight,
    )  # fmt: skip


def _no_dearer(one: Answer, other: Answer) -> bool:
    return all(a <= b for a, b in zip(_cost(one), _cost(other), strict=True))


def _beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
