"""TOML files that people keep in git: read with the line of what is wrong, written the same way every time."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any, Final

import orjson

from hbtrace.errors import UsageError

_CONFLICT: Final = re.compile(r"^(<{7}|={7}|>{7}|\|{7})( |$)")
_AT_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")


class TomlFile:
    """A file of tables `[[name]]` under a few top-level keys. Every complaint names its line."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: is no text in UTF-8") from None
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if _CONFLICT.match(line):
                raise UsageError(f"{path}:{number}: holds an unfinished merge: `{line[:40]}`")
        try:
            self.top: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            at = _AT_LINE.search(str(error))
            where = f"{path}:{at[1]}" if at else path
            raise UsageError(f"{where}: is no TOML: {_AT_LINE.sub('', str(error)).strip()}") from None
        self._starts = [n for n, line in enumerate(lines, 1) if re.match(rf"\s*\[\[\s*{name}\s*\]\]", line)]
        tables = self.top.pop(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise UsageError(f"{path}: `{name}` is no list of tables: write [[{name}]] above each")
        self.tables: list[dict[str, Any]] = tables

    def wrong(self, index: int, what: str) -> UsageError:
        """A complaint about the table of this number."""
        line = self._starts[index] if index < len(self._starts) else 1
        return UsageError(f"{self.path}:{line}: {what}")

    def check_keys(self, allowed: dict[str, type], required: tuple[str, ...] = ()) -> None:
        """Every table has the required keys, and no other than the allowed ones, each of its type."""
        for index, table in enumerate(self.tables):
            for key, value in table.items():
                if key not in allowed:
                    raise self.wrong(index, f"knows no key `{key}`; there are {', '.join(allowed)}")
                if type(value) is not allowed[key]:
                    raise self.wrong(index, f"`{key}` has a value of the wrong type: {value!r}")
            for key in required:
                if key not in table:
                    raise self.wrong(index, f"lacks `{key}`")


def line(key: str, value: str | int | date) -> str:
    """One `key = value`."""
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        text = orjson.dumps(value).decode().replace("\x7f", "\\u007f")
        return f"{key} = {text}"
    return f"{key} = {value.isoformat() if isinstance(value, date) else value}"
