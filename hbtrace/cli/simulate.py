"""`hbtrace simulate`: a group of engines; each engine's module is imported only when it is called."""

from __future__ import annotations

import importlib
from typing import Final

import click

from hbtrace.engines import engines

_GGML: Final = ("hbtrace.cli.simulate_ggml", "The ggml scheduler with its input ring, as llama.cpp drives it.")


def _table() -> dict[str, tuple[str, str]]:
    """Engine -> its module, whose click command is named `command`, and its line in the help."""
    others = {e.name: (e.commands["simulate"], e.about) for e in engines() if "simulate" in e.commands}
    return {"ggml": _GGML, **others}


class _Engines(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_table())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _table():
            return None
        found: click.Command = importlib.import_module(_table()[name][0]).command
        found.name = name
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Engines"):
            formatter.write_dl([(name, about) for name, (_, about) in _table().items()])


@click.group(
    cls=_Engines,
    invoke_without_command=True,
    epilog="""\b
Examples:
  hbtrace simulate ggml -o run.arrow
  hbtrace simulate ggml --list-faults
""",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Write the trace of an executable model, correct or with a named fault."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError(f"name an engine: {', '.join(_table())}", ctx)
