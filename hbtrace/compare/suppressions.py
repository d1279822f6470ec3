"""Suppressions: races that people have looked at and do not want to fail for, with their reason.

A suppressed race is counted, marked in machine formats, and no finding for the exit code. One that matches nothing or
has expired is said, so that the file does not rot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import Final

from hbtrace.compare.identity import full_identity
from hbtrace.compare.tomlfile import TomlFile, line
from hbtrace.replay.races import Report

_GLOBS: Final = ("id", "kind", "buffer", "tensor", "actor", "label", "site")
_KEYS: Final[dict[str, type]] = {**dict.fromkeys(_GLOBS, str), "reason": str, "expires": date}


@dataclass(slots=True)
class Suppression:
    """All given properties must match. A tensor, actor, label or site may be that of either side."""

    globs: dict[str, str]
    reason: str = ""
    expires: date | None = None
    where: str = ""
    """File and line, for what is said of it."""
    used: int = 0

    def matches(self, report: Report) -> bool:
        sides = (report.earlier, report.current)
        values: dict[str, tuple[str | None, ...]] = {
            "kind": (report.kind,),
            "buffer": (report.buffer,),
            "tensor": (*(a.tensor for a in sides), *(a.root for a in sides), report.canonical[3], report.canonical[6]),
            "actor": (*(a.actor for a in sides), report.signature[2], report.signature[5]),
            "label": tuple(a.label for a in sides),
            "site": tuple(a.site for a in sides),
        }
        return all(
            full_identity(report.canonical).startswith(glob)
            if key == "id"
            else any(value is not None and fnmatchcase(value, glob) for value in values[key])
            for key, glob in self.globs.items()
        )


@dataclass(slots=True)
class Suppressions:
    """A file's suppressions. `find` tells the first that matches and counts it as used."""

    entries: list[Suppression] = field(default_factory=list)
    expired: list[Suppression] = field(default_factory=list)

    def find(self, report: Report) -> Suppression | None:
        for entry in self.entries:
            if entry.matches(report):
                entry.used += 1
                return entry
        return None

    def complaints(self) -> list[str]:
        """What is said of the file itself, once all reports were seen."""
        return [f"{s.where}: this suppression expired on {s.expires}" for s in self.expired] + [
            f"{s.where}: this suppression matches nothing" for s in self.entries if not s.used
        ]


def read_suppressions(path: str, today: date) -> Suppressions:
    """Read a file of `[[suppress]]` tables. Raises UsageError with the line of what is wrong."""
    file = TomlFile(path, "suppress")
    for key in file.top:
        raise file.wrong(0, f"knows no top-level key `{key}`; write [[suppress]] tables")
    file.check_keys(_KEYS)
    out = Suppressions()
    for index, table in enumerate(file.tables):
        globs: dict[str, str] = {key: table[key] for key in _GLOBS if key in table}
        if not globs:
            raise file.wrong(index, f"names no property and would suppress everything; give one of {', '.join(_GLOBS)}")
        if not globs.get("id", "R-").startswith("R-") or len(globs.get("id", "R-000000")) < 8:
            raise file.wrong(index, f"`id` is no id of a race: {globs['id']!r}")
        where = str(file.wrong(index, "")).removesuffix(": ")
        entry = Suppression(globs, table.get("reason", ""), table.get("expires"), where)
        (out.expired if entry.expires is not None and entry.expires < today else out.entries).append(entry)
    return out


def suppression_block(report: Report, ident: str) -> str:
    """A ready block for the file, that suppresses this race and no other."""
    earlier, current = report.canonical[2:5], report.canonical[5:8]
    about = f"# {report.kind} on {report.buffer}: " + " / ".join(
        f"{actor} {tensor or '-'} ({label})" for actor, tensor, label in (earlier, current)
    )
    one_line = about.replace("\n", " ").replace("\r", " ")
    return "\n".join([one_line, "[[suppress]]", line("id", ident), line("reason", "")])
