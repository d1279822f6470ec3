"""An unpatched llama.cpp from a package registry, and what is built against it: fetched once, kept in `CACHE`."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.registry import MissingError, alone, packed

_BESIDE = Path(__file__).parent / ".cache"
# The loader takes no library to preload whose path has a blank or a colon.
CACHE = Path.home() / ".cache" / "hbtrace-tests" if re.search(r"[\s:]", str(_BESIDE)) else _BESIDE
NATIVE = Path(__file__).parent / "native"
_SCOPE = "@node-llama-cpp/"
_LIBRARIES = ("libllama.v0.5.0.so", "libggml.v0.5.0.so", "libggml-base.so")


def fetch(package: str = "linux-x64@3.22.1") -> Path:
    """The folder with the engine's libraries. Raises MissingError."""
    if platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        raise MissingError("the registry's build of llama.cpp is for x86-64 and glibc")
    folder = CACHE / package.replace("@", "-")
    with alone(CACHE):
        if not folder.is_dir():
            with packed(_SCOPE + package, CACHE) as (archive, made):
                archive.extractall(made / "out", filter="data")
                (made / "out").replace(folder)
    return folder / "package" / "bins" / package.split("@", maxsplit=1)[0]


def build(sources: Sequence[Path], *flags: str, headers: Sequence[Path] = (), name: str) -> Path:
    """Compile once for each state of the sources. Raises MissingError where there is no compiler."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise MissingError("no g++ to build the tests' programs with")
    digest = hashlib.sha256(repr(flags).encode())
    for path in (*sources, *headers):
        digest.update(path.read_bytes())
    target = CACHE / "built" / f"{digest.hexdigest()[:16]}-{name}"
    with alone(target.parent):
        if not target.exists():
            made = target.with_suffix(".part")
            command = [compiler, "-O2", "-std=c++17", "-pthread", *map(str, sources), "-o", str(made), *flags]
            subprocess.run(command, check=True)
            made.replace(target)
    return target


def build_plugin(engine: Path, interface: int = 2) -> Path:
    """The device of `native/test_device.cpp`. It names its libraries: Python's are in no global scope."""
    headers = [NATIVE / "ggml_facts.hpp", NATIVE / "queue.hpp"]
    names = _LIBRARIES[1:] if interface == 2 else ("libggml.so", "libggml-base.so")
    libraries = [str(engine / name) for name in names]
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", *libraries, f"-Wl,-rpath,{engine}")
    version = f"-DHBTEST_INTERFACE={interface}"
    return build([NATIVE / "test_device.cpp"], version, *flags, headers=headers, name="libggml-hbtest.so")


def build_driver(engine: Path) -> Path:
    """The program of `native/driver.cpp`, linked against the engine."""
    libraries = [str(engine / name) for name in _LIBRARIES]
    flags = (*libraries, f"-Wl,-rpath,{engine}", f"-Wl,-rpath-link,{engine}")
    return build([NATIVE / "driver.cpp"], *flags, headers=[NATIVE / "llama_facts.hpp"], name="driver")


def build_calls(engine: Path, program: str) -> Path:
    """A program of `native` that makes calls of ggml, linked against the engine's."""
    headers = [NATIVE / "calls_facts.hpp", NATIVE / "ggml_facts.hpp"]
    return build([NATIVE / f"{program}.cpp"], *_ggml(engine), headers=headers, name=program)


def build_weak(engine: Path) -> Path:
    """`native/weak.cpp`, linked against the ggml of an older engine."""
    libraries = [str(engine / name) for name in ("libggml.so", "libggml-base.so")]
    flags = (*libraries, f"-Wl,-rpath,{engine}", f"-Wl,-rpath-link,{engine}")
    headers = [NATIVE / "calls_facts.hpp", NATIVE / "ggml_facts.hpp"]
    return build([NATIVE / "weak.cpp"], *flags, headers=headers, name="weak")


def build_fork(engine: Path, program: str = "fork_program") -> Path:
    """A program of `native`, linked against the engine's ggml and the functions that a fork adds to it."""
    headers = [NATIVE / name for name in ("fork_stub.hpp", "calls_facts.hpp", "ggml_facts.hpp")]
    stub = build(
        [NATIVE / "fork_stub.cpp"], "-shared", "-fPIC", *_ggml(engine), headers=headers, name="libggml-fork.so"
    )
    flags = ("-rdynamic", str(stub), f"-Wl,-rpath,{stub.parent}", *_ggml(engine))
    return build([NATIVE / f"{program}.cpp"], *flags, headers=[*headers, NATIVE / "queue.hpp"], name=program)


def _ggml(engine: Path) -> tuple[str, ...]:
    libraries = [str(engine / name) for name in _LIBRARIES[1:]]
    return (*libraries, f"-Wl,-rpath,{engine}", f"-Wl,-rpath-link,{engine}")
