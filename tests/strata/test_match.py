"""Matching in order: held against all matchings of small cases."""

from __future__ import annotations

import random
from itertools import combinations

from hbtrace.strata.logs import match as strata_match
from hbtrace.strata.logs.match import Match, match


def matchings(rows: int, columns: int, costs: dict[tuple[int, int], int]) -> list[list[int]]:
    """Every one of the most pairs that costs least."""
    found: list[tuple[tuple[int, int], list[int]]] = []
    for count in range(min(rows, columns) + 1):
        for some in combinations(range(rows), count):
            for others in combinations(range(columns), count):
                pairs = list(zip(some, others, strict=True))
                if all(pair in costs for pair in pairs):
                    out = [-1] * rows
                    for row, column in pairs:
                        out[row] = column
                    found.append(((-count, sum(costs[pair] for pair in pairs)), out))
    least = min(value for value, _ in found)
    return [out for value, out in found if value == least]


def test_it_is_one_of_the_best_and_certain_is_certain() -> None:
    rng = random.Random(6)
    for _ in range(400):
        rows, columns = rng.randint(0, 4), rng.randint(0, 5)
        costs = {
            (row, column): rng.choice((0, 0, 1, 3))
            for row in range(rows) for column in range(columns) if rng.random() < 0.6
        }  # fmt: skip
        best = matchings(rows, columns, costs)
        found = match(rows, columns, lambda row, column, costs=costs: costs.get((row, column)))  # type: ignore[misc]
        assert found is not None
        assert [one.column for one in found] in best
        for row, one in enumerate(found):
            same = len({out[row] for out in best}) == 1
            assert one.certain or not same
            assert same or not one.certain


def test_too_many_are_not_looked_at(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(strata_match, "MOST_PAIRS", 5)
    assert match(2, 3, lambda _row, _column: 0) is None
    assert match(1, 5, lambda _row, _column: None) == [Match(-1, certain=True)]
