"""Reports of PyTorch's CUDA sanitizer (CSAN, `TORCH_CUDA_SANITIZER=1`), read from a log.

What it is: a line-by-line reader of its blocks, linear in each line. A pointer and a stream's handle are others in each
run, so neither is kept: streams are numbered as they come, and 0 is the default one.
What it is not: a replay. CSAN tells no range, no clock and no step.
Source: the messages of `torch/cuda/_sanitizer.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hbtrace.importers.ggml_lines import plain
from hbtrace.importers.logged import UNTOLD, LoggedReport, LoggedReports, ReportAccess

_HEAD: Final = "CSAN detected a possible data race on tensor with data pointer "
_SIDES: Final = (("Access by stream ", "current"), ("Previous access by stream ", "previous"))
_STREAM: Final = re.compile(r"([0-9]{1,20}) during kernel:")
_MODES: Final = {"reading from": "read", "writing to": "write"}
_TO: Final = re.compile(r"(?:reading from|writing to)(?: argument(?:\(s\)|s)?:?)? ?")
_LONGEST: Final = 8192
"""Of a line: a kernel's schema is long. What is longer is something else."""
_BUFFER: Final = "device memory"


@dataclass(slots=True)
class _Side:
    """One access, as far as it was read."""

    stream: str
    kernel: str = ""
    mode: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Block:
    line: int
    sides: dict[str, _Side] = field(default_factory=dict)
    open: _Side | None = None


def is_head(line: bytes) -> bool:
    """Whether a report begins in this line."""
    return _HEAD.encode() in line


def reports(lines: Iterable[bytes]) -> LoggedReports:
    """Every report of `lines`, in order, those that are cut off too."""
    found, streams = LoggedReports(), {"0": "stream default"}
    block: _Block | None = None
    for line in lines:
        found.lines += 1
        text = plain(line).strip() if len(line) <= _LONGEST else ""
        if _HEAD in text:
            found += _closed(block)
            block = _Block(found.lines)
        elif block is not None and text:
            _take(block, text, streams)
    found += _closed(block)
    return found


def _take(block: _Block, text: str, streams: dict[str, str]) -> None:
    """One line of a block: whose access, which kernel, what it does; anything else is a stack."""
    for words, name in _SIDES:
        at = text.find(words)
        stream = _STREAM.match(text, at + len(words)) if at >= 0 and (at == 0 or text[at - 1] == " ") else None
        if stream is not None and name not in block.sides:
            actor = streams.setdefault(stream[1], f"stream {len(streams)}")
            block.sides[name] = block.open = _Side(actor)
            return
    side = block.open
    if side is None:
        return
    if not side.kernel:
        side.kernel = text.partition("(")[0]
    elif not side.mode:
        side.mode = next((mode for words, mode in _MODES.items() if text.startswith(words)), "")
        side.arguments = _TO.sub("", text, count=1).replace(", and to the output", ", output")
        block.open = None if side.mode else side


def _closed(block: _Block | None) -> list[LoggedReport]:
    if block is None:
        return []
    current, earlier = (_access(block.sides.get(name)) for name in ("current", "previous"))
    kind = "?" if current is None or earlier is None else f"{current.mode}-after-{earlier.mode}"
    return [
        LoggedReport(
            kind, _BUFFER, UNTOLD, UNTOLD, earlier, current, UNTOLD, UNTOLD, block.line, complete=kind != "?"
        )
    ]


def _access(side: _Side | None) -> ReportAccess | None:
    if side is None or not side.mode:
        return None
    return ReportAccess(side.mode, side.stream, UNTOLD, -1, side.arguments or None, None, side.kernel)
