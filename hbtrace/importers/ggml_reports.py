"""RACE blocks of the ggml scheduler sanitizer: read from a log or from what was pasted into a pull request.

What it is: a tolerant line-by-line reader of the four-line blocks, and a summary of a set of them. What it is
not: a replay. A set of reports holds no accesses but the racing ones, so nothing can be recomputed from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from hbtrace.importers.ggml_lines import MARK, plain, split_root

KINDS: Final = ("read-after-write", "write-after-read", "write-after-write")


@dataclass(frozen=True, slots=True)
class ReportAccess:
    """One side of a race, as printed."""

    mode: str
    actor: str
    clock: int
    split: int
    tensor: str
    root: str | None
    label: str


@dataclass(frozen=True, slots=True)
class LoggedReport:
    """One RACE block. `[lo, hi)` is the *whole* range of the current access, not the conflicting part.

    A block that was cut off, or whose beginning was not pasted, keeps what is left and is not `complete`;
    `kind` and `buffer` are then `?` where the first line is missing.
    """

    kind: str
    buffer: str
    lo: int
    hi: int
    earlier: ReportAccess | None
    current: ReportAccess | None
    knows: int
    needs: int
    line: int

    @property
    def complete(self) -> bool:
        return self.kind != "?" and self.current is not None and self.needs >= 0


class LoggedReports(list[LoggedReport]):
    """The reports in log order, and what the log says about itself."""

    def __init__(
        self, reports: Iterable[LoggedReport] = (), announced: int | None = None, aborted: bool = False
    ) -> None:
        super().__init__(reports)
        self.announced = announced
        """The count printed at exit (only with `GGML_SCHED_SANITIZE_NONFATAL=1`), of all runs in the text."""
        self.aborted = aborted
        """The run ended at its first race: later ones were never looked for."""


_LONGEST: Final = 1024  # two tensor names, an actor, a time stamp; longer is something else, and slow to search
_NUMBER: Final = r"([0-9]{1,19})"
_NAME: Final = r"(\S+(?: \S+)*?)"
# Pull requests put code ticks, table bars and quotes behind a line; logs put colour resets, gone by then.
_END: Final = r"[\s`|\"'*]*$"
_HEAD: Final = re.compile(rf"\bRACE \(({'|'.join(KINDS)})\) on (\S.*?)\[{_NUMBER}, ?{_NUMBER}\){_END}")
_SIDE: Final = re.compile(
    rf"\b(read|write) +{_NAME} +@{_NUMBER} +split +(-?[0-9]{{1,9}})(?: +(.*?))? \(([^()]*)\){_END}"
)
_TAIL: Final = re.compile(
    rf"\bno happens-before edge: {_NAME} knows {_NAME}@{_NUMBER}, needs (?:>=|&gt;=|\u2265) ?{_NUMBER}{_END}"
)
_ANNOUNCED: Final = re.compile(r"ggml-sched-sanitize: ([0-9]{1,19}) race\(s\) reported")
_ABORTED: Final = "ggml-sched-sanitize: race detected"
_HINTS: Final = (b"RACE (", b"split", b"no happens-before edge", b"ggml-sched-sanitize")


def is_block_line(line: bytes) -> bool:
    """Whether a line is one of a RACE block, or tells how the sanitizer ended."""
    text = plain(line) if len(line) <= _LONGEST else ""
    return _ABORTED in text or any(shape.search(text) for shape in (_HEAD, _SIDE, _TAIL, _ANNOUNCED))


class ReportReader:
    """Puts blocks together line by line; lines of anything else may stand between those of a block."""

    def __init__(self) -> None:
        self.announced: int | None = None
        self.aborted = False
        self._line = 0
        self._open_at = 0
        self._head: tuple[str, str, int, int] | None = None
        self._sides: list[ReportAccess] = []

    def feed(self, line: bytes) -> list[LoggedReport]:
        """The reports that end at this line (two when it also cuts off the one before); mostly none."""
        self._line += 1
        if b"\0" in line:
            line = line.replace(b"\0", b"")
        if len(line) > _LONGEST or MARK in line or not any(hint in line for hint in _HINTS):
            return []
        text = plain(line)
        if m := _HEAD.search(text):
            cut = self.close()
            self._head, self._open_at = (m[1], m[2], int(m[3]), int(m[4])), self._line
            return cut
        if m := _SIDE.search(text):
            cut = self.close() if len(self._sides) == 2 else []
            self._side(m)
            return cut
        if m := _TAIL.search(text):
            return self._end(m)
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

    def _side(self, m: re.Match[str]) -> None:
        if self._head is None and not self._sides:
            self._open_at = self._line
        tensor, root = split_root((m[5] or "").strip())
        self._sides.append(ReportAccess(m[1], m[2], int(m[3]), int(m[4]), tensor, root, m[6]))

    def _end(self, m: re.Match[str]) -> list[LoggedReport]:
        sides = self._sides
        if self._head is None and not sides:
            self._open_at = self._line
        # Two processes may write into one log: a last line that speaks of other actors ends no block of ours.
        if len(sides) == 2 and (sides[1].actor, sides[0].actor, sides[0].clock) != (m[1], m[2], int(m[4])):
            self._head = None
        return [self._take(int(m[3]), int(m[4]))]

    def _take(self, knows: int, needs: int) -> LoggedReport:
        kind, buffer, lo, hi = self._head or ("?", "?", 0, 0)
        earlier, current = (*self._sides, None, None)[:2]
        self._head, self._sides = None, []
        return LoggedReport(kind, buffer, lo, hi, earlier, current, knows, needs, self._open_at)


def reports(lines: Iterable[bytes]) -> LoggedReports:
    """Every RACE block of `lines`, in order, the incomplete ones too."""
    reader, found = ReportReader(), LoggedReports()
    for line in lines:
        found += reader.feed(line)
    found += reader.close()
    found.announced, found.aborted = reader.announced, reader.aborted
    return found


_SUFFIX: Final = re.compile(r"#\d+$")
_COPY: Final = re.compile(r"([^#]+#.*)#\d+")

LoggedSignature = tuple[str, str, str, str, str, str, str, str]


def signature(report: LoggedReport) -> LoggedSignature:
    """Kind, buffer, and for both sides actor without `#n`, root tensor (a copy without its slot) and label."""
    assert report.earlier is not None
    assert report.current is not None
    return (report.kind, report.buffer, *_side_key(report.earlier), *_side_key(report.current))


def _side_key(side: ReportAccess) -> tuple[str, str, str]:
    name = side.root if side.root is not None else side.tensor
    m = _COPY.fullmatch(name)
    return _SUFFIX.sub("", side.actor), m[1] if m else name, side.label


def summarize(found: Iterable[LoggedReport]) -> dict[str, Any]:
    """Counts over the complete reports, and `races`: one entry a distinct race, the most frequent first.

    `pairs` counts a pair of accesses once: the sanitizer prints one block for each piece into which its
    shadow memory happened to be cut, so `reports` says little about how often something raced.
    """
    listed = list(found)
    whole = [r for r in listed if r.complete]
    counts = Counter(signature(r) for r in whole)
    first: dict[LoggedSignature, int] = {}
    for report in whole:
        first.setdefault(signature(report), report.line)
    pairs = {(r.kind, r.buffer, r.lo, r.hi, r.earlier, r.current) for r in whole}
    return {
        "reports": len(whole),
        "incomplete": len(listed) - len(whole),
        "announced": getattr(found, "announced", None),
        "aborted": getattr(found, "aborted", False),
        "pairs": len(pairs),
        "distinct": len(counts),
        "tensors": len({name for s in counts for name in (s[3], s[6])}),
        "buffers": len({s[1] for s in counts}),
        "actor_pairs": len({(s[2], s[5]) for s in counts}),
        "races": [
            {"signature": list(s), "reports": n, "line": first[s]}
            for s, n in sorted(counts.items(), key=lambda item: (-item[1], first[item[0]]))
        ],
    }


def summary_text(path: str, found: Iterable[LoggedReport]) -> str:
    """The summary for people. Ends with a newline; plain text, the same for the same input."""
    s = summarize(found)
    out = [
        f"{path}: a set of reports of the ggml scheduler sanitizer, not a trace.",
        "This is a summary of what was pasted: nothing was replayed, and whether these are all reports of the run is "
        "unknown.",
        "",
        f"  reports        {s['reports']}",
        f"  access pairs   {s['pairs']}",
        f"  distinct races {s['distinct']}",
        f"  tensors        {s['tensors']}",
        f"  buffers        {s['buffers']}",
        f"  actor pairs    {s['actor_pairs']}",
    ]
    if s["incomplete"]:
        out.append(f"  incomplete     {s['incomplete']} (cut off or without their first line; not counted above)")
    if s["announced"] is not None:
        out.append(f"  the log's own count at exit: {s['announced']}")
    if s["aborted"]:
        out.append("  the run aborted at a race: it looked for no later one")
    if s["races"]:
        out.append("")
    for race in s["races"]:
        kind, buffer, a, at, al, b, bt, bl = race["signature"]
        earlier, current = ("read " if kind == "write-after-read" else "write"), (
            "read " if kind == "read-after-write" else "write"
        )
        width = max(len(a), len(b))
        out += [
            f"  {race['reports']} x {kind} on {buffer}, first in line {race['line']}",
            f"      {earlier} {a:<{width}}  {at} ({al})",
            f"      {current} {b:<{width}}  {bt} ({bl})",
        ]
    return "\n".join(out) + "\n"
