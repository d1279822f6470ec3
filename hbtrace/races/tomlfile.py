"""TOML files that people keep in git: read with the line of what is wrong, written the same way every time."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

from hbtrace.errors import UsageError
from hbtrace.escape import as_text, json_line

Types = Mapping[str, tuple[type, ...]]
"""Key of a table -> the types of its value, exactly these: a time is no date, true is no number."""

_CONFLICT: Final = re.compile(r"(<{7}|={7}|>{7}|\|{7})( |$)")
_AT_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")


class Place(NamedTuple):
    """A line of a file that people keep, as text `file:line`."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{as_text(self.path)}:{self.line}"


class Complaint(NamedTuple):
    """What is said of a line of such a file, which is no reason to refuse it."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class TomlFile:
    """A file of tables `[[name]]` under a few top-level keys. Every complaint names its line.

    absent: the way out where there is no such file.
    """

    def __init__(self, path: str, name: str, absent: str = "") -> None:
        self.path = path
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            way_out = f"; {absent}" if absent and isinstance(error, FileNotFoundError) else ""
            raise UsageError(f"{path}: cannot be read: {error.strerror}{way_out}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: is no text in UTF-8") from None
        self._lines = text.split("\n")
        try:
            self.top: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self._broken(error) from None
        self._starts = [n for n, line in enumerate(self._lines, 1) if re.match(rf"\s*\[\[\s*{name}\s*\]\]", line)]
        tables = self.top.pop(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            line = self._line_of(rf"\s*\[?\s*{name}\b", 1, len(self._lines))
            raise UsageError(f"{path}:{line}: `{name}` is no list of tables: write [[{name}]] above each")
        self.tables: list[dict[str, Any]] = tables

    def _broken(self, error: tomllib.TOMLDecodeError) -> UsageError:
        """An unfinished merge is told as such: TOML's own words for it help nobody."""
        for number, line in enumerate(self._lines, 1):
            if _CONFLICT.match(line):
                return UsageError(f"{self.path}:{number}: holds an unfinished merge: `{line[:40]}`")
        at = _AT_LINE.search(str(error))
        line_number = at[1] if at else len(self._lines)  # TOML says "at end of document" where it means the last line
        return UsageError(f"{self.path}:{line_number}: is no TOML: {_AT_LINE.sub('', str(error)).strip()}")

    def where(self, index: int, key: str | None = None) -> Place:
        """File and line of the table of this number, or of a key in it."""
        start = self._starts[index] if index < len(self._starts) else 1
        end = self._starts[index + 1] - 1 if index + 1 < len(self._starts) else len(self._lines)
        line = start if key is None else self._line_of(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", start, end)
        return Place(self.path, line)

    def _line_of(self, pattern: str, start: int, end: int) -> int:
        """The first line from `start` to `end` that begins with the pattern; `start` if none does."""
        return next((n for n in range(start, end + 1) if re.match(pattern, self._lines[n - 1])), start)

    def wrong(self, index: int, what: str, key: str | None = None) -> UsageError:
        """A complaint about the table of this number, or a key in it."""
        return UsageError(str(Complaint(self.where(index, key), what)))

    def wrong_top(self, key: str, what: str) -> UsageError:
        """A complaint about a key above all tables."""
        line = self._line_of(rf"\s*\[{{0,2}}\s*{re.escape(key)}\b", 1, len(self._lines))
        return UsageError(f"{self.path}:{line}: {what}")

    def no_more_top_level_keys(self) -> None:
        """Raise for the first key above the tables that nobody has taken."""
        for key in self.top:
            raise self.wrong_top(key, f"knows no top-level key `{key}`")

    def check_keys(self, allowed: Types, required: tuple[str, ...] = ()) -> None:
        """Every table has the required keys and none but the allowed ones, each of its type; no reason is empty."""
        for index, table in enumerate(self.tables):
            for key, value in table.items():
                if key not in allowed:
                    raise self.wrong(index, f"knows no key `{key}`; there are {', '.join(allowed)}", key)
                if type(value) not in allowed[key]:
                    raise self.wrong(index, f"`{key}` has a value of the wrong type: {value!r}", key)
            for key in required:
                if key not in table:
                    raise self.wrong(index, f"lacks `{key}`")
            if not table.get("reason", "why").strip():
                raise self.wrong(index, "`reason` is empty: say why, or leave the line out", "reason")


def line(key: str, value: str | int | date) -> str:
    """One `key = value`."""
    if isinstance(value, str):
        return f"{key} = {json_line(value).decode().rstrip()}"  # a JSON string is a TOML basic string
    return f"{key} = {value.isoformat() if isinstance(value, date) else value}"
