"""Options that several verbs share, so that they are spelled and mean the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import click

from hbtrace.errors import UsageError

if TYPE_CHECKING:
    from hbtrace.races.filters import Filters
    from hbtrace.replay.settings import Settings

Command = Callable[..., Any]
Spans = tuple[tuple[int, int], ...]

_SPAN: Final = re.compile(r"(-?[0-9]{1,18})(?:-(-?[0-9]{1,18}))?")
_GLOBS: Final = (
    ("tensor", "Only this name, or root, of either side."),
    ("buffer", "Only this buffer type name."),
    ("actor", "Only this queue or host thread on either side, with its #n or without."),
    ("label", "Only this label of either side: the event's own, or its kind such as set_direct."),
)


def _spans(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> Spans:
    """`3`, `2-5` or `-1`: whole numbers, lowest and highest, both included."""
    return tuple(_span(value, ctx, param) for value in values)


def _span(value: str, ctx: click.Context, param: click.Parameter) -> tuple[int, int]:
    match = _SPAN.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no number such as 3 or -1 and no range such as 2-5", ctx, param)
    lo = int(match[1])
    hi = lo if match[2] is None else int(match[2])
    if hi < lo:
        raise click.BadParameter(f"{value!r} ends before it begins", ctx, param)
    return lo, hi


def _kinds(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """Kinds spelled out. What is none: a typing error would hide every race and look like a clean run."""
    if not values:
        return ()
    from hbtrace.races.filters import whole_kinds

    try:
        return whole_kinds(values)
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def filter_options(command: Command) -> Command:
    """Which races are shown. Of one option any value may match, different options must all match. What matches no name
    of any trace is a UsageError of the verb, once that has read them (`races.unmatched`).

    Hands on `tensor, buffer, actor, label, kind, ids`, tuples of globs, and `split, ubatch`, of (lowest, highest).
    """
    for key in ("ubatch", "split"):
        about = f"Only {key} N, or N to M, of either side; -1 is none."
        command = click.option(f"--{key}", metavar="N[-M]", multiple=True, callback=_spans, help=about)(command)
    command = click.option("--id", "ids", multiple=True, metavar="GLOB", help="Only this distinct race.")(command)
    about = "Only read-after-write (raw), write-after-write (waw) or write-after-read (war)."
    command = click.option("--kind", multiple=True, metavar="GLOB", callback=_kinds, help=about)(command)
    for key, about in reversed(_GLOBS):
        command = click.option(f"--{key}", multiple=True, metavar="GLOB", help=about)(command)
    return command


def filters_of(given: dict[str, Any]) -> Filters:
    """The filters, of what `filter_options` handed on."""
    from hbtrace.races.filters import Filters

    return Filters(**{one.name: given[one.name] for one in fields(Filters)})


def replay_options(command: Command) -> Command:
    """How a trace is replayed. Hands on `strict, skip_weights, threads`."""
    command = click.option(
        "--threads",
        type=click.Choice(("one", "ordered")),
        help="All host threads are one actor, or each is its own. Default: what the trace says.",
    )(command)
    command = budget_option(command)
    command = click.option("--skip-weights", is_flag=True, help="Leave out accesses of weight buffers.")(command)
    return click.option("--strict", is_flag=True, help="Exit code 3 at the first breach of the format.")(command)


def budget_option(command: Command) -> Command:
    """How much a trace may cost. Hands on nothing: it holds for all that the command reads."""
    return click.option(
        "--budget", type=click.IntRange(1, 1_000_000), default=1, metavar="N", expose_value=False, callback=_raise,
        help="Let a trace cost N times what its size allows.",
    )(command)  # fmt: skip


def _raise(ctx: click.Context, _: click.Parameter, times: int) -> None:
    if times > 1:
        from hbtrace.trace.budget import raised

        ctx.with_resource(raised(times))


def settings_of(given: dict[str, Any]) -> Settings:
    """How to replay for an explanation, of what `replay_options` handed on; not every verb has `fold_layers`."""
    from hbtrace.replay.settings import Settings

    return Settings(given["threads"], given["skip_weights"], given["strict"], given.get("fold_layers", False))


def output_options(formats: Sequence[str]) -> Callable[[Command], Command]:
    """How to print and where to, the first format being the default. Hands on `format, output, force`."""

    def decorate(command: Command) -> Command:
        command = click.option("-f", "--force", is_flag=True, help="Overwrite the output file.")(command)
        command = click.option("-o", "--output", metavar="FILE", help="Write to FILE, not standard output.")(command)
        return click.option(
            "--format", type=click.Choice(tuple(formats)), default=formats[0], show_default=True, help="How to print."
        )(command)

    return decorate
