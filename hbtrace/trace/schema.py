"""The canonical Arrow schema: one nullable column for each key of the vocabulary, and `extra`.

Every batch inside hbtrace has exactly this schema. A third party's file may differ; `conform.py` brings it here.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hbtrace.trace import vocabulary as v

VERSION_KEY: Final = b"hbtrace.version"

RANGE_TYPE: Final = pa.struct(
    [(key, pa.bool_() if kind == v.BOOL else pa.int64()) for key, kind in v.RANGE_KEYS.items()]
    + [("extra", pa.string())]
)
"""One range. `extra` is JSON text: an object of other keys, or the raw value of an element that is no object."""

NODE_TYPE: Final = pa.struct(
    [
        ("op", pa.string()),
        ("tensor", pa.int64()),
        ("backend", pa.int64()),
        ("reads", pa.list_(RANGE_TYPE)),
        ("writes", pa.list_(RANGE_TYPE)),
        ("extra", pa.string()),
    ]
)

RUN_TYPE: Final = pa.struct([(key, pa.int64()) for key in v.RUN_KEYS] + [("extra", pa.string())])

PICK_TYPE: Final = pa.struct([("tensor", pa.int64()), ("runs", pa.list_(RUN_TYPE)), ("extra", pa.string())])

STRUCTS: Final = {
    v.RANGE: (v.RANGE_KEYS, RANGE_TYPE), v.RANGES: (v.RANGE_KEYS, RANGE_TYPE), v.NODES: (v.NODE_KEYS, NODE_TYPE),
    v.PICKS: (v.PICK_KEYS, PICK_TYPE), v.RUNS: (v.RUN_KEYS, RUN_TYPE),
}  # fmt: skip
"""By kind of value, the keys of the objects that it is or lists, and their type."""

_TYPES: Final = {
    v.INT: pa.int64(),
    v.ID: pa.int64(),
    v.BOOL: pa.bool_(),
    v.STR: pa.string(),
    v.INTS: pa.list_(pa.int64()),
    v.STRS: pa.list_(pa.string()),
    v.RANGE: RANGE_TYPE,
    v.RANGES: pa.list_(RANGE_TYPE),
    v.NODES: pa.list_(NODE_TYPE),
    v.PICKS: pa.list_(PICK_TYPE),
}

SCHEMA: Final = pa.schema(
    [
        (key, pa.dictionary(pa.int32(), pa.string()) if key in v.DICTIONARY_COLUMNS else _TYPES[kind])
        for key, kind in v.COLUMNS.items()
    ]
    + [("extra", pa.string())],
    metadata={VERSION_KEY: str(v.VERSION).encode()},
)
"""`extra` is the JSON text of an object: unknown keys, `env` and `attrs`, explicit nulls, and values of known keys that
do not fit their column. A key there is the truth for writing JSON; its column then holds what counts of it, or null."""
