"""JSON text without losing digits. orjson is fast but makes floats of integers beyond 64 bits; here they stay whole."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from hbtrace.errors import TraceError

_DIGITS_TO_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_TWENTY: Final = b"0" * 20
_NEGATIVE_NINETEEN: Final = b"-" + b"0" * 19


class Unkept(TraceError):  # noqa: N818 - what happened to the value, not to the program
    """A value that cannot be kept. Whoever knows the trace's name puts it before."""


def has_long_number(text: bytes) -> bool:
    """Whether an integer that 64 bits cannot hold may be in the text. A whole megabyte is looked at in a millisecond.

    2**64 has 20 digits, and -2**63 has 19: of those with 19, time stamps in nanoseconds are many and fit.
    """
    digits = text.translate(_DIGITS_TO_ZERO)
    return _TWENTY in digits or _NEGATIVE_NINETEEN in digits


def loads(text: bytes, *, long_numbers: bool | None = None) -> Any:
    """Parse JSON. Raises ValueError. `long_numbers`: what `has_long_number` said of a text that holds this one."""
    value = orjson.loads(text)
    if long_numbers is False or not has_long_number(text):
        return value
    try:
        return json.loads(text)  # laxer than orjson, but that has agreed already
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: Any) -> str:
    """JSON text of what JSON can say. Raises Unkept for what is nested too deeply."""
    return dumps_bytes(value).decode()


def dumps_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, or deeper than orjson likes to write
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except (RecursionError, ValueError) as error:
        raise Unkept(f"a value cannot be kept: {error}") from None
