"""`hbtrace analyze`: races in the documented text, a summary, machine formats, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from hbtrace.cli.options import filter_options, output_options, replay_options
from hbtrace.errors import HbtraceError, UsageError

if TYPE_CHECKING:
    from hbtrace.analysis import Options
    from hbtrace.cli.output import Write
    from hbtrace.importers.ggml_sanitize import Reports

FORMATS: Final = ("text", "json", "jsonl")


@click.command(
    epilog="""\b
Examples:
  hbtrace analyze run.arrow
  hbtrace analyze run.arrow --tensor 'attn_inp_kq_mask*' --ubatch 2-5 -v
  hbtrace analyze base.arrow head.arrow --format json -o races.json
"""
)
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@filter_options
@click.option("--all", "every", is_flag=True, help="Show every report, not only the first of each distinct race.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show N reports of each distinct race.")
@click.option("-v", "--verbose", is_flag=True, help="Add id, rows, ubatches, threads, call sites, view chains.")
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@output_options(FORMATS)
def command(traces: tuple[str, ...], output: str | None, force: bool, **given: Any) -> int:
    """Find the races of recorded runs and print them.

    TRACE is an Arrow IPC file or stream, JSON Lines, a log of the ggml scheduler sanitizer, or - for standard
    input. By default the first report of each distinct race is shown, with its repeat count.

    Exit code: 0 no race, 1 races, 2 wrong use, 3 a trace that cannot be read.
    """
    from hbtrace.cli.output import open_output

    if given["every"] and given["limit"]:
        raise UsageError("give --all or --limit, not both")
    if traces.count("-") > 1:
        raise UsageError("standard input can be read only once")
    with open_output(output, force=force) as write:
        return _run(traces, _options(given), write, form=given["format"], verbose=given["verbose"])


def _options(given: dict[str, Any]) -> Options:
    from hbtrace.analysis import Options
    from hbtrace.compare.select import Filters

    names = ("tensor", "buffer", "actor", "label", "kind", "ids", "split", "ubatch")
    return Options(
        threads=given["threads"],
        skip_weights=given["skip_weights"],
        strict=given["strict"],
        fold_layers=given["fold_layers"],
        filters=Filters(**{name: given[name] for name in names}),
        limit=None if given["every"] else given["limit"] or 1,
    )


def _run(traces: tuple[str, ...], options: Options, write: Write, *, form: str, verbose: bool) -> int:
    """Analyze each trace; the worst exit code counts. A trace that cannot be read does not hide the others."""
    from hbtrace.analysis import analyze_source
    from hbtrace.cli.output import warn
    from hbtrace.cli.progress import watched
    from hbtrace.report import json, text
    from hbtrace.source import open_source, pasted_reports

    codes, outcomes = [0], []
    for number, path in enumerate(traces):
        try:
            pasted = pasted_reports(path)
            if pasted is not None:
                codes.append(_pasted(path, pasted, write, form=form))
                continue
            outcome = analyze_source(watched(open_source(path)), options)
        except HbtraceError as error:
            if len(traces) == 1:
                raise
            click.echo(f"hbtrace: {error}", err=True)
            codes.append(error.exit_code)
            continue
        codes.append(1 if outcome.selection.shown else 0)
        outcomes.append(outcome)
        if form == "text":
            warn(outcome.warnings)
            heading = f"{'' if number == 0 else chr(10)}== {path}\n\n" if len(traces) > 1 else ""
            write(heading + text.render(outcome, verbose=verbose, colour=sys.stdout.isatty()))
        elif form == "jsonl":
            warn(outcome.warnings)
            for line in json.lines(outcome):
                write(line)
    if form == "json" and outcomes:
        write(json.document(outcomes, several=len(traces) > 1))
    return worst(codes)


def _pasted(path: str, reports: Reports, write: Write, *, form: str) -> int:
    """A log of nothing but RACE blocks cannot be replayed: say what is in it."""
    from hbtrace.importers.ggml_sanitize import summary_text

    if form != "text":
        raise UsageError(f"{path}: holds pasted reports and no trace: only --format text can show it")
    write(summary_text(path, reports))
    return 1


def worst(codes: Iterable[int]) -> int:
    """Of several exit codes the one that counts."""
    return min(codes, key=(70, 3, 2, 4, 1, 0).index)
