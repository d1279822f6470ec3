"""`hbtrace record`: run an unpatched program and get the trace of what it asked its backends to do."""

from __future__ import annotations

import re
from pathlib import Path

import click

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _ubatches(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no number such as 3 and no range such as 2-5", ctx, param)
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    if last < first:
        raise click.BadParameter(f"{value!r} ends before it begins", ctx, param)
    return first, last


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int:
    if value is None:
        return 0
    match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)(?:i?B)?", value, re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{value!r} is no size such as 500M or 2G", ctx, param)
    return int(match[1]) * _UNITS[match[2].upper()]


@click.command(context_settings={"allow_interspersed_args": False}, epilog="""\b
Examples:
  hbtrace record -- llama-cli -m model.gguf -ngl 99 -ub 32 -f prompt.txt
  hbtrace record -o long.arrow --ubatches 0-20 -- python run.py
  hbtrace record --exact-writes -f -- ./my-engine

The exit status is CMD's own; 125 if it cannot be recorded, 127 if it is not found.
""")
@click.option("-o", "--output", default="run.arrow", show_default=True, metavar="FILE", help="The trace to write.")
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@click.option("--exact-writes", is_flag=True, help="See every direct host write of inputs, slowly.")
@click.option("--ubatches", metavar="A-B", callback=_ubatches, help="Only the accesses and edges of these ubatches.")
@click.option("--max-size", metavar="SIZE", callback=_size, help="End the trace at this many bytes, such as 500M.")
@click.option(
    "--copies",
    multiple=True,
    metavar="NAME=QUEUE",
    help="The queue that runs a backend's asynchronous copies: src, dst or both; `,after-dst` if it waits for the "
    "destination's earlier work. NAME is the backend's registry, such as CUDA.",
)
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    output: str,
    force: bool,
    exact_writes: bool,
    ubatches: tuple[int, int] | None,
    max_size: int,
    copies: tuple[str, ...],
    cmd: tuple[str, ...],
) -> int:
    """Run CMD with the recording library in it, and write its trace.

    CMD is any program that loads ggml as a shared library: it needs no change, and its input and output stay its own.
    Each process of it that uses ggml writes its own trace: run.arrow, run.2.arrow, ...
    """
    from hbtrace.cli.output import say
    from hbtrace.record.launch import Options, record

    options = Options(Path(output), force, exact_writes, ubatches, max_size, copies)
    return record(cmd, options, lambda sentence: say(f"hbtrace: {sentence}"))
