"""`hbtrace check`: the rules of the input ring, caches, allocator and events on a trace; what the run exercised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hbtrace.cli.options import output_options, replay_options
from hbtrace.errors import HbtraceError, UsageError
from hbtrace.escape import as_text, harmless

if TYPE_CHECKING:
    from hbtrace.checks import Checked


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
@click.option("--explain", metavar="ID", help="What a check looks at, why it matters, what mends it.")
@replay_options
@output_options(("text", "json", "jsonl", "markdown", "github", "sarif", "junit"))
def command(traces: tuple[str, ...], output: str | None, force: bool, **given: Any) -> int:
    """Check recorded runs against the rules of the scheduler, and say what a clean run is worth.

    Errors and warnings are findings; info is what to know. A check whose fields the trace lacks is not checkable, and
    has not passed. The coverage verdict says whether the run exercised what can race.

    Exit code: 0 no error or warning, 1 findings, 2 wrong use, 3 a trace that cannot be read, 4 --require is not met.
    """
    from hbtrace.checks import require
    from hbtrace.cli.output import open_output, say, terminal_width, warn
    from hbtrace.report import check as report
    from hbtrace.report import check_formats

    if given["listing"] or given["explain"] is not None:
        with open_output(output, force=force, inputs=traces, form=given["format"]) as write:
            write(_documentation(given, terminal_width(output)))
        return 0
    if not traces:
        raise UsageError("give a TRACE, --list or --explain ID (`hbtrace check -h` shows how it is used)")
    if traces.count("-") > 1:
        raise UsageError("standard input can be read only once")
    wanted = [] if given["require"] is None else require.parse(given["require"])
    several, codes, objects, failures, told = len(traces) > 1, [0], [], [], []
    with open_output(output, force=force, inputs=traces, form=given["format"]) as write:
        for number, path in enumerate(traces):
            try:
                checked = _one(path, given)
            except HbtraceError as error:  # a trace that cannot be read does not hide the others
                if not several:
                    raise
                say(f"hbtrace: {error}")
                codes.append(error.exit_code)
                failures.append({"path": path, "error": str(error), "exit_code": error.exit_code})
                told.append(check_formats.Told(path, error=as_text(str(error))))
                continue
            warn(checked.warnings)
            unmet = require.unmet(wanted, checked.coverage)
            codes.append(4 if unmet else 1 if checked.failed else 0)
            if given["format"] == "json":
                objects.append(report.trace_object(checked, unmet))
            elif given["format"] != "text":
                told.append(check_formats.Told(path, checked, unmet))
            else:
                heading = f"{chr(10) if number else ''}== {harmless(path)}\n\n" if several else ""
                write(heading + report.render(checked, unmet, terminal_width(output)))
        if given["format"] == "json":
            write(report.document(objects, failures, several=several))
        elif given["format"] != "text":
            write(check_formats.render(given["format"], told))
    return min(codes, key=(70, 3, 2, 4, 1, 0).index)


def _one(path: str, given: dict[str, Any]) -> Checked:
    from hbtrace.checks import check_source
    from hbtrace.cli.progress import watched
    from hbtrace.info.info import open_contents

    return check_source(
        watched(open_contents(path)),
        threads=given["threads"], skip_weights=given["skip_weights"], strict=given["strict"],
    )  # fmt: skip


def _documentation(given: dict[str, Any], width: int | None) -> str:
    from hbtrace.checks.registry import RULES, rule
    from hbtrace.report import check as report

    rules = list(RULES) if given["explain"] is None else [rule(given["explain"])]
    if given["format"] == "json":
        return report.rules_json(rules)
    if given["format"] != "text":
        raise UsageError("--list and --explain print `--format text` or `json`")
    return report.list_text(rules, width) if given["explain"] is None else report.explain_text(rules[0], width)
