"""The mend of a cause by name: what to change in the engine, and the rule of `whatif` that tries it."""

from __future__ import annotations

from dataclasses import dataclass

from hbtrace.explain.causes import Cause


@dataclass(frozen=True, slots=True)
class Advice:
    """short: for a table. text: what to do. rules: options of `whatif` that try it."""

    short: str
    text: str
    rules: tuple[str, ...]


def advice(cause: Cause) -> Advice:
    """Of the several mends the one that the literature on the cause names first."""
    queue = cause.earlier if cause.earlier.split("#")[0] not in ("HOST", "CPU") else cause.current
    if cause.nature == "input":
        depth = max(cause.steps, default=1) + 1
        return Advice(
            f"input ring of depth {depth}",
            f"rotate the graph's inputs over {depth} slots, wait for the slot's last reader on entry and stamp a new"
            f" uid; or let the host wait for {queue} before it sets them",
            (f"--ring {depth}", "--sync ubatch"),
        )
    if cause.nature == "cpu-split":
        return Advice(
            f"wait for {queue} before the CPU split",
            f"let the host wait for {queue} before the CPU split touches {', '.join(cause.tensors)}, or give the CPU"
            " slot a buffer type that no asynchronous backend computes on; an input ring cannot help",
            _before("--sync", cause),
        )
    if cause.nature == "reuse":
        return Advice(
            "keep memory in use out of the reuse pool",
            f"do not hand out bytes that {queue} may still use, told by the view root that owns them; an input ring"
            " cannot help",
            ("--pin",),
        )
    if cause.nature == "copy":
        return _copy_advice(cause)
    if cause.nature == "async-read":
        return Advice(
            f"wait for {queue} before the memory is used",
            f"let whoever uses the memory of the asynchronous transfer wait for {queue} first",
            _before("--sync", cause),
        )
    return Advice(
        f"{cause.current} waits for {cause.earlier}",
        f"record an event on {cause.earlier} after {cause.point[0]} and wait for it on {cause.current} before"
        f" {cause.point[1]}",
        _before("--event", cause),
    )


def _before(option: str, cause: Cause) -> tuple[str, ...]:
    """A wait before each tensor of the cause is written; no point has a name where it is read."""
    if any(report.current.mode == "read" for report in cause.reports):
        return ()
    return tuple(f"{option} before:{name}" for name in cause.tensors if name != "-")


def _copy_advice(cause: Cause) -> Advice:
    slot = ", ".join(cause.tensors)
    if cause.point[1].startswith("copy_async dst") and cause.earlier != cause.current:
        return Advice(
            f"{cause.current} waits for the slot's last reader on {cause.earlier}",
            f"the source's queue {cause.current}, which runs the copy, must wait for the last reader of {slot} on the"
            f" destination's queue {cause.earlier}: record an event there after the reader, wait for it on"
            f" {cause.current} before the copy",
            ("--after-dst", "--copy-on dst"),
        )
    return Advice(
        f"{cause.current} waits for {cause.earlier}",
        f"record an event on {cause.earlier} after {cause.point[0]}, wait for it on {cause.current} before"
        f" {cause.point[1]}",
        (*_before("--event", cause), "--after-dst"),
    )
