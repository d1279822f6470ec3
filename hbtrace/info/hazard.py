"""Whether a queue can have the in-place hazard: the decision, from what a trace declares and what is known of backends.

The hazard: a queue reads, in place and after the call returned, memory that a host thread writes with plain stores.
Two conditions must hold together, and no device is known by its name: the backend is *asynchronous*, and it computes on
the *buffer type that the CPU slot of its scheduler was handed*. What computes on host memory synchronously (BLAS) can
not have it; what refuses that buffer type gets copies of its inputs. What a trace declares goes first; what it leaves
open is assumed from the table of backends (`hbtrace.backends`), and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from hbtrace import backends
from hbtrace.info.contents import Contents
from hbtrace.info.records import Queue, Scheduler

CAN_ARISE: Final = "can arise"
NO: Final = "no"
NOT_KNOWN: Final = "not known"
_WORST_FIRST: Final = (CAN_ARISE, NOT_KNOWN, NO)

_NOBODY: Final = -2
"""No backend has this id."""

_NO_SCHEDULER: Final = (
    "no scheduler in the trace says which buffer type the CPU slot got (a `sched` row with `cpu_buffer_type` would)"
)


@dataclass(frozen=True, slots=True)
class Hazard:
    """Whether a queue can have the in-place hazard, why in words, and the buffer types that decided.

    declared, assumed: the attributes that decided, as the trace has them and as the table of backends does.
    """

    verdict: str
    reason: str
    buffer_types: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def worst(verdicts: Iterable[str]) -> str:
    """Of several verdicts the one to act on; of none `not known`."""
    return min(verdicts, key=_WORST_FIRST.index, default=NOT_KNOWN)


def with_cpu_slots(contents: Contents) -> list[Scheduler]:
    """The schedulers, each with a list that ends in its CPU slot, as it should; one by hand may have left that out."""
    return [_with_cpu(sched, contents) for sched in contents.schedulers]


def _with_cpu(sched: Scheduler, contents: Contents) -> Scheduler:
    last = contents.alive(sched.backends[-1], sched.row) if sched.backends else None
    if last is None or last.type in (None, "cpu") or last.flags["synchronous"] or last.flags["async"] is False:
        return sched
    return replace(sched, backends=[*sched.backends, _NOBODY])


def hazard_in(queue: Queue, schedulers: list[Scheduler]) -> Hazard:
    """The predicate on what a trace declares; where that leaves it open, on what the table of backends has as well."""
    declared, full = hazard_of(queue, schedulers), assumed(queue)
    found = hazard_of(full, schedulers)
    if found.verdict == declared.verdict:
        if declared.verdict == NOT_KNOWN and queue.accepts is None and _integrated(queue) is None:
            more = f"; a {queue.family} that is integrated computes on its host buffers, and the trace tells neither"
            return replace(declared, reason=declared.reason + more)
        return _sourced(declared, queue, queue)
    return _sourced(found, queue, full)


def assumed(queue: Queue) -> Queue:
    """A queue with what the trace leaves open as the table of backends has it.

    Of a backend that accepts host memory on integrated devices only, nobody knows what it accepts where the trace
    does not say that the device is one: a clean verdict might be wrong.
    """
    integrated = _integrated(queue)
    flags = {**queue.flags, "integrated": True} if integrated else queue.flags
    known = backends.attributes(queue.family, integrated=bool(flags["integrated"])) if queue.row >= 0 else {}
    accepts = queue.accepts if queue.accepts is not None or integrated is None else known.get("accepts")
    flags = {key: known.get(key) if value is None else value for key, value in flags.items()}
    return replace(queue, flags=flags, accepts=accepts)


def assumed_of(queue: Queue) -> str:
    """The backend of the table that a queue is taken for, and the versions that its facts hold for."""
    known = backends.of_device(queue.family)
    return f"{known.name} in {known.holds_for}" if known is not None else f"{queue.family} in {backends.HOLDS_FOR}"


def _integrated(queue: Queue) -> bool | None:
    """Whether a queue's device counts as integrated: declared, or told by its type; None if it matters and is open."""
    known = backends.of_device(queue.family)
    matters = known is not None and known.accepts_host == "if integrated" and known.reports_integrated
    said = queue.flags["integrated"]
    if said is None and queue.type is not None:
        said = queue.type == "igpu"
    return bool(said) if said is not None or not matters else None


