"""One line of a Strata log: from bytes to the record that stands in it.

What it is: the printf shapes of the pipeline trace, the state hashes, the timing and calibration lines, engagement and
refusal, the switch echo and the stdout protocol, blind to what stands in front (time stamps, container prefixes) and to
line endings. What it is not: it knows no request; `reading` puts records together. Sources: `hbtrace docs strata`.
Expressions are linear in the line: what repeats in one begins where nothing of it can have begun before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hbtrace.errors import TraceError


@dataclass(frozen=True, slots=True)
class TraceBegin:
    """`# request p0=<n-1>`: a request's pipeline trace begins."""

    p0: int


@dataclass(frozen=True, slots=True)
class TraceLine:
    """`<ms> EV seq x0 x1` of `STRATA_PIPELINE_TRACE`."""

    time: float
    event: str
    seq: int
    x0: int
    x1: int


@dataclass(frozen=True, slots=True)
class StateHash:
    """`STATE_HASH`: the items in their order, as printed."""

    items: dict[str, str]


@dataclass(frozen=True, slots=True)
class LayerHashes:
    """`STATE_HASH_GDN`: 16 bits of each GDN layer."""

    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """The decode-timing summary of a request."""

    windows: int
    ms: float
    speculative: int
    on_path: int
    rolled_back: int
    gated: int
    theta: str


@dataclass(frozen=True, slots=True)
class ToldLine:
    """Any other line.

    what: `classes`, `calibration`, `start`, `engage`, `refuse`, `unclear`, `off`, `serial`, `switch`. unclear: it
    speaks of the snapshot ring, and not so that one could say whether the ring is on.
    """

    what: str
    text: str
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the stdout protocol: `T`, `DONE`, `ERR`, `RESUME`, `PP`, `REUSED`, and its words."""

    what: str
    words: tuple[str, ...]


MOST_DIGITS: Final = 18
"""Of a whole number: every such number fits in 64 bits, and no counter of an engine is larger."""

LogRecord = TraceBegin | TraceLine | StateHash | LayerHashes | Timing | ToldLine | Said

_ANSI: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
_BEGIN: Final = re.compile(r"# request p0=(-?\d+)$")
_LINE: Final = re.compile(r"(?:^|\s)(\d+\.\d{3}) ([LF]\d{1,9}|V|U|CL|CE|CD|CT|EA) (-?\d+) (-?\d+) (-?\d+)$")
_HASH: Final = re.compile(r"STATE_HASH (L=-?\d+ .*)$")
_LAYERS: Final = re.compile(r"STATE_HASH_GDN\b(.*)$")
_TIMING: Final = re.compile(
    r"strata pipeline: (\d+) windows in (\d+(?:\.\d+)?) ms \([\d.]+ ms/window\): (\d+) speculative, (\d+) on the path,"
    r" (\d+) rolled back, (\d+) below the gate \(theta ([^)]*)\)"
)
_START: Final = re.compile(r"--pipeline-windows (\d+): (two verifiers per stage.*)$")
_SERIAL: Final = ("a request with ", " decodes serially")
_SWITCH: Final = re.compile(r"strata pipeline switch: (.*)$")
_PHRASE: Final = "GDN snapshot ring"
_RING: Final = re.compile(rf"{_PHRASE}\b(.*)$")
_ENGAGED: Final = re.compile(
    r"[ :,]*(?:(?:is )?(?:on|engaged|enabled|active|in use)|\d+ buffers\b[^:]*)?(?:, )?[.]?$", re.IGNORECASE
)
_REFUSED: Final = re.compile(
    r"\b(?:refused|off|disabled|unavailable|unsupported|needs|cannot|does not|not (?:used|supported|available|possible)"
    r"|no GDN snapshot ring|copy (?:mode )?is kept|kept|were captured|Metal|SNAP_OVERLAP=0"
    r"|STRATA_(?:QFUSE|FUSE_CONVAB|COMMIT_BATCH|GDN_SPLIT|GDN_COMMIT_SPLIT|DBG_GDN))\b", re.IGNORECASE,
)  # fmt: skip
_SAYS_ON: Final = re.compile(r"[ :,]*(?:is )?(?:on|engaged|enabled|active|in use)\b", re.IGNORECASE)
_NO_COPY: Final = re.compile(r",? {0,4}\b(?:no copy(?: is (?:kept|made|taken))?|without a copy)\b")
_SAID: Final = re.compile(r"(T|DONE|ERR|RESUME|PP|REUSED)(?: (.*))?$")
_NOBODY_ELSES: Final = re.compile(
    r"# request p0=-?\d+$|(?<!\d)\d+\.\d{3} (?:[LF]\d{1,9}|V|U|CL|CE|CD|CT|EA) -?\d+ -?\d+ -?\d+$"
    r"|strata (?:serve|pipeline): |STATE_HASH|DONE \d+ \d+ \d+\.\d+ \d+\.\d+ \w+ -?\d+ -?\d+ -?\d+\b"
)
_MOST_PREFIXES: Final = 8
_LONGEST_PREFIX: Final = 200
_PAIR: Final = re.compile(r"\b(\w+)=(\S+)")
_HEX4: Final = re.compile(r"\b[0-9a-f]{4}\b")


def number(word: str) -> int:
    """A whole number. Raises ValueError for a word that is none, TraceError for one that no engine counts to."""
    if len(digits := word.removeprefix("-")) > MOST_DIGITS and digits.isdecimal():
        raise TraceError(f"a number of {len(digits):,} digits, and at most {MOST_DIGITS} are read")
    return int(word)


def record(line: bytes, prefixes: Sequence[re.Pattern[str]] = ()) -> LogRecord | None:
    """The record in a line, None if the line is something else. Raises TraceError for a number as in `number`.

    prefixes: of the capture. What engines print on standard output begins a line or stands behind one of them.
    """
    text = _text(line)
    begun = next((found for prefix in prefixes if (found := prefix.match(text))), None)
    if begun is not None:
        text = text[begun.end() :]
    if not text:
        return None
    if match := _LINE.search(text):
        return TraceLine(float(match[1]), match[2], *(number(match[at]) for at in (3, 4, 5)))
    if match := _BEGIN.search(text):
        return TraceBegin(number(match[1]))
    if match := _SAID.match(text):
        return _said(match)
    return _hash(text) or _told(text)


def _text(line: bytes) -> str:
    return _ANSI.sub(b"", line).replace(b"\0", b"").decode("utf-8", "replace").strip("\ufeff\ufffd \t\r\n")


def broken(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines at every line end there is: a carriage return alone ends one as well."""
    for line in lines:
        if b"\r" in line[:-2]:
            yield from line.splitlines(keepends=True)
        else:
            yield line


