"""What is no library of this installation is not loaded: hbtrace replays in Python, and says so where it should."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.compiled import compile as compiling
from hbtrace.compiled import library
from hbtrace.compiled.library import UnusableError, open_library, signatures
from hbtrace.errors import SlowKernelWarning
from hbtrace.replay import kernels
from hbtrace.replay.kernel import Hit, Kernel
from tests.compiled.test_twins import needs_library
from tests.material import SAMPLES

HEADER = (compiling.HERE / library.HEADER).read_text(encoding="utf-8")
PACKAGE = Path(hbtrace.__file__).parent
SEED = SAMPLES / "seed.arrow"

# --- the header


def test_signatures_are_those_of_the_header() -> None:
    found = signatures("HB_API int32_t hb_a(const hb_kernel *kernel, int64_t n);\nHB_API void hb_b(void);\n")
    assert found == {"hb_a": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64]), "hb_b": (None, [])}


@pytest.mark.parametrize(
    "line", ["HB_API float hb_a(void);", "HB_API int32_t hb_a(size_t n);", "HB_API int32_t hb_a(int64_t n)\n{"]
)
def test_a_declaration_that_cannot_be_read_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"type of the interface|cannot be read"):
        signatures(line)


def test_a_hit_is_as_wide_on_both_sides() -> None:
    assert library.constants(HEADER)["HB_HIT"] == len(Hit._fields)


@needs_library
def test_the_library_has_what_the_header_declares_and_nothing_else() -> None:
    made = open_library()
    for name, (result, parameters) in signatures(HEADER).items():
        function = getattr(made, name)
        assert (function.restype, function.argtypes) == (result, parameters)
    if sys.platform.startswith("linux") and shutil.which("nm"):
        listed = subprocess.run(["nm", "-D", "--defined-only", str(compiling.HERE / compiling.LIBRARY)],
                                capture_output=True, check=True, text=True).stdout  # fmt: skip
        assert {line.split()[-1] for line in listed.splitlines()} == signatures(HEADER).keys()


# --- libraries that are none


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the compiled part, library and all."""
    copy = tmp_path / "compiled"
    shutil.copytree(compiling.HERE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def _note(folder: Path, **changes: Any) -> None:
    path = folder / compiling.NOTE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _rewrite(folder: Path, change: Callable[[bytes], bytes], *, known: bool = False) -> None:
    """Another library in place of this; known: the note is right about it."""
    path = folder / compiling.LIBRARY
    data = change(path.read_bytes())
    path.unlink()  # not into the file that this process has loaded
    path.write_bytes(data)
    if known:
        _note(folder, size=len(data), crc=zlib.crc32(data))


def _of_another_version(folder: Path) -> None:
    """Its sources and its note are right, and it itself says that it is of others."""
    wanted = compiling.stamp(folder).encode()
    _rewrite(folder, lambda data: data.replace(wanted, wanted[::-1]), known=True)


BROKEN: dict[str, tuple[Callable[[Path], None], str, bool]] = {
    "absent": (lambda folder: (folder / compiling.LIBRARY).unlink(), "cannot be read", True),
    "never built": (lambda folder: (folder / compiling.NOTE).unlink(), "none was built", False),
    "not built for a reason": (lambda folder: _note(folder, why="no compiler"), "none was built: no compiler", False),
    "a note that is none": (lambda folder: _empty(folder / compiling.NOTE), "cannot be read", True),
    "a note of something else": (lambda folder: _write(folder / compiling.NOTE, "[]"), "is damaged", True),
    "cut off": (lambda folder: _rewrite(folder, lambda data: data[: len(data) // 2]), "is damaged", True),
    "empty": (lambda folder: _rewrite(folder, lambda data: b"", known=True), "cannot be loaded", True),
    "one byte wrong": (lambda folder: _rewrite(folder, lambda data: data[:-9] + b"!" + data[-8:]), "is damaged", True),
    "of other sources": (lambda folder: _append(folder / "kernel.cpp", "\n// later"), "from other sources", True),
    "of another interface": (lambda folder: _append(folder / library.HEADER, "\n/**/"), "from other sources", True),
    "of another version": (_of_another_version, "of another version", True),
    "for another machine": (lambda folder: _note(folder, platform="linux-vax"), "was built for linux-vax", True),
    "of another machine": (lambda folder: _rewrite(folder, _of_machine_0xffff, known=True), "cannot be loaded", True),
    "no library at all": (lambda folder: _rewrite(folder, lambda data: b"#!/bin/sh\n" * 999, known=True),
                          "cannot be loaded", True),
}  # fmt: skip


def _of_machine_0xffff(data: bytes) -> bytes:
    """Where ELF names the machine; elsewhere it is as wrong."""
    return data[:18] + b"\xff\xff" + data[20:]


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


@needs_library
@pytest.mark.parametrize("name", BROKEN)
def test_a_library_that_is_none(folder: Path, name: str) -> None:
    breaks, sentence, told = BROKEN[name]
    breaks(folder)
    with pytest.raises(UnusableError, match=sentence) as caught:
        open_library(folder)
    assert caught.value.told is told


@needs_library
def test_a_function_is_missing(folder: Path) -> None:
    """The header promises one more, and all else fits."""
    _append(folder / library.HEADER, "\nHB_API void hb_more(void);\n")
    wanted = compiling.stamp(folder)
    old = compiling.stamp().encode()
    _rewrite(folder, lambda data: data.replace(old, wanted.encode()), known=True)
    _note(folder, stamp=wanted)
    with pytest.raises(UnusableError, match="lacks a function"):
        open_library(folder)


@needs_library
def test_the_copy_is_sound_before_it_is_broken(folder: Path) -> None:
    assert open_library(folder).hb_interface() == library.constants(HEADER)["HB_INTERFACE"]


# --- who is told


@pytest.mark.parametrize("told", [True, False])
def test_a_program_is_warned_where_a_library_is_there(monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    def fail() -> ctypes.CDLL:
        raise UnusableError("it is broken", told=told)

    monkeypatch.setattr(kernels, "the_library", fail)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert isinstance(kernels.new_kernel(ordered=False), Kernel)
    said = [str(warning.message) for warning in caught if warning.category is SlowKernelWarning]
    assert said == (["hbtrace replays in Python, slowly: it is broken"] if told else [])
    assert kernels.described() == "Python kernel: it is broken"


def _process(package: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hbtrace", *map(str, arguments)],
        cwd=package.parent, env={**os.environ, "PYTHONPATH": str(package.parent), **variables},
        capture_output=True, check=False, text=True,
    )  # fmt: skip


@needs_library
def test_the_command_line_says_it_once_and_the_result_is_the_same(tmp_path: Path) -> None:
    copy = tmp_path / "hbtrace"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "docs"))
    sound = _process(copy, "analyze", SEED, SEED)
    assert (sound.returncode, sound.stderr) == (1, "")
    _rewrite(copy / "compiled", lambda data: data[:5000])
    broken = _process(copy, "analyze", SEED, SEED)
    assert (broken.returncode, broken.stdout) == (1, sound.stdout)
    assert re.fullmatch(r"warning: hbtrace replays in Python, slowly: .* is damaged: install hbtrace again\n",
                        broken.stderr)  # fmt: skip
    assert "is damaged" in _process(copy, "--version").stdout
    chosen = _process(copy, "analyze", SEED, SEED, HBTRACE_NATIVE="0")
    assert (chosen.returncode, chosen.stdout, chosen.stderr) == (1, sound.stdout, "")
