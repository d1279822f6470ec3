"""The mend of a cause by name: what to change in the engine, and the rules of `whatif` that try it.

A wait is named only where it is known to reach every race of the cause; the bare edge that it lacks always does. A ring
and pinning are what the engine would do, and replay tells whether that is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from glob import escape
from shlex import quote
from typing import Final

from hbtrace.explain.causes import Cause
from hbtrace.races.natures import is_host
from hbtrace.replay.canonical import without_slot

DEEPEST_RING: Final = 64
"""Slots of the deepest input ring that is advised, and that `whatif --ring` tries."""


@dataclass(frozen=True, slots=True)
class Advice:
    """short: for a table. text: what to do. rules: options of `whatif` that try it, each an option and its value; the
    first does what the text says."""

    short: str
    text: str
    rules: tuple[str, ...]

    @property
    def typed(self) -> list[str]:
        """The rules as a shell takes them."""
        return [" ".join(map(quote, rule.split(" ", 1))) for rule in self.rules]


def advice(cause: Cause) -> Advice:
    """Of the several mends the one that the literature on the cause names first."""
    queue, edge = cause.earlier, f"--edge {cause.ident}"
    if cause.way == "hand-over":
        return _hand_over(cause, edge)
    if cause.nature == "input":
        return _ring_advice(cause, edge)
    if cause.nature == "cpu-split":
        return Advice(
            f"wait for {queue} before the CPU split",
            f"let the host wait for {queue} before the CPU split touches {', '.join(cause.touched)}, or give the CPU"
            " slot a buffer type that no asynchronous backend computes on; an input ring cannot help",
            (*_before("--sync", cause), edge),
        )
    if cause.nature == "reuse":
        return Advice(
            "keep memory in use out of the reuse pool",
            f"do not hand out bytes that {queue} may still use, told by the view root that owns them; an input ring"
            " cannot help",
            (*(["--pin"] if cause.can_wait and _writes_tensors(cause) else []), edge),
        )
    if cause.nature == "async-read":
        return Advice(
            f"wait for {queue} before the memory is used",
            f"let whoever uses the memory of the asynchronous transfer wait for {queue} first",
            (*_before("--sync", cause), edge),
        )
    if cause.fills and cause.point[1].endswith(" dst"):
        return _slot_advice(cause, edge)
    return _wait_advice(cause, edge)


def _wait_advice(cause: Cause, edge: str) -> Advice:
    """The wait itself: an event where both have them, else the host waits before it goes on."""
    earlier, current, (first, then) = cause.earlier, cause.current, cause.point
    host = is_host(current)
    short = f"{current} waits for {earlier}" if host or cause.way == "event" else _host_waits(cause)
    short += cause.also
    before = then if host else f"it gives {then} to {current}"
    if cause.way == "drain":
        who = current if host else "the host"
        text = f"let {who} wait for {earlier}, which has no events, before {before}{cause.also}"
        return Advice(short, text, (edge, *_before("--sync", cause)))
    told = f"record an event on {earlier} after {first} and "
    if host or cause.way == "event":
        told += f"wait for it on {current} before {then}{cause.also}"
    else:
        told += f"let the host wait for it before {before}, which cannot wait for it{cause.also}"
    return Advice(short, told, (edge, *_before("--event", cause)))


def _host_waits(cause: Cause) -> str:
    return f"the host waits for {cause.earlier} before {cause.current}"


def _hand_over(cause: Cause, edge: str) -> Advice:
    """No event tells when a host thread is done, nor what was done with its call."""
    return Advice(
        f"{cause.current} waits for {cause.earlier}{cause.also}",
        f"release a lock or a flag on {cause.earlier} after {cause.point[0]}, and acquire it for {cause.current} before"
        f" {cause.point[1]}{cause.also}",
        (edge,),
    )


def _ring_advice(cause: Cause, edge: str) -> Advice:
    depth = max(2, max(cause.steps, default=1) + 1)
    ring = cause.sets and depth <= DEEPEST_RING
    boundary = cause.can_wait and all(0 <= r.earlier.ubatch < r.current.ubatch for r in cause.reports)
    return Advice(
        f"input ring of depth {depth}",
        f"rotate the graph's inputs over {depth} slots, wait for the slot's last reader on entry and stamp a new"
        f" uid; or let the host wait for {cause.earlier} before it sets them",
        (*([f"--ring {depth}"] if ring else []), *(["--sync ubatch"] if boundary else []), edge),
    )


def _slot_advice(cause: Cause, edge: str) -> Advice:
    if cause.way != "event":
        return _wait_advice(cause, edge)
    slot = ", ".join(cause.touched)
    return Advice(
        f"{cause.current} waits for the slot's last reader on {cause.earlier}",
        f"the source's queue {cause.current}, which runs the copy, must wait for the last reader of {slot} on the"
        f" destination's queue {cause.earlier}: record an event there after the reader, wait for it on"
        f" {cause.current} before the copy",
        (edge, "--after-dst", *_before("--event", cause)),
    )


def _writes_tensors(cause: Cause) -> bool:
    return all(report.current.mode == "write" and report.current.root is not None for report in cause.reports)


def _before(option: str, cause: Cause) -> tuple[str, ...]:
    """A wait before the tensor is written that the current sides write. There is no such point before a read, nor
    before bytes of no tensor; and of several tensors each point would mend a part."""
    if not (cause.can_wait and _writes_tensors(cause)):
        return ()
    points = {_glob(str(report.current.root)) for report in cause.reports}
    return tuple(f"{option} before:{point}" for point in points) if len(points) == 1 else ()


def _glob(root: str) -> str:
    """A pattern for a root, with whatever slot."""
    name = without_slot(root)
    return escape(name) + ("#*" if name != root else "")
