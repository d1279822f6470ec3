"""Errors the user can act on. Each carries its exit code; the command line prints one sentence and no traceback."""

from __future__ import annotations


class HbtraceError(Exception):
    """Base of what hbtrace raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 70


class UsageError(HbtraceError):
    """Wrong use: an option, or an output that cannot be written."""

    exit_code = 2


class TraceError(HbtraceError):
    """A trace that cannot be read, has no event at all, or breaks a rule in strict mode."""

    exit_code = 3

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row
