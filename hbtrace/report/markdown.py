"""Markdown: the table one would paste into a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hbtrace.compare.check_result import CheckResult
from hbtrace.compare.race_result import STATES, RaceResult
from hbtrace.compare.race_text import short_kind, sides, tensors
from hbtrace.compare.result import Sentence
from hbtrace.escape import as_text, harmless
from hbtrace.report.renderer import AnyResult, Renderer, Style
from hbtrace.report.words import columns, reasons, reported, rows
from hbtrace.words import count, effect_of

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#~&$@])")
_REFERENCE: Final = re.compile(r"(?:(?<!\w)\\[@#](?=\w)|:(?=//)|\bwww(?=\.))", re.IGNORECASE)
"""What GitHub makes a link, escaped or not, in text that holds no comment: a name must not call a person."""

Table = tuple[list[str], list[list[str]]]
"""The heads of the columns, and the rows, as Markdown."""


def _whole(result: AnyResult, _: Style) -> str:
    """A headline, what failed or cannot be compared, a table of the findings, and the notes."""
    suppressed = result.suppressed if isinstance(result, RaceResult) else 0
    parts = [f"**hbtrace {result.verb}**: {result.headline}"]
    parts += _list(dict.fromkeys(result.first))
    head, body = _races(result) if isinstance(result, RaceResult) else _checks(result)
    if body:
        parts.append("\n".join(map(_row, [head, ["---"] * len(head), *body])))
    if suppressed:
        parts.append(f"{count(suppressed, 'distinct race')} suppressed")
    if isinstance(result, RaceResult):
        parts += _list(Sentence("info", line) for line in reasons(result))
    parts += _list(result.last)
    return "\n\n".join(parts) + "\n"


def _list(sentences: Iterable[Sentence]) -> list[str]:
    lines = [f"- {_escaped(sentence.text)}" for sentence in sentences]
    return ["\n".join(lines)] if lines else []


def _races(result: RaceResult) -> Table:
    findings = result.counted
    judged = any(finding.consequence for finding in findings)
    head = ["id", "kind", "buffer", "tensor", "earlier", "current"]
    head = [*(["state"] if result.compared else []), *head, *(["effect"] if judged else []), *columns(result)]
    body = []
    for finding in sorted(findings, key=lambda f: ((*STATES, "found").index(f.state), f.id, f.trace)):
        report = finding.report
        cells = [
            f"`{finding.id}`" + (f" (was `{finding.was}`)" if finding.was else ""),
            short_kind(report.kind),
            _escaped(report.buffer),
            _escaped(tensors(report.signature)),
            *map(_escaped, sides(report)),
        ]
        effect = [effect_of(finding.consequence)] if judged else []
        state = [finding.state] if result.compared else []
        body.append([*state, *cells, *effect, *reported(finding, result)])
    return head, body


def _checks(result: CheckResult) -> Table:
    several = len(result.traces) > 1
    head = ["severity", "check", *(["trace"] if several else []), "what", "rows"]
    body = [
        [f.severity, f"`{f.id}`", *([_escaped(as_text(f.trace))] if several else []), _escaped(f.message), rows(f)]
        for f in result.findings
    ]
    return head, body


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """A name as it is: no markup, no line break, no cell border, no mention of a person or an issue, no link."""
    return _REFERENCE.sub(r"\g<0><!-- -->", _SPECIAL.sub(r"\\\1", harmless(text)))


RENDERER = Renderer(whole=_whole)
