"""RACE blocks of the ggml scheduler sanitizer: read from a log or from what was pasted into a pull request.

What it is: a tolerant line-by-line reader of the four-line blocks, linear in each line. What it is not: a replay. A set
of reports holds no accesses but the racing ones, so nothing can be recomputed from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hbtrace.importers.ggml_lines import MARK, is_name, plain, split_root
from hbtrace.importers.logged import KINDS, LoggedReport, LoggedReports, ReportAccess

_LONGEST: Final = 1024  # two tensor names, an actor, a time stamp; what is longer is something else
_NUMBER: Final = r"([0-9]{1,19})"
# Pull requests put code ticks, table bars and quotes behind a line; logs put colour resets, gone by then.
_BEHIND: Final = " \t\r\n\v\f`|\"'*"
_HEADS: Final = {f"RACE ({kind}) on ": kind for kind in KINDS}
_RANGE: Final = re.compile(rf"\[{_NUMBER}, ?{_NUMBER}\)")
_CLOCK: Final = re.compile(rf" @{_NUMBER} +split +(-?[0-9]{{1,9}})(?= )")
_TAIL: Final = "no happens-before edge: "
_NEEDS: Final = re.compile(rf"@{_NUMBER}, needs (?:>=|&gt;=|\u2265) ?{_NUMBER}")
_ANNOUNCED: Final = re.compile(r"ggml-sched-sanitize: ([0-9]{1,19}) race\(s\) reported")
_ABORTED: Final = "ggml-sched-sanitize: race detected"
_HINTS: Final = (b"RACE (", b"split", b"no happens-before edge", b"ggml-sched-sanitize")

_Head = tuple[str, str, int, int]
_End = tuple[str, str, int, int]
"""Who knows whom, how much, and how much it needs."""


def is_block_line(line: bytes) -> bool:
    """Whether a line is one of a RACE block, or tells how the sanitizer ended."""
    text = plain(line) if len(line) <= _LONGEST else ""
    ends = _ABORTED in text or _ANNOUNCED.search(text) is not None
    return ends or any(shape(text) is not None for shape in (_head, _side, _tail))


def _ends_word(before: str) -> bool:
    """Whether a word can begin behind this text."""
    return not (before[-1:].isalnum() or before.endswith("_"))


def _head(text: str) -> _Head | None:
    """`RACE (KIND) on BUFFER[LO, HI)`"""
    for words, kind in _HEADS.items():
        before, found, rest = text.rpartition(words)
        if found and _ends_word(before):
            rest = rest.rstrip(_BEHIND)
            at = rest.rfind("[")
            where = _RANGE.fullmatch(rest, at) if at > 0 and not rest[0].isspace() else None
            return (kind, rest[:at], int(where[1]), int(where[2])) if where else None
    return None


def _side(text: str) -> ReportAccess | None:
    """`read|write ACTOR @CLOCK split SPLIT TENSOR (LABEL)`"""
    text, found, label = text.rstrip(_BEHIND).rpartition(" (")
    clock = _CLOCK.search(text + " ") if found and label.endswith(")") else None
    if clock is None or "(" in label or ")" in label[:-1]:
        return None
    before = text[: clock.start()].rstrip(" ")
    mode, at = max((("read", before.rfind("read ")), ("write", before.rfind("write "))), key=lambda found: found[1])
    actor = before[at + len(mode) :].strip(" ")
    if at < 0 or not is_name(actor) or not _ends_word(before[:at]):
        return None
    tensor, root = split_root(text[clock.end() :].strip())
    return ReportAccess(mode, actor, int(clock[1]), int(clock[2]), tensor, root, label[:-1])


def _tail(text: str) -> _End | None:
    """`no happens-before edge: ACTOR knows OTHER@CLOCK, needs >=CLOCK`"""
    before, found, rest = text.rstrip(_BEHIND).rpartition(_TAIL)
    who, knows, rest = rest.partition(" knows ")
    at = rest.rfind("@")
    clocks = _NEEDS.fullmatch(rest, at) if at > 0 else None
    if not found or not _ends_word(before) or not knows or clocks is None or not is_name(who) or not is_name(rest[:at]):
        return None
    return who, rest[:at], int(clocks[1]), int(clocks[2])


class ReportReader:
    """Puts blocks together line by line; lines of anything else may stand between those of a block."""

    def __init__(self) -> None:
        self.announced: int | None = None
        self.aborted = False
        self._line = 0
        self._open_at = 0
        self._head: _Head | None = None
        self._sides: list[ReportAccess] = []

    def feed(self, line: bytes) -> list[LoggedReport]:
        """The reports that end at this line (two when it also cuts off the one before); mostly none."""
        self._line += 1
        if b"\0" in line:
            line = line.replace(b"\0", b"")
        if len(line) > _LONGEST or MARK in line or not any(hint in line for hint in _HINTS):
            return []
        text = plain(line)
        if head := _head(text):
            cut = self.close()
            self._head, self._open_at = head, self._line
            return cut
        if side := _side(text):
            cut = self.close() if len(self._sides) == 2 else []
            self._add(side)
            return cut
        if end := _tail(text):
            return self._end(*end)
        if m := _ANNOUNCED.search(text):
            self.announced = (self.announced or 0) + int(m[1])
        elif _ABORTED in text:
            self.aborted = True
        return []

    def close(self) -> list[LoggedReport]:
        """What is still open, as a report that is not complete."""
        if self._head is None and not self._sides:
            return []
        return [self._take(-1, -1)]

    def _add(self, side: ReportAccess) -> None:
        if self._head is None and not self._sides:
            self._open_at = self._line
        self._sides.append(side)

    def _end(self, who: str, whom: str, knows: int, needs: int) -> list[LoggedReport]:
        sides = self._sides
        if self._head is None and not sides:
            self._open_at = self._line
        # Two processes may write into one log: a last line that speaks of other actors ends no block of ours.
        if len(sides) == 2 and (sides[1].actor, sides[0].actor, sides[0].clock) != (who, whom, needs):
            self._head = None
        return [self._take(knows, needs)]

    def _take(self, knows: int, needs: int) -> LoggedReport:
        kind, buffer, lo, hi = self._head or ("?", "?", 0, 0)
        earlier, current = (*self._sides, None, None)[:2]
        self._head, self._sides = None, []
        whole = kind != "?" and current is not None and needs >= 0
        return LoggedReport(kind, buffer, lo, hi, earlier, current, knows, needs, self._open_at, complete=whole)


def reports(lines: Iterable[bytes]) -> LoggedReports:
    """Every RACE block of `lines`, in order, the incomplete ones too."""
    reader, found = ReportReader(), LoggedReports()
    for line in lines:
        found.lines += 1
        found += reader.feed(line)
    found += reader.close()
    found.announced, found.aborted = reader.announced, reader.aborted
    return found
