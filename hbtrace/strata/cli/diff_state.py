"""`hbtrace diff --state OFF… --against ON…`: equality and speed of two arms of a Strata workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hbtrace.errors import TraceError, UsageError

if TYPE_CHECKING:
    from hbtrace.strata.logs.run import Log


OPTIONS: Final = (
    click.option(
        "--state", multiple=True, metavar="OFF...", help="Strata logs of one arm, to compare states and speed."
    ),
    click.option("--against", multiple=True, metavar="ON...", help="Strata logs of the other arm."),
)


def run(given: dict[str, Any]) -> int | None:
    """Two arms of a workload instead of two sides: the exit code."""
    if not given["state"] and not given["against"]:
        return None
    if given["base"] is not None or not given["state"] or not given["against"]:
        raise UsageError("--state OFF... and --against ON... stand together, and without BASE and HEAD")
    if given["report"]:
        raise UsageError("--report tells of races, and --state compares what requests end with: leave it out")
    return state_diff(
        given["state"], given["against"], form=given["format"], output=given["output"], force=given["force"],
        verbose=given["verbose"], exit_zero=given["exit_zero"],
    )  # fmt: skip


def state_diff(
    off: Sequence[str],
    on: Sequence[str],
    *,
    form: str = "text",
    output: str | None = None,
    force: bool = False,
    verbose: bool = False,
    exit_zero: bool = False,
) -> int:
    """Compare the arms and print. Each place is a run: a file, a folder of captures, or captures joined by commas.

    The exit code: 0 equal, 1 something differs or is missing, 3 a log that cannot be read, 4 nothing could be
    compared, or an arm is not what it should be.
    """
    from hbtrace.cli.output import open_output
    from hbtrace.strata.arms import compare
    from hbtrace.strata.cli.arms_text import document, render_text

    verdict = compare([read_run(place) for place in off], [read_run(place) for place in on])
    with open_output(output, force=force, form=form) as write:
        write(document(verdict) if form == "json" else render_text(verdict, verbose=verbose))
    if verdict.differs and not exit_zero:
        return 1
    return 0 if verdict.comparable else 4


def read_run(place: str) -> Log:
    """The log of one run. Raises TraceError for what is missing or holds no request."""
    from hbtrace.importers import LogFile
    from hbtrace.strata.logs.reading import read_logs

    paths = sorted(Path(place).iterdir()) if Path(place).is_dir() else [Path(part) for part in place.split(",")]
    if Path(place).is_file():
        paths = [Path(place)]
    try:
        log = read_logs([LogFile(path) for path in paths])
    except OSError as error:
        raise TraceError(f"{error.filename or place}: cannot be read: {error.strerror}") from None
    if not log.requests:
        raise TraceError(
            f"{place}: no request of a Strata run in it (neither DONE, nor STATE_HASH, nor a pipeline trace)"
        )
    return log
