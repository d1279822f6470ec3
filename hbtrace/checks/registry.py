"""All rules, in the order of their ids in the documentation, which is the order of the output."""

from __future__ import annotations

from typing import Final

from hbtrace.checks.caches import AliasMoved, StaleUid
from hbtrace.checks.copies import CopyUnordered, StaleCopy
from hbtrace.checks.events import EventOrder, FreedInFlight, RedundantWait
from hbtrace.checks.hazard import CpuSplitInPlace, InPlaceHazard
from hbtrace.checks.memory import MemoryReuse, UseAfterFree
from hbtrace.checks.placement import Placement
from hbtrace.checks.ring import PrepareMissing, PrepareTwice, RingRotation
from hbtrace.checks.rule import Rule
from hbtrace.engines import engines
from hbtrace.errors import UsageError
from hbtrace.words import did_you_mean

SCHEDULER_RULES: Final[tuple[type[Rule], ...]] = (
    InPlaceHazard,
    CpuSplitInPlace,
    RingRotation,
    PrepareMissing,
    PrepareTwice,
    StaleUid,
    AliasMoved,
    MemoryReuse,
    Placement,
    CopyUnordered,
    StaleCopy,
    EventOrder,
    FreedInFlight,
    UseAfterFree,
    RedundantWait,
)
"""The rules of the ggml scheduler and of backends as such."""


def all_rules() -> tuple[type[Rule], ...]:
    """These and those of all engines."""
    return (*SCHEDULER_RULES, *(rule for engine in engines() for rule in engine.rules()))


def rule(ident: str) -> type[Rule]:
    """The rule of an id. Raises UsageError with a suggestion."""
    wanted = ident.replace("_", "-")
    found = {r.id: r for r in all_rules()}
    if wanted in found:
        return found[wanted]
    hint = did_you_mean(wanted, found, "`hbtrace check --list` has their names")
    raise UsageError(f"no check `{ident}`: {hint}")
