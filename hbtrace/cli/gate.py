"""What the verbs that gate share: suppressions, when a race fails, and the outputs that all of them have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import click

from hbtrace.cli.options import filters_of

if TYPE_CHECKING:
    from hbtrace.compare.findings import Finding, Verdict
    from hbtrace.compare.outcome import Options
    from hbtrace.races.suppressions import Suppressions

FORMATS: Final = ("text", "json", "jsonl", "markdown", "github", "sarif", "junit")

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


def render_verdict(verdict: Verdict, given: dict[str, Any]) -> str | bytes:
    """A verdict in one of the formats that do not depend on the verb."""
    from hbtrace.compare.findings import fails

    form = given["format"]

    def failing(finding: Finding) -> bool:
        return fails([finding], given["fail_on"])

    if form == "markdown":
        from hbtrace.report import markdown

        return markdown.render(verdict)
    if form == "github":
        from hbtrace.report import github

        return github.render(verdict, failing)
    if form == "sarif":
        from hbtrace.report import sarif

        return sarif.render(verdict, marked=given["suppressions"] is not None)
    from hbtrace.report import junit

    return junit.render(verdict, failing)


def render_comparison(
    verdict: Verdict, workload: dict[str, tuple[int, int]], given: dict[str, Any], width: int | None
) -> str | bytes:
    """What `diff` and `baseline check` print, in any format; a baseline has no workload to compare with. width: of the
    terminal, None elsewhere."""
    from hbtrace.report import diff as report

    if given["format"] == "text":
        return report.render_text(verdict, workload, verbose=given["verbose"], width=width)
    if given["format"] == "json":
        return report.document(verdict, workload)
    if given["format"] == "jsonl":
        return report.lines(verdict)
    return render_verdict(verdict, given)


def exit_code(verdict: Verdict, fail_on: str, *, exit_zero: bool) -> int:
    from hbtrace.compare.findings import fails

    return 1 if not exit_zero and fails(verdict.findings, fail_on) else 0
