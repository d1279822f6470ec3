"""Loads the library, if one was built here, of these sources, for this machine and whole."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sysconfig
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from hbtrace.compiled.compile import HERE, LIBRARY, NOTE, stamp

VARIABLE: Final = "HBTRACE_NATIVE"
"""0 in the environment: do without the library."""

HEADER: Final = "hbtrace.h"

_TYPES: Final[dict[str, Any]] = {
    "void": None,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "const char *": ctypes.c_char_p,
    "const int64_t *": ctypes.c_void_p,
    "const uint8_t *": ctypes.c_void_p,
    "int64_t *": ctypes.c_void_p,
}
"""Arrays are passed by address: their makers know it. Objects of the library are addresses, too."""

_FUNCTION: Final = re.compile(r"^HB_API (?P<result>.*?)(?P<name>\w+)\((?P<parameters>[^)]*)\);$", re.MULTILINE)
_CONSTANT: Final = re.compile(r"^#define (HB_\w+) (\d+)", re.MULTILINE)


class UnusableError(Exception):
    """Why there is no library to use: a sentence without its full stop. told: somebody should be told unasked."""

    def __init__(self, why: str, *, told: bool) -> None:
        super().__init__(why)
        self.told = told


def signatures(header: str) -> dict[str, tuple[Any, list[Any]]]:
    """The functions of a header: by name, the ctypes of result and parameters. Raises ValueError at an unknown type."""
    found = {}
    for match in _FUNCTION.finditer(header):
        parameters = [text.strip() for text in match["parameters"].split(",")]
        types = [] if parameters == ["void"] else [_type(re.sub(r"\w+$", "", text)) for text in parameters]
        found[match["name"]] = (_type(match["result"]), types)
    if len(found) != len(re.findall(r"^HB_API", header, re.MULTILINE)):
        raise ValueError("a declaration of the header cannot be read")
    return found


def _type(text: str) -> Any:
    text = " ".join(text.split())
    if text in _TYPES:
        return _TYPES[text]
    if re.fullmatch(r"(const )?(struct )?(hb|Arrow)\w+ \*", text):
        return ctypes.c_void_p
    raise ValueError(f"{text!r} is no type of the interface")


def constants(header: str) -> dict[str, int]:
    """The numbers that a header defines."""
    return {name: int(value) for name, value in _CONSTANT.findall(header)}


def open_library(folder: Path = HERE) -> ctypes.CDLL:
    """The library of a folder, its functions declared as the header there has them. Raises UnusableError."""
    path, header = folder / LIBRARY, (folder / HEADER).read_text(encoding="utf-8")
    _demand_whole(path, _note(folder), stamp(folder))
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UnusableError(f"{path} cannot be loaded: {error}", told=True) from error
    return _declared(library, path, header, stamp(folder))


def _note(folder: Path) -> dict[str, Any]:
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnusableError("none was built", told=False) from None
    except (OSError, ValueError) as error:
        raise UnusableError(f"{folder / NOTE} cannot be read: {error}", told=True) from error
    if not isinstance(note, dict):
        raise UnusableError(f"{folder / NOTE} is damaged", told=True)
    if "why" in note:
        raise UnusableError(f"none was built: {note['why']}", told=False)
    return note


def _demand_whole(path: Path, note: dict[str, Any], wanted: str) -> None:
    """Before it is loaded: a library that is cut off ends the process that loads it."""
    if note.get("stamp") != wanted:
        raise UnusableError(f"{path} was built from other sources: install hbtrace again", told=True)
    if note.get("platform") != sysconfig.get_platform():
        raise UnusableError(f"{path} was built for {note.get('platform')}: install hbtrace again", told=True)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnusableError(f"{path} cannot be read: {error.strerror}", told=True) from error
    if (len(data), zlib.crc32(data)) != (note.get("size"), note.get("crc")):
        raise UnusableError(f"{path} is damaged: install hbtrace again", told=True)


def _declared(library: ctypes.CDLL, path: Path, header: str, wanted: str) -> ctypes.CDLL:
    try:
        for name, (result, parameters) in signatures(header).items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, parameters
        told = library.hb_interface(), library.hb_stamp().decode()
    except AttributeError as error:
        raise UnusableError(f"{path} lacks a function: {error}", told=True) from error
    if told != (constants(header)["HB_INTERFACE"], wanted):
        raise UnusableError(f"{path} is of another version: install hbtrace again", told=True)
    return library


@lru_cache(maxsize=1)
def _opened() -> ctypes.CDLL | UnusableError:
    try:
        return open_library()
    except UnusableError as error:
        return error


def the_library() -> ctypes.CDLL:
    """The library of this installation, loaded once. Raises UnusableError."""
    if os.environ.get(VARIABLE) == "0":
        raise UnusableError(f"{VARIABLE} is 0", told=False)
    found = _opened()
    if isinstance(found, UnusableError):
        raise found
    return found
