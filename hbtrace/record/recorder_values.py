"""What an event is given, checked and brought to what JSON can say; what is wrong names the event and the field.

The vocabulary says which keys there are and of what kind. What it is not: a check of the trace as a whole. Whether a
tensor was defined, or lies inside its buffer, is for `hbtrace analyze --strict` to say.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final

from hbtrace.trace import vocabulary as v

Row = dict[str, Any]

_INT64: Final = range(-(2**63), 2**63)
_LEAST: Final = {
    "offset": 0, "size": 0, "rows": 1, "stride": 0, "pitch": 1, "base": 0, "frames": 0, "thread": 0, "split": -1,
    "ubatch": -1, "duration": 0, "version": 1,
}  # fmt: skip
"""Of these integers less has no meaning. Ids have -1 for none, where the event can do without."""
MODULE_KEYS: Final = {"path": v.STR, "build_id": v.STR, "base": v.INT, "size": v.INT}
_DEEPEST: Final = 64
"""Levels of an object in `attrs` or `env`. Parsers of JSON refuse what is nested very deeply."""
_TOO_LONG: Final = 2**1024 - 2**970
"""An integer of an object, 309 digits: what no double comes near, parsers of JSON refuse, the reader's, too."""


def row_of(ev: str, given: Mapping[str, Any]) -> Row:
    """The event as JSON has it, `ev` first; what is None is absent. Raises TypeError or ValueError: `ev: key ...`."""
    kinds = _KINDS[ev]
    row: Row = {"ev": ev}
    for key, value in given.items():
        if value is None:
            continue
        kind = kinds.get(key)
        if kind is None:
            raise TypeError(f"{ev}: has no key {key!r}; its keys are {', '.join(kinds)}")
        try:
            row[key] = _value(ev, key, kind, value)
        except TypeError as error:
            raise TypeError(f"{ev}: {key}{error}") from None
        except ValueError as error:
            raise ValueError(f"{ev}: {key}{error}") from None
    for key in v.EVENTS[ev].needs:
        if key not in row:
            raise TypeError(f"{ev}: {key} is needed")
        if kinds[key] == v.ID and row[key] < 0:
            raise ValueError(f"{ev}: {key} must be 0 or more, not {row[key]}")
    if row.get("rows", 1) > 1 and row.get("stride", 0) < 1:
        raise ValueError(f"{ev}: rows needs a stride of 1 or more")
    return row


def _value(ev: str, key: str, kind: str, value: Any) -> Any:
    """One value. Its errors begin where the name of the key ends: ` must be ...` or `[2].size must be ...`."""
    if kind in (v.INT, v.ID):
        return _at_least(key, kind, _integer(value))
    if kind == v.LIST:
        return _LISTS[key](value)
    known = v.SETS.get((ev, key))
    if kind == v.STRS:
        return _each(value, "texts", _text if known is None else lambda one: _one_of(_text(one), known))
    fitting = _CHECKS[kind](value)
    if known is not None:
        _one_of(fitting, known)
    elif ev == "backend" and key == "name" and fitting == "HOST":
        raise ValueError(" must not be HOST: reports call the host so")
    return fitting


def _at_least(key: str, kind: str, number: int) -> int:
    least = -1 if kind == v.ID else _LEAST.get(key)
    if least is not None and number < least:
        raise ValueError(f" must be {least} or more, not {number}")
    if key == "version" and number > v.VERSION:
        raise ValueError(f" must be {v.VERSION}, not {number}")
    return number


def _integer(value: Any) -> int:
    """Numbers of other packages that are whole by type (`numpy.int64`) are integers, too."""
    if type(value) is not int:
        if isinstance(value, bool):
            raise TypeError(f" must be an integer, not {value!r}")
        try:
            value = int(operator.index(value))
        except TypeError:
            raise TypeError(f" must be an integer, not {shown(value)}") from None
    if value not in _INT64:
        raise ValueError(f" must fit 64 bits, not {shown(value)}")
    number: int = value
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f" must be True or False, not {shown(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f" must be text, not {shown(value)}")
    return kept(str(value))


