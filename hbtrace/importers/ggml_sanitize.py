"""The importer of ggml scheduler sanitizer logs, as the rest of hbtrace sees it.

What it is: which kind of log bytes are, by their content, and the functions for either kind: a level-2 log becomes a
trace (`events`), RACE blocks alone a set of reports (`reports`), and a log with both is checked against its own replay
(`cross_check`). What it is not: the parsing itself (`ggml_lines`, `ggml_trace`, `ggml_reports`, `ggml_compare`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from hbtrace.importers.ggml_compare import cross_check
from hbtrace.importers.ggml_lines import MARK, Unread, records
from hbtrace.importers.ggml_reports import ReportReader, is_block_line, reports
from hbtrace.importers.ggml_trace import events
from hbtrace.importers.logged import LoggedReport

__all__ = [
    "LogKind",
    "cross_check",
    "events",
    "identify",
    "is_line",
    "reports",
    "sniff",
]

LogKind = Literal["trace", "reports"]


def identify(lines: Iterable[bytes]) -> LogKind | None:
    """What `lines` are: one level-2 line makes a trace, otherwise one RACE block, or the sanitizer's own count of them
    at its end, a set of reports.

    Stops at the first level-2 line, so a log that begins with pages of other output can be told too; lines of
    JSON are skipped, for a trace of ours may quote a log in its notes.
    """
    reader, raced = ReportReader(), False
    for line in lines:
        if line.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t").startswith((b"{", b"[")):
            continue
        # A block has several lines, so a sentence that quotes one of them makes nobody a sanitizer.
        raced = any(_tells(report) for report in reader.feed(line)) or raced
        if any(not isinstance(record, Unread) for record in records(line)):
            return "trace"
    raced = any(_tells(report) for report in reader.close()) or raced or reader.announced is not None or reader.aborted
    return "reports" if raced else None


def is_line(line: bytes) -> bool:
    """Whether a line is a whole one of either kind, and not other output or the beginning of one."""
    found = list(records(line))
    return not any(isinstance(record, Unread) for record in found) if found else is_block_line(line)


def sniff(head: bytes) -> LogKind | None:
    """`identify` for the first bytes of a file (64 KiB or more; a sanitizer says nothing before the model loads).

    A file whose head says nothing may still be one: `identify` reads on.
    """
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return None
    plain = head.replace(b"\0", b"")
    if not any(mark in plain for mark in (MARK, b"RACE (", b"ggml-sched-sanitize")):
        return None
    return identify(head.split(b"\n"))


def _tells(report: LoggedReport) -> bool:
    return report.kind != "?" and report.earlier is not None
