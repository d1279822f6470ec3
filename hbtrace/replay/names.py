"""What actors, tensors and buffers are called, by the row that asks.

Names leave the way of the data in the lowering, stay behind here, and come back in the reports.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

HOST_NAME: Final = "HOST"


class History:
    """Values by row: what was in force at a row. Kept only where a value changed."""

    __slots__ = ("rows", "values")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.values: list[tuple[str, int]] = []

    def put(self, row: int, value: tuple[str, int]) -> None:
        if not self.values or self.values[-1] != value:
            self.rows.append(row)
            self.values.append(value)

    def at(self, row: int) -> tuple[str, int] | None:
        """The value in force at `row`, None before the first."""
        index = bisect_right(self.rows, row) - 1
        return self.values[index] if index >= 0 else None

    def forget_before(self, row: int) -> None:
        """Drop what no row from `row` on can ask for."""
        index = bisect_right(self.rows, row) - 1
        if index > 0:
            del self.rows[:index], self.values[:index]


class Names:
    """Names of actors, tensors and buffers for the reports; tensors and buffers by row."""

    def __init__(self) -> None:
        self.actors: list[str] = []
        self.families: list[str] = []
        """An actor's name without the `#n` that is added to tell actors of one name apart."""
        self._same: dict[str, int] = {}
        self.tensors: dict[int, History] = {}
        """(name, view_of) by tensor id."""
        self.spaces: dict[int, History] = {}
        """(buffer name, buffer id) by space."""

    def new_actor(self, family: str, suffix: str = "") -> int:
        """A new actor: its number. It is printed with the suffix; signatures know its family alone."""
        self.families.append(family)
        self.actors.append(family + suffix)
        return len(self.actors) - 1

    def new_queue(self, name: str) -> int:
        """The actor of a `backend` row: its number. The n-th later row of a name is printed as `name#n`."""
        count = self._same.get(name, 0)
        self._same[name] = count + 1
        return self.new_actor(name, f"#{count}" if count else "")

    def put_tensor(self, ident: int, row: int, name: str, view_of: int) -> None:
        self.tensors.setdefault(ident, History()).put(row, (name, view_of))

    def put_space(self, space: int, row: int, name: str, ident: int) -> None:
        self.spaces.setdefault(space, History()).put(row, (name, ident))

    def tensor(self, ident: int, row: int) -> tuple[str, int]:
        """(name, id of its root) of a tensor at a row; a view of a view is followed to its root.

        A tensor to which a cycle of views leads back is its own root (contract section 9).
        """
        first = self._tensor(ident, row)
        return first[0], follow(ident, lambda t: self._tensor(t, row)[1])

    def _tensor(self, ident: int, row: int) -> tuple[str, int]:
        history = self.tensors.get(ident)
        return (history.at(row) if history else None) or (f"?{ident}", -1)

    def buffer(self, space: int, row: int) -> tuple[str, int]:
        """(name, id) of the buffer whose life `space` is, at a row."""
        return self.spaces[space].at(row) or ("?", -1)

    def forget_before(self, row: int) -> None:
        for history in (*self.tensors.values(), *self.spaces.values()):
            history.forget_before(row)


def follow(ident: int, parent: Callable[[int], int]) -> int:
    """The root of a chain of views. On a cycle it is the first tensor of the cycle that the chain reaches."""
    seen = {ident}
    while (above := parent(ident)) != -1:
        ident = above
        if ident in seen:
            return ident
        seen.add(ident)
    return ident
