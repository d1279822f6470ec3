"""What follows from the order of a recording: which races only another race makes possible.

After a race two things can have happened, and what comes later may differ. The rule is that of schedulable
happens-before: a read that met a racing write is taken to have waited for it. A pair that this orders is a race only
of runs in which the first race went the other way: consequent. All others are primary.
"""

from __future__ import annotations

from hbtrace.replay.clocks import Clocks
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import HOST, QUEUE
from hbtrace.replay.recording import Recording


def consequents(recording: Recording) -> set[int]:
    """Places in `reports` of those that only another race makes possible."""
    reads: dict[int, list[int]] = {}
    for index, hit in enumerate(recording.hits):
        if hit.kind == 0:  # a read that met a racing write: what it read from
            reads.setdefault(hit.row, []).append(index)
    if not reads:
        return set()
    return _Walk(recording, reads).run()


class _Walk:
    """The order of the recording, with an edge more from each racing write to the read that met it."""

    def __init__(self, recording: Recording, reads: dict[int, list[int]]) -> None:
        self._recording = recording
        self._clocks = Clocks()
        met = [recording.hits[index] for indices in reads.values() for index in indices]
        self._wanted = {(hit.earlier_row, hit.earlier_actor) for hit in met}
        self._kept: dict[tuple[int, int, int], Clock] = {}
        self._later: set[int] = set()

    def run(self) -> set[int]:
        by_row: dict[int, list[int]] = {}
        for index, hit in enumerate(self._recording.hits):
            by_row.setdefault(hit.row, []).append(index)
        for op, actor, other, footprint, row in self._recording.steps():
            self._clocks.step(op, actor, other)
            if op not in (HOST, QUEUE) or footprint < 0:
                continue
            tick = self._clocks.tick(actor)
            if row in by_row:
                self._judge([k for k in by_row[row] if self._is(k, actor, tick)], actor)
            if (row, actor) in self._wanted:
                self._kept[row, actor, tick] = self._clocks.whole(actor)
        return self._later

    def _is(self, index: int, actor: int, tick: int) -> bool:
        hit = self._recording.hits[index]
        return hit.actor == actor and hit.clock == tick

    def _judge(self, indices: list[int], actor: int) -> None:
        hits = self._recording.hits
        known = self._clocks.known(actor)
        self._later |= {k for k in indices if hits[k].earlier_clock <= known.get(hits[k].earlier_actor, 0)}
        for index in indices:
            hit = hits[index]
            if hit.kind == 0:
                self._clocks.learn(actor, self._kept.get((hit.earlier_row, hit.earlier_actor, hit.earlier_clock), {}))
