"""The recorder library: compiled at first use and kept for later ones."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from hbtrace.record import RecordError

_SOURCES: Final = Path(__file__).parent / "native"
_COMPILE: Final = ("-std=c++17", "-O2", "-c", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-pthread")
_LINK: Final = ("-shared", "-pthread", f"-Wl,--version-script={_SOURCES / 'exports.map'}")
_STATIC: Final = ("-static-libstdc++", "-static-libgcc")
"""The recorded program may bring an older libstdc++ of its own (conda): ours must not be resolved to it."""


def library(say: Callable[[str], None]) -> Path:
    """The library's path, compiled if need be; `say` is told so, as it takes seconds. Raises RecordError."""
    if not sys.platform.startswith("linux"):
        raise RecordError(f"recording needs Linux, this is {sys.platform}; traces can be analyzed anywhere")
    compiler = _compiler()
    name = f"recorder-{_key(compiler)}.so"
    built = _loadable(_trusted_folder(name, say) / name)
    if not built.is_file():
        say(f"compiling the recorder library once, into {built.parent}")
        _build(compiler, built)
    return built


def _trusted_folder(name: str, say: Callable[[str], None]) -> Path:
    """Where the library is or goes. It runs in the recorded program: no other user may have had a hand in it."""
    for folder in dict.fromkeys((cache_folder(), _default_folder())):
        why = untrusted(folder / name)
        if not why:
            return folder
        say(f"{folder} is not used for the recorder library, for another user could have written there: {why}")
    return Path(tempfile.mkdtemp(prefix="hbtrace-"))  # ours alone


def untrusted(path: Path) -> str:
    """Why another user than this one and root could have written a file, or a folder or link on the way to it; empty
    if none could. What is not there yet is judged by where it would be."""
    real = Path(os.path.realpath(path))
    for place in dict.fromkeys((path, *path.parents, real, *real.parents)):
        try:
            found = place.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{place}: {error.strerror}"
        if found.st_uid not in (os.geteuid(), 0):
            return f"{place} belongs to user {found.st_uid}"
        kept = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX  # in /tmp nobody replaces another's files
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(found.st_mode) and not kept:
            return f"{place} has mode {stat.S_IMODE(found.st_mode):o}"
    return ""


def cache_folder() -> Path:
    """Where compiled libraries are kept: HBTRACE_CACHE, else the user's cache folder."""
    own = os.environ.get("HBTRACE_CACHE")
    return Path(own).absolute() if own else _default_folder()


def _default_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and os.path.isabs(home) else Path.home() / ".cache") / "hbtrace"


def _loadable(path: Path) -> Path:
    """LD_PRELOAD separates names by blanks and colons, and knows no way to quote them."""
    if any(letter in str(path) for letter in " :"):
        raise RecordError(f"{path} has a blank or a colon in it: set HBTRACE_CACHE to a folder without")
    return path


def _compiler() -> list[str]:
    if own := os.environ.get("CXX"):
        words = shlex.split(own)
        if words and shutil.which(words[0]):
            return words
        raise RecordError(f"CXX is {own}, which is not found: set it to a C++17 compiler")
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            return [name]
    raise RecordError("no C++ compiler is found, and one is needed once: install g++ or clang++, or set CXX")


def _key(compiler: list[str]) -> str:
    """What the library depends on: our sources, and which compiler with what flags."""
    try:
        version = subprocess.run([*compiler, "--version"], capture_output=True, check=False).stdout
    except OSError as error:
        raise RecordError(f"{compiler[0]} cannot be run: {error.strerror}; set CXX to a C++17 compiler") from None
    digest = hashlib.sha256(repr((compiler, version, _COMPILE, platform.machine())).encode())
    for path in sorted(_SOURCES.glob("*.*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]


def _build(compiler: list[str], target: Path) -> None:
    """Compile beside the target and rename: another process may do the same at the same time."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as name, _Compilers() as run:
            folder = Path(name)
            sources = sorted(_SOURCES.glob("*.cpp"))
            objects = [folder / f"{source.stem}.o" for source in sources]
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool, run.ended_on_error():
                compile_one = lambda pair: run([*compiler, *_COMPILE, pair[0], "-o", pair[1]])  # noqa: E731
                _raise_first(pool.map(compile_one, zip(sources, objects, strict=True)))
            made = folder / "recorder.so"
            if run([*compiler, *_LINK, *_STATIC, *objects, "-o", made, "-ldl"]) is not None:
                _raise_first([run([*compiler, *_LINK, *objects, "-o", made, "-ldl"])])
            made.chmod(0o755)  # whatever the umask lets a group do
            made.replace(target)
    except OSError as error:
        raise RecordError(
            f"{target.parent}: the recorder library cannot be kept there: {error.strerror}; set HBTRACE_CACHE to a "
            "folder that can be written"
        ) from None


class _Compilers:
    """Those that run now. They are groups of their own, compiler and assembler, and end with this process."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._ended = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._old[number] = signal.signal(number, _leave)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self._end()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    @contextmanager
    def ended_on_error(self) -> Iterator[None]:
        """Whatever ends the work, a signal or Ctrl-C, ends the compilers, too: the pool waits for them."""
        try:
            yield
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def __call__(self, command: list[str | Path]) -> str | None:
        """What is wrong, in the compiler's words; None if nothing is."""
        with self._lock:
            if self._ended:
                return "ended"
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", process_group=0
            )
            self._running.add(process)
        _, told = process.communicate()
        with self._lock:
            self._running.discard(process)
        return (told.strip() or f"exit code {process.returncode}") if process.returncode else None


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _raise_first(results: Iterable[str | None]) -> None:
    for wrong in results:
        if wrong is not None:
            line = next((line for line in wrong.splitlines() if "error" in line), wrong.splitlines()[0])
            raise RecordError(f"the recorder library does not compile: {line}; set CXX to another C++17 compiler")
