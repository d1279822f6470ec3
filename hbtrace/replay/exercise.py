"""What a run did, counted while it is lowered: what two runs are compared by, and why a clean one may mean nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

READ: Final = 1
WRITTEN: Final = 2


@dataclass(slots=True)
class Exercise:
    """Counters of one trace, none of which depends on addresses, ids or times."""

    ubatches: int = 0
    """`ubatch` markers; where there are none, numbers of ubatches that events name."""
    tokens: int = 0
    computes: int = 0
    direct_writes: int = 0
    """Writes through `tensor->data` that were announced."""
    inferred_writes: int = 0
    """Such writes that the recorder inferred from contents."""
    reuse: int = 0
    """Times the scheduler reused the previous graph."""
    windows: int = 0
    """Host writes of a tensor that work issued since its last write reads: where an input race can be."""
    backends: set[tuple[tuple[str, str], ...]] = field(default_factory=set)
    """The attributes of each backend, name among them, as sorted pairs of words (`Columns.attributes`)."""
    roots: dict[str, int] = field(default_factory=dict)
    """READ and WRITTEN by the name of a root tensor, a scheduler's copy without its slot."""
    tensors: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    """Labels of events and the names of their kinds; the two sides of a copy have ` src` or ` dst` behind theirs."""
    splits: set[int] = field(default_factory=set)
    ubatch_numbers: set[int] = field(default_factory=set)

    queues: set[int] = field(default_factory=set)
    """Actors of asynchronous backends that accessed memory."""
    synchronous: set[int] = field(default_factory=set)
    """Actors whose work was complete when the call returned."""
    hosts: set[int] = field(default_factory=set)
    """Host actors with access events."""

    def counters(self) -> dict[str, int]:
        """The numbers that a workload is known by."""
        return {
            "ubatches": self.ubatches or len(self.ubatch_numbers - {-1}),
            "tokens": self.tokens,
            "computes": self.computes,
            "windows": self.windows,
            "direct_writes": self.direct_writes,
            "inferred_writes": self.inferred_writes,
            "reuse": self.reuse,
        }

    def remarks(self) -> list[str]:
        """Sentences for a reader of a clean verdict, none if there is nothing to say."""
        actors = len(self.queues) + len(self.hosts)
        if not actors and not self.synchronous:
            return ["not exercised: no event of this trace accesses memory"]
        if not self.queues and len(self.hosts) <= 1:
            return ["not exercised: no asynchronous backend was given work, so nothing could race"]
        if actors + len(self.synchronous) == 1:
            return ["not exercised: one queue and no host access, so nothing could race"]
        if not self.direct_writes and not self.inferred_writes:
            return ["no direct host write (set_direct) was recorded: a race with one would not show"]
        return []
