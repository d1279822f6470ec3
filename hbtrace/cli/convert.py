"""`hbtrace convert`: one encoding to another, losing nothing; other programs' logs to a trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hbtrace.errors import TraceError, UsageError

if TYPE_CHECKING:
    from hbtrace.importers.source import Source


@click.command(epilog="""\b
Examples:
  hbtrace convert run.jsonl run.arrow
  hbtrace convert run.arrow - | grep '"ev":"compute"'
  producer | hbtrace convert - run.arrow
  hbtrace convert pipeline.trace run.arrow --with serve.stderr \\
    --with serve.stdout --mode ring
""")
@click.argument("src")
@click.argument("dst")
@click.option("-f", "--force", is_flag=True, help="Overwrite DST.")
@click.option("--with", "beside", metavar="FILE", multiple=True, help="Strata: another capture of the same run.")
@click.option("--mode", type=click.Choice(("copy", "ring")), help="Strata: how state was kept. [default: its word]")
@click.option("--stages", type=click.IntRange(2, 16), help="Strata: stages of the split. [default: those in the log]")
@click.option("--windows", type=click.IntRange(2, 8), help="Strata: windows in flight. [default: the log's word, or 2]")
@click.option("--layers", type=click.IntRange(1, 1000), help="Strata: layers of a stage. [default: 9]")
@click.option(
    "--layer-bytes", type=click.IntRange(1, 1 << 40), help="Strata: bytes of a layer's state. [default: 3268608]"
)
def command(src: str, dst: str, force: bool, beside: tuple[str, ...], **strata: Any) -> None:
    """Convert the trace SRC to DST.

    SRC is told by its content: Arrow IPC (file or stream), JSON Lines, a log of the ggml scheduler sanitizer at
    level 2, or a log of Strata with its pipeline trace. Other captures of that run are named by --with, and what no
    log tells by the options marked Strata. DST is told by its suffix: .arrow (IPC file), .arrows (IPC stream),
    .jsonl; - is standard output.
    """
    from hbtrace.cli.output import warn
    from hbtrace.importers.source import open_source
    from hbtrace.trace.writer import write_batches

    _check_apart(src, dst)
    for other in beside:
        _check_apart(other, dst)
    given = {name: value for name, value in strata.items() if value is not None}
    source = _captures((src, *beside), given) if beside or given else open_source(src)
    rows = write_batches(dst, source.batches(), force=force)
    warn(source.warnings)
    if dst != "-":
        click.echo(f"wrote {dst}: {rows:,} rows, {os.path.getsize(dst):,} bytes", err=True)
        click.echo(f"next: hbtrace analyze {dst}", err=True)


def _captures(paths: Sequence[str], given: dict[str, Any]) -> Source:
    """A run of Strata. Its options on anything else would say nothing, so they are refused."""
    from hbtrace.importers import STRATA_LOG
    from hbtrace.importers.source import foreign_kind, holds_trace
    from hbtrace.strata.captures import StrataCaptures
    from hbtrace.strata.logs.importer import Settings

    if "-" in paths:
        raise UsageError("captures of Strata are read twice: name files, not standard input")
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise TraceError(f"{missing[0]}: cannot be opened: no such file")
    if not any(foreign_kind(path) == STRATA_LOG for path in paths):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given) or "--with"
        raise UsageError(f"{options}: for logs of Strata only, and {', '.join(paths)} holds none")
    for at, path in enumerate(paths):
        if any(os.path.samefile(path, other) for other in paths[:at]):
            raise UsageError(f"{path}: the same capture is given twice")
        if holds_trace(path):
            raise TraceError(f"{path}: is a trace already, and no capture of Strata: leave it out")
    return StrataCaptures(paths, Settings(**given))


def _check_apart(src: str, dst: str) -> None:
    """Refuse to write over what is read. A crash leaves `run.arrow.part`, and a part is written before `run.arrow`."""
    if "-" in (src, dst) or not os.path.exists(src):
        return
    for target in (dst, f"{dst}.part"):
        if os.path.exists(target) and os.path.samefile(src, target):
            same = f"{src} and {dst} are the same file"
            raise UsageError(same if target == dst else f"{src} is where {dst} is written first; rename it")
