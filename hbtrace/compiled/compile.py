"""Builds the library. Used by the build hook, before hbtrace is installed: the standard library only, no other module.

What was built lies beside its sources, with a note of what it was built of and for; where nothing was built, the note
says why. `python -m hbtrace.compiled.compile` builds it again in place.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
LIBRARY: Final = "libhbtrace.so"
"""The same name everywhere: the loader is told the path, and one name can be left out of a repository."""
NOTE: Final = "built.json"

OPTIONS: Final = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
STATIC: Final = ("-static-libstdc++",)
"""The library loads where another compiler's C++ library is, or none. libgcc_s, which finds the way of an exception, is
the system's: pyarrow needs it too, and a static one needs a C library as new as the compiler."""
EXPORTS: Final = "exports.map"
SANITIZED: Final = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


class BuildError(Exception):
    """Why there is no library: half a sentence."""


def sources(folder: Path = HERE) -> list[Path]:
    """Every file that the library is made of, in order of name."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".h", ".hpp", ".cpp", ".map"))


def stamp(folder: Path = HERE) -> str:
    """What tells these sources from any others: the library of one set says so, and is used with no other. It is asked
    for at each start, so it is no cryptography."""
    whole = b"".join(path.name.encode() + b"\0" + path.read_bytes() + b"\0" for path in sources(folder))
    return f"{zlib.crc32(whole):08x}{zlib.adler32(whole):08x}"


def compiler() -> list[str]:
    """The command of the C++ compiler: CXX, or the first of the usual names. Raises BuildError where there is none."""
    import shlex
    import shutil

    if told := os.environ.get("CXX"):
        words = shlex.split(told)
        if words and shutil.which(words[0]):
            return words
        raise BuildError(f"CXX is {told!r}, which is no command")
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise BuildError("there is no C++ compiler")


def compile_to(target: Path, folder: Path = HERE, options: tuple[str, ...] = STATIC) -> None:
    """Compile the sources into a shared library. Raises BuildError."""
    import subprocess

    units = [str(path) for path in sources(folder) if path.suffix == ".cpp"]
    made = target.with_name(f"{target.name}.{os.getpid()}")  # whole or not at all: somebody may be loading the old one
    if sys.platform.startswith("linux"):  # what else is in it is its own, not the process's
        options = (*options, f"-Wl,--version-script={folder / EXPORTS}")
    command = [*compiler(), *OPTIONS, f'-DHB_STAMP="{stamp(folder)}"', *options, *units, "-o", str(made)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            raise BuildError(f"{command[0]} failed: {_first_error(done.stderr)}")
        made.replace(target)
    except OSError as error:
        raise BuildError(f"{command[0]} could not be run: {error.strerror}") from error
    finally:
        made.unlink(missing_ok=True)


def _first_error(told: str) -> str:
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "it does not say why")


def build(folder: Path = HERE, options: tuple[str, ...] = STATIC) -> str:
    """Build the library in place, and its note. Returns why there is none, empty where it was built."""
    target = folder / LIBRARY
    target.unlink(missing_ok=True)
    note: dict[str, object]
    try:
        compile_to(target, folder, options)
        data = target.read_bytes()
        note = {"stamp": stamp(folder), "platform": sysconfig.get_platform()}
        note |= {"size": len(data), "crc": zlib.crc32(data)}
        why = ""
    except BuildError as error:
        why = str(error)
        note = {"why": why}
    (folder / NOTE).write_text(json.dumps(note) + "\n", encoding="utf-8")
    return why


def platform_tag(library: Path) -> str:
    """The tag of a wheel with this library: on Linux the oldest glibc that has all symbols it needs."""
    platform = sysconfig.get_platform()
    needed = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes())]
    if platform.startswith("linux") and needed:
        platform = platform.replace("linux", f"manylinux_2_{max(*needed, 5)}", 1)
    return platform.replace("-", "_").replace(".", "_")


if __name__ == "__main__":
    failed = build()
    print(failed or HERE / LIBRARY)
    sys.exit(bool(failed))
