"""What runs did, and whether two of them can be compared: without that, a race that is gone means nothing.

Judged run by run, not by sums over a side: a race of a long run is not fixed because a short one does not show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from hbtrace.compare.outcome import Outcome

Key = tuple[object, ...]
"""Equal for runs that can be compared with the same others."""

_AMOUNTS: Final = ("ubatches", "tokens")
_KINDS_OF_WORK: Final = ("computes", "windows", "direct_writes", "reuse")
"""Counters of which some fixes change the number, but none may end it: a race would have nowhere to be."""


@dataclass(slots=True)
class Workload:
    """Runs that did alike: as many ubatches and tokens on the same backends, and the same kinds of work."""

    amounts: dict[str, int]
    work: dict[str, int]
    """The most that one of these runs did."""
    backends: frozenset[str]
    queues: frozenset[str]
    """Backends whose work goes on when the call has returned."""
    limits: tuple[str, ...]
    """Why such a run shows less than it should: it is truncated or not seen whole, or nothing in it could race."""
    roots: dict[str, int] = field(default_factory=dict)
    """What these runs touch, and how, by the name of the root (`Exercise.roots`)."""
    least: dict[str, int] = field(default_factory=dict)
    """Of runs without markers of ubatches: amounts that a fix may raise but never lowers. They stand for the others."""
    hosts: int = 1
    """Host threads that access memory, as actors of their own."""
    paths: list[str] = field(default_factory=list)

    @property
    def key(self) -> Key:
        kinds = tuple(bool(count) for count in self.work.values())
        named = tuple(sorted(self.backends)), tuple(sorted(self.queues))
        return *self.amounts.values(), *sorted(self.least.items()), kinds, *named, self.limits

    def add(self, other: Workload) -> None:
        """Unite with runs of the same key."""
        self.paths += other.paths
        self.work = {name: max(count, other.work[name]) for name, count in self.work.items()}
        self.hosts = max(self.hosts, other.hosts)
        for name, touched in other.roots.items():
            self.roots[name] = self.roots.get(name, 0) | touched


def workload_of(outcome: Outcome) -> Workload:
    """What one run did."""
    did = outcome.exercise
    counters = did.counters()
    # Announced or inferred: that depends on the recorder, not on what the program does.
    counters["direct_writes"] += counters["inferred_writes"]
    backends = [dict(attributes) for attributes in did.backends]
    units = outcome.coverage.units if outcome.coverage is not None else {}
    least = {} if counters["ubatches"] else units or {"computes": did.computes, "work issued": did.issued}
    return Workload(
        {name: counters[name] for name in _AMOUNTS},
        {name: counters[name] for name in _KINDS_OF_WORK},
        frozenset(backend["name"] for backend in backends),
        frozenset(backend["name"] for backend in backends if backend.get("synchronous") != "yes"),
        tuple(_limits(outcome)),
        dict(did.roots),
        least,
        len(did.hosts),
        [outcome.path],
    )


def _limits(outcome: Outcome) -> list[str]:
    """Why a run shows less than it should, each as the end of a sentence that names the run."""
    limits = ["is truncated"] if outcome.truncated else []
    limits += ["was not seen whole by its recorder"] if outcome.unseen else []
    if outcome.reported:
        return [*limits, "is a log of reports, which does not tell what its run did"]
    if outcome.coverage is not None and outcome.coverage.unended:
        limits.append("ends inside a request")
    return limits + [f"was {remark}" for remark in outcome.exercise.remarks() if remark.startswith("not exercised")]


def obstacles(base: Workload, head: Workload) -> list[str]:
    """Why two runs cannot be compared; empty where they can."""
    reasons = [f"{side} {limit}" for side, run in (("base", base), ("head", head)) for limit in run.limits]
    for name in _AMOUNTS:
        before, after = base.amounts[name], head.amounts[name]
        if before != after:
            reasons.append(f"{name} {'fell' if after < before else 'rose'} from {before:,} to {after:,}")
    for name, before in base.least.items() if head.least else ():
        if (after := head.least.get(name, 0)) < before:
            reasons.append(f"{name} fell from {before:,} to {after:,}")
    ended = [name for name in _KINDS_OF_WORK if base.work[name] and not head.work[name]]
    reasons += [f"{name.replace('_', ' ')} fell from {base.work[name]:,} to 0" for name in ended]
    if base.backends != head.backends:
        reasons.append(f"backends {_listed(base.backends)} against {_listed(head.backends)}")
    else:
        waiting = sorted(base.queues - head.queues)
        reasons += [f"{name} now completes its work before each call returns: nothing on it races" for name in waiting]
    return reasons


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def incomparable(base: Iterable[Workload], head: Iterable[Workload]) -> list[str]:
    """Why two sides cannot be compared: some run has no run on the other side that did as much. Empty if they can.

    Of such a run the obstacles to its nearest are told.
    """
    base, head = list(base), list(head)
    nearest = [min((obstacles(run, other) for other in head), key=len) for run in base]
    nearest += [min((obstacles(other, run) for other in base), key=len) for run in head]
    return [f"not comparable: {reason}" for reason in dict.fromkeys(chain.from_iterable(nearest))]
