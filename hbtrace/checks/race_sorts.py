"""What a race is in terms of a scheduler: which rule it belongs to. Decides no order; the replay did.

The order of the questions counts: bytes of two roots are the allocator's, whoever wrote them.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from hbtrace.replay.canonical import without_slot
from hbtrace.replay.reports import Report
from hbtrace.trace.vocabulary import COMPUTING, EVENTS

Sort = Literal["free", "allocator", "cpu-split", "copy", "input", "other"]

_OVERWRITES: Final = frozenset(ev for ev, e in EVENTS.items() if e.runner == "host" and e.writes and not e.ends)
"""How the host fills inputs, and what overwrites them though nobody fills one so."""


class RaceSide(NamedTuple):
    """What a race's side did: its event, whether its backend is done when the call returns, the backend's id.

    input: whether its bytes are a graph input's; None where the trace does not tell inputs.
    """

    ev: str
    host_work: bool
    backend: int
    input: bool | None


def sort_of(report: Report, earlier: RaceSide, current: RaceSide) -> Sort:
    """The sort of a race."""
    if current.ev == "buffer_free":
        return "free"
    sides = (earlier, current)
    if _two_roots(report, both_inputs=all(s.input for s in sides)):
        return "allocator"
    computes = any(s.ev in COMPUTING and s.host_work for s in sides)
    if computes and any(not s.host_work and s.backend != -1 for s in sides):
        return "cpu-split"
    if current.ev == "copy_async" and report.current.mode == "write":
        return "copy"
    if (
        current.ev in _OVERWRITES
        and report.current.split == -1
        and report.earlier.mode == "read"
        and (earlier.input is not False or current.input)
        and earlier.ev in COMPUTING
        and not earlier.host_work
    ):
        return "input"
    return "other"


def _two_roots(report: Report, *, both_inputs: bool) -> bool:
    """Whether the sides are tensors that have nothing to do with each other but their place.

    A graph of another shape has tensors of its own, under the names of those of the last one: they are taken for the
    same. Within one compute a name says nothing.
    """
    earlier, current = report.earlier, report.current
    if earlier.root is None or current.root is None:
        return False
    if without_slot(earlier.root) != without_slot(current.root):
        return True
    if earlier.root_id == current.root_id or both_inputs:
        return False
    if -1 in (earlier.ubatch, current.ubatch):
        return current.split > earlier.split > -1
    return earlier.ubatch == current.ubatch
