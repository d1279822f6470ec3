"""Options that several verbs share, so that they are spelled and mean the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

Command = Callable[..., Any]
_SPAN: Final = re.compile(r"(-?\d+)(?:-(-?\d+))?")
_GLOBS: Final = (
    ("tensor", "name or root of either side"),
    ("buffer", "buffer type name"),
    ("actor", "queue or host thread of either side"),
    ("label", "label of either side (the event's kind, or its own label)"),
    ("kind", "read-after-write, write-after-write, write-after-read"),
)


def _spans(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """`3`, `2-5` or `-1`: whole numbers, both ends included."""
    spans = []
    for value in values:
        match = _SPAN.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r} is no number and no range such as 2-5", ctx, param)
        lo = int(match[1])
        hi = lo if match[2] is None else int(match[2])
        if hi < lo:
            raise click.BadParameter(f"{value!r} ends before it begins", ctx, param)
        spans.append((lo, hi))
    return tuple(spans)


def filter_options(command: Command) -> Command:
    """Which races are shown. Of one option any value may match, different options must all match."""
    for key in ("ubatch", "split"):
        about = f"Only {key} N, or N to M, of either side; -1 is none."
        command = click.option(f"--{key}", metavar="N[-M]", multiple=True, callback=_spans, help=about)(command)
    command = click.option("--id", "ids", multiple=True, metavar="GLOB", help="Only this distinct race.")(command)
    for key, what in reversed(_GLOBS):
        command = click.option(f"--{key}", multiple=True, metavar="GLOB", help=f"Only this {what}.")(command)
    return command


def replay_options(command: Command) -> Command:
    """How a trace is replayed."""
    command = click.option(
        "--threads", type=click.Choice(("one", "ordered")), help="All host threads are one actor, or each its own."
    )(command)
    command = click.option("--skip-weights", is_flag=True, help="Leave out accesses of weight buffers.")(command)
    return click.option("--strict", is_flag=True, help="Exit code 3 at the first breach of the format.")(command)


def output_options(formats: Sequence[str]) -> Callable[[Command], Command]:
    """Where to and how."""

    def decorate(command: Command) -> Command:
        command = click.option("-f", "--force", is_flag=True, help="Overwrite the output file.")(command)
        command = click.option("-o", "--output", metavar="FILE", help="Write to FILE, not standard output.")(command)
        return click.option(
            "--format", type=click.Choice(tuple(formats)), default=formats[0], show_default=True, help="How to print."
        )(command)

    return decorate
