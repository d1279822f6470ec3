"""`hbtrace info`: what is in a trace, and where the in-place hazard can arise."""

from __future__ import annotations

from typing import Final

import click

from hbtrace.cli.options import budget_option, output_options

FORMATS: Final = ("text", "json")


@click.command(
    epilog="""\b
Examples:
  hbtrace info run.arrow
  hbtrace info run.arrow --format json | jq '.queues[].hazard.verdict'
"""
)
@click.argument("trace")
@budget_option
@output_options(FORMATS)
@click.help_option("-h", "--help")
def command(trace: str, output: str | None, force: bool, **given: str) -> None:
    """Show what is in TRACE: engine, devices, buffers, events, phases.

    For each device it says whether the in-place hazard can arise and why: its backend is asynchronous, and computes
    on the buffer type that the CPU slot of its scheduler was handed. TRACE is whatever `hbtrace analyze` takes.

    Exit code: 0, 2 wrong use, 3 a trace that cannot be read.
    """
    from hbtrace.cli.output import open_output, warn
    from hbtrace.cli.progress import watched
    from hbtrace.importers.source import open_source
    from hbtrace.info.info import info_of
    from hbtrace.report.info import document, render

    with open_output(output, force=force, inputs=(trace,), form=given["format"]) as write:
        result = info_of(watched(open_source(trace)))
        warn(result.warnings)
        write(document(result) if given["format"] == "json" else render(result))
