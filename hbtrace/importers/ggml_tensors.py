"""Tensor ids for a log that knows tensors only by name.

What it is: the table that gives every (buffer, tensor name) an id and an address, and moves it when the log
shows the name elsewhere. What it is not: an allocator model; a name that means two tensors in turn is one id
that moves, which no replay can tell from the truth, since the ranges are the log's.
"""

from __future__ import annotations

from collections.abc import Iterator

from hbtrace.importers.ggml_lines import AccessLine
from hbtrace.trace.vocabulary import EventRow


class _Place:
    __slots__ = ("id", "offset", "size")

    def __init__(self, number: int) -> None:
        self.id, self.offset, self.size = number, -1, -1

    def holds(self, access: AccessLine, whole: bool) -> bool:
        if whole:
            return (self.offset, self.size) == (access.offset, access.size)
        return self.offset <= access.offset and access.offset + access.size <= self.offset + self.size


class Tensors:
    """Ids by (buffer, name). Within one event a name at two places needs two ids; otherwise one id moves."""

    def __init__(self, roots: dict[tuple[str, str], str | None]) -> None:
        self._roots = roots
        self._places: dict[tuple[str, str], list[_Place]] = {}
        self._next = 0
        self._busy: set[int] = set()

    def begin(self) -> None:
        """A new event: every id may move again."""
        self._busy.clear()

    def locate(self, access: AccessLine, buffer: int, whole: bool) -> tuple[EventRow, list[EventRow]]:
        """The access as a range, and the definitions that have to come first.

        `whole`: the access covers the tensor from its first to its last byte (all but the transfers do).
        """
        places = self._places.setdefault((access.buffer, access.tensor), [])
        rows: list[EventRow] = []
        place = next((p for p in places if p.holds(access, whole)), None)
        if place is None:
            place = next((p for p in places if p.id not in self._busy), None) or self._new(places)
            place.offset, place.size = access.offset, access.size
            rows = list(self._define(place, access, buffer))
        self._busy.add(place.id)
        where: EventRow = {"tensor": place.id}
        if (place.offset, place.size) != (access.offset, access.size):
            where |= {"offset": access.offset - place.offset, "size": access.size}
        return where, rows

    def _new(self, places: list[_Place]) -> _Place:
        place = _Place(self._next)
        self._next += 1
        places.append(place)
        return place

    def _define(self, place: _Place, access: AccessLine, buffer: int) -> Iterator[EventRow]:
        row: EventRow = {"ev": "tensor", "id": place.id, "name": access.tensor, "buffer": buffer}
        row |= {"offset": place.offset, "size": place.size}
        root = access.root or self._roots.get((access.buffer, access.tensor))
        if root is not None and root != access.tensor:
            known = self._places.setdefault((access.buffer, root), [])
            if not known:
                # Where the root lies is unknown until it is accessed itself; the view is at least part of it.
                owner = self._new(known)
                owner.offset, owner.size = place.offset, place.size
                yield row | {"id": owner.id, "name": root}
            row["view_of"] = known[0].id
        yield row
