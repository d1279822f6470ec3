"""A file that is written whole or not at all, and what is written as it comes: a pipe, a device, standard output.

Every writer of the project goes through here. Until a file is whole it is `NAME.<random>.part` beside its target: a
name of no other's, made new (no link is followed, no second writer shares it), and nobody else's to read. It is gone
on every way out but one, SIGKILL, which leaves a trace that can be read up to its last batch.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
import weakref
from pathlib import Path
from typing import BinaryIO, Final

from hbtrace.errors import UsageError

_DESCRIPTOR: Final = re.compile(r"/dev/(?:fd/(\d{1,6})|std(?:out|err))|/proc/self/fd/(\d{1,6})")
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Of a link O_EXCL makes an error, wherever it leads."""
_LONGEST_STEM: Final = 50
"""Characters of the target's name in that of its part, which must not be too long where the target's is not."""


class OutFile:
    """An output that is open. Write to `stream`, then `keep` or `drop` it.

    path: a file, `-` or what `is_straight`. Raises UsageError where `check_free` does, OSError for what cannot be
    opened.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        check_free(path, force=force)
        self.path = path
        self.straight = is_straight(path)
        self._force = force
        self._part: Path | None = None
        self.stream: BinaryIO
        self._target = Path(os.path.realpath(path))  # through a link, not in its place
        if self.straight:
            self.stream = _opened(path)
            return
        part = self._target.with_name(f"{self._target.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}.part")
        self._lost = weakref.finalize(self, _remove, part, os.getpid())  # before it is there: a signal may come between
        try:
            self.stream = os.fdopen(os.open(part, _NEW, 0o600), "w+b")
        except FileExistsError:  # another's, against all odds
            self._lost.detach()
            raise
        self._part = part

    def keep(self) -> None:
        """It is whole: give it its name. Raises OSError, and UsageError if the name was taken meanwhile."""
        if self._part is None:
            self.stream.flush()
            self._close()
            return
        try:
            self.stream.close()
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self._part, 0o666 & ~mask)
            if self._force:
                os.replace(self._part, self._target)
                self._lost.detach()
            else:
                _link(self._part, self._target, self.path)
        finally:
            self._lost()

    def another(self) -> OutFile:
        """A second part for the same name."""
        return OutFile(self.path, force=self._force)

    def drop(self) -> None:
        """Give it up: nothing is left of it, and what has its name stays. After `keep`: does nothing."""
        with contextlib.suppress(OSError):
            self._close()
        if self._part is not None:
            self._lost()

    def _close(self) -> None:
        if self.path != "-":
            self.stream.close()


def is_straight(path: str) -> bool:
    """Whether there is nothing to be replaced: standard output, a descriptor such as a shell's `>(...)`, a pipe, a
    device that keeps nothing."""
    if path == "-" or _DESCRIPTOR.fullmatch(path):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def check_free(path: str, *, force: bool) -> None:
    """Raises UsageError for a name that cannot be written, or must not be without force."""
    if not path:
        raise UsageError("-o wants the name of a file")
    if is_straight(path):
        return
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(f"{path} is neither a file nor a pipe")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists; give -f to overwrite it")


def give_name(whole: Path, target: Path, *, force: bool) -> None:
    """Rename a file that is whole; without force nothing that exists is replaced. Raises OSError and UsageError."""
    if force:
        whole.replace(target)
    else:
        _link(whole, target, str(target))
        whole.unlink(missing_ok=True)


def _link(whole: Path, target: Path, path: str) -> None:
    """Its second name, for a rename would replace what another writer has put there since it was free."""
    try:
        try:
            os.link(whole, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(target):
                raise FileExistsError from None
            os.replace(whole, target)
    except FileExistsError:
        raise UsageError(f"{path} exists; give -f to overwrite it") from None


def _opened(path: str) -> BinaryIO:
    """What is written as it comes. A descriptor is written where it stands: opened anew a file would be emptied."""
    sys.stdout.flush()
    if path == "-":
        return sys.stdout.buffer
    if (found := _DESCRIPTOR.fullmatch(path)) is None:
        return os.fdopen(os.open(path, os.O_WRONLY), "wb")
    number = found[1] or found[2] or {"/dev/stdout": 1, "/dev/stderr": 2}[path]
    return os.fdopen(os.dup(int(number)), "wb")


def _remove(part: Path, pid: int) -> None:
    """Not in a fork, whose copy of the object is none of its own."""
    if os.getpid() == pid:
        part.unlink(missing_ok=True)
