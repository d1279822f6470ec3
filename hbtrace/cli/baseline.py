"""`hbtrace baseline write` and `hbtrace baseline check`: known races in a file for git."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from hbtrace.cli.gate import gate_options, partial_option
from hbtrace.cli.options import filter_options, output_options, replay_options
from hbtrace.cli.reporting import Reports, report_option, reporting
from hbtrace.errors import UsageError
from hbtrace.report.formats import FORMATS
from hbtrace.words import count


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  hbtrace baseline write run.arrow -o races.toml
  hbtrace baseline check races.toml run.arrow
"""
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Known races in a file for git: write it once, then fail on new ones only."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("say `write` or `check`", ctx)


@command.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("-o", "--output", required=True, metavar="FILE", help="The baseline to write; - is standard output.")
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE; reasons and dates in it are kept.")
@click.option("--suppressions", metavar="FILE", help="A TOML file of races that are left out.")
@filter_options
@replay_options
@click.option("--fold-layers", is_flag=True, help="Do not tell layers apart; the file records it.")
@partial_option
def write(traces: tuple[str, ...], output: str, force: bool, **given: Any) -> None:
    """Write the races of TRACE... as a baseline."""
    from hbtrace.cli.gate import load_suppressions, replay_settings
    from hbtrace.cli.output import note, open_output, say, warn
    from hbtrace.cli.progress import watched
    from hbtrace.compare import baseline
    from hbtrace.compare.sides import check_filters, load_side
    from hbtrace.outfile import is_straight

    there = os.path.lexists(output) and not is_straight(output)
    if there and not force:
        raise UsageError(f"{output} exists; give -f to overwrite it (reasons in it are kept)")
    old = baseline.read(output) if there else None
    options = replay_settings(given, load_suppressions(given["suppressions"]), limit=1)
    side = load_side(traces, options, allow_partial=given["allow_partial"], see=watched)
    check_filters(options.filters, [side])
    made = baseline.make(side, old, folded=given["fold_layers"])
    warn([*side.unseen, *side.warnings])
    note(side.left_out)
    with open_output(output, force=force, inputs=traces, form="toml") as print_out:
        print_out(baseline.render(made))
    if output == "-":
        return
    say(f"wrote {output}: {count(len(made.races), 'distinct race')}")
    say(f"next: hbtrace baseline check {shlex.join((output, *traces))}")


@command.command()
@click.argument("file")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("--prune", is_flag=True, help="Drop what is fixed from FILE.")
@click.option("--require-exercised", is_flag=True, help="Exit code 4 if a run or a known race was not exercised.")
@click.option("-v", "--verbose", is_flag=True, help="Print the first report of every race, not of new ones only.")
@filter_options
@replay_options
@partial_option
@gate_options("new")
@report_option(FORMATS)
@output_options(FORMATS)
def check(file: str, traces: tuple[str, ...], output: str | None, force: bool, **given: Any) -> int:
    """Hold the races of TRACE... against the baseline FILE; new ones fail.

    Exit code: 0 nothing new, 1 new races, 2 wrong use, 3 a trace that cannot be read whole or has no
    access, 4 not exercised, or the recorder could not see some calls.
    """
    with reporting("baseline check", given, output, force=force, inputs=(file, *traces)) as reports:
        return _judge(file, traces, output, given, reports, force=force)


def _judge(
    file: str, traces: tuple[str, ...], output: str | None, given: dict[str, Any], reports: Reports, *, force: bool
) -> int:
    from hbtrace.cli.gate import load_suppressions, replay_settings, today
    from hbtrace.cli.output import check_output, open_output, say
    from hbtrace.cli.progress import watched
    from hbtrace.cli.showing import show_comparison
    from hbtrace.compare import baseline
    from hbtrace.compare.result import exit_code
    from hbtrace.compare.sides import check_filters, load_side, next_command, unproved
    from hbtrace.escape import as_text

    known = baseline.read(file)
    suppressions = load_suppressions(given["suppressions"])
    options = replay_settings(given | {"fold_layers": known.folded}, suppressions, limit=1)
    check_output(output, (file, *traces), force=force)
    if given["prune"] and options.filters:
        raise UsageError("--prune with a filter would drop what the filter hides: give one or the other")
    side = load_side(traces, options, allow_partial=given["allow_partial"], see=watched)
    check_filters(options.filters, [side], known.races)
    result = baseline.check(known, side, today(), options.filters, given["fail_on"])
    result.heed(suppressions)
    if given["require_exercised"]:
        result.demand("--require-exercised", unproved(side, result.findings))
    result.sides = as_text(f"baseline {file}, head {' '.join(traces)}")
    result.next = next_command(result, side)
    reports.result = result
    show_comparison(result, output, given, force=force, inputs=(file, *traces))
    if given["prune"]:
        pruned = baseline.prune(known, result)
        with open_output(file, force=True, form="toml") as print_out:
            print_out(baseline.render(pruned))
        say(f"pruned {file}: {len(known.races) - len(pruned.races)} fixed, {len(pruned.races)} left")
    return exit_code(result, exit_zero=given["exit_zero"])
