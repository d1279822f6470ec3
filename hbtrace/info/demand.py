"""What a piece of work touches, counted over its ranges without resolving where they lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hbtrace.trace.columns import ABSENT, Columns, matrix_of


@dataclass(slots=True)
class Demand:
    """What a piece of work touches: whole tensors with how often they are read and written, and all other ranges."""

    tensors: list[tuple[int, int, int]]
    ranges: list[tuple[list[int], bool]]


def range_bytes(size: int, rows: int, stride: int) -> int:
    if rows <= 1 or stride < 1:
        return size
    return rows * size if stride >= size else (rows - 1) * stride + size


def weight(demand: Demand | None) -> int:
    return 0 if demand is None else len(demand.tensors) + len(demand.ranges)


def demand_of(read: bytes, written: bytes) -> Demand:
    """From the keys of two range lists: their integers."""
    whole: dict[int, list[int]] = {}
    rest: list[tuple[list[int], bool]] = []
    for write, text in ((False, read), (True, written)):
        matrix = matrix_of(text)
        simple = (matrix[:, 0] != -1) & (matrix[:, 2] == 0) & (matrix[:, 3] == ABSENT) & (matrix[:, 4] <= 1)
        idents, counts = np.unique(matrix[simple, 0], return_counts=True)
        for ident, count in zip(idents.tolist(), counts.tolist(), strict=True):
            whole.setdefault(ident, [0, 0])[write] = count
        rest += [(values, write) for values in matrix[~simple].tolist()]
    return Demand([(ident, reads, writes) for ident, (reads, writes) in whole.items()], rest)


def graph_demand(column: pa.Array, row: int) -> Demand:
    """All ranges of the graph defined at a row, whatever node they belong to."""
    nodes = column.slice(row, 1).flatten() if column.null_count < len(column) else None
    if nodes is None or not len(nodes):
        return Demand([], [])
    if nodes.null_count:
        nodes = nodes.drop_null()
    keys = []
    for name in ("reads", "writes"):
        flat = nodes.field(name).flatten()
        one = pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)
        keys.append(Columns(pa.RecordBatch.from_arrays([one], [name])).ranges(name).key(0))
    return demand_of(keys[0], keys[1])