def prefixes(lines: Iterable[bytes]) -> list[re.Pattern[str]]:
    """What a log driver or a container put before every line: learned from lines that could be nobody else's.

    Digits of a prefix stand for any. None where the first such line has no prefix.
    """
    found: dict[str, None] = {}
    for line in broken(lines):
        text = _text(line)
        if match := _NOBODY_ELSES.search(text):
            if not match.start() and not found:
                return []
            if 0 < match.start() <= _LONGEST_PREFIX:
                found[re.sub(r"\d+", r"\\d+", re.escape(text[: match.start()]))] = None
            if len(found) == _MOST_PREFIXES:
                break
    return [re.compile(shape) for shape in sorted(found, key=len, reverse=True)]


def _said(match: re.Match[str]) -> Said | None:
    words = tuple((match[2] or "").split())
    numbers = {"T": 1, "DONE": 2}.get(match[1], 0)
    # A sentence that happens to begin with T or DONE is no protocol line.
    if len(words) < numbers or not all(re.fullmatch(r"-?\d+", word) for word in words[:numbers]):
        return None
    return Said(match[1], words)


def _hash(text: str) -> LogRecord | None:
    if "STATE_HASH" not in text:
        return None
    if match := _LAYERS.search(text):
        return LayerHashes(tuple(_HEX4.findall(match[1])))
    if match := _HASH.search(text):
        items = dict(_PAIR.findall(match[1]))
        if "ple_prev" in items and "," in items["ple_prev"]:
            items["ple_prev_0"], items["ple_prev_1"] = items.pop("ple_prev").split(",", 1)
        return StateHash(items)
    return None


def _ring(text: str) -> str:
    """What a line that speaks of the snapshot ring says of it. Its wording is not known from the source."""
    text = _NO_COPY.sub("", text)
    rest = text[text.index(_PHRASE) + len(_PHRASE) :].rstrip(" )")
    if _REFUSED.search(text):
        return "unclear" if _SAYS_ON.match(rest) else "refuse"
    return "engage" if _ENGAGED.match(rest) else "unclear"


def _told(text: str) -> LogRecord | None:
    if match := _TIMING.search(text):
        speculative, on_path, rolled_back, gated = (number(match[at]) for at in (3, 4, 5, 6))
        return Timing(number(match[1]), float(match[2]), speculative, on_path, rolled_back, gated, match[7])
    if match := _SWITCH.search(text):
        return ToldLine("switch", text, dict(_PAIR.findall(match[1])))
    ring = _RING.search(text)
    if match := _START.search(text):
        said = {} if ring is None else {"ring": _ring(text), "why": ring[1].strip(" :,.()")}
        return ToldLine("start", text, {"windows": str(number(match[1])), **said})
    if ring is not None:
        return ToldLine(_ring(text), text, {"why": ring[1].strip(" :,.")})
    begin, end = text.find(_SERIAL[0]), text.rfind(_SERIAL[1])
    if 0 <= begin <= end - len(_SERIAL[0]):
        return ToldLine("serial", text, {"why": text[begin + len(_SERIAL[0]) : end]})
    if "strata pipeline" in text or "--pipeline-windows" in text:
        for what in ("classes", "calibration"):
            if what in text:
                return ToldLine(what, text)
        what, is_off, why = text.partition(" is off: ")
        if is_off and what.rpartition(":")[2].strip():
            return ToldLine("off", text, {"why": why})
    return None
