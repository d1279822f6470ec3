"""`hbtrace whatif`: the same trace under another rule, and the smallest fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hbtrace.cli.options import filter_options, filters_of, output_options, replay_options, settings_of
from hbtrace.errors import UsageError

if TYPE_CHECKING:
    from hbtrace.importers.source import Source
    from hbtrace.races.filters import Filters
    from hbtrace.what_if.rewriting import Entry, Rule
    from hbtrace.what_if.whatif import Batches, Side


@click.command(
    epilog="""\b
Examples:
  hbtrace whatif run.arrow --ring 2
  hbtrace whatif run.arrow --sync before:embd --hide-direct --format json
  hbtrace whatif run.arrow --after-dst -o fixed.arrow
  hbtrace whatif run.arrow --fix
"""
)
@click.argument("trace", metavar="TRACE")
@click.option("--ring", type=int, metavar="N", help="Inputs rotate over N slots; the host waits on slot entry.")
@click.option("--pin", is_flag=True, help="Memory that a queue may still use is not handed to another tensor.")
@click.option("--sync", multiple=True, metavar="POINT", help="The host waits: ubatch, before:TENSOR or row:N.")
@click.option("--event", multiple=True, metavar="POINT", help="As --sync, with an event record and wait.")
@click.option(
    "--edge",
    multiple=True,
    metavar="CAUSE",
    help="Add the order that this root cause lacks (C-...), with an event; C-...=sync stalls the host instead.",
)
@click.option("--drop-edge", multiple=True, type=int, metavar="ROW", help="Leave out the edge in this row.")
@click.option("--copy-on", type=click.Choice(("src", "dst")), help="Asynchronous copies run on this side's queue.")
@click.option("--after-dst", is_flag=True, help="Copies on the source's queue wait for the destination's work.")
@click.option("--synchronous", multiple=True, metavar="NAME", help="This backend's work is done when the call returns.")
@click.option("--hide-direct", is_flag=True, help="Writes and reads through tensor->data are not announced.")
@click.option("--place", multiple=True, metavar="OP=NAME", help="This operation runs on that backend.")
@click.option("--fix", is_flag=True, help="Find the smallest set of fixes that removes every race.")
@click.option("--waits", is_flag=True, help="Which of the trace's own waits carry weight.")
@filter_options
@replay_options
@click.option("--fold-layers", is_flag=True, help="Count races that differ only in a layer's number as one.")
@output_options(("text", "json"))
def command(trace: str, output: str | None, force: bool, **given: Any) -> int:
    """Replay TRACE under another rule, and show before and after by root cause.

    Rules combine. With -o the rewritten trace is written to FILE (.arrow, .arrows or .jsonl; - is JSON Lines on
    standard output, and the comparison then goes to standard error). --fix looks for the smallest fixes instead, each
    verified by replay; with -o it writes the trace under the first answer. --waits looks at all waits and all races: it
    takes neither filters nor -o.

    Exit code: 0 no race is left, 1 races are left, 2 wrong use, 3 a trace that cannot be read or
    has no access.
    """
    from hbtrace.cli.output import refuse_inputs
    from hbtrace.errors import in_trace
    from hbtrace.trace.writer import check_target

    if given["fix"] + given["waits"] + bool(_rules(given) or given["edge"]) != 1:
        raise UsageError("give rules such as --ring 2, or --fix, or --waits")
    for word in given["edge"]:
        _edge(word)
    filters = filters_of(given)
    if given["waits"] and (filters or output is not None):
        raise UsageError("--waits looks at all waits and all races: it takes neither filters nor -o")
    refuse_inputs(output, (trace,))
    if output is not None:
        check_target(output, force=force)
    with in_trace(trace):
        return _replayed(trace, output, filters, force=force, given=given)


def _replayed(trace: str, output: str | None, filters: Filters, *, force: bool, given: dict[str, Any]) -> int:
    """What the verb does once all is well with what was given."""
    from hbtrace.cli.output import note, terminal_width, warn
    from hbtrace.importers.source import Rereadable, open_source
    from hbtrace.races.unmatched import absent_ids
    from hbtrace.report import whatif as report
    from hbtrace.what_if.whatif import rewrite, side_of, whatif

    source = Rereadable(open_source(trace))
    batches, settings, rules = source.batches, settings_of(given), _rules(given)
    if given["waits"]:
        return _weigh(trace, source, batches, settings, given)
    before = side_of(batches(), settings, filters) if given["edge"] else None
    json = given["format"] == "json"
    if given["fix"]:
        from hbtrace.what_if.fix import fix

        fixed = fix(batches, settings, filters)
        first = fixed.before.recording
        warn([*source.warnings, *first.warnings])
        _tell(report.fix_document(fixed, trace) if json else report.render_fix(fixed, trace), output)
        rules = [mend.rule() for mend in fixed.answers[0].mends] if fixed.answers else []
        left = 0 if fixed.answers else fixed.before.races
    else:
        rules += _edges(given, before)
        width = None if output in ("-", "/dev/stdout") else terminal_width(None)
        found = whatif(batches, rules, settings, filters, before=before)
        first = found.before.recording
        warn([*source.warnings, *first.warnings])
        _tell(report.document(found, trace) if json else report.render(found, trace, width), output)
        left = found.after.races
    note(absent_ids(filters, {report.canonical for report in first.reports}))
    if output is not None:
        rules = [*_rules(given), *_edges(given, before)] or rules
        _write(output, rewrite(batches, rules, settings.threads), force=force)
    return 1 if left else 0


def _tell(comparison: str | bytes, output: str | None) -> None:
    """Nothing may stand beside a trace on standard output."""
    from hbtrace.cli.output import show
    from hbtrace.escape import printed

    if output != "-":
        show(comparison)
    else:
        click.echo(comparison if isinstance(comparison, bytes) else printed(comparison), err=True, nl=False)


def _weigh(trace: str, source: Source, batches: Batches, settings: Any, given: dict[str, Any]) -> int:
    from hbtrace.cli.output import show, terminal_width, warn
    from hbtrace.report import whatif as report
    from hbtrace.what_if.waits import weigh

    weighed = weigh(batches(), settings)
    warn(source.warnings)
    text = given["format"] != "json"
    show(report.render_waits(weighed, trace, terminal_width(None)) if text else report.waits_document(weighed, trace))
    return 0


def _rules(given: dict[str, Any]) -> list[Rule]:
    """The rules asked for, new ones: a rule counts its price while it is applied."""
    from hbtrace.what_if.pin import Pin
    from hbtrace.what_if.place import Place
    from hbtrace.what_if.ring import Ring
    from hbtrace.what_if.rules import CopyOn, Drop, HideDirect, Synchronous, Wait

    rules: list[Rule] = [Drop(row) for row in given["drop_edge"]]
    rules += [HideDirect()] if given["hide_direct"] else []
    rules += [Synchronous(name) for name in given["synchronous"]]
    for words in given["place"]:
        what, _, backend = words.rpartition("=")
        if not what or not backend:
            raise UsageError(f"--place {words!r}: give an operation and a backend, such as MUL_MAT=CPU")
        rules.append(Place(what, backend))
    rules += [Pin()] if given["pin"] else []
    rules += [Ring(given["ring"])] if given["ring"] is not None else []
    if given["copy_on"] or given["after_dst"]:
        rules.append(CopyOn(given["copy_on"], given["after_dst"]))
    rules += [Wait(point, asked=True) for point in given["sync"]]
    rules += [Wait(point, "event", asked=True) for point in given["event"]]
    return rules


def _edge(word: str) -> tuple[str, str]:
    """A cause, and how it is to be ordered."""
    ident, _, how = word.partition("=")
    if how not in ("", "sync", "event"):
        raise UsageError(f"--edge {word!r}: give C-... or C-...=sync")
    return ident, how


def _edges(given: dict[str, Any], side: Side | None) -> list[Rule]:
    """The missing orders of the causes that --edge names, new rules each time."""
    from hbtrace.what_if.edges import edges_for

    if side is None:
        return []
    causes = {cause.ident: cause for cause in side.causes}
    rules: list[Rule] = []
    for word in given["edge"]:
        ident, how = _edge(word)
        if ident not in causes:
            raise UsageError(f"--edge {ident}: no such root cause; they are {', '.join(causes) or 'none'}")
        rules.append(edges_for(causes[ident], side.recording, stall=how == "sync"))
    return rules


def _write(path: str, entries: Iterator[Entry], *, force: bool) -> None:
    from hbtrace.trace.writer import open_writer
    from hbtrace.what_if.rewriting import batches_of

    with open_writer(path, force=force) as writer:
        for batch in batches_of(entries):
            writer.write_batch(batch)