def kept(text: str) -> str:
    """The text with an escape for each half of a surrogate pair, which UTF-8 has not: two names stay two."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _one_of(word: str, known: frozenset[str]) -> str:
    if word not in known:
        raise ValueError(f" must be one of {', '.join(sorted(known))}, not {word!r}")
    return word


def _each(values: Any, what: str, check: Callable[[Any], Any]) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f" must be a list of {what}, not {shown(values)}")
    checked = []
    for place, value in enumerate(values):
        try:
            checked.append(check(value))
        except TypeError as error:
            raise TypeError(f"[{place}]{error}") from None
        except ValueError as error:
            raise ValueError(f"[{place}]{error}") from None
    return checked


def _range(value: Any) -> Row:
    fitting = _struct(value, "range", v.RANGE_KEYS)
    if (fitting.get("tensor", -1) < 0) == (fitting.get("buffer", -1) < 0):
        raise ValueError(" must name a tensor or a buffer, and one of them only")
    if fitting.get("rows", 1) > 1 and fitting.get("stride", 0) < 1:
        raise ValueError(".rows needs a stride of 1 or more")
    if fitting.get("by", -1) >= 0:
        _check_by(fitting)
    return fitting


def _check_by(fitting: Row) -> None:
    """Of a range of rows that an index picks: it would count as if it had no `by`."""
    if fitting.get("buffer", -1) >= 0:
        raise ValueError(".by picks rows of a tensor, not of a buffer")
    if fitting.get("rows", 1) != 1 or fitting.get("stride", 0) != 0:
        raise ValueError(".by goes without rows and stride")
    for key in ("size", "pitch"):
        if key not in fitting:
            raise ValueError(f".by needs a {key}")


def _run(value: Any) -> Row:
    fitting = _struct(value, "run", v.RUN_KEYS)
    if "first" not in fitting:
        raise TypeError(".first is needed")
    return fitting


def _pick(value: Any) -> Row:
    fitting = _struct(value, "pick", v.PICK_KEYS)
    if "tensor" not in fitting:
        raise TypeError(".tensor is needed")
    if fitting["tensor"] < 0:
        raise ValueError(f".tensor must be 0 or more, not {fitting['tensor']}")
    return fitting


def _frame(value: Any) -> Any:
    """An address or a text."""
    if isinstance(value, str):
        return kept(str(value))
    try:
        return _at_least("frames", v.INT, _integer(value))
    except TypeError:
        raise TypeError(f" must be an address or text, not {shown(value)}") from None


def _node(value: Any) -> Row:
    return _struct(value, "node", v.NODE_KEYS)


def _struct(value: Any, what: str, kinds: Mapping[str, str]) -> Row:
    if not isinstance(value, Mapping):
        raise TypeError(f" must be a {what} ({{{', '.join(kinds)}}}), not {shown(value)}")
    fitting: Row = {}
    for key, inner in value.items():
        if inner is None:
            continue
        kind = kinds.get(key)
        if kind is None:
            raise TypeError(f" has a key {key!r}; the keys of a {what} are {', '.join(kinds)}")
        try:
            fitting[key] = _at_least(key, kind, _integer(inner)) if kind in (v.INT, v.ID) else _CHECKS[kind](inner)
        except TypeError as error:
            raise TypeError(f".{key}{error}") from None
        except ValueError as error:
            raise ValueError(f".{key}{error}") from None
    return fitting


def _object(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f" must be an object (a dict), not {shown(value)}")
    return _json(value, _DEEPEST)


def _json(value: Any, levels: int) -> Any:
    """A value as JSON can say it. A number that JSON has not would be read as null: it is refused."""
    if isinstance(value, str):
        return kept(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f" holds {value}, which JSON has not")
        return float(value)
    if levels == 0:
        raise ValueError(f" is nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f" holds the key {shown(key)}, which is no text")
        return {kept(key): _json(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(inner, levels - 1) for inner in value]
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f" holds {shown(value)}, which JSON cannot say") from None
    if not -_TOO_LONG < number < _TOO_LONG:
        raise ValueError(" holds an integer beyond 1.8e308, which readers of JSON refuse")
    return number


def shown(value: Any) -> str:
    """For an error, which the value's own `__repr__` must not replace: an integer may be too long for one."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


_KINDS: Final = {ev: {**event.keys, **v.COMMON} for ev, event in v.EVENTS.items()}
_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    v.BOOL: _flag,
    v.STR: _text,
    v.INTS: lambda value: _each(value, "integers", _integer),
    v.RANGE: _range,
    v.RANGES: lambda value: _each(value, "ranges", _range),
    v.NODES: lambda value: _each(value, "nodes", _node),
    v.PICKS: lambda value: _each(value, "picks", _pick),
    v.RUNS: lambda value: _each(value, "runs", _run),
    v.JSON: _object,
}
_LISTS: Final[dict[str, Callable[[Any], Any]]] = {
    "frames": lambda value: _each(value, "addresses and texts", _frame),
    "modules": lambda value: _each(value, "modules", lambda one: _struct(one, "module", MODULE_KEYS)),
}
"""By key: the vocabulary says of them only that they are lists."""
