"""Whether a library can be loaded into a program: what its file says, before it is run.

What it does not say (libraries that it loads later) shows only afterwards: `launch` tells of it then.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from hbtrace.record import ProgramNotFoundError, RecordError

_MACHINES: Final = {"x86_64": 62, "aarch64": 183}
_NAMES: Final = {3: "x86", 21: "ppc64", 22: "s390x", 40: "ARM", 62: "x86_64", 183: "aarch64", 243: "RISC-V"}
_INTERPRETER, _SYMBOLS, _DYNAMIC_SYMBOLS = 3, 2, 11
_MARK: Final = b"ggml_backend_sched_graph_compute_async"
_MOST_SCRIPTS: Final = 4
_ENV_OWN: Final = re.compile(r"^-|=|\s")


@dataclass(frozen=True)
class Elf:
    """What counts of an executable."""

    bits: int
    machine: int
    interpreter: str | None
    defines_ggml: bool


def check_program(name: str) -> Path:
    """The program's file. Raises RecordError, in one sentence and with a way out, if it cannot be recorded."""
    found = shutil.which(name)
    if found is None:
        if os.path.isdir(name):
            raise RecordError(f"{name} is a folder, not a program")
        if os.path.sep in name and os.path.exists(name):
            raise RecordError(f"{name} is not executable: chmod +x it, or name its interpreter before it")
        raise ProgramNotFoundError(f"{name}: program not found")
    path = Path(found)
    for _ in range(_MOST_SCRIPTS):
        _check_rights(path)
        with path.open("rb") as stream:
            interpreter = _script_interpreter(stream)
            if interpreter is None:
                _check_elf(path, read_elf(stream))
                return path
        following = shutil.which(interpreter)
        if following is None:
            raise RecordError(f"{path}: its interpreter {interpreter} is not found")
        path = Path(following)
    return path


def _check_rights(path: Path) -> None:
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise RecordError(f"{path} runs with another user's rights, where nothing can be loaded: record a copy of it")
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return
    raise RecordError(f"{path} has capabilities of its own, where nothing can be loaded: record a copy of it")


def _script_interpreter(stream: BinaryIO) -> str | None:
    """What runs a script, from its first line; None for anything else.

    As the kernel reads it: behind the interpreter, all the rest is one argument, quotes and blanks included. Of `env`,
    that is a program; where it is options or variables, env itself is looked at, which finds the program as it runs.
    """
    line = stream.readline(4096)
    stream.seek(0)
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:].strip()).split(None, 1)
    if len(words) == 2 and os.path.basename(words[0]) == "env" and not _ENV_OWN.search(words[1]):
        return words[1]
    return words[0] if words else None


def _check_elf(path: Path, elf: Elf | None) -> None:
    if elf is None:
        raise RecordError(f"{path} is neither an ELF file nor a script with a #! line: name its interpreter before it")
    own = _MACHINES.get(platform.machine())
    if elf.bits != 64 or (own is not None and elf.machine != own):
        kind = _NAMES.get(elf.machine, f"machine {elf.machine}")
        raise RecordError(
            f"{path} is a {elf.bits}-bit program for {kind}, this is {platform.machine()}: record a native build of it"
        )
    if elf.interpreter is None:
        raise RecordError(f"{path} is statically linked, so that no library can be loaded: build it without -static")
    if "ld-musl" in os.path.basename(elf.interpreter):
        raise RecordError(f"{path} is built for musl, and the recorder for glibc: record a glibc build of it")
    if elf.defines_ggml:
        raise RecordError(f"{path} has ggml linked into it, so that {UNREACHABLE}")


UNREACHABLE: Final = "its calls cannot be interposed: build llama.cpp with BUILD_SHARED_LIBS=ON"


def read_elf(stream: BinaryIO) -> Elf | None:
    """None if it is no ELF file, or one that is damaged."""
    head = stream.read(64)
    if len(head) < 52 or not head.startswith(b"\x7fELF"):
        return None
    bits = 64 if head[4] == 2 else 32
    order = "<" if head[5] == 1 else ">"
    (machine,) = struct.unpack_from(order + "H", head, 18)
    if bits == 32:
        return Elf(bits, machine, None, False)
    try:
        return Elf(bits, machine, _interpreter(stream, head, order), _defines(stream, head, order))
    except struct.error:
        return None


def _interpreter(stream: BinaryIO, head: bytes, order: str) -> str | None:
    (start,) = struct.unpack_from(order + "Q", head, 32)
    size, count = struct.unpack_from(order + "HH", head, 54)
    for index in range(count):
        stream.seek(start + index * size)
        kind, _, offset, _, _, length = struct.unpack(order + "IIQQQQ", stream.read(40))
        if kind == _INTERPRETER:
            stream.seek(offset)
            return os.fsdecode(stream.read(min(length, 4096)).rstrip(b"\0"))
    return None


def _defines(stream: BinaryIO, head: bytes, order: str) -> bool:
    """Whether the scheduler's compute is a function of this very file: calls to it go nowhere else then."""
    for names, symbols in _symbol_tables(stream, head, order):
        if _MARK not in names:
            continue
        for name, _, _, where, _, _ in struct.iter_unpack(order + "IBBHQQ", symbols):
            if where != 0 and names.startswith(_MARK + b"\0", name):
                return True
    return False


def _symbol_tables(stream: BinaryIO, head: bytes, order: str) -> Iterator[tuple[bytes, bytes]]:
    """The names and the entries of each."""
    (start,) = struct.unpack_from(order + "Q", head, 40)
    size, count = struct.unpack_from(order + "HH", head, 58)
    sections = []
    for index in range(count if start else 0):
        stream.seek(start + index * size)
        sections.append(struct.unpack(order + "IIQQQQIIQQ", stream.read(64)))
    for section in sections:
        if section[1] not in (_SYMBOLS, _DYNAMIC_SYMBOLS) or section[6] >= len(sections):
            continue
        texts = sections[section[6]]
        stream.seek(texts[4])
        names = stream.read(texts[5])
        stream.seek(section[4])
        yield names, stream.read(section[5] // 24 * 24)


def wants_ggml(path: Path) -> bool:
    """Whether a program has functions of ggml or llama.cpp to be found in a library: those can be interposed."""
    try:
        with path.open("rb") as stream:
            head = stream.read(64)
            if not head.startswith(b"\x7fELF\x02"):
                return False
            order = "<" if head[5] == 1 else ">"
            for names, symbols in _symbol_tables(stream, head, order):
                if b"\0ggml_" not in names and b"\0llama_" not in names:
                    continue
                for name, _, _, where, _, _ in struct.iter_unpack(order + "IBBHQQ", symbols):
                    if where == 0 and names.startswith((b"ggml_", b"llama_"), name):
                        return True
    except (OSError, struct.error):
        pass
    return False


def mentions_ggml(path: Path) -> bool:
    """Whether ggml is somewhere in a file, symbols or not: its assertions name its sources."""
    try:
        return b"ggml_backend" in path.read_bytes()
    except OSError:
        return False
