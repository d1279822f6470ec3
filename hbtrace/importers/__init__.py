"""Other programs' logs: told by their content, and made into events.

What it is: the kinds of logs, those of the ggml scheduler sanitizer and those of registered engines; what reads them is
imported only when needed. What it is not: a reader of traces (`hbtrace.trace`). A format that can only be summarised
has no events.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from hbtrace.engines import engines, of_log
from hbtrace.errors import TraceError
from hbtrace.trace.vocabulary import EventRow

GGML_TRACE: Final = "ggml-sanitizer-trace"
GGML_REPORTS: Final = "ggml-sanitizer-reports"

_LONGEST_LINE: Final = 1 << 16
"""No line of a known format is longer."""

_GGML: Final = {"trace": GGML_TRACE, "reports": GGML_REPORTS}


class LogFile:
    """The lines of a file, as often as asked: an importer that reads twice then needs no temporary copy."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            yield from file


def cut_bytes(kind: str, path: Path | str) -> int:
    """Bytes of a last line without newline that is no line of the format: the log was cut off there."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        begin = whole.rfind(b"\n") + 1
        line, length = whole[begin : begin + _LONGEST_LINE], len(whole) - begin
    if not line.strip(b"\0 \t\r"):  # a newline of UTF-16 is two bytes
        return 0
    from hbtrace.importers import ggml_sanitize

    engine = of_log(kind)
    return 0 if (ggml_sanitize if engine is None else engine).is_line(line) else length


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
    return next((engine.log for engine in engines() if engine.identify(lines)), None)


def foreign_events(kind: str, lines: Iterable[bytes], warnings: list[str]) -> Iterator[EventRow]:
    """The events of a foreign log; what was assumed is added to the warnings.

    Raises `TraceError` for a format that holds no trace.
    """
    if kind == GGML_TRACE:
        from hbtrace.importers import ggml_sanitize

        return ggml_sanitize.events(lines)
    if kind == GGML_REPORTS:
        raise TraceError("a set of pasted sanitizer reports holds no accesses, so it cannot become a trace")
    engine = of_log(kind)
    if engine is None:
        raise TraceError(f"no importer for {kind!r}")
    return engine.events([lines], warnings)
