"""`hbtrace simulate ggml`: a trace of the scheduler's model, and what its schedules compute."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from hbtrace.errors import UsageError


@click.command(
    epilog="""\b
Examples:
  hbtrace simulate ggml -o ring.arrow
  hbtrace simulate ggml --ring 0 -o off.arrow && hbtrace check off.arrow
  hbtrace simulate ggml --backend CUDA0 --backend CUDA1 \\
    --fault copy-unordered -o copies.arrow
  hbtrace simulate ggml --list-faults
"""
)
@click.option("--ring", type=click.IntRange(0, 4), default=2, show_default=True,
              help="Depth of the input ring; 0 and 1 are off. It can only reduce what was detected.")  # fmt: skip
@click.option("--ubatch", type=click.IntRange(1, 4096), default=32, show_default=True, help="Tokens of a ubatch.")
@click.option("--prompt", type=click.IntRange(1, 1 << 16), default=200, show_default=True, help="Tokens of the prompt.")
@click.option("--decode", type=click.IntRange(0, 1 << 16), default=16, show_default=True, help="Tokens to generate.")
@click.option("--layers", type=click.IntRange(1, 256), default=4, show_default=True, help="Layers of the model.")
@click.option("--backend", "backends", multiple=True, metavar="NAME[:CAPS]",
              help="A device, repeatable; CAPS are words such as integrated, discrete, sync, no-events. Without them"
                   " what is known of the name. Default: ROCm0, an integrated GPU.")  # fmt: skip
@click.option("--schedule", default="in-order", show_default=True,
              type=click.Choice(("in-order", "latest", "random")), help="When queues do their work.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of random schedules.")
@click.option("--schedules", type=click.IntRange(0, 10000), default=50, show_default=True,
              help="How many schedules to compare with in-order.")  # fmt: skip
@click.option("--warmup/--no-warmup", default=True, help="Run one token before the prompt.")
@click.option(
    "--reuse/--no-reuse", default=True, help="Reuse the graph of an equal ubatch, or build it anew each time."
)
@click.option("--cpu-embd", is_flag=True, help="The token look-up is a CPU split.")
@click.option("--cpu-ops", is_flag=True, help="Operations between the layers run on the CPU.")
@click.option("--eval-callback", is_flag=True, help="Compute and wait node by node.")
@click.option("--fault", metavar="NAME", help="Break one thing; --list-faults has the names.")
@click.option("--list-faults", is_flag=True, help="Say what can be broken, and what finds it.")
@click.option(
    "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="How to print."
)
@click.option("-o", "--output", metavar="FILE", help="The trace: .arrow, .arrows or .jsonl; - is standard output.")
@click.option("-f", "--force", is_flag=True, help="Overwrite the output file.")
def command(**given: Any) -> int:
    """Run the model of the ggml scheduler and write its trace.

    It really computes: small values go through its buffers while its queues run by a schedule, so that a race shows as
    a wrong result. Printed are a hash of the result and how many schedules give another one. Without options it is a
    correct run of a hazardous set-up, the ring engaged.

    Exit code: 0, 2 wrong use.
    """
    from hbtrace.report import simulate as report
    from hbtrace.simulate.faults import listed

    if given["list_faults"]:
        from hbtrace.cli.output import show, terminal_width

        faults = listed()
        text = given["form"] == "text"
        show(report.faults_text(faults, terminal_width(None)) if text else report.faults_json(faults))
        return 0
    if given["output"] is None:
        raise UsageError("give -o FILE for the trace")
    return _run(given)


def _run(given: dict[str, Any]) -> int:
    from hbtrace.escape import printed
    from hbtrace.report import simulate as report
    from hbtrace.simulate.ggml import Config, parse_device, simulate
    from hbtrace.trace.writer import open_writer

    settings = {field.name: given[field.name] for field in fields(Config) if field.name in given}
    if given["backends"]:
        settings["devices"] = tuple(map(parse_device, given["backends"]))
    simulation = simulate(Config(**settings))
    with open_writer(given["output"], force=given["force"]) as writer:
        writer.write_rows(simulation.rows)
    told = report.facts(simulation, given["output"], given["schedule"], given["seed"], given["schedules"])
    text = printed(report.run_text(told)) if given["form"] == "text" else report.run_json(told)
    click.echo(text, nl=False, err=given["output"] == "-")
    return 0
