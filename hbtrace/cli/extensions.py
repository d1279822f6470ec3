"""What engines add to verbs: options in the help, and what is done where these are given.

An engine's module for a verb has `OPTIONS`, in the order of the help, and `run`. That gets all that the verb was given,
by name, and answers None where none of its options is among it; else what the verb wants instead of its own way.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from hbtrace.cli.options import Command
from hbtrace.engines import engines


def _modules(verb: str) -> list[ModuleType]:
    return [import_module(engine.commands[verb]) for engine in engines() if verb in engine.commands]


def engine_options(verb: str) -> Command:
    """A decorator: the options of all engines."""

    def decorate(command: Command) -> Command:
        for module in reversed(_modules(verb)):
            for option in reversed(module.OPTIONS):
                command = option(command)
        return command

    return decorate


def instead(verb: str, given: dict[str, Any]) -> Any:
    """The answer of the engine whose options were given; None: of none."""
    answers = (module.run(given) for module in _modules(verb))
    return next((answer for answer in answers if answer is not None), None)
