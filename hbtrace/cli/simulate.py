"""`hbtrace simulate`: a group of engines; each engine's module is imported only when it is called."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Final

import click

_TABLE: Final = {
    "ggml": ("hbtrace.cli.simulate_ggml", "The ggml scheduler with its input ring, as llama.cpp drives it."),
    "strata": ("hbtrace.strata.cli.simulate", "A pipelined engine with a ring of state snapshots."),
}
"""Engine -> its module, whose click command is named `command`, and its line in the help."""

ENGINES: Final = {name: about for name, (module, about) in _TABLE.items() if find_spec(module) is not None}


class _Engines(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(ENGINES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in ENGINES:
            return None
        found: click.Command = importlib.import_module(_TABLE[name][0]).command
        found.name = name
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Engines"):
            formatter.write_dl(list(ENGINES.items()))


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
        raise click.UsageError(f"name an engine: {', '.join(ENGINES)}", ctx)
