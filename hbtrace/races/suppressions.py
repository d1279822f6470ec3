"""Suppressions: races that people have looked at and do not want to fail for, with their reason.

A suppressed race is counted, marked in machine formats, and no finding for the exit code. One that matches nothing or
has expired is said, so that the file does not rot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import Final

from hbtrace.escape import harmless
from hbtrace.races.identity import SHORTEST, full_identity, tensor_names
from hbtrace.races.tomlfile import Complaint, Place, TomlFile, Types, line
from hbtrace.replay.reports import Report

_GLOBS: Final = ("id", "kind", "buffer", "tensor", "actor", "label", "site")
_SPANS: Final = ("split", "ubatch")
_KEYS: Final[Types] = {
    **dict.fromkeys(_GLOBS, (str,)), **dict.fromkeys(_SPANS, (str, int)), "reason": (str,), "expires": (date,),
}  # fmt: skip
NO_REASON: Final = "(no reason given)"
_SPAN: Final = re.compile(r"(-?[0-9]{1,18})(?:-(-?[0-9]{1,18}))?")


@dataclass(slots=True)
class Suppression:
    """All given properties must match. A tensor, actor, label, site, split or ubatch may be that of either side."""

    globs: dict[str, str]
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    reason: str = ""
    expires: date | None = None
    place: Place | None = None
    """For what is said of it."""
    used: int = 0

    @property
    def why(self) -> str:
        """Its reason, and where that is said."""
        return f"{self.said} ({self.place})"

    @property
    def said(self) -> str:
        """Its reason, or that nobody gave one."""
        return self.reason or NO_REASON

    def matches(self, report: Report) -> bool:
        sides = (report.earlier, report.current)
        for key, (lo, hi) in self.spans.items():
            if not any(lo <= getattr(a, key) <= hi for a in sides):
                return False
        values: dict[str, tuple[str | None, ...]] = {
            "kind": (report.kind,),
            "buffer": (report.buffer,),
            "tensor": tensor_names(report),
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
    """A file's suppressions. `find` tells the first that matches and counts all that do as used."""

    entries: list[Suppression] = field(default_factory=list)
    expired: list[Suppression] = field(default_factory=list)

    def find(self, report: Report) -> Suppression | None:
        matching = [entry for entry in self.entries if entry.matches(report)]
        for entry in matching:
            entry.used += 1
        return matching[0] if matching else None

    def complaints(self) -> list[Complaint]:
        """What is said of the file itself, once all reports were seen."""
        told = [(s.place, f"this suppression expired on {s.expires}") for s in self.expired]
        told += [(s.place, "this suppression matches nothing") for s in self.entries if not s.used]
        return [Complaint(place, text) for place, text in told if place is not None]


def read_suppressions(path: str, today: date) -> Suppressions:
    """Read a file of `[[suppress]]` tables. Raises UsageError with the line of what is wrong."""
    file = TomlFile(path, "suppress")
    file.no_more_top_level_keys()
    file.check_keys(_KEYS)
    out = Suppressions()
    for index, table in enumerate(file.tables):
        globs: dict[str, str] = {key: table[key] for key in _GLOBS if key in table}
        spans: dict[str, tuple[int, int]] = {key: _span(file, index, key, table[key]) for key in _SPANS if key in table}
        if not globs and not spans:
            known = ", ".join((*_GLOBS, *_SPANS))
            raise file.wrong(index, f"names no property and would suppress everything; give one of {known}")
        if "id" in globs and (not globs["id"].startswith("R-") or len(globs["id"]) < SHORTEST):
            raise file.wrong(index, f"`id` is no id of a race: {globs['id']!r}", "id")
        entry = Suppression(globs, spans, table.get("reason", ""), table.get("expires"), file.where(index))
        (out.expired if entry.expires is not None and entry.expires < today else out.entries).append(entry)
    return out


def _span(file: TomlFile, index: int, key: str, value: str | int) -> tuple[int, int]:
    match = _SPAN.fullmatch(str(value))
    if match is None:
        raise file.wrong(index, f"`{key}` is no number such as 3 and no range such as 2-5: {value!r}", key)
    return int(match[1]), int(match[2] or match[1])


def suppression_block(report: Report, ident: str) -> str:
    """A ready block for the file, that suppresses this race and no other; its reason is left to people."""
    earlier, current = report.canonical[2:5], report.canonical[5:8]
    about = f"# {report.kind} on {report.buffer}: " + " / ".join(
        f"{actor} {tensor or '-'} ({label})" for actor, tensor, label in (earlier, current)
    )
    return "\n".join([harmless(about), "[[suppress]]", line("id", ident), '# reason = "say why"'])


def suppression_file(races: Iterable[tuple[Report, str]]) -> str:
    """A file that suppresses these races and no others, by id; empty if there are none."""
    blocks = {ident: suppression_block(report, ident) for report, ident in races}
    return "\n".join(f"{blocks[ident]}\n" for ident in sorted(blocks))
