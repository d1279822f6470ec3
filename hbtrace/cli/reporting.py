"""`--report FORMAT=FILE`: the result of one pass in any number of formats, written whatever becomes of the run.

Where nothing could be judged each file says so, and why, in a way that its readers take for red.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from hbtrace.cli.output import check_output, open_output, say
from hbtrace.errors import HbtraceError, UsageError
from hbtrace.words import did_you_mean

Command = Callable[..., Any]


class Target(NamedTuple):
    """One report: its format, and its file or `-`."""

    format: str
    path: str


@dataclass(slots=True)
class Reports:
    """What the reports of a run show, once there is a result."""

    result: Any = None


def report_option(formats: Sequence[str]) -> Callable[[Command], Command]:
    """Hands on `report`, a tuple of `Target`."""

    def parse(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[Target, ...]:
        return tuple(_target(value, formats, ctx, param) for value in values)

    about = "Write the result in this format as well; repeatable; - is standard output. Always written."
    return click.option("--report", multiple=True, metavar="FORMAT=FILE", callback=parse, help=about)


def _target(value: str, formats: Sequence[str], ctx: click.Context, param: click.Parameter) -> Target:
    form, _, path = value.partition("=")
    if form not in formats:
        hint = did_you_mean(form, formats, f"there are {', '.join(formats)}")
        raise click.BadParameter(f"{value!r}: no format `{form}`: {hint}", ctx, param)
    if not path:
        raise click.BadParameter(f"{value!r}: give a file, such as {form}=FILE, or {form}=-", ctx, param)
    return Target(form, path)


@contextmanager
def reporting(
    verb: str, given: dict[str, Any], output: str | None, *, force: bool, inputs: Sequence[str]
) -> Iterator[Reports]:
    """Write the reports when the verb is through, with what it came to: the result that it set, or why there is none.

    Raises UsageError before anything is read for a file that cannot be written, or that two outputs share.
    """
    targets: Sequence[Target] = given["report"]
    inputs = [*inputs, *filter(None, [given.get("suppressions")])]
    _check_targets(targets, output, given["format"], force=force, inputs=inputs)
    reports = Reports()
    try:
        yield reports
    except BaseException as error:
        if reports.result is None:
            reports.result = _cannot_judge(verb, error)
        for failed in _write(targets, reports.result, given, force=force, inputs=inputs):
            say(f"hbtrace: {failed}")  # the first error is the one that counts
        raise
    for failed in _write(targets, reports.result, given, force=force, inputs=inputs):
        raise failed


def _check_targets(
    targets: Sequence[Target], output: str | None, form: str, *, force: bool, inputs: Sequence[str]
) -> None:
    taken = {os.path.realpath(output)} if output not in (None, "-") else set()
    if form != "text" and not taken and any(target.path == "-" for target in targets):
        raise UsageError(f"--format {form} and a --report would both go to standard output: give one of them a file")
    for target in targets:
        place = target.path if target.path == "-" else os.path.realpath(target.path)
        if place in taken:
            raise UsageError(f"--report {target.format}={target.path}: another output goes there as well")
        taken.add(place)
        if place != "-":
            check_output(target.path, inputs, force=force)


def _write(
    targets: Sequence[Target], result: Any, given: dict[str, Any], *, force: bool, inputs: Sequence[str]
) -> list[UsageError]:
    """Write each report. What is wrong with one keeps no other from being written."""
    from hbtrace.report.formats import renderer
    from hbtrace.report.renderer import Style, rendered

    style = Style(given.get("verbose", False), given.get("gen_suppressions", False), alone=True)
    failed = []
    for form, path in targets:
        try:
            with open_output(path, force=force, inputs=inputs, form=form) as write:
                for part in rendered(renderer(form), result, style):
                    write(part)
        except UsageError as error:
            failed.append(error)
    return failed


def _cannot_judge(verb: str, error: BaseException) -> Any:
    """A result that holds nothing but why there is none."""
    from hbtrace.compare.check_result import CheckResult
    from hbtrace.compare.race_result import RaceResult
    from hbtrace.compare.result import Unreadable

    interrupted = isinstance(error, KeyboardInterrupt)
    text, code = ("interrupted", 130) if interrupted else (f"a fault of hbtrace: {type(error).__name__}: {error}", 70)
    if isinstance(error, HbtraceError):
        text, code = str(error), error.exit_code
    why = Unreadable("", f"cannot judge: {text}", code)
    return CheckResult(False, [why]) if verb == "check" else RaceResult(verb, unreadable=[why])
