"""What stood in one capture, given to the requests that stood in another: in order, where numbers tell, or not at all.

What it is: the longest matching of two sequences that keeps their order and costs least, and which of its pairs is
certain. What it is not: it knows no line of a log; costs are its caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

MOST_PAIRS: Final = 1_000_000
"""Rows times columns that are looked at; beyond, nothing is told."""

Cost = Callable[[int, int], int | None]
"""Of a row and a column; None where they cannot be one."""

_PAIR: Final = 1 << 60
"""More than all costs together: one pair more is worth any."""


class Match(NamedTuple):
    """Of each row its column, -1 for none. certain: another matching that is as good gives it no other."""

    column: int
    certain: bool


def match(rows: int, columns: int, cost: Cost) -> list[Match] | None:
    """Each row's column, the earliest where several are as good; None for more pairs than are looked at."""
    if rows * columns > MOST_PAIRS:
        return None
    best = _best(rows, columns, cost)
    before = _best(rows, columns, lambda row, column: cost(rows - 1 - row, columns - 1 - column))

    def choices(row: int) -> int:
        """How many columns, none being one, the row has in some best matching."""
        ahead, after = before[rows - row], best[row + 1]
        out = any(ahead[columns - at] + after[at] == best[0][0] for at in range(columns + 1))
        paid = ((column, cost(row, column)) for column in range(columns))
        return out + sum(
            ahead[columns - column] + _PAIR - each + after[column + 1] == best[0][0]
            for column, each in paid if each is not None
        )  # fmt: skip

    return [Match(column, choices(row) == 1) for row, column in enumerate(_walk(best, rows, columns, cost))]


def _best(rows: int, columns: int, cost: Cost) -> list[list[int]]:
    """What the rows and columns from a place on are worth at best."""
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        here, below = best[row], best[row + 1]
        for column in range(columns - 1, -1, -1):
            paid = cost(row, column)
            pair = -1 if paid is None else _PAIR - paid + below[column + 1]
            here[column] = max(below[column], here[column + 1], pair)
    return best


def _walk(best: list[list[int]], rows: int, columns: int, cost: Cost) -> list[int]:
    """One of the best matchings: each row in the earliest column that is left to it."""
    out = [-1] * rows
    row = column = 0
    while row < rows and column < columns:
        paid = cost(row, column)
        if paid is not None and best[row][column] == _PAIR - paid + best[row + 1][column + 1]:
            out[row] = column
            row, column = row + 1, column + 1
        elif best[row][column] == best[row][column + 1]:
            column += 1
        else:
            row += 1
    return out
