"""How somebody can be made to wait for a queue: what its backend, and that of who waits, can do.

An event tells a queue of another one only where both have events, and of the same kind: a CPU backend has none, and no
stream of CUDA waits for an event of Vulkan. There the host waits, before it gives the work out; that orders as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from hbtrace.backends import has_events, is_done, registry_of
from hbtrace.races.natures import is_host

Way = Literal["event", "host", "drain", "hand-over"]

WAYS: Final[tuple[Way, ...]] = ("event", "host", "drain", "hand-over")
"""The lightest first: the queue waits for an event; the host waits for it, before it gives the queue work; the host
waits for all that the other queue was given; one host thread tells another, for the earlier side was done with its
call."""


def way_between(queues: Mapping[str, Mapping[str, Any]], earlier: str, current: str) -> Way:
    """The lightest way in which an actor can be made to wait for another. queues: `backend` rows by actor."""
    before = None if is_host(earlier) else queues.get(earlier, {})
    return way_of(before, None if is_host(current) else queues.get(current, {}))


def way_of(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Way:
    """As `way_between`, of two `backend` rows; None is a host thread."""
    if before is None or is_done(before):
        return "hand-over"
    if not has_events(before):
        return "drain"
    if after is None or not has_events(after):
        return "host"
    kinds = {registry_of(before), registry_of(after)} - {None}
    return "event" if len(kinds) < 2 else "host"
