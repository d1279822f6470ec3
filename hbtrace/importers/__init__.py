"""Other programs' logs: told by their content, and made into events.

What it is: the kinds of logs, those of sanitizers and those of registered engines; what reads them is
imported only when needed. What it is not: a reader of traces (`hbtrace.trace`). A format that can only be summarised
has no events.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from hbtrace.engines import engines, of_log
from hbtrace.errors import TraceError
from hbtrace.importers.logged import LoggedReports
from hbtrace.importers.wrapped import is_wrapped, unwrapped
from hbtrace.trace.compressed import unpacked
from hbtrace.trace.input import Input, size_of
from hbtrace.trace.vocabulary import EventRow

GGML_TRACE: Final = "ggml-sanitizer-trace"
GGML_REPORTS: Final = "ggml-sanitizer-reports"
CSAN: Final = "csan-reports"
SYNCVAL: Final = "syncval-reports"

HEAD: Final = 1 << 16
"""Bytes by which a file is told."""

_BLOCK: Final = 1 << 20
_LONGEST_LINE: Final = 1 << 16
"""No line of a known format is longer."""

REPORTS: Final = {
    GGML_REPORTS: "reports of the ggml scheduler sanitizer",
    CSAN: "reports of PyTorch's CUDA sanitizer",
    SYNCVAL: "hazards of Vulkan's synchronization validation",
}
"""Kinds of logs that hold only reports, in words."""

_GGML: Final = {"trace": GGML_TRACE, "reports": GGML_REPORTS}


class LogFile:
    """The lines of a log, as often as asked: what was compressed is unpacked, what a log driver put around them is off.

    path: a file, or what is printed for `opened`: of a pipe, which can be read once, and is kept in a temporary file.
    Reading raises TraceError for compressed data that is damaged.
    """

    def __init__(self, path: Path | str, opened: Input | None = None) -> None:
        self.path = str(path)
        self._spool = None if opened is None else _kept(opened)
        with self._open() as stream:
            self.head = stream.peek(HEAD)
            if stream.size is None and self._spool is None:  # packed: damage and bombs show before line by line work
                while stream.read(_BLOCK):
                    pass
        self._wrapped = is_wrapped(self.head)
        self._unended: bytes | None = None

    @contextmanager
    def _open(self) -> Iterator[Input]:
        if self._spool is not None:
            yield self.again()
            return
        with open(self.path, "rb") as file, closing(unpacked(Input(file, size_of(file) or None), self.path)) as stream:
            yield stream

    def again(self) -> Input:
        """The bytes of a pipe, from their first."""
        assert self._spool is not None
        self._spool.seek(0)
        return Input(self._spool, None)

    def __iter__(self) -> Iterator[bytes]:
        line = b""
        with self._open() as stream:
            for line in unwrapped(stream.lines()) if self._wrapped else stream.lines():
                yield line
        self._unended = b"" if line.endswith(b"\n") else line

    @property
    def unended(self) -> bytes:
        """The last line if it has no newline; known once the log was read to its end."""
        if self._unended is None:
            for _ in self:
                pass
        return self._unended or b""


def _kept(opened: Input) -> BinaryIO:
    spool = cast(BinaryIO, tempfile.TemporaryFile(prefix="hbtrace-"))  # noqa: SIM115 - it lives as long as its log
    while block := opened.read(_BLOCK):
        spool.write(block)
    return spool


def cut_bytes(kind: str, log: LogFile) -> int:
    """Bytes of a last line without newline that is no line of the format: the log was cut off there."""
    line = log.unended if kind not in (CSAN, SYNCVAL) else b""  # a report of theirs ends as it likes
    if not line.strip(b"\0 \t\r"):  # a newline of UTF-16 is two bytes
        return 0
    from hbtrace.importers import ggml_sanitize

    engine = of_log(kind)
    whole = (ggml_sanitize if engine is None else engine).is_line(line[:_LONGEST_LINE])
    return 0 if whole else len(line)


def sniff_foreign(head: bytes) -> str | None:
    """The name of the foreign format that a file's first bytes show, or None. Content decides, never a name."""
    from hbtrace.importers import ggml_sanitize

    kind = ggml_sanitize.sniff(head)
    return _GGML[kind] if kind else None


def identify_foreign(lines: Iterable[bytes]) -> str | None:
    """As `sniff_foreign`, over a whole file: for logs whose head is other output. Ends at the first proof."""
    from hbtrace.importers import ggml_sanitize

    kind = ggml_sanitize.identify(lines)
    if kind:
        return _GGML[kind]
    return next((engine.log for engine in engines() if engine.identify(lines)), None) or _other_reports(lines)


def _other_reports(lines: Iterable[bytes]) -> str | None:
    """Whose reports these are, if a whole one of another program is among them."""
    from hbtrace.importers import csan, syncval

    for kind, program in ((CSAN, csan), (SYNCVAL, syncval)):
        if any(map(program.is_head, lines)) and any(report.complete for report in program.reports(lines)):
            return kind
    return None


def foreign_events(kind: str, lines: Iterable[bytes], warnings: list[str]) -> Iterator[EventRow]:
    """The events of a foreign log; what was assumed is added to the warnings.

    Raises `TraceError` for a format that holds no trace.
    """
    if kind == GGML_TRACE:
        from hbtrace.importers import ggml_sanitize

        return ggml_sanitize.events(lines, warnings)
    if kind in REPORTS:
        raise TraceError(f"{REPORTS[kind]} hold no accesses beside them, so they cannot become a trace")
    engine = of_log(kind)
    if engine is None:
        raise TraceError(f"no importer for {kind!r}")
    return engine.events([lines], warnings)


def foreign_reports(kind: str, lines: Iterable[bytes]) -> LoggedReports:
    """The reports of a log whose kind is one of `REPORTS`."""
    from hbtrace.importers import csan, ggml_sanitize, syncval

    reader = {CSAN: csan.reports, SYNCVAL: syncval.reports}.get(kind, ggml_sanitize.reports)
    return reader(lines)
