"""How a result reaches its reader: in a format, trace by trace or whole; what the format has no place for is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from hbtrace.cli import interrupt
from hbtrace.cli.output import Write, note, open_output, say, terminal_width, warn
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.result import Unreadable
from hbtrace.compare.side_coverage import lines
from hbtrace.errors import HbtraceError
from hbtrace.report.formats import renderer
from hbtrace.report.renderer import AnyResult, Renderer, Style, Trace, heading

T = TypeVar("T")


def read_each(paths: Sequence[str], read: Callable[[str], T]) -> Iterator[T | Unreadable]:
    """What is made of each trace. Of several, one that cannot be read does not hide the others: it is said."""
    for path in paths:
        if interrupt.asked():
            say(f"hbtrace: {path}: not read, for the run was interrupted")
            continue
        try:
            found: T | Unreadable = read(path)
        except HbtraceError as error:
            if len(paths) == 1:
                raise
            say(f"hbtrace: {error}")
            found = Unreadable(path, str(error), error.exit_code)
        yield found


@dataclass(frozen=True, slots=True)
class Showing:
    """An output that is open, and how to write there."""

    write: Write
    format: Renderer
    style: Style
    several: bool = False

    def heading(self, path: str, *, first: bool) -> None:
        """Where text of several traces stands one under the other."""
        if self.several and self.format.is_read:
            self.write(heading(path, first=first))

    def trace(self, trace: Trace) -> None:
        """What there is to say of one trace already."""
        self.write(self.format.trace(trace, self.style))

    def whole(self, result: AnyResult) -> None:
        self.write(self.format.whole(result, self.style))


@contextmanager
def showing(
    output: str | None, given: dict[str, Any], *, force: bool, inputs: Sequence[str], several: bool = False
) -> Iterator[Showing]:
    """Open the output that the options ask for."""
    style = Style(given.get("verbose", False), given.get("gen_suppressions", False), terminal_width(output))
    with open_output(output, force=force, inputs=inputs, form=given["format"]) as write:
        yield Showing(write, renderer(given["format"]), style, several)


def show_comparison(
    result: RaceResult, output: str | None, given: dict[str, Any], *, force: bool, inputs: Sequence[str]
) -> None:
    """Write what `diff` or `baseline check` found, and say what stands beside it."""
    with showing(output, given, force=force, inputs=inputs) as show:
        show.whole(result)
    tell(result, show.format)


def tell(result: RaceResult, form: Renderer) -> None:
    """What is said beside a comparison: warnings, and all that is said of no race where the format has no place."""
    if not form.has_notes:
        warn(dict.fromkeys([*result.errors, *result.reasons]))
        note([*result.notes, *result.left_out, *lines(result.coverage)])
    warn([*result.warnings, *map(str, result.complaints)])
