"""The sources of changed values: a victim's read, by its site, or the memory that two writes left; each has a bit.

One by one, or those of the same reports together: then a race with many victims needs no more bits than one with few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hbtrace.consequence.victims import Memory, Reads, Site, Victims

_FEW_BITS: Final = 256
"""Of more, taking one at a time costs the square of their number."""


@dataclass(slots=True)
class Sources:
    """Which bit stands for what."""

    count: int = 0
    bits: dict[Site, int] = field(default_factory=dict)
    """Of reads."""
    memories: dict[Site, list[tuple[int, Memory]]] = field(default_factory=dict)
    """Of what two writes left, by the site of the later one."""
    memory_bits: dict[int, int] = field(default_factory=dict)
    """By the identity of a memory; one by one only."""
    of_label: dict[int, list[int]] = field(default_factory=dict)
    """All bits of a label; together only."""
    last_row: dict[int, int] = field(default_factory=dict)
    """By bit, the last row of its own: behind that no mark of it is new."""

    def bounded(self) -> Sources:
        """With the last rows."""
        found = [(row, bit) for (row, _), bit in self.bits.items()]
        found += [(row, bit) for (row, _), left in self.memories.items() for bit, _ in left]
        for row, bit in found:
            self.last_row[bit] = max(self.last_row.get(bit, row), row)
        return self


def each(victims: list[Victims]) -> Sources:
    """A bit for every source."""
    out = Sources()
    covered: dict[int, tuple[Reads, int, int]] = {}
    for shared in {id(its.reads): its.reads for its in victims}.values():
        for reads, first, last in shared:
            _, low, high = covered.get(id(reads), (reads, first, last))
            covered[id(reads)] = reads, min(low, first), max(high, last)
    own = (its.own for its in victims if its.own is not None)
    sites = (site for reads, low, high in covered.values() for site in reads.sites[low:high])
    for site in (*sites, *own):
        if site not in out.bits:
            out.bits[site] = out.count
            out.count += 1
    for memory in (its.memory for its in victims if its.memory is not None):
        out.memory_bits[id(memory)] = out.count
        out.memories.setdefault(memory.site, []).append((out.count, memory))
        out.count += 1
    return out.bounded()


def together(victims: list[Victims], labels: Sequence[int]) -> Sources:
    """One bit for all sources of the same set of labels. labels: of each victim's report."""
    out = Sources()
    shared: dict[int, int] = {}
    for site, among in _owners(victims, labels).items():
        out.bits[site] = shared.setdefault(among, len(shared))
    for label, its in zip(labels, victims, strict=True):
        if its.memory is not None:
            bit = shared.setdefault(1 << label, len(shared))
            out.memories.setdefault(its.memory.site, []).append((bit, its.memory))
    for among, bit in shared.items():
        for label in ones(among):
            out.of_label.setdefault(label, []).append(bit)
    out.count = len(shared)
    return out.bounded()


def _owners(victims: list[Victims], labels: Sequence[int]) -> dict[Site, int]:
    """The labels of each read, as a set of bits."""
    owners: dict[Site, int] = {}
    slices: dict[int, tuple[Reads, dict[int, list[tuple[int, int]]]]] = {}
    for label, its in zip(labels, victims, strict=True):
        for reads, first, last in its.reads:
            slices.setdefault(id(reads), (reads, {}))[1].setdefault(label, []).append((first, last))
        if its.own is not None:
            owners[its.own] = owners.get(its.own, 0) | 1 << label
    for reads, by_label in slices.values():
        turns = _turns(by_label)
        among = 0
        for at, site in enumerate(reads.sites):
            among ^= turns.get(at, 0)
            if among:
                owners[site] = owners.get(site, 0) | among
    return owners


def _turns(by_label: dict[int, list[tuple[int, int]]]) -> dict[int, int]:
    """By place, the labels whose slices begin or end there."""
    turns: dict[int, int] = {}
    for label, slices in by_label.items():
        end = -1
        for first, last in sorted(slices):
            if first > end:
                turns[first] = turns.get(first, 0) ^ 1 << label
                turns[end] = turns.get(end, 0) ^ 1 << label
            end = max(end, last)
        turns[end] = turns.get(end, 0) ^ 1 << label
    return turns


def ones(bits: int) -> Iterable[int]:
    """The places of the bits that are set, in order."""
    if bits.bit_length() > _FEW_BITS:
        octets = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), dtype=np.uint8)
        places: list[int] = np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
        return places
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
