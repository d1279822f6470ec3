"""Whether a run could have raced at all. The full verdict is the checks'; this is the least a clean result owes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Exercise:
    """Collected while lowering."""

    queues: set[int] = field(default_factory=set)
    """Actors of asynchronous backends that accessed memory."""
    synchronous: set[int] = field(default_factory=set)
    """Actors whose work was complete when the call returned."""
    hosts: set[int] = field(default_factory=set)
    """Host actors with access events."""
    direct: int = 0
    """Writes through `tensor->data`, announced or inferred."""

    def remarks(self) -> list[str]:
        """Sentences for a reader of a clean verdict, none if there is nothing to say."""
        actors = len(self.queues) + len(self.hosts)
        if not actors and not self.synchronous:
            return ["not exercised: no event of this trace accesses memory"]
        if not self.queues and len(self.hosts) <= 1:
            return ["not exercised: no asynchronous backend was given work, so nothing could race"]
        if actors + len(self.synchronous) == 1:
            return ["not exercised: one queue and no host access, so nothing could race"]
        if not self.direct:
            return ["no direct host write (set_direct) was recorded: a race with one would not show"]
        return []
