"""Where a verb's result goes, and how warnings are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hbtrace.errors import UsageError

Write = Callable[[str | bytes], None]


@contextmanager
def open_output(path: str | None, *, force: bool) -> Iterator[Write]:
    """A function that writes text or bytes to FILE or standard output. Nothing is overwritten without force.

    A file gets its content when the verb is through: one that fails leaves what was there.
    """
    if path is None or path == "-":
        yield _to_stdout
        return
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists; give -f to overwrite it")
    part = Path(path + ".part")
    try:
        with part.open("wb") as stream:
            yield lambda data: _to_stream(stream.write, data)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _to_stream(write: Callable[[bytes], object], data: str | bytes) -> None:
    write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)


def _to_stdout(data: str | bytes) -> None:
    if isinstance(data, str):
        click.echo(data, nl=False)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def warn(sentences: Iterable[str]) -> None:
    """Warnings go to standard error, so that the result can be piped."""
    for sentence in sentences:
        click.echo(f"warning: {sentence}", err=True)
