"""`hbtrace convert LOG TRACE --with LOG... --mode ...`: the captures of one run of Strata, and what no log tells."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from hbtrace.errors import TraceError, UsageError

if TYPE_CHECKING:
    from hbtrace.strata.captures import StrataCaptures

OPTIONS: Final = (
    click.option("--with", "beside", metavar="FILE", multiple=True, help="Strata: another capture of the same run."),
    click.option("--mode", type=click.Choice(("copy", "ring")), help="Strata: how state was kept. [default: its word]"),
    click.option(
        "--stages", type=click.IntRange(2, 16), help="Strata: stages of the split. [default: those in the log]"
    ),
    click.option(
        "--windows", type=click.IntRange(2, 8), help="Strata: windows in flight. [default: the log's word, or 2]"
    ),
    click.option("--layers", type=click.IntRange(1, 1000), help="Strata: layers of a stage. [default: 9]"),
    click.option(
        "--layer-bytes", type=click.IntRange(1, 1 << 40), help="Strata: bytes of a layer's state. [default: 3268608]"
    ),
)


def run(given: dict[str, Any]) -> StrataCaptures | None:
    """The source to convert. These options on anything else would say nothing, so they are refused."""
    from hbtrace.cli.output import refuse_inputs
    from hbtrace.importers.source import foreign_kind, holds_trace
    from hbtrace.strata.captures import StrataCaptures
    from hbtrace.strata.logs.importer import LogSettings
    from hbtrace.strata.registration import LOG

    names = ("mode", "stages", "windows", "layers", "layer_bytes")
    settings = {name: given[name] for name in names if given[name] is not None}
    if not given["beside"] and not settings:
        return None
    refuse_inputs(given["dst"], given["beside"])
    paths = (given["src"], *given["beside"])
    if "-" in paths:
        raise UsageError("captures of Strata are read twice: name files, not standard input")
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise TraceError(f"{missing[0]}: cannot be opened: no such file")
    if not any(foreign_kind(path) == LOG for path in paths):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in settings) or "--with"
        raise UsageError(f"{options}: for logs of Strata only, and {', '.join(paths)} holds none")
    for at, path in enumerate(paths):
        if any(os.path.samefile(path, other) for other in paths[:at]):
            raise UsageError(f"{path}: the same capture is given twice")
        if holds_trace(path):
            raise TraceError(f"{path}: is a trace already, and no capture of Strata: leave it out")
    return StrataCaptures(paths, LogSettings(**settings))
