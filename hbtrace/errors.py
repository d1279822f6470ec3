"""Errors the user can act on. Each carries its exit code; the command line prints one sentence and no traceback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class HbtraceError(Exception):
    """Base of what hbtrace raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 70


class UsageError(HbtraceError):
    """Wrong use: an option, or an output that cannot be written."""

    exit_code = 2


class TraceError(HbtraceError):
    """A trace that cannot be read, has no event at all or none to judge, or breaks a rule in strict mode."""

    exit_code = 3

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class NothingToJudgeError(TraceError):
    """A trace of which no row made an access. Whoever knows its name puts it before (`in_trace`)."""


class StoppedError(HbtraceError):
    """Ctrl-C ended it; the sentence says what was found so far."""

    exit_code = 130


class SlowKernelWarning(UserWarning):
    """The compiled kernel is there and cannot be used: the same answers, slowly. Not an error; Python shows it once."""


@contextmanager
def in_trace(path: str) -> Iterator[None]:
    """Puts the name of the trace before what only knows a row of it, or that there is nothing to judge."""
    try:
        yield
    except NothingToJudgeError as error:
        raise TraceError(f"{path}: {error}") from None
    except TraceError as error:
        if error.row is None:
            raise
        raise TraceError(f"{path}: {error} (strict)", row=error.row) from None


def worst(codes: Iterable[int]) -> int:
    """Of several exit codes the one that counts: a fault of ours, interrupted, what could not be read, wrong use, a
    mended run that is wrong too, what could not be judged, findings, none."""
    return min(codes, key=(70, 130, 3, 2, 5, 4, 1, 0).index)
