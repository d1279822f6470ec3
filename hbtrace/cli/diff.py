"""`hbtrace diff`: the races of two sides by identity."""

from __future__ import annotations

from typing import Any

import click

from hbtrace.cli.extensions import engine_options, instead
from hbtrace.cli.gate import gate_options, partial_option
from hbtrace.cli.options import filter_options, output_options, replay_options
from hbtrace.cli.reporting import Reports, report_option, reporting
from hbtrace.errors import UsageError
from hbtrace.report.formats import FORMATS


class _Diff(click.Command):
    """Takes lists of any length, `--state OFF... --against ON...`, beside BASE and HEAD."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        lists = {name for param in self.params if str(param.metavar).endswith("...") for name in param.opts}
        return super().parse_args(ctx, _spelled_out(args, lists))


def _spelled_out(args: list[str], lists: set[str]) -> list[str]:
    """Each path of a list behind an option of its own."""
    out, option = [], ""
    for arg in args:
        if arg.startswith("-") and arg != "-":
            option = arg if arg in lists else ""
            out += [] if option else [arg]
        else:
            out += [option, arg] if option else [arg]
    return out


@click.command(
    cls=_Diff,
    epilog="""\b
Examples:
  hbtrace diff base.arrow head.arrow
  hbtrace diff 'runs/main/*.arrow' runs/branch --require-comparable \\
    --format markdown -o diff.md
  hbtrace diff --state off1.log off2.log --against on1.log on2.log
"""
)
@click.argument("base", required=False)
@click.argument("head", required=False)
@engine_options("diff")
@filter_options
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@click.option("-v", "--verbose", is_flag=True, help="Print the first report of every race, not of new ones only.")
@click.option("--require-exercised", is_flag=True, help="Exit code 4 if a run or a race of HEAD was not exercised.")
@click.option("--require-comparable", is_flag=True, help="Exit code 4 if the workloads cannot be compared.")
@partial_option
@gate_options("new")
@report_option(FORMATS)
@output_options(FORMATS)
def command(base: str | None, head: str | None, output: str | None, force: bool, **given: Any) -> int:
    """Compare the races of BASE and HEAD by identity, never by totals.

    Each is a trace, a folder of traces or a glob; several runs of a side are united. A race that is gone is called
    fixed only where the run could have shown it, otherwise not exercised.

    Exit code: 0 nothing new, 1 new races, 2 wrong use, 3 a trace that cannot be read whole or has no
    access, 4 not comparable or not exercised, where that was asked for, or the recorder could not see some calls.
    """
    answer: int | None = instead("diff", {"base": base, "head": head, "output": output, "force": force, **given})
    if answer is not None:
        return answer
    if base is None or head is None:
        raise UsageError("missing argument: diff wants BASE and HEAD, or --state OFF... --against ON...")
    if base == head == "-":
        raise UsageError("standard input can be read only once")
    with reporting("diff", given, output, force=force, inputs=(base, head)) as reports:
        return _judge(base, head, output, given, reports, force=force)


def _judge(base: str, head: str, output: str | None, given: dict[str, Any], reports: Reports, *, force: bool) -> int:
    from hbtrace.cli.gate import load_suppressions, replay_settings
    from hbtrace.cli.output import check_output
    from hbtrace.cli.progress import watched
    from hbtrace.cli.showing import show_comparison
    from hbtrace.compare.diff import diff
    from hbtrace.compare.result import exit_code
    from hbtrace.compare.sides import check_filters, load_sides, next_command, unproved
    from hbtrace.escape import as_text

    check_output(output, (base, head), force=force)
    suppressions = load_suppressions(given["suppressions"])
    options = replay_settings(given, suppressions, limit=1)
    sides = load_sides(base, head, options, allow_partial=given["allow_partial"], see=watched)
    check_filters(options.filters, sides)
    result = diff(*sides, fail_on=given["fail_on"])
    result.heed(suppressions)
    if given["require_comparable"]:
        result.demand("--require-comparable", result.reasons)
    if given["require_exercised"]:
        result.demand("--require-exercised", unproved(sides[1], result.findings))
    result.sides = as_text(f"base {base}, head {head}")
    result.next = next_command(result, sides[1])
    reports.result = result
    show_comparison(result, output, given, force=force, inputs=(base, head))
    return exit_code(result, exit_zero=given["exit_zero"])
