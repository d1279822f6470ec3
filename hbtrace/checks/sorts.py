"""What a race is in terms of a scheduler: which rule it belongs to. Decides no order; the replay did.

The order of the questions counts: bytes of two roots are the allocator's, whoever wrote them.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from hbtrace.replay.canonical import without_slot
from hbtrace.replay.races import Report

Sort = Literal["free", "allocator", "cpu-split", "copy", "input", "other"]

INPUT_WRITES: Final = frozenset({"tensor_set", "tensor_memset", "set_direct", "host_access"})
"""Ways in which an engine writes the inputs of a graph."""

_WORK: Final = ("compute", "kernel")


class Side(NamedTuple):
    """What a race's side did: its event, whether its backend is done when the call returns, the backend's id."""

    ev: str
    host_work: bool
    backend: int


def sort_of(report: Report, earlier: Side, current: Side) -> Sort:
    """The sort of a race."""
    if current.ev == "buffer_free":
        return "free"
    roots = report.earlier.root, report.current.root
    if roots[0] is not None and roots[1] is not None and without_slot(roots[0]) != without_slot(roots[1]):
        return "allocator"
    sides = (earlier, current)
    if any(s.ev in _WORK and s.host_work for s in sides) and any(not s.host_work and s.backend != -1 for s in sides):
        return "cpu-split"
    if current.ev == "copy_async" and report.current.mode == "write":
        return "copy"
    if (
        current.ev in INPUT_WRITES
        and report.current.split == -1
        and report.earlier.mode == "read"
        and earlier.ev in _WORK
        and not earlier.host_work
    ):
        return "input"
    return "other"
