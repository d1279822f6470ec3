"""A simulated run as the logs that the engine would have written: for tours and tests of what reads them.

What it is: the pipeline trace, standard error and standard output of a run, in the engine's formats. What it is not:
every line of them. Items of the state hash that the model has no memory for are the hash of nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from hbtrace.strata.model.simulate import Run
from hbtrace.strata.model.steps import LoopStep, Request


@dataclass(frozen=True)
class Logs:
    """Three captures of one run, and all of it as one."""

    trace: str
    stderr: str
    stdout: str
    mixed: str


def write_logs(run: Run) -> Logs:
    """The logs of a run, carried out as recorded."""
    outcome = run.outcome()
    traces, errors, outs, mixed = [], [_started(run)], [], [_started(run)]
    hashes = {number: dict(items) for number, items in zip(range(len(run.requests)), outcome.hashes, strict=False)}
    said: set[str] = set()
    for request, reply in zip(run.requests, outcome.replies, strict=True):
        trace = _trace(run, request) if request.pipelined else ""
        error = _summary(request) if request.pipelined else ""
        if not request.pipelined and request.why not in said:
            said.add(request.why)
            error += f"strata serve: a request with {request.why} decodes serially\n"
        if request.number in hashes:
            error += _hashed(hashes[request.number])
        out = _reply(run, request, reply)
        traces.append(trace)
        errors.append(error)
        outs.append(out)
        mixed += [trace, error, out]
    return Logs(*("".join(parts) for parts in (traces, errors, outs, mixed)))


def _started(run: Run) -> str:
    shape = run.shape
    text = (
        f"strata serve: --pipeline-windows {shape.windows}: two verifiers per stage"
        " (decode too; the GDN snapshots beside the window)\n"
    )
    if shape.ring:
        text += "strata serve: the GDN snapshot ring\n"
    elif shape.refused:
        text += f"strata serve: the GDN snapshot ring is off: {shape.refused}\n"
    return text


def _p0(run: Run, request: Request) -> int:
    return run.engine.lengths[request.number] - request.kept - 1


def _trace(run: Run, request: Request) -> str:
    lines = [f"# request p0={_p0(run, request)}"]
    lines += [_line(step) for step in request.steps]
    return "\n".join(lines) + "\n"


def _line(step: LoopStep) -> str:
    name = f"{step.op}{step.stage}" if step.op in "LF" else step.op
    x0, x1 = {
        "L": (step.tokens, int(step.spec)), "F": (step.tokens, int(step.spec)), "V": (step.accepted, step.on),
        "U": (step.keep, 0),
    }.get(step.op, (step.value, 0))  # fmt: skip
    return f"{step.time:.3f} {name} {step.seq} {x0} {x1}"


def _summary(request: Request) -> str:
    steps = request.steps
    spec = sum(step.op == "L" and step.stage == 0 and step.spec for step in steps)
    right = sum(step.op == "V" and step.on == 1 for step in steps)
    verdicts = sum(step.op == "V" for step in steps)
    last = max((at for at, step in enumerate(steps) if step.op == "V"), default=0)
    ended = any(step.op == "U" for step in steps[last:]) and bool(steps) and steps[last].on == 1
    on_path = right - ended
    ms = steps[-1].time if steps else 0.0
    each = ms / verdicts if verdicts else 0.0
    return (
        f"strata pipeline: {verdicts} windows in {ms:.1f} ms ({each:.2f} ms/window): {spec} speculative,"
        f" {on_path} on the path, {spec - on_path} rolled back, 0 below the gate (theta 0.50)\n"
    )


def _hashed(items: dict[str, int]) -> str:
    words = [f"L={items['L']}"]
    words += [
        f"{name}={value:016x}" for name, value in items.items() if name != "L" and not name.startswith("ple_prev")
    ]
    words.append(f"ple_prev={items['ple_prev_0']},{items['ple_prev_1']}")
    return f"strata serve: STATE_HASH {' '.join(words)}\n"


def _reply(run: Run, request: Request, reply: bytes) -> str:
    tokens = [int.from_bytes(reply[at : at + 4], "little") % 100000 for at in range(0, len(reply), 8)]
    accepted = sum(step.accepted for step in request.steps if step.op == "V")
    offered = sum(step.tokens - 1 for step in request.steps if step.op == "L" and step.stage == run.shape.last)
    ms = request.steps[-1].time if request.steps else float(len(tokens))
    prompt = _p0(run, request) + 1
    reused = prompt - sum(request.prompt) if not request.fresh else 0
    lines = ["RESUME"] * request.resume + [f"T {token}" for token in tokens]
    lines.append(f"DONE {len(tokens)} {prompt} 10.0 {ms:.1f} {request.finish} {accepted} {offered} {max(reused, 0)}")
    return "\n".join(lines) + "\n"
