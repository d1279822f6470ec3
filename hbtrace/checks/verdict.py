"""From what was counted to a verdict, each reason with what to change in the run."""

from __future__ import annotations

from hbtrace.checks.coverage import Coverage, CoverageVerdict
from hbtrace.checks.meter import Meter

Reason = tuple[str, str]
"""(why, what to change)"""


def judge(meter: Meter) -> Coverage:
    """`not-exercised`: nothing could have raced. `partly`: a part of the machinery did not run. Else `exercised`.

    Where something did race, what would have kept all races away is one more part that did not run. An engine with a
    coverage of its own judges its traces itself.
    """
    if meter.engine is not None:
        found: Coverage = meter.engine.judge(meter, meter.exerciser)
        return found
    nothing, lacks = _nothing(meter), _lacks(meter)
    if meter.reports:
        nothing, lacks = [], nothing + lacks
    verdict: CoverageVerdict = "not-exercised" if nothing else "partly" if lacks else "exercised"
    told = nothing or lacks
    hints = [todo for _, todo in told if todo] + _hints(meter)
    reasons = [why for why, _ in told]
    todo = told[0][1] if told else ""
    return Coverage(
        verdict, meter.counters(), meter.more(), reasons, list(dict.fromkeys(hints)), todo, meter.reports, meter.hidden
    )  # fmt: skip


def _nothing(meter: Meter) -> list[Reason]:
    """Why nothing could have raced, the deepest reason alone."""
    if not meter.exercise.queues and not meter.exercise.synchronous and not meter.exercise.hosts:
        todo = "a recorder that tells which memory work reads and writes (`hbtrace record`)"
        return [("no event of this trace accesses live memory", todo)]
    if not meter.async_queues:
        return [("no asynchronous backend was given work", "offloading layers to a device (`-ngl`)")]
    if meter.serialized:
        hidden = "other races" if meter.reports else "everything"
        return [(f"each node was waited for, which hides {hidden}", "a run without an eval callback")]
    actors = len(meter.exercise.queues) + len(meter.exercise.synchronous) + len(meter.exercise.hosts)
    if actors == 1 and not meter.reports:
        return [("one queue and no host access, so nothing could race", "recording what the host does as well")]
    if not meter.exercise.computes:
        return []  # another engine's queued work: no ubatches to speak of
    return _closed(meter) if not meter.open_windows else []


def _closed(meter: Meter) -> list[Reason]:
    """Why no input was written while a compute was in flight."""
    single = "a single ubatch: " if meter.counters()["ubatches"] == 1 else ""
    if not meter.windows:
        what = f"{single}nothing was written" if single else "the host wrote no input"
        return [(f"{what} after a compute was issued", "a smaller `-ub` or a longer prompt")]
    none_of = f"none of {meter.windows:,} windows" if meter.windows > 1 else "not even the one window"
    return [
        (
            f"{single}{none_of} between issue and next input write was open: the host had waited"
            f"{' each time' if meter.windows > 1 else ''}",
            "a smaller `-ub` or a longer prompt: more than one ubatch before results are read",
        )
    ]


def _lacks(meter: Meter) -> list[Reason]:
    """What did not run."""
    out: list[Reason] = []
    counted, exercise = meter.counters(), meter.exercise
    scheduled = any(meter.events.get(ev) for ev in ("sched_alloc", "sched_reuse", "sched_compute"))
    if not exercise.direct_writes and not exercise.inferred_writes and exercise.computes:
        out.append(
            ("no direct write was announced or inferred", "a build or recorder that announces `tensor->data` writes")
        )
    if scheduled and not exercise.reuse:
        out.append(
            (
                "the graph was rebuilt each time: the reuse path never ran",
                "a smaller `-ub`, so that ubatches have one shape, and no LLAMA_GRAPH_REUSE_DISABLE",
            )
        )
    if exercise.computes and not scheduled and not meter.events.get("ubatch"):
        todo = "an engine or recorder that writes the markers (`ubatch` with its phase, `sched_alloc`, `sched_reuse`)"
        out.append(("reuse, prefill, decode: the trace does not tell", todo))
    if max(meter.rings, default=0) > 1 and exercise.reuse and not counted["prepare"]:
        out.append(("the ring is engaged and prepare was never called", "an engine that calls it in the reuse path"))
    if exercise.computes and meter.max_in_flight < 2:
        todo = (
            "a device that computes on host memory in place, or several devices in a pipeline: this one is waited for"
        )
        out.append(("no queue ever had two computes in flight", todo))
    if meter.waited_queues:
        out.append(
            (f"{_queues(meter.waited_queues)} waited for after each compute", "no HIP_LAUNCH_BLOCKING and the like")
        )
    if meter.phases and not counted["prefill"]:
        out.append(("no prefill was seen", "a prompt of several ubatches"))
    if meter.phases and not counted["decode"]:
        out.append(("no decode was seen", "generating some tokens (`-n 16`)"))
    if meter.exercise.blind:
        out.append(("the recorder could not see some calls", "a recorder that knows this build (`hbtrace record`)"))
    if meter.late:
        out.append(("the recording began late: ids are used that were never defined", "recording from the start"))
    return out


def _queues(number: int) -> str:
    return "1 queue was" if number == 1 else f"{number} queues were"


def _hints(meter: Meter) -> list[str]:
    """What is worth a change and takes nothing from the verdict."""
    if meter.phases and not meter.phases.get("warmup"):
        return ["drop `--no-warmup`: some graphs are only built after a warm-up"]
    return []
