"""`hbtrace simulate strata`: a run of the pipelined loop's model, as a trace."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from hbtrace.errors import UsageError

if TYPE_CHECKING:
    from hbtrace.strata.model.simulate import Run


@click.command(
    epilog="""\b
Examples:
  hbtrace simulate strata -o ring.arrow
  hbtrace simulate strata --mode copy -o copy.arrow
  hbtrace simulate strata --fault records-not-cleared -o bug.arrow
  hbtrace simulate strata --fault snap-wait-removed --logs logs -o live.arrow
"""
)
@click.option(
    "--mode", type=click.Choice(("ring", "copy")), help="How state is kept for an undo. [default: the fault's, or ring]"
)
@click.option("--stages", type=click.IntRange(2, 16), help="Stages of the layer split. [default: 2]")
@click.option(
    "--windows", type=click.IntRange(2, 8), default=2, show_default=True, help="Windows in flight: the depth."
)
@click.option("--requests", type=click.IntRange(1, 100000), default=6, show_default=True, help="Requests of the run.")
@click.option("--layers", type=click.IntRange(1, 1000), default=3, show_default=True, help="Layers of a stage.")
@click.option("--layer-bytes", type=click.IntRange(1), default=64, show_default=True, help="Bytes of a layer's state.")
@click.option("--force-miss", type=click.IntRange(0), default=0, help="Make every N-th guess wrong.")
@click.option("--state-hash", is_flag=True, help="Hash the state after each request, which waits for the device.")
@click.option("--refuse", metavar="WHY", default="", help="The ring is refused for this reason: copy mode is kept.")
@click.option(
    "--schedule", type=click.Choice(("recorded", "latest", "random")), default="recorded", show_default=True,
    help="The order in which the queues really run.",
)  # fmt: skip
@click.option(
    "--schedules", type=click.IntRange(0, 10000), default=20, show_default=True, help="Random ones to compare."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the requests and of random schedules.")
@click.option("--fault", "fault_name", metavar="NAME", help="Plant a bug; --list-faults names them.")
@click.option("--list-faults", is_flag=True, help="List the faults and by what each is found.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="How faults are listed.")
@click.option("--logs", metavar="PREFIX", help="Write PREFIX.trace, .stderr and .stdout, too.")
@click.option("-o", "--output", metavar="FILE", help="The trace: .arrow, .arrows, .jsonl, or - for standard output.")
@click.option("-f", "--force", is_flag=True, help="Overwrite files.")
def command(**given: Any) -> None:
    """Simulate requests of Strata's pipelined loop, with real bytes, and write the trace.

    The same seed gives the same requests in copy and ring mode: their state must end bit for bit equal. Two stages and
    two windows follow the engine's source; more of either is a model of ours.
    """
    if given["list_faults"]:
        _list_faults(given["form"])
        return
    if not given["output"]:
        raise UsageError("where to? give -o FILE (.arrow, .arrows or .jsonl), or -o - for standard output")
    run = _run(given)
    from hbtrace.trace.writer import open_writer

    with open_writer(given["output"], force=given["force"]) as writer:
        writer.write_rows(run.events)
    if given["logs"]:
        _write_logs(run, given["logs"], force=given["force"])
    _tell(run, given)


def _run(given: dict[str, Any]) -> Run:
    from hbtrace.simulate.faults import fault_named
    from hbtrace.strata.model.faults import FAULTS
    from hbtrace.strata.model.simulate import Mix, RunShape, simulate

    planted = fault_named(given["fault_name"], FAULTS) if given["fault_name"] else None
    mode = given["mode"] or (planted.mode if planted else "ring")
    if planted is not None and planted.mode != mode:
        raise UsageError(f"the fault {planted.name} is one of {planted.mode} mode: leave --mode {mode} out")
    stages = given["stages"] or (3 if planted is not None and planted.name == "settle-first-stage-only" else 2)
    shape = RunShape(
        mode=mode, stages=stages, windows=given["windows"], layers=given["layers"], layer_bytes=given["layer_bytes"],
        fault=planted.name if planted else "", state_hash=given["state_hash"], refused=given["refuse"],
    )  # fmt: skip
    return simulate(shape, Mix(requests=given["requests"], force_miss=given["force_miss"]), given["seed"])


def _tell(run: Run, given: dict[str, Any]) -> None:
    """On standard error: the result's hash, how many schedules differ, and what to type next."""
    from hbtrace.cli.output import say, warn

    outcome = run.outcome(given["schedule"], given["seed"])
    say(f"{run.shape.mode}, {run.shape.stages} stages, {run.shape.windows} windows: result {outcome.digest}")
    if run.shape.fault and not run.showed():
        warn(["the fault never showed: every row is as in a sound run (more --requests, or another --seed)"])
    if given["schedules"]:
        differing = run.differing(given["schedules"], given["seed"])
        say(f"{differing} of {given['schedules']} random schedules end or show something else")
    if run.shape.mode == "ring":
        from hbtrace.strata.model.sizes import saved_each_window

        saved = saved_each_window(run.shape.layers, run.shape.layer_bytes)
        say(
            f"the ring spares each window of a front stage a copy of {saved.copied:,} bytes"
            f" ({saved.traffic:,} read and written)"
        )
    if given["output"] != "-":
        say(f"wrote {given['output']}: {len(run.events):,} rows")
        path = quote(given["output"])
        say(f"next: hbtrace check {path}; hbtrace analyze {path}")
    if run.shape.fault and run.showed() and not _found(run):
        say("error: the fault changed the run, and neither a rule nor a race shows it")
        click.get_current_context().exit(4)


def _found(run: Run) -> bool:
    """Whether anything of a faulty run tells that it is one: a rule of the protocol or the grammar, or a race that is
    none of copy mode's own."""
    from hbtrace.replay.session import analyze_events
    from hbtrace.strata.checks.grammar import grammar
    from hbtrace.strata.checks.protocol import rules
    from hbtrace.strata.checks.races import COPY_RACES, copy_race

    if rules(run.events) or grammar(run.events):
        return True
    return any(copy_race(report) not in COPY_RACES for report in analyze_events(run.events).reports)


def _write_logs(run: Run, prefix: str, *, force: bool) -> None:
    from hbtrace.cli.output import open_output
    from hbtrace.strata.model.written_logs import write_logs

    logs = write_logs(run)
    for suffix, text in (("trace", logs.trace), ("stderr", logs.stderr), ("stdout", logs.stdout)):
        with open_output(f"{prefix}.{suffix}", force=force, form="log") as write:
            write(text)


def _list_faults(form: str) -> None:
    from hbtrace.cli.output import show
    from hbtrace.strata.model.faults import FAULTS

    if form == "json":
        from hbtrace.escape import json_document

        entries = [
            {"name": entry.name, "engine": "strata", "expects": entry.expects, "mode": entry.mode, "about": entry.about}
            for entry in FAULTS
        ]
        show(json_document(entries))
        return
    width = max(len(entry.name) for entry in FAULTS)
    for entry in FAULTS:
        unseen = " (no byte is wrong)" if entry.bytes_right else ""
        show(f"{entry.name:<{width}}  {entry.expects:<9}  {entry.mode}: {entry.about}{unseen}\n")
