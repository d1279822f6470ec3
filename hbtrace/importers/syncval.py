"""Hazards of Vulkan's synchronization validation: read from a log.

What it is: a reader of its messages, linear in each line, in the shapes before and since January 2025. A handle is
another one in every run, so a resource is known by its type and the name that the application gave it.
What it is not: a replay. A message tells no range, no clock and no queue. It was written from the messages' formats.
Source: Vulkan-ValidationLayers, `layers/sync`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from hbtrace.importers.ggml_lines import plain
from hbtrace.importers.logged import UNTOLD, LoggedReport, LoggedReports, ReportAccess

_KINDS: Final = {
    f"{left}_AFTER_{right}": (left.lower(), right.lower())
    for left, right in (("READ", "WRITE"), ("WRITE", "READ"), ("WRITE", "WRITE"))
}
_ALSO: Final = {"READ_RACING_WRITE": ("read", "write"), "WRITE_RACING_WRITE": ("write", "write"),
                "WRITE_RACING_READ": ("write", "read")}  # fmt: skip
_ID: Final = "SYNC-HAZARD-"
_NEW: Final = re.compile(r"\b(vk[A-Za-z0-9]{1,60})\(\): ([A-Z_]{1,24}) hazard detected\.")
_OLD: Final = re.compile(r"\b(vk[A-Za-z0-9]{1,60})(?:\(\))?: +Hazard ([A-Z_]{1,24})\b")
_RESOURCE: Final = re.compile(r"\b(Vk[A-Za-z0-9]{1,40}) 0x[0-9a-f]{1,16}(?:\[([^\]]{0,200})\])?")
_DOES: Final = re.compile(r"\. (vk[A-Za-z0-9]{1,60})(?:\[[^\]]{0,200}\])? (?:reads|writes)\b")
_PREVIOUSLY: Final = re.compile(r"which (?:was|were) previously (?:read|written)\b")
_COMMAND: Final = re.compile(r"\b(vk[A-Za-z0-9]{1,60})\b")
_USAGE: Final = re.compile(r"\b(usage|prior_usage|command|prior_command): ([A-Za-z0-9_]{1,80})")
_LONGEST: Final = 1 << 14
_FOLLOWS: Final = 12
"""Lines of one message that may be broken after it begins; a paste is."""


class _Message(NamedTuple):
    kind: tuple[str, str]
    current: str
    earlier: str
    resource: str
    name: str | None


def is_head(line: bytes) -> bool:
    """Whether a hazard is told in this line."""
    return _ID.encode() in line or b" hazard detected. " in line or b": Hazard " in line


def reports(lines: Iterable[bytes]) -> LoggedReports:
    """Every hazard of `lines`, in order; one whose message cannot be read is not complete."""
    found = LoggedReports()
    begun, text = 0, ""
    for line in lines:
        found.lines += 1
        more = plain(line).strip() if len(line) <= _LONGEST else ""
        if is_head(line):
            if begun and not (_ID in text and _shape(text) is None):  # the id and the message can be two lines
                found.append(_report(text, begun))
                text = ""
            begun, text = (begun if text else found.lines), f"{text} {more}".strip()
        elif begun and more and found.lines - begun < _FOLLOWS and len(text) <= _LONGEST:
            text = f"{text} {more}"
    if begun:
        found.append(_report(text, begun))
    return found


def _shape(text: str) -> re.Match[str] | None:
    return _NEW.search(text) or _OLD.search(text)


def _report(text: str, line: int) -> LoggedReport:
    told = _message(text)
    if told is None:
        return LoggedReport("?", "?", 0, 0, None, None, UNTOLD, UNTOLD, line, complete=False)
    modes = zip((told.kind[1], told.kind[0]), (told.earlier, told.current), strict=True)
    earlier, current = (ReportAccess(mode, "Vulkan", UNTOLD, -1, told.name, None, label) for mode, label in modes)
    kind = f"{told.kind[0]}-after-{told.kind[1]}"
    return LoggedReport(kind, told.resource, UNTOLD, UNTOLD, earlier, current, UNTOLD, UNTOLD, line)


def _message(text: str) -> _Message | None:
    """What a message tells; None for one of a shape or a kind that is not known."""
    shape = _shape(text)
    kind = None if shape is None else (_KINDS | _ALSO).get(shape[2])
    if shape is None or kind is None:
        return None
    usages: dict[str, str] = dict(_USAGE.findall(text, shape.end()))
    does, before = _DOES.search(text, shape.end() - 1), _PREVIOUSLY.search(text, shape.end())
    current = str(does[1]) if does else usages.get("command", shape[1])
    prior = _COMMAND.search(text, before.end()) if before else None
    earlier = str(prior[1]) if prior else usages.get("prior_command", "an earlier command")
    resource = _RESOURCE.search(text, shape.end())
    return _Message(
        kind, _used(current, usages.get("usage")), _used(earlier, usages.get("prior_usage")),
        resource[1] if resource else "Vulkan resource", (resource[2] or None) if resource else None,
    )  # fmt: skip


def _used(command: str, usage: str | None) -> str:
    return command if usage is None else f"{command} {usage}"
