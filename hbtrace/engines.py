"""Engines that have logs, rules and a coverage of their own, beside what holds for every trace.

A registry: who asks for an engine imports none. Each engine's room registers itself when its module of `_BUILT_IN` is
imported, on first need; that line is the only place that names a room. Hooks import what they need when they are
called. What they are handed is typed by who calls them, for nothing here knows a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol

_BUILT_IN: Final = ("hbtrace.strata.registration",)

LLAMA: Final = frozenset({"llama.cpp", "ggml", "model of the ggml scheduler"})
"""Engines whose runs are made with llama.cpp's options (`-ub`, `-ngl`): what its recorder, its sanitizer's log and
`simulate ggml` call themselves."""

_ENGINES: Final[dict[str, Engine]] = {}


class Exerciser(Protocol):
    """Counts what a run of an engine did, one event of its trace at a time."""

    def feed(self, event: dict[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. name: as `meta` has it in its traces, and as `simulate` takes it.

    Of its logs: log: what `Source.kind` calls them; identify: whether lines are such a log; is_line: whether one is a
    whole line of it; events: of the captures of a run, what was assumed being added to the warnings.

    Of its traces: rules: checks of its protocol; tells: whether one of them has a race to tell, so that others need
    not; rerecords: its waits hold the record that they met, so an event may be recorded again; exerciser and judge: the
    coverage, of a meter and what it fed; counters: those that this coverage has.

    commands: by verb the module with what the engine adds to it (`cli.extensions`); about: its line in `simulate -h`.
    """

    name: str
    log: str
    identify: Callable[[Iterable[bytes]], bool]
    is_line: Callable[[bytes], bool]
    events: Callable[[Sequence[Iterable[bytes]], list[str]], Iterator[dict[str, Any]]]
    rules: Callable[[], Sequence[type[Any]]]
    tells: Callable[[Any], bool]
    rerecords: bool = False
    exerciser: Callable[[], Exerciser]
    judge: Callable[[Any, Any], Any]
    counters: Callable[[], Sequence[str]]
    commands: Mapping[str, str] = field(default_factory=dict)
    about: str = ""


def register(engine: Engine) -> None:
    """Make an engine known. The newest of a name counts."""
    _ENGINES[engine.name] = engine


def engines() -> tuple[Engine, ...]:
    """All of them, in the order in which they were registered."""
    for module in _BUILT_IN:
        import_module(module)
    return tuple(_ENGINES.values())


def named(name: str | None) -> Engine | None:
    """The engine of a trace, by the word of its `meta`; None for all that have no rules of their own."""
    return next((engine for engine in engines() if engine.name == name), None) if name else None


def of_log(kind: str) -> Engine | None:
    """The engine whose logs are called so."""
    return next((engine for engine in engines() if engine.log == kind), None)
