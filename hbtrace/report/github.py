"""GitHub Actions annotations: a workflow command a finding, escaped so that a name can neither end nor begin one."""

from __future__ import annotations

from typing import Final

from hbtrace.compare.findings import RaceFinding
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.result import Sentence
from hbtrace.escape import as_text, harmless
from hbtrace.findings import Finding, Severity
from hbtrace.report.renderer import AnyResult, Renderer, Style
from hbtrace.report.words import occurrences, rows
from hbtrace.words import effect_of

_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "notice"}


def _whole(result: AnyResult, _: Style) -> str:
    """What failed or cannot be compared comes first: of each level GitHub shows only the first ten of a step."""
    lines = [_line(one) for one in result.told()]
    suppressed = result.suppressed if isinstance(result, RaceResult) else 0
    more = f", {suppressed} suppressed" if suppressed and "suppressed" not in result.headline else ""
    lines.append(_line(Sentence("info", result.headline + more, f"hbtrace {result.verb}")))
    return "\n".join(lines) + "\n"


def _line(one: Sentence | Finding) -> str:
    place = None
    if isinstance(one, Sentence):
        title, message, place = one.title, one.text, one.place
    elif isinstance(one, RaceFinding):
        title = f"race {one.id}" if one.state == "found" else f"{one.state} race {one.id}"
        effect = f"; effect: {effect_of(one.consequence)}" if one.consequence else ""
        why = f"; {one.why}" if one.why else ""
        message = f"{one.message} (reports: {occurrences(one.seen)}{effect}){why}"
        place = one.known.place if one.known is not None and one.state == "expired" else None
    else:
        of = f"rows {rows(one)} of {as_text(one.trace)}" if one.rows else as_text(one.trace)
        title, message = one.id, f"{one.message} ({of})"
    line = "" if place is None else f"file={_property(place.path)},line={place.line},"
    return f"::{_LEVELS[one.severity]} {line}title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return harmless(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


RENDERER = Renderer(whole=_whole)
