"""`hbtrace convert`: one encoding to another, losing nothing; other programs' logs to a trace."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from hbtrace.cli.extensions import engine_options, instead
from hbtrace.cli.options import budget_option

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
@budget_option
@engine_options("convert")
def command(src: str, dst: str, force: bool, **given: Any) -> None:
    """Convert the trace SRC to DST.

    SRC is told by its content: Arrow IPC (file or stream), JSON Lines, a log of the ggml scheduler sanitizer at
    level 2, or a log of Strata with its pipeline trace. Other captures of that run are named by --with, and what no
    log tells by the options marked Strata. DST is told by its suffix: .arrow (IPC file), .arrows (IPC stream),
    .jsonl; - is standard output.
    """
    from hbtrace.cli.output import refuse_inputs, say, warn
    from hbtrace.importers.source import open_source
    from hbtrace.outfile import is_straight
    from hbtrace.trace.writer import write_batches
    from hbtrace.words import count

    refuse_inputs(dst, (src,))
    source: Source = instead("convert", {"src": src, "dst": dst, **given}) or open_source(src)
    rows = write_batches(dst, source.batches(), force=force)
    warn(source.warnings)
    if not is_straight(dst):
        say(f"wrote {dst}: {count(rows, 'row')}, {count(os.path.getsize(dst), 'byte')}")
        say(f"next: hbtrace analyze {quote(dst)}")
