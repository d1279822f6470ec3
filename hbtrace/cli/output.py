"""Where a verb's result goes, and how warnings are told."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size

import click

from hbtrace.errors import UsageError
from hbtrace.escape import harmless, printed

Write = Callable[[str | bytes], object]


@contextmanager
def open_output(
    path: str | None, *, force: bool, inputs: Iterable[str] = (), form: str = "text"
) -> Iterator[Write]:
    """A function that writes text or bytes to FILE or standard output. Nothing is overwritten without force.

    A file gets its content when the verb is through: one that fails leaves what was there. A device or a pipe is
    written as it is. `inputs` are never overwritten, force or not. form: "text" is broken into a terminal's lines.
    """
    if path is None or path == "-":
        yield show if form == "text" else _to_stdout
        return
    from hbtrace.outfile import OutFile

    check_output(path, inputs, force=force)
    try:
        out = OutFile(path, force=force)
        try:
            yield lambda data: out.stream.write(_encoded(data, form))
            out.keep()
        finally:
            out.drop()
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def refuse_inputs(path: str | None, inputs: Iterable[str]) -> None:
    """Raises UsageError if the output is one of what is read: a file, a folder's member, or what a glob matches."""
    if path is None or path == "-" or not os.path.exists(path):
        return
    from hbtrace.trace.vocabulary import SUFFIXES

    for source in inputs:
        members = glob.glob(os.path.join(glob.escape(source), "*"))
        files = [source, *glob.glob(source, recursive=True)]
        files += [file for file in members if Path(file).suffix in SUFFIXES]
        if any(os.path.exists(file) and os.path.samefile(file, path) for file in files):
            raise UsageError(f"{path} is what is being read; name another file for the output")


def check_output(path: str | None, inputs: Iterable[str], *, force: bool) -> None:
    """Raises UsageError where `open_output` would, for a verb that reads its traces before it opens its output."""
    from hbtrace.outfile import check_free, is_straight

    if path is None or path == "-":
        return
    check_free(path, force=True)
    refuse_inputs(path, inputs)
    check_free(path, force=force)
    folder = os.path.dirname(os.path.realpath(path))
    if is_straight(path):
        return
    if not os.path.isdir(folder):
        raise UsageError(f"{path}: cannot be written: there is no folder {os.path.dirname(path)}")
    if not os.path.exists(path) and not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be written: its folder is read-only")


def _encoded(data: str | bytes, form: str) -> bytes:
    if isinstance(data, bytes):
        return data
    return (printed(data) if form == "text" else data).encode("utf-8", "surrogateescape")


def _to_stdout(data: str | bytes) -> None:
    if isinstance(data, str):
        sys.stdout.write(data)  # not through click, which would take out what looks like an escape code
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def show(data: str | bytes) -> None:
    """Print text for people: on a terminal no line is longer than it."""
    width = terminal_width(None)
    if isinstance(data, str):
        data = printed(data)
        if width is not None:
            from hbtrace.report.fit import fit

            data = fit("\n".join(map(_coloured, data.split("\n"))), width)
    _to_stdout(data)


def _coloured(line: str) -> str:
    """The first line of a report in red, where colours are welcome."""
    return f"\x1b[1;31m{line}\x1b[0m" if line.startswith("RACE (") and colours() else line


def colours() -> bool:
    """Whether the terminal takes codes and its user wants colours: https://no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def redraws() -> bool:
    """Whether the terminal can write a line over: a dumb one has no codes for it."""
    return os.environ.get("TERM") != "dumb"


def terminal_width(output: str | None) -> int | None:
    """Characters of a line, where the result goes to a terminal; None for a file, a pipe, or `-o`."""
    return get_terminal_size().columns if output is None and sys.stdout.isatty() else None


def say(sentence: str) -> None:
    """A line on standard error, so that the result can be piped; a name in it cannot make it two."""
    click.echo(harmless(sentence), err=True)


def warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(f"warning: {sentence}")


def note(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(f"note: {sentence}")
