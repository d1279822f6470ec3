"""Strata as an engine of the registry: importing this registers it. Its rooms are imported when a hook is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from hbtrace.engines import Engine, register

if TYPE_CHECKING:
    from hbtrace.checks.coverage import Coverage
    from hbtrace.checks.meter import Meter
    from hbtrace.checks.rule import Rule
    from hbtrace.replay.reports import Report
    from hbtrace.strata.checks.coverage import StrataExerciser

LOG: Final = "strata-log"


def _identify(lines: Iterable[bytes]) -> bool:
    from hbtrace.strata.logs.importer import identify

    return identify(lines)


def _is_line(line: bytes) -> bool:
    from hbtrace.strata.logs.importer import is_line

    return is_line(line)


def _events(captures: Sequence[Iterable[bytes]], warnings: list[str]) -> Iterator[dict[str, Any]]:
    from hbtrace.strata.logs.importer import events_of

    return events_of(captures, warnings=warnings)


def _rules() -> Sequence[type[Rule]]:
    from hbtrace.strata.checks.rules import STRATA_RULES

    return STRATA_RULES


def _tells(report: Report) -> bool:
    from hbtrace.strata.checks.races import is_named

    return is_named(report)


def _exerciser() -> StrataExerciser:
    from hbtrace.strata.checks.coverage import StrataExerciser

    return StrataExerciser()


def _judge(meter: Meter, exerciser: StrataExerciser) -> Coverage:
    from hbtrace.strata.checks.verdict import judge

    return judge(meter, exerciser.coverage)


def _counters() -> Sequence[str]:
    from hbtrace.strata.checks.coverage import COUNTERS

    return COUNTERS


register(
    Engine(
        name="strata",
        log=LOG,
        identify=_identify,
        is_line=_is_line,
        events=_events,
        rules=_rules,
        tells=_tells,
        rerecords=True,  # its queues are CUDA streams
        exerciser=_exerciser,
        judge=_judge,
        counters=_counters,
        commands={
            "simulate": "hbtrace.strata.cli.simulate",
            "convert": "hbtrace.strata.cli.convert",
            "diff": "hbtrace.strata.cli.diff_state",
        },
        about="A pipelined engine with a ring of state snapshots.",
    )
)
