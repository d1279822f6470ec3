"""SARIF 2.1.0: a rule for each kind of race or each check, a result for each finding.

Races have no source line, so locations are logical: the tensor, the queues, the call sites; or the trace. A race's
identity is its id in `partialFingerprints`; what a baseline knows is marked with `baselineState`, never dropped, for a
result that disappears would be closed and opened again by the reader. A check has an id but its finding has none, two
of one check are told apart by their message and rows: so it has neither of the two.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote as url_quote

from hbtrace import __version__
from hbtrace.checks.registry import all_rules
from hbtrace.compare.findings import RaceFinding
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.race_text import tensors
from hbtrace.compare.result import Sentence
from hbtrace.escape import as_text, harmless, json_document
from hbtrace.findings import SEVERITIES, Finding, Severity
from hbtrace.races.identity import full_identity
from hbtrace.races.tomlfile import Place
from hbtrace.replay.reports import KINDS, Access
from hbtrace.report.renderer import AnyResult, Renderer, Style
from hbtrace.report.words import occurrences

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}
_MEANING: Final = {
    "read-after-write": "A read may see bytes from before or from the middle of a write it is not ordered after.",
    "write-after-write": "Two writes of the same bytes are not ordered: which of them stays is left to timing.",
    "write-after-read": "Bytes are overwritten while a queue may still read them.",
}
_STATES: Final = {
    "new": "new", "expired": "unchanged", "persisting": "unchanged",
    "moved": "updated", "fixed": "absent", "not exercised": "unchanged",
}  # fmt: skip


def _whole(result: AnyResult, _: Style) -> bytes:
    """One run."""
    if isinstance(result, RaceResult):
        complete, rules = not result.errors, list(map(_kind, KINDS))
        results = [_race(finding, marked=result.marked) for finding in result.findings]
    else:
        complete, rules = not result.unreadable, _checks()
        results = [_check(finding) for finding in result.findings]
    version = {"version": __version__, "semanticVersion": __version__}
    run = {
        "tool": {"driver": {"name": "hbtrace", **version, "rules": rules}},
        "invocations": [{"executionSuccessful": complete, "toolExecutionNotifications": _notes(result)}],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_document(_told(document))


def _told(value: Any) -> Any:
    """The document with no hostile character in its texts: viewers show them as they are."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, dict):
        return {key: _told(one) for key, one in value.items()}
    return [_told(one) for one in value] if isinstance(value, list | tuple) else value


def _notes(result: AnyResult) -> list[dict[str, Any]]:
    """What is said beside the results, the worst first."""
    sentences = [one for one in result.told() if isinstance(one, Sentence)]
    sentences.sort(key=lambda sentence: SEVERITIES.index(sentence.severity))
    return [
        {"level": _LEVELS[one.severity], "message": {"text": one.text}, **_lines(one.place)} for one in sentences
    ]


def _lines(place: Place | None) -> dict[str, Any]:
    """A line of a baseline or of suppressions."""
    if place is None:
        return {}
    file = {"uri": url_quote(place.path, errors="surrogateescape")}
    return {"locations": [{"physicalLocation": {"artifactLocation": file, "region": {"startLine": place.line}}}]}


def _kind(kind: str) -> dict[str, Any]:
    return {
        "id": kind,
        "name": "".join(word.capitalize() for word in kind.split("-")),
        "shortDescription": {"text": f"A {kind} race"},
        "fullDescription": {"text": _MEANING[kind]},
        "defaultConfiguration": {"level": "error"},
        "help": {"text": "`hbtrace docs rules` tells how a race is decided, `hbtrace docs output` how to read one."},
    }


def _checks() -> list[dict[str, Any]]:
    return [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.why},
            "help": {"text": f"{rule.about}\n\nNeeds: {rule.needs}."},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in all_rules()
    ]


def _check(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.id,
        "ruleIndex": [rule.id for rule in all_rules()].index(finding.id),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [{"logicalLocations": [{"name": as_text(finding.trace), "kind": "trace"}]}],
        "occurrenceCount": max(1, finding.count),
        "properties": {"rows": finding.rows},
    }


def _race(finding: RaceFinding, *, marked: bool) -> dict[str, Any]:
    """Without a base to compare with, a result has no `baselineState`.

    marked: suppressions were asked for. Then all results have them, some an empty list: the format has it so.
    """
    report = finding.report
    gone = finding.head is None
    result: dict[str, Any] = {
        "ruleId": report.kind,
        "ruleIndex": KINDS.index(report.kind),
        "kind": "pass" if finding.state == "fixed" else "open" if gone else "fail",
        "level": "none" if gone else "error",
        "message": {"text": finding.message},
        "locations": [_location(report.current, report.buffer)],
        "relatedLocations": [{"id": 0, "message": {"text": "earlier"}, **_location(report.earlier, report.buffer)}],
        "partialFingerprints": {"hbtraceRace/v1": full_identity(report.canonical)},
        "properties": {
            "id": finding.id,
            "state": finding.state,
            "tensors": tensors(report.signature),
            "signature": list(report.signature),
            "base": occurrences(finding.base),
            "head": occurrences(finding.head),
        },
    }
    if finding.seen is not None:
        result["occurrenceCount"] = finding.count
    if finding.known is not None and finding.known.reason:
        result["properties"]["reason"] = finding.known.reason
    if finding.consequence is not None:
        result["properties"]["consequence"] = finding.consequence
    if finding.state in _STATES:
        result["baselineState"] = _STATES[finding.state]
    if marked:
        found = finding.suppression
        result["suppressions"] = [{"kind": "external", "justification": found.said}] if found is not None else []
    return result


def _location(access: Access, buffer: str) -> dict[str, Any]:
    """Logical places, outermost first: the buffer, the tensor, the queue, the call."""
    places = [
        {"name": buffer, "kind": "memory"},
        {"name": access.root or "-", "fullyQualifiedName": f"{buffer}/{access.root or '-'}", "kind": "variable"},
        {"name": access.actor, "kind": "queue"},
    ]
    if access.site:
        places.append({"name": access.site, "kind": "function"})
    return {"logicalLocations": places}


RENDERER = Renderer(whole=_whole)
