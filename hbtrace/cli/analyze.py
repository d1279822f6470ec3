"""`hbtrace analyze`: races in the documented text, a summary, machine formats, exit codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hbtrace.cli.gate import gate_options
from hbtrace.cli.options import filter_options, output_options, replay_options
from hbtrace.cli.reporting import Reports, report_option, reporting
from hbtrace.errors import UsageError
from hbtrace.report.formats import FORMATS_OF_ANALYZE

if TYPE_CHECKING:
    from hbtrace.cli.showing import Showing
    from hbtrace.compare.outcome import Options, Outcome


@click.command(
    epilog="""\b
Examples:
  hbtrace analyze run.arrow
  hbtrace analyze run.arrow --tensor 'attn_inp_kq_mask*' --ubatch 2-5 -v
  hbtrace analyze base.arrow head.arrow --format json -o races.json
  hbtrace analyze run.arrow --only live --fail-on any
"""
)
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@filter_options
@click.option(
    "--only",
    type=click.Choice(("live", "dead", "unknown")),
    multiple=True,
    help="Only races with this effect; repeatable.",
)
@click.option("--all", "every", is_flag=True, help="Show every report, not only the first of each distinct race.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show N reports of each distinct race.")
@click.option("-v", "--verbose", is_flag=True, help="Add id, rows, ubatches, call sites, view chains, effect.")
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@click.option("--gen-suppressions", is_flag=True, help="Print a ready suppression under each report.")
@gate_options("any")
@report_option(FORMATS_OF_ANALYZE)
@output_options(FORMATS_OF_ANALYZE)
def command(traces: tuple[str, ...], output: str | None, force: bool, **given: Any) -> int:
    """Find the races of recorded runs and print them.

    TRACE is an Arrow IPC file or stream, JSON Lines, a log of the ggml scheduler sanitizer, of PyTorch's CUDA
    sanitizer (CSAN) or of Vulkan's synchronization validation, or - for standard input. Logs may be wrapped by docker,
    journald, GitHub Actions or CRI; text may be packed (.gz, .xz, .zst).

    By default the first report of each distinct race is shown, with its repeat count. The effect of a race is visible
    (`live`) if a value that it can change reaches a host read or the end, overwritten (`dead`) if all of it is
    overwritten before, and `unknown` where the trace does not tell; that takes a second pass over a trace that has
    races. `--format toml` is a file for --suppressions, a block for each race shown.

    Exit code: 0 no race, 1 races, 2 wrong use, 3 a trace that cannot be read or has no access, 4 with --fail-on or
    --suppressions: the recorder could not see some calls.
    """
    if given["every"] and given["limit"]:
        raise UsageError("give --all or --limit, not both")
    if traces.count("-") > 1:
        raise UsageError("standard input can be read only once")
    with reporting("analyze", given, output, force=force, inputs=traces) as reports:
        return _judge(traces, output, given, reports, force=force)


def _judge(
    traces: tuple[str, ...], output: str | None, given: dict[str, Any], reports: Reports, *, force: bool
) -> int:
    from hbtrace.cli.gate import load_suppressions, replay_settings
    from hbtrace.cli.output import note, warn
    from hbtrace.cli.showing import read_each, showing
    from hbtrace.compare.race_result import analysis
    from hbtrace.compare.result import Unreadable, exit_code
    from hbtrace.races.unmatched import absent_ids

    suppressions = load_suppressions(given["suppressions"])
    options = replace(
        replay_settings(given, suppressions, limit=None if given["every"] else given["limit"] or 1),
        consequence=True, only=frozenset(given["only"]),
    )  # fmt: skip
    outcomes: list[Outcome] = []
    unreadable: list[Unreadable] = []
    several = len(traces) > 1
    with showing(output, given, force=force, inputs=traces, several=several) as show:
        every = read_each(traces, partial(_read, options=options))
        for found in _matched(every, options) if options.filters else every:
            if isinstance(found, Unreadable):
                unreadable.append(found)
            else:
                _show(found, show, first=not outcomes)
                outcomes.append(found)
        result = analysis(outcomes, unreadable, fail_on=given["fail_on"], several=several, gates=_gates(given))
        result.heed(suppressions)
        reports.result = result
        show.whole(result)
    note(absent_ids(options.filters, [canonical for one in outcomes for canonical in one.selection.known]))
    if suppressions is not None:
        warn(map(str, suppressions.complaints()))
    return exit_code(result, exit_zero=given["exit_zero"])


def _gates(given: dict[str, Any]) -> bool:
    """Whether somebody said which races fail: then a run that was not seen whole is no clean one, by its code too."""
    asked = click.get_current_context().get_parameter_source("fail_on") is ParameterSource.COMMANDLINE
    return given["fail_on"] != "none" and (asked or given["suppressions"] is not None)


def _read(path: str, options: Options) -> Outcome:
    """Analyze one trace."""
    from hbtrace.cli.progress import tell_races, watched
    from hbtrace.compare.outcome import analyze_source
    from hbtrace.importers.source import open_source

    return analyze_source(watched(open_source(path)), options, tell_races())


def _show(outcome: Outcome, show: Showing, *, first: bool) -> None:
    """What there is to say of one trace already, and what the format has no place for."""
    from hbtrace.cli.output import note, warn

    if not show.format.has_warnings:
        warn(outcome.warnings)
    show.heading(outcome.path, first=first)
    show.trace(outcome)
    if not show.format.has_notes:
        beside = [*([outcome.unseen] if outcome.unseen else []), *outcome.remarks, *outcome.selection.left_out]
        note(f"{outcome.path}: {remark}" for remark in beside)


def _matched(found: Iterable[Any], options: Options) -> Sequence[Any]:
    """All traces, read before the first is shown: a filter of which none has ever heard is wrong use, and `no race`
    must not stand there before. Raises UsageError; where something could not be read, that is the worse."""
    from hbtrace.cli.output import warn
    from hbtrace.compare.outcome import Outcome
    from hbtrace.compare.result import Unreadable
    from hbtrace.races.unmatched import Nameable, check_filters

    every, known = list(found), Nameable()
    outcomes = [one for one in every if isinstance(one, Outcome)]
    for outcome in outcomes:
        known.add(outcome.nameable)
    try:
        if outcomes:
            check_filters(options.filters, known, several=len(every) > 1)
    except UsageError as error:
        if not any(isinstance(one, Unreadable) for one in every):
            raise
        warn([str(error)])
    return every