def _sourced(hazard: Hazard, queue: Queue, full: Queue) -> Hazard:
    """A hazard with the attributes that decided it, by whether the trace has them. full: the queue that decided."""
    keys: tuple[str, ...] = ()
    if full.flags["synchronous"]:
        keys = ("synchronous",)
    elif full.flags["async"] is False:
        keys = ("async",)
    elif hazard.buffer_types and hazard.verdict != NOT_KNOWN:
        keys = ("async", "accepts")
    own, known = ({**each.flags, "accepts": each.accepts} for each in (queue, full))
    return replace(
        hazard,
        declared=tuple(key for key in keys if own[key] is not None),
        assumed=tuple(key for key in keys if own[key] is None and known[key] is not None),
    )


def hazard_of(queue: Queue, schedulers: list[Scheduler]) -> Hazard:
    """The predicate: asynchronous, and computes on the buffer type that the CPU slot was handed."""
    if queue.flags["synchronous"]:
        return Hazard(NO, "synchronous (its work is complete when the call returns)")
    if queue.flags["async"] is False:
        return Hazard(NO, "not asynchronous")
    mine = [sched for sched in schedulers if holds(sched, queue)]
    if mine and all(sched.backends and sched.backends[-1] == queue.id for sched in mine):
        return Hazard(NO, "it is the CPU slot itself")
    if not mine:
        if schedulers and not queue.work["compute"] + queue.work["kernel"]:
            return Hazard(NO, "no scheduler uses it, and nothing was computed on it")
        mine = schedulers  # driven by hand beside a scheduler: the memory it may meet is that scheduler's
    found = [_in_scheduler(queue, sched) for sched in mine]
    if not found:
        return Hazard(NOT_KNOWN, _NO_SCHEDULER)
    verdict = worst(hazard.verdict for hazard in found)
    decisive = [hazard for hazard in found if hazard.verdict == verdict]
    reasons = dict.fromkeys(hazard.reason for hazard in decisive)
    types = dict.fromkeys(word for hazard in decisive for word in hazard.buffer_types)
    return Hazard(verdict, "; ".join(reasons), tuple(types))


def holds(sched: Scheduler, queue: Queue) -> bool:
    """Whether a scheduler names the queue: its id, in force at some time while the scheduler's row is."""
    overlaps = (sched.end is None or queue.row < sched.end) and (queue.end is None or queue.end > sched.row)
    return overlaps and (not sched.backends or queue.id in sched.backends)


def _in_scheduler(queue: Queue, sched: Scheduler) -> Hazard:
    handed = sched.cpu_buffer_type
    if handed is None:
        return Hazard(
            NOT_KNOWN,
            "the trace does not say which buffer type the CPU slot got"
            f" (scheduler {sched.id} has no `cpu_buffer_type`)",
        )
    asynchronous = "asynchronous" if queue.flags["async"] else "asynchronous (the default: the trace does not say)"
    slot = f"{handed}, which the CPU slot was handed"
    if queue.accepts is not None and handed in queue.accepts:
        return Hazard(CAN_ARISE, f"{asynchronous} and computes in place on {slot}", (handed,))
    if handed in queue.touched:
        # What it did outweighs what it is said to accept: a clean verdict would be wrong.
        but = "the trace does not say what it accepts" if queue.accepts is None else "though `accepts` does not name it"
        return Hazard(CAN_ARISE, f"{asynchronous} and did compute in place on {slot}; {but}", (handed,))
    if queue.row < 0:
        return Hazard(NOT_KNOWN, "the trace never defines it (a `backend` row would)", (handed,))
    if queue.accepts is None:
        return Hazard(
            NOT_KNOWN,
            f"the trace does not say what the backend accepts (`accepts`); the CPU slot was handed {handed}",
            (handed,),
        )
    return Hazard(NO, f"does not accept {slot}", (handed,))
