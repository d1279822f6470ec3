"""What a format is: a function for each trace as soon as it is through, or one for the result as a whole, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hbtrace.compare.check_result import CheckedTrace, CheckResult
from hbtrace.compare.outcome import Outcome
from hbtrace.compare.race_result import RaceResult
from hbtrace.escape import harmless

Data = str | bytes
Trace = Outcome | CheckedTrace
"""What `analyze` or `check` found in one trace."""
AnyResult = RaceResult | CheckResult


@dataclass(frozen=True, slots=True)
class Style:
    """How much of a race is printed as text. width: characters of a line of the terminal, None elsewhere."""

    verbose: bool = False
    suppressions: bool = False
    """A ready one under each report."""
    width: int | None = None
    alone: bool = False
    """No standard error stands beside it: traces that could not be read are in it, whatever the format."""


def _nothing(_: object, __: Style) -> Data:
    return ""


@dataclass(frozen=True, slots=True)
class Renderer:
    """One format. What it has no place for is said on standard error."""

    trace: Callable[[Trace, Style], Data] = _nothing
    """Of `analyze` and `check`, which are through with one trace after the other."""
    whole: Callable[[AnyResult, Style], Data] = _nothing
    is_read: bool = False
    """By people: several traces have headings."""
    has_warnings: bool = True
    """Warnings of the traces are in it."""
    has_notes: bool = True
    """What else is said of no finding is in it."""


def heading(path: str, *, first: bool) -> str:
    """Where text of several traces stands one under the other."""
    return f"{'' if first else chr(10)}== {harmless(path)}\n\n"


def rendered(form: Renderer, result: AnyResult, style: Style) -> Iterator[Data]:
    """All of a finished result: each trace, then the whole."""
    traces: Sequence[Trace] = result.outcomes if isinstance(result, RaceResult) else result.read
    for number, trace in enumerate(traces):
        if result.several and form.is_read:
            yield heading(trace.path, first=not number)
        yield form.trace(trace, style)
    yield form.whole(result, style)
