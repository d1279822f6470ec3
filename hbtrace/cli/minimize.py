"""`hbtrace minimize`: the smallest trace that still shows a race."""

from __future__ import annotations

from typing import Any

import click

from hbtrace.cli.options import replay_options, settings_of


@click.command(
    epilog="""\b
Examples:
  hbtrace minimize run.arrow R-2a1d6a -o small.jsonl
  hbtrace minimize run.arrow C-5e8c8b -o - | hbtrace analyze -
"""
)
@click.argument("trace", metavar="TRACE")
@click.argument("ident", metavar="ID")
@click.option("-o", "--output", metavar="FILE", required=True, help="The small trace, by its suffix; - is JSON Lines.")
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@replay_options
def command(trace: str, ident: str, output: str, force: bool, **given: Any) -> int:
    """Write the smallest trace that still shows one race of TRACE.

    It is valid by the format, holds no times, call sites or bystanders, and loses the race if any of its events is
    left out: ready to be committed as a test. ID is as for `hbtrace explain`.

    Exit code: 0, 2 wrong use, or no race with this id, 3 a trace that cannot be read.
    """
    from hbtrace.cli.output import refuse_inputs, say, warn
    from hbtrace.explain.minimize import minimize
    from hbtrace.explain.triage import check_wanted, triage_source, wanted_of, worst_of
    from hbtrace.importers.source import Rereadable, open_source
    from hbtrace.trace.writer import check_target, open_writer

    check_wanted(ident)
    refuse_inputs(output, (trace,))
    check_target(output, force=force)
    settings = settings_of(given)
    source = Rereadable(open_source(trace))
    found = triage_source(source, settings)
    reports = wanted_of(found, ident)
    warn([*found.unseen, *source.warnings])
    with open_writer(output, force=force) as writer:
        events = minimize(source.batches(), reports[worst_of(found, reports)], settings)
        writer.write_rows(events)
    where = "" if output == "-" else f" in {output}"
    say(f"{len(events)} of {found.recording.rows:,} events{where}")
    return 0
