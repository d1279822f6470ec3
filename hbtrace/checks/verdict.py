"""From what was counted to a verdict, each reason with what to change in the run."""

from __future__ import annotations

from typing import Final

from hbtrace.checks.coverage import Coverage, CoverageVerdict
from hbtrace.checks.meter import Meter
from hbtrace.checks.windows import WINDOWS
from hbtrace.words import count

Reason = tuple[str, str]
"""(why, what to change)"""
_ISSUE_MORE: Final = "a run that issues more before it waits"


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
    told = _skipped(meter) + nothing if nothing else lacks
    hints = [todo for _, todo in told if todo] + _hints(meter)
    reasons = [why for why, _ in told]
    todo = told[0][1] if told else ""
    return Coverage(
        verdict, meter.counters(), meter.more(), reasons, list(dict.fromkeys(hints)), todo, meter.reports, meter.hidden
    )  # fmt: skip


def _skipped(meter: Meter) -> list[Reason]:
    """Rows of which nobody knows what they did."""
    if not meter.skipped:
        return []
    rows = "1 row was skipped: what it" if meter.skipped == 1 else f"{meter.skipped:,} rows were skipped: what they"
    return [(f"{rows} did is not in it", "a recorder that writes whole rows: `--strict` names the first that is not")]


def _nothing(meter: Meter) -> list[Reason]:
    """Why nothing could have raced, the deepest reason alone."""
    exercise = meter.exercise
    if exercise.idle:
        todo = "a recorder that tells which memory work reads and writes (`hbtrace record`)"
        return [("no event of this trace accesses live memory", todo)]
    if not meter.async_queues:
        todo = "offloading layers to a device (`-ngl`)" if meter.llama else "a device whose work goes on after the call"
        return [("no asynchronous backend was given work", todo)]
    if meter.serialized:
        hidden = "other races" if meter.reports else "everything"
        return [(f"each node was waited for, which hides {hidden}", "a run without an eval callback")]
    actors = len(exercise.queues) + len(exercise.synchronous) + len(exercise.hosts)
    if actors == 1 and not meter.reports:
        return [("one queue and no host access, so nothing could race", "recording what the host does as well")]
    inputs = meter.windows.open["input"]
    if inputs or (any(meter.windows.open.values()) and meter.counters()["ubatches"] != 1):
        return []
    return _closed(meter)


def _closed(meter: Meter) -> list[Reason]:
    """Why there was no place for a race: nobody met work in flight."""
    windows = meter.windows.all
    if not meter.scheduled:
        todo = _ISSUE_MORE
        if not any(windows.values()):
            return [("nobody touched again what work that was issued touches", todo)]
        listed = ", ".join(count(number, WINDOWS[nature]) for nature, number in windows.items() if number)
        return [(_none_was_open(sum(windows.values()), f" ({listed})"), todo)]
    single = "a single ubatch: " if meter.counters()["ubatches"] == 1 else ""
    more = "a smaller `-ub` or a longer prompt" if meter.llama else "smaller ubatches or a longer prompt"
    if not windows["input"]:
        what = f"{single}nothing was written" if single else "the host wrote no input"
        return [(f"{what} after a compute was issued", more)]
    none_of = _none_was_open(windows["input"], " between issue and next input write")
    return [(f"{single}{none_of}", f"{more}: more than one ubatch before results are read")]


def _none_was_open(number: int, which: str) -> str:
    if number == 1:
        return f"not even the one window{which} was open: the host had waited"
    return f"none of {number:,} windows{which} was open: the host had waited each time"


def _lacks(meter: Meter) -> list[Reason]:
    """What did not run."""
    out = _skipped(meter)
    counted, exercise, llama = meter.counters(), meter.exercise, meter.llama
    if meter.scheduled and not meter.windows.open["input"] and any(meter.windows.open.values()):
        out += _closed(meter)
    if not meter.announced:
        todo = "a build or recorder that announces `tensor->data` writes"
        out.append(("no direct write was announced or inferred", todo))
    if any(meter.events.get(ev) for ev in ("sched_alloc", "sched_reuse", "sched_compute")):
        if not exercise.reuse:
            todo = "a smaller `-ub`, so that ubatches have one shape, and no LLAMA_GRAPH_REUSE_DISABLE"
            why = "the graph was rebuilt each time: the reuse path never ran"
            out.append((why, todo if llama else "ubatches of one shape"))
    elif exercise.computes and meter.scheduled and not meter.events.get("ubatch"):
        todo = "an engine or recorder that writes the markers (`ubatch` with its phase, `sched_alloc`, `sched_reuse`)"
        out.append(("reuse, prefill, decode: the trace does not tell", todo))
    if max(meter.rings, default=0) > 1 and exercise.reuse and not counted["prepare"]:
        out.append(("the ring is engaged and prepare was never called", "an engine that calls it in the reuse path"))
    if meter.max_in_flight < 2:
        todo = (
            "a device that computes on host memory in place, or several devices in a pipeline: this one is waited for"
        )
        out.append(("no queue ever had two computes in flight", todo if llama else _ISSUE_MORE))
    if meter.waited_queues:
        out.append(
            (f"{_queues(meter.waited_queues)} waited for after each compute", "no HIP_LAUNCH_BLOCKING and the like")
        )
    if meter.phases and not counted["prefill"]:
        out.append(("no prefill was seen", "a prompt of several ubatches"))
    if meter.phases and not counted["decode"]:
        out.append(("no decode was seen", "generating some tokens (`-n 16`)" if llama else "generating some tokens"))
    if meter.exercise.blind:
        out.append(("the recorder could not see some calls", "a recorder that knows this build (`hbtrace record`)"))
    if meter.late:
        out.append(("the recording began late: ids are used that were never defined", "recording from the start"))
    return out


def _queues(number: int) -> str:
    return "1 queue was" if number == 1 else f"{number} queues were"


def _hints(meter: Meter) -> list[str]:
    """What is worth a change and takes nothing from the verdict."""
    if meter.llama and meter.phases and not meter.phases.get("warmup"):
        return ["drop `--no-warmup`: some graphs are only built after a warm-up"]
    return []
