"""How large a column becomes when it is brought to a plain type: the second place where a small file can be a bomb.

Dictionaries, views and runs let many rows share one value; a plain column repeats it. Canonical columns never get here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LIMIT: Final = 1 << 27
"""Bytes that the columns of at most 65,536 rows may gain. As JSON text in `extra` they take several times that."""


def check_expansion(columns: Sequence[pa.Array]) -> None:
    """Raises ValueError where columns would become larger than any trace's."""
    gain = sum(max(0, _plain_size(column) - column.nbytes) for column in columns)
    if gain > _LIMIT:
        raise ValueError(f"its columns share values: {gain} bytes more without")


def _plain_size(column: Any) -> int:
    """Bytes of the column as plain values: exact for strings, an upper bound where values of other types are shared."""
    types, kind, count = pa.types, column.type, len(column)
    if isinstance(column, pa.ExtensionArray):
        return _plain_size(column.storage)
    if types.is_dictionary(kind):
        return _shared_size(column.dictionary, column.indices)
    if types.is_run_end_encoded(kind):
        return count * max(8, _plain_size(column.values))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _viewed_size(column)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        sizes = np.asarray(column.sizes, dtype=np.int64)
        starts = np.asarray(column.offsets, dtype=np.int64)
        inner = _plain_size(column.values)
        ends = (starts + sizes)[sizes > 0]
        in_order = bool((ends[:-1] <= starts[sizes > 0][1:]).all())
        return inner if in_order else int(sizes.sum()) * inner
    if types.is_struct(kind):
        return sum(_plain_size(column.field(index)) for index in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return 4 * count + _plain_size(column.flatten())
    size: int = column.nbytes
    return size


def _viewed_size(column: pa.Array) -> int:
    """Each view is 16 bytes that begin with the length. (`binary_length` does not know views.)"""
    views = np.frombuffer(column.buffers()[1], dtype=np.int32).reshape(-1, 4)
    lengths = views[column.offset : column.offset + len(column), 0]
    if column.null_count:
        lengths = lengths[column.is_valid().to_numpy(zero_copy_only=False)]
    return 4 * len(column) + int(lengths.sum(dtype=np.int64))


def _shared_size(values: pa.Array, indices: pa.Array) -> int:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return int(pc.sum(pc.cast(pc.binary_length(values).take(indices), pa.int64())).as_py() or 0)
    if pa.types.is_primitive(kind):
        return 8 * len(indices)
    return len(indices) * _plain_size(values)
