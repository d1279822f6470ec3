"""Tables: aligned columns, and what becomes of a table that is wider than the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hbtrace.escape import harmless
from hbtrace.report.fit import NARROWEST, fit, wrap

_NARROWEST_COLUMN: Final = 12
"""Of a column that is cut: enough of a name to know it by."""
_NARROWEST_PROSE: Final = 24
"""Of a last column that is wrapped: less is a ladder of single words."""
_TWO_LINES: Final = 72
"""Characters of a terminal from which on two lines hold a race."""
_HANGING: Final = 4


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), width: int | None = None
) -> list[str]:
    """Aligned columns, two spaces apart, nothing at the ends of lines; no name in a cell breaks one.

    width: characters of a line of the terminal; what is longer loses the middle of its longest words, `attn_...mask`.
    """
    cells = [[harmless(cell) for cell in row] for row in [head, *rows]]
    widths = _widths(cells)
    if width is not None:
        widths = _cut(widths, head, width)
        cells = [[_elided(cell, w) for cell, w in zip(row, widths, strict=True)] for row in cells]
    return [_line(row, widths, right) for row in cells]


def fitted(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), width: int | None
) -> list[str]:
    """A table where it fits in `width` characters (None: anywhere), and nothing is lost where it does not.

    If it is the last column that is too wide, that one is wrapped. Else each row is a record: its cells one below the
    other, each with its heading.
    """
    lines = table(head, rows, right=right)
    if width is None or width < NARROWEST or max(map(len, lines)) <= width:
        return lines
    cells = [[harmless(cell) for cell in row] for row in [head, *rows]]
    widths = _widths(cells)
    room = width - sum(w + 2 for w in widths[:-1])
    if room >= _NARROWEST_PROSE:
        return [line for row in cells for line in _last_wrapped(row, widths, right, room)]
    return _records(cells[0], cells[1:], width)


def of_races(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    below: str,
    right: frozenset[int] = frozenset(),
    width: int | None,
) -> list[str]:
    """As `fitted`, but a row that is too wide goes on in a second line: a list of races shall be one to look over.

    below: the heading of the column that begins the second line, if both lines then fit.
    """
    lines = table(head, rows, right=right)
    if width is None or width < _TWO_LINES or max(map(len, lines)) <= width:
        return fitted(head, rows, right=right, width=width)
    cells = [[harmless(cell) for cell in row] for row in [head, *rows]]
    widths = _widths(cells)
    for first in (head.index(below), *range(len(head) - 1, 0, -1)):
        if max(_room(widths[:first]), _HANGING + _room(widths[first:])) <= width:
            lower = frozenset(k - first for k in right)
            return [
                line
                for row in cells
                for line in (
                    _line(row[:first], widths[:first], right),
                    " " * _HANGING + _line(row[first:], widths[first:], lower),
                )
            ]
    return [line for row in cells for line in fit("  ".join(cell or "-" for cell in row), width).split("\n")]


def _room(widths: Sequence[int]) -> int:
    """Characters of columns beside each other."""
    return sum(widths) + 2 * (len(widths) - 1)


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = [
        f"{cell:>{w}}" if k in right else f"{cell:<{w}}" for k, (cell, w) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _last_wrapped(row: Sequence[str], widths: Sequence[int], right: frozenset[int], room: int) -> list[str]:
    first, *more = _wrapped(row[-1], room)
    indent = " " * sum(w + 2 for w in widths[:-1])
    return [_line([*row[:-1], first], widths, right), *(indent + line for line in more)]


def _records(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A column without a heading says more about the one before it, and stands beside it."""
    out: list[str] = []
    key = max(map(len, head)) + 2
    for row in rows:
        fields: list[tuple[str, str]] = []
        for title, cell in zip(head, row, strict=True):
            if title or not fields:
                fields.append((title, cell))
            else:
                fields[-1] = (fields[-1][0], f"{fields[-1][1]}  {cell}")
        out += [""] if out else []
        for title, cell in fields:
            first, *more = _wrapped(cell, max(1, width - key))
            out += [f"{title:<{key}}{first}".rstrip(), *(" " * key + line for line in more)]
    return out


def _wrapped(cell: str, room: int) -> list[str]:
    """Lines of a cell, at least one; a word that is too long stays whole."""
    return wrap(cell, room) or [""]


def _cut(widths: list[int], head: Sequence[str], width: int) -> list[int]:
    """Widths that fit in a line, the widest column cut first; what cannot be made to fit stays as it is."""
    out = list(widths)
    least = [min(w, max(_NARROWEST_COLUMN, len(title))) for w, title in zip(widths, head, strict=True)]
    spare = width - 2 * (len(widths) - 1)
    if sum(least) > spare:
        return widths
    while sum(out) > spare:
        out[max((w, k) for k, w in enumerate(out) if w > least[k])[1]] -= 1
    return out


def _elided(cell: str, width: int) -> str:
    if len(cell) <= width:
        return cell
    tail = (width - 3) // 2
    return f"{cell[: width - 3 - tail]}...{cell[-tail:]}"
