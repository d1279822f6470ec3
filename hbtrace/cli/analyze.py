"""`hbtrace analyze`: races in the documented text, a summary, machine formats, exit codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hbtrace.cli.gate import FORMATS, gate_options
from hbtrace.cli.options import filter_options, output_options, replay_options
from hbtrace.errors import HbtraceError, UsageError
from hbtrace.escape import as_text, harmless

if TYPE_CHECKING:
    from hbtrace.cli.output import Write
    from hbtrace.compare.findings import Verdict
    from hbtrace.compare.outcome import Options, Outcome
    from hbtrace.importers.ggml_sanitize import LoggedReports
    from hbtrace.races.suppressions import Suppressions


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
    help="Only races that come to this; repeatable.",
)
@click.option("--all", "every", is_flag=True, help="Show every report, not only the first of each distinct race.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show N reports of each distinct race.")
@click.option("-v", "--verbose", is_flag=True, help="Add id, rows, ubatches, call sites, view chains, consequence.")
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@click.option("--gen-suppressions", is_flag=True, help="Print a ready suppression under each report.")
@gate_options("any")
@output_options((*FORMATS, "toml"))
def command(traces: tuple[str, ...], output: str | None, force: bool, **given: Any) -> int:
    """Find the races of recorded runs and print them.

    TRACE is an Arrow IPC file or stream, JSON Lines, a log of the ggml scheduler sanitizer, or - for standard
    input. By default the first report of each distinct race is shown, with its repeat count. What a race comes to is
    `live` if a value that it can change reaches a host read or the end, `dead` if all of it is overwritten before,
    and `unknown` where the trace does not tell; that takes a second pass over a trace that has races. `--format toml`
    is a file for --suppressions, a block for each race shown.

    Exit code: 0 no race, 1 races, 2 wrong use, 3 a trace that cannot be read.
    """
    from hbtrace.cli.gate import exit_code, load_suppressions, replay_settings
    from hbtrace.cli.output import open_output, terminal_width, warn

    if given["every"] and given["limit"]:
        raise UsageError("give --all or --limit, not both")
    if traces.count("-") > 1:
        raise UsageError("standard input can be read only once")
    suppressions = load_suppressions(given["suppressions"])
    options = replace(
        replay_settings(given, suppressions, limit=None if given["every"] else given["limit"] or 1),
        consequence=True, only=frozenset(given["only"]),
    )  # fmt: skip
    codes: list[int] = []
    outcomes: list[Outcome] = []
    with open_output(output, force=force, inputs=traces, form=given["format"]) as write:
        show = _Shower(write, given, several=len(traces) > 1, width=terminal_width(output))
        for path in traces:
            try:
                outcomes += _one(path, options, show)
            except HbtraceError as error:  # a trace that cannot be read does not hide the others
                if len(traces) == 1:
                    raise
                show.failed(path, error)
                codes.append(error.exit_code)
        verdict = _verdict(outcomes, suppressions)
        verdict.errors += show.errors
        show.end(outcomes, verdict)
    _say_what_matches_nothing(options, outcomes)
    if suppressions is not None:
        warn(suppressions.complaints())
    codes.append(exit_code(verdict, given["fail_on"], exit_zero=given["exit_zero"]))
    if show.pasted and not given["exit_zero"]:
        codes.append(1)
    return worst(codes)


def _one(path: str, options: Options, show: _Shower) -> list[Outcome]:
    """Analyze one trace and show it; a log of nothing but RACE blocks is summarised and is no outcome."""
    from hbtrace.cli.progress import watched
    from hbtrace.compare.outcome import analyze_source
    from hbtrace.importers.source import open_source, pasted_reports

    pasted = pasted_reports(path)
    if pasted is not None:
        show.reports(path, pasted)
        return []
    outcome = analyze_source(watched(open_source(path)), options)
    show.trace(outcome)
    return [outcome]


def _verdict(outcomes: Iterable[Outcome], suppressions: Suppressions | None) -> Verdict:
    """All traces as one verdict, for the exit code and the outputs that need it whole."""
    from hbtrace.compare.findings import Verdict, findings_of

    verdict = Verdict("analyze")
    for outcome in outcomes:
        verdict.findings += findings_of(outcome.selection, outcome.path)
        path = f"{outcome.path}: "
        verdict.notes += [as_text(path + remark) for remark in outcome.remarks]
        verdict.warnings += [as_text(path + warning.removeprefix(path)) for warning in outcome.warnings]
    verdict.findings.sort(key=lambda finding: (finding.trace, finding.ident))
    verdict.warnings += suppressions.complaints() if suppressions is not None else []
    return verdict


def _say_what_matches_nothing(options: Options, outcomes: Sequence[Outcome]) -> None:
    """A filter of which no trace has ever heard may be a typing error: `no race` then means nothing."""
    from hbtrace.cli.output import note
    from hbtrace.compare.sides import in_neither, unmatched

    nowhere: dict[str, set[str]] | None = None
    for outcome in outcomes if options.filters else ():
        nowhere = in_neither(unmatched(options.filters, outcome), nowhere)
    for option, values in (nowhere or {}).items():
        for value in sorted(values):
            where = "the trace" if len(outcomes) == 1 else "any trace"
            note([f"--{option} {value}: matches no {option} of {where}"])


class _Shower:
    """Writes text and lines trace by trace, documents at the end."""

    def __init__(self, write: Write, given: dict[str, Any], *, several: bool, width: int | None) -> None:
        self._write = write
        self._width = width
        self._given = given
        self._form = given["format"]
        self._several = several
        self._shown = 0
        self._failures: list[dict[str, Any]] = []
        self.pasted = False

    def failed(self, path: str, error: HbtraceError) -> None:
        """A trace of several that could not be analyzed: said at once, and in the document."""
        from hbtrace.cli.output import say

        say(f"hbtrace: {error}")
        self._failures.append({"path": path, "error": str(error), "exit_code": error.exit_code})

    @property
    def errors(self) -> list[str]:
        return [as_text(failure["error"]) for failure in self._failures]

    def trace(self, outcome: Outcome) -> None:
        from hbtrace.cli.output import note, warn

        if self._form == "text":
            from hbtrace.report import text

            warn(outcome.warnings)
            self._heading(outcome.path)
            self._write(
                text.render(
                    outcome, verbose=self._given["verbose"], suppression=self._given["gen_suppressions"],
                    width=self._width,
                )
            )  # fmt: skip
        elif self._form in ("jsonl", "toml"):
            from hbtrace.report import json

            warn(outcome.warnings)
            for line in json.lines(outcome) if self._form == "jsonl" else ():
                self._write(line)
            note(f"{outcome.path}: {remark}" for remark in outcome.remarks)

    def reports(self, path: str, reports: LoggedReports) -> None:
        """A log of nothing but RACE blocks cannot be replayed: say what is in it."""
        from hbtrace.importers.ggml_sanitize import summary_text

        if self._form != "text":
            raise UsageError(f"{path}: holds pasted reports and no trace: only --format text can show it")
        self.pasted = True
        self._heading(path)
        self._write(summary_text(path, reports))

    def end(self, outcomes: list[Outcome], verdict: Verdict) -> None:
        from hbtrace.cli.gate import render_verdict

        if self._form == "json" and (outcomes or self._several):
            from hbtrace.report import json

            self._write(json.document(outcomes, self._failures, several=self._several))
        elif self._form == "toml":
            from hbtrace.races.suppressions import suppression_file

            races = ((report, outcome.id_of(report)) for outcome in outcomes for report in outcome.reports)
            self._write(suppression_file(races))
        elif self._form not in ("text", "json", "jsonl"):
            self._write(render_verdict(verdict, self._given))

    def _heading(self, path: str) -> None:
        if self._several:
            self._write(f"{chr(10) if self._shown else ''}== {harmless(path)}\n\n")
        self._shown += 1


def worst(codes: Iterable[int]) -> int:
    """Of several exit codes the one that counts."""
    return min(codes, key=(70, 3, 2, 4, 1, 0).index)
