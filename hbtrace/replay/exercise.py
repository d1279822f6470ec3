"""What a run did, counted while it is lowered: what two runs are compared by, and why a clean one may mean nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hbtrace.trace.vocabulary import ACCESSES, COPIES

READ: Final = 1
WRITTEN: Final = 2
REWRITTEN: Final = 4
"""Written again after it was read, by the host or a transfer."""
REREAD: Final = 8
"""Read by the host after it was written."""

_MOST_TOLD: Final = 3
"""Notes of what could not be seen that are told in full."""

COPY_SIDES: Final = (" src", " dst")
"""What stands behind the label of each access of a copy."""



def no_tensor(buffer: str) -> str:
    """What the bytes of a buffer are called that belong to no tensor."""
    return f"{buffer} (bytes of no tensor)"


@dataclass(slots=True)
class Exercise:
    """Counters of one trace, none of which depends on addresses, ids or times."""

    ubatches: int = 0
    """`ubatch` markers; where there are none, numbers of ubatches that events name."""
    tokens: int = 0
    computes: int = 0
    issued: int = 0
    """Queued work of any kind: computes, kernels, transfers, copies."""
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
    """READ, WRITTEN, REWRITTEN, REREAD by the name of a root tensor, a scheduler's copy without its slot; of bytes of
    no tensor by `no_tensor`."""
    tensors: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    """Labels of accesses, as reports have them."""
    touched: bool = False
    """Some row touched a byte, in a live buffer or a dead one, left out or not."""
    blind: list[str] = field(default_factory=list)
    """What the recorder says it could not see (contract, section 10): a sentence's end for each such note."""
    splits: set[int] = field(default_factory=set)
    ubatch_numbers: set[int] = field(default_factory=set)

    queues: set[int] = field(default_factory=set)
    """Actors of asynchronous backends that accessed memory."""
    synchronous: set[int] = field(default_factory=set)
    """Actors whose work was complete when the call returned."""
    hosts: set[int] = field(default_factory=set)
    """Host actors with access events."""

    def label(self, pairs: Iterable[tuple[str | None, str | None]]) -> None:
        """Note the labels of accesses. pairs: an event's kind, and its own label if it has one."""
        for ev, own in pairs:
            if ev in ACCESSES:
                self.labels.update(f"{own or ev}{side}" for side in (COPY_SIDES if ev in COPIES else ("",)))

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

    @property
    def unseen(self) -> str:
        """Why no verdict on this run is a clean one, whatever else was found: empty for a recorder that saw all."""
        if not self.blind:
            return ""
        more = f" and {len(self.blind) - _MOST_TOLD:,} more" if len(self.blind) > _MOST_TOLD else ""
        told = "; ".join(self.blind[:_MOST_TOLD]) + more
        return f"blind: the recorder could not see some calls ({told}), so no verdict on this run is a clean one"

    @property
    def idle(self) -> bool:
        """Whether no event accesses live memory."""
        return not self.queues and not self.synchronous and not self.hosts

    def remarks(self) -> list[str]:
        """Sentences for a reader of a clean verdict, none if there is nothing to say."""
        actors = len(self.queues) + len(self.hosts)
        if self.idle:
            return ["not exercised: no event of this trace accesses live memory"]
        if not self.queues and len(self.hosts) <= 1:
            return ["not exercised: no asynchronous backend was given work, so nothing could race"]
        if actors + len(self.synchronous) == 1:
            return ["not exercised: one queue and no host access, so nothing could race"]
        if not self.direct_writes and not self.inferred_writes:
            return ["no direct host write (set_direct) was recorded: a race with one would not show"]
        return []
