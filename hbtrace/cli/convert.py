"""`hbtrace convert`: one encoding to another, losing nothing; other programs' logs to a trace."""

from __future__ import annotations

import os

import click

from hbtrace.errors import UsageError


@click.command(epilog="""\b
Examples:
  hbtrace convert run.jsonl run.arrow
  hbtrace convert run.arrow - | grep '"ev":"compute"'
  producer | hbtrace convert - run.arrow
""")
@click.argument("src")
@click.argument("dst")
@click.option("-f", "--force", is_flag=True, help="Overwrite DST.")
def command(src: str, dst: str, force: bool) -> None:
    """Convert the trace SRC to DST.

    SRC is told by its content: Arrow IPC (file or stream), JSON Lines, or a log of the ggml scheduler sanitizer
    at level 2. DST is told by its suffix: .arrow (IPC file), .arrows (IPC stream), .jsonl; - is standard output.
    """
    from hbtrace.cli.output import warn
    from hbtrace.source import open_source
    from hbtrace.trace.writer import open_writer

    _check_apart(src, dst)
    source = open_source(src)
    writer = open_writer(dst, force=force)
    try:
        for batch in source.batches():
            writer.write_batch(batch)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    warn(source.warnings)
    if dst != "-":
        click.echo(f"wrote {dst}: {writer.rows:,} rows, {os.path.getsize(dst):,} bytes", err=True)
        click.echo(f"next: hbtrace analyze {dst}", err=True)


def _check_apart(src: str, dst: str) -> None:
    """Refuse to write over what is read. A crash leaves `run.arrow.part`, and a part is written before `run.arrow`."""
    if "-" in (src, dst) or not os.path.exists(src):
        return
    for target in (dst, f"{dst}.part"):
        if os.path.exists(target) and os.path.samefile(src, target):
            same = f"{src} and {dst} are the same file"
            raise UsageError(same if target == dst else f"{src} is where {dst} is written first; rename it")
