"""`hbtrace check`: the rules of the input ring, caches, allocator and events on a trace; what the run exercised."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hbtrace.cli.options import output_options, replay_options
from hbtrace.cli.reporting import Reports, report_option, reporting
from hbtrace.errors import UsageError
from hbtrace.report.formats import FORMATS

if TYPE_CHECKING:
    from hbtrace.checks.checked import Checked
    from hbtrace.checks.require import Requirement


@click.command(
    epilog="""\b
Examples:
  hbtrace check run.arrow
  hbtrace check run.arrow --require 'ubatches>=2, reuse>=1, direct_writes>=1'
  hbtrace check --explain prepare-missing
"""
)
@click.argument("traces", nargs=-1, metavar="TRACE...")
@click.option("--require", metavar="LIST", help="Counters that the run must reach, such as 'ubatches>=2, reuse>=1'.")
@click.option("--list", "listing", is_flag=True, help="List the checks.")
@click.option("--explain", metavar="ID", help="What a check looks at, why it matters, what fixes it.")
@replay_options
@report_option(FORMATS)
@output_options(FORMATS)
def command(traces: tuple[str, ...], output: str | None, force: bool, **given: Any) -> int:
    """Check recorded runs against the rules of the scheduler, and say what a clean run is worth.

    Errors and warnings are findings; info is what to know. A check whose fields the trace lacks is not checkable, and
    has not passed. The coverage verdict says whether the run exercised what can race.

    Exit code: 0 no error or warning, 1 findings, 2 wrong use, 3 a trace that cannot be read or has no
    access, 4 --require is not met, or the recorder could not see some calls.
    """
    from hbtrace.checks import require
    from hbtrace.cli.output import open_output, terminal_width

    if given["listing"] or given["explain"] is not None:
        if given["report"]:
            raise UsageError("--report tells of traces: leave it out with --list and --explain")
        with open_output(output, force=force, inputs=traces, form=given["format"]) as write:
            write(_documentation(given, terminal_width(output)))
        return 0
    if not traces:
        raise UsageError("give a TRACE, --list or --explain ID (`hbtrace check -h` shows how it is used)")
    if traces.count("-") > 1:
        raise UsageError("standard input can be read only once")
    wanted = [] if given["require"] is None else require.parse(given["require"])
    with reporting("check", given, output, force=force, inputs=traces) as reports:
        return _judge(traces, wanted, output, given, reports, force=force)


def _judge(
    traces: tuple[str, ...], wanted: list[Requirement], output: str | None, given: dict[str, Any], reports: Reports, *,
    force: bool,
) -> int:  # fmt: skip
    from hbtrace.checks.require import unmet
    from hbtrace.cli.output import say, warn
    from hbtrace.cli.showing import read_each, showing
    from hbtrace.compare.check_result import CheckedTrace, CheckResult
    from hbtrace.compare.result import Unreadable, exit_code

    result = CheckResult(several=len(traces) > 1)
    with showing(output, given, force=force, inputs=traces, several=result.several) as show:
        for found in read_each(traces, partial(_read, given=given)):
            if isinstance(found, Unreadable):
                result.traces.append(found)
                continue
            warn(found.warnings)
            show.heading(found.path, first=not result.traces)
            trace = CheckedTrace(found, unmet(wanted, found.coverage))
            show.trace(trace)
            result.traces.append(trace)
            if found.nothing:
                say(f"hbtrace: {found.nothing}")
        reports.result = result
        if result.several or not result.unreadable or given["format"] != "json":  # what is no run is no document
            show.whole(result)
    return exit_code(result)


def _read(path: str, given: dict[str, Any]) -> Checked:
    """Check one trace."""
    from hbtrace.checks.checked import check_source
    from hbtrace.cli.progress import tell_races, watched
    from hbtrace.importers.source import open_source

    return check_source(
        watched(open_source(path)),
        threads=given["threads"], skip_weights=given["skip_weights"], strict=given["strict"],
        tell=tell_races(),
    )  # fmt: skip


def _documentation(given: dict[str, Any], width: int | None) -> str | bytes:
    from hbtrace.checks.registry import all_rules, rule
    from hbtrace.report import check as report

    rules = list(all_rules()) if given["explain"] is None else [rule(given["explain"])]
    if given["format"] == "json":
        return report.rules_json(rules)
    if given["format"] != "text":
        raise UsageError("--list and --explain print `--format text` or `json`")
    return report.list_text(rules, width) if given["explain"] is None else report.explain_text(rules[0], width)
