"""`hbtrace triage`: the root causes of a trace's races, one line each."""

from __future__ import annotations

from typing import Any

import click

from hbtrace.cli.options import filter_options, filters_of, output_options, replay_options, settings_of


@click.command(
    epilog="""\b
Examples:
  hbtrace triage run.arrow
  hbtrace triage run.arrow -v --tensor 'attn_inp_kq_mask*'
  hbtrace triage run.arrow --format json | jq '.causes[] | [.id, .mend.short]'
"""
)
@click.argument("trace", metavar="TRACE")
@click.option("-v", "--verbose", is_flag=True, help="Open each cause: its nature, its fix, its distinct races.")
@filter_options
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@click.option("--suppressions", metavar="FILE", help="A TOML file of races that do not count.")
@click.option("--exit-zero", is_flag=True, help="Exit code 0 even if there are races.")
@output_options(("text", "json"))
def command(trace: str, output: str | None, force: bool, **given: Any) -> int:
    """Show the root causes of the races of TRACE, one line each.

    Races that lack the same order are one cause. The line says which order that is, what its effect is, how
    narrow the window is, and the fix; `hbtrace whatif` tries the fix.

    Exit code: 0 no race, 1 races, 2 wrong use, 3 a trace that cannot be read or
    has no access.
    """
    from hbtrace.cli.gate import load_suppressions
    from hbtrace.cli.output import open_output, terminal_width, warn
    from hbtrace.cli.progress import tell_races, watched
    from hbtrace.explain.triage import triage_source
    from hbtrace.importers.source import open_source
    from hbtrace.report import triage as report

    suppressions = load_suppressions(given["suppressions"])
    with open_output(output, force=force, inputs=(trace,), form=given["format"]) as write:
        source = watched(open_source(trace))
        found = triage_source(source, settings_of(given), filters_of(given), suppressions, tell_races())
        if given["format"] == "json":
            write(report.document(found))
        else:
            warn(found.warnings)
            write(report.render(found, verbose=given["verbose"], width=terminal_width(output)))
    warn(() if suppressions is None else map(str, suppressions.complaints()))
    return 1 if found.reports and not given["exit_zero"] else 0
