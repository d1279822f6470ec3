"""What the verbs that gate on races share: suppressions, when a race fails, how a trace is replayed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from hbtrace.cli.options import filters_of

if TYPE_CHECKING:
    from hbtrace.compare.outcome import Options
    from hbtrace.races.suppressions import Suppressions

Command = Callable[..., Any]


def gate_options(fail_on: str) -> Callable[[Command], Command]:
    """Options on what counts. Hands on `suppressions, fail_on, exit_zero`."""

    def decorate(command: Command) -> Command:
        command = click.option("--exit-zero", is_flag=True, help="Exit code 0 even if there are findings.")(command)
        command = click.option(
            "--fail-on",
            type=click.Choice(("none", "new", "any")),
            default=fail_on,
            show_default=True,
            help="Which races make the exit code 1.",
        )(command)
        about = "A TOML file of races that do not count."
        return click.option("--suppressions", metavar="FILE", help=about)(command)

    return decorate


def partial_option(command: Command) -> Command:
    """Hands on `allow_partial`."""
    about = "Judge a truncated trace by what could be read of it."
    return click.option("--allow-partial", is_flag=True, help=about)(command)


def today() -> date:
    """The day that expiry dates are held against."""
    return date.today()


def load_suppressions(path: str | None) -> Suppressions | None:
    from hbtrace.races.suppressions import read_suppressions

    return None if path is None else read_suppressions(path, today())


def replay_settings(given: dict[str, Any], suppressions: Suppressions | None, limit: int | None) -> Options:
    """The replay's options from those of the command line."""
    from hbtrace.compare.outcome import Options

    return Options(
        threads=given["threads"],
        skip_weights=given["skip_weights"],
        strict=given["strict"],
        fold_layers=given["fold_layers"],
        filters=filters_of(given),
        limit=limit,
        suppressions=suppressions,
    )
