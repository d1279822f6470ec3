"""However a third party encodes the events, the replay says the same as of JSON Lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hbtrace.compare.outcome import Outcome, analyze
from hbtrace.trace.reader import open_trace
from tests.material import CASES, recording
from tests.trace.samples import ipc_bytes

ODD = ("64", "70", "72", "92")
"""Cases that have values of several types in one column, a version of the future, no event or no access."""

TRACES = [path for path in CASES if path.stem[:2] not in ODD] + [recording("pipeline_src"), recording("vulkan")]


def plain(rows: list[dict[str, Any]]) -> pa.Table:
    """What a program makes of the events that has never heard of hbtrace: one column a key, types as inferred."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return pa.table({key: [row.get(key) for row in rows] for key in keys})


def retyped(table: pa.Table, change: Callable[[pa.DataType], pa.DataType]) -> pa.Table:
    def deep(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([(kind.field(k).name, deep(kind.field(k).type)) for k in range(kind.num_fields)][::-1])
        if pa.types.is_list(kind):
            return change(pa.list_(deep(kind.value_type)))
        return change(kind)

    columns = {}
    for name in table.column_names:
        values, kind = table[name].to_pylist(), table.schema.field(name).type
        try:
            columns[name] = pa.array(values, deep(kind))
        except pa.ArrowInvalid:  # more than 32 bits
            columns[name] = pa.array(values, kind)
    return pa.table(columns)


def narrow(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_type)
    return {pa.int64(): pa.int32(), pa.string(): pa.large_string()}.get(kind, kind)


def viewed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_view(kind.value_type)
    return pa.string_view() if kind == pa.string() else kind


def encoded(table: pa.Table) -> pa.Table:
    """Every string column a dictionary of its own width; unknown columns and null columns beside them."""
    for index, field in enumerate(table.schema):
        if field.type == pa.string():
            column = table[field.name].combine_chunks().dictionary_encode().cast(pa.dictionary(pa.int16(), pa.string()))
            table = table.set_column(index, field.name, column)
    more = pa.array([{"a": k} for k in range(table.num_rows)])
    table = table.append_column("x_mine", more)
    return table if "inputs" in table.column_names else table.append_column("inputs", pa.nulls(table.num_rows))


def single(table: pa.Table) -> pa.Table:
    """`src` and `dst` as lists of one range."""
    for name in ("src", "dst"):
        if name in table.column_names:
            values = [None if one is None else [one] for one in table[name].to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


def by_polars(table: pa.Table, path: Path) -> None:
    import polars

    frame = polars.from_arrow(table)
    (frame.write_ipc if path.suffix == ".arrow" else frame.write_ipc_stream)(path, compression="zstd")


def by_duckdb(table: pa.Table, path: Path) -> None:
    import duckdb

    found = duckdb.connect().from_arrow(table).to_arrow_table()
    path.write_bytes(ipc_bytes(found, stream=path.suffix == ".arrows"))


def verdict(outcome: Outcome) -> tuple[Any, ...]:
    warnings = [warning.replace(outcome.path, "PATH") for warning in outcome.warnings]
    return outcome.reports, outcome.races, outcome.distinct, outcome.rows, warnings, outcome.actors


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.stem)
def test_the_same_reports(path: Path, tmp_path: Path) -> None:
    wanted = verdict(analyze(str(path)))
    table = plain(list(open_trace(path)))
    for name, data in {
        "plain.arrow": ipc_bytes(table),
        "narrow.arrows": ipc_bytes(retyped(table, narrow), stream=True, compression="lz4"),
        "views.arrow": ipc_bytes(retyped(table, viewed), chunk=3),
        "encoded.arrows": ipc_bytes(encoded(table), stream=True, chunk=7),
        "single.arrow": ipc_bytes(single(table), compression="lz4"),
    }.items():
        (tmp_path / name).write_bytes(data)
    for write in (by_polars, by_duckdb):
        for suffix in (".arrow", ".arrows"):
            write(table, tmp_path / f"{write.__name__}{suffix}")
    for encoding in sorted(tmp_path.iterdir()):
        assert verdict(analyze(str(encoding))) == wanted, encoding.name
