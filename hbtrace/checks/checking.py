"""The driver: feeds the survey while a session replays a trace, and tells every rule what it wants to hear."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hbtrace.checks.rule import Rule
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay.session import Observer, Replayed
from hbtrace.trace.vocabulary import TABLED


class Checking(Observer):
    """Rules at work; `finish` it behind the last batch."""

    ordered = True

    def __init__(self, rules: Iterable[type[Rule]]) -> None:
        self.survey = Survey()
        self.rules = [rule(self.survey) for rule in rules]
        self._stepping = [rule for rule in self.rules if type(rule).step is not Rule.step]
        self._handlers: dict[str, list[Callable[[DoneRow], None]]] = {}
        for rule in self.rules:
            for name in dir(rule):
                for ev in getattr(getattr(type(rule), name, None), "events", ()):
                    self._handlers.setdefault(ev, []).append(getattr(rule, name))

    def take(self, replayed: Replayed) -> None:
        for rule in self.rules:
            rule.batch(replayed)
        for at in self.survey.rows(replayed):
            if at.steps and at.ev not in TABLED:
                for rule in self._stepping:
                    rule.step(at)
            for handler in self._handlers.get(at.ev, ()):
                handler(at)
            for report in at.races:
                sort = self.survey.sort(report)
                for rule in self.rules:
                    rule.race(report, sort)

    def keep(self, rows: set[int]) -> None:
        self.survey.keep(rows)

    def finish(self) -> None:
        for rule in self.rules:
            rule.finish()
