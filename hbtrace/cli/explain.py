"""`hbtrace explain`: one race in full."""

from __future__ import annotations

from typing import Any

import click

from hbtrace.cli.options import output_options, replay_options, settings_of


@click.command(
    epilog="""\b
Examples:
  hbtrace explain run.arrow C-5e8c8b
  hbtrace explain run.arrow R-2a1d6a
  hbtrace explain run.arrow 431
"""
)
@click.argument("trace", metavar="TRACE")
@click.argument("ident", metavar="ID")
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@output_options(("text", "json"))
def command(trace: str, ident: str, output: str | None, force: bool, **given: Any) -> int:
    """Explain one race of TRACE: both sides, the missing edge, a witness, the fix.

    ID is a distinct race (R-...), a root cause (C-..., see `hbtrace triage`) or the row of a racing access. Of its
    reports the first of those with the worst effect is explained. The
    witness is a legal schedule in which the wrong value is read; it was executed.

    Exit code: 1, as the trace has a race; 2 wrong use, or no race with this id; 3 a trace that cannot be read or
    has no access.
    """
    from hbtrace.cli.output import open_output, terminal_width, warn
    from hbtrace.cli.progress import watched
    from hbtrace.explain.explanation import explain
    from hbtrace.explain.triage import check_wanted, triage_source, wanted_of
    from hbtrace.importers.source import Rereadable, open_source
    from hbtrace.report import explain as report

    check_wanted(ident)
    with open_output(output, force=force, inputs=(trace,), form=given["format"]) as write:
        source = Rereadable(watched(open_source(trace)))
        found = triage_source(source, settings_of(given))
        reports = wanted_of(found, ident)
        warn([*found.unseen, *found.warnings])
        explanation = explain(found, reports, source.batches)
        if given["format"] == "json":
            write(report.document(explanation))
        else:
            write(report.render(explanation, terminal_width(output)))
    return 1
