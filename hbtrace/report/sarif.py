"""SARIF 2.1.0: rules by kind of race, a result for each distinct race, told apart by fingerprints and not by lines.

Races have no source line, so locations are logical: the tensor, the queues, the call sites. A result's identity is the
race's id in `partialFingerprints`; what a baseline knows is marked with `baselineState`, never dropped, for a result
that disappears would be closed and opened again by the reader.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from hbtrace import __version__
from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.side_coverage import lines
from hbtrace.races.identity import full_identity
from hbtrace.replay.reports import KINDS, Access
from hbtrace.report.words import beside, occurrences, sentence, tensors

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_MEANING: Final = {
    "read-after-write": "A read may see bytes from before or from the middle of a write it is not ordered after.",
    "write-after-write": "Two writes of the same bytes are not ordered: which of them stays is left to timing.",
    "write-after-read": "Bytes are overwritten while a queue may still read them.",
}
_STATES: Final = {
    "new": "new", "persisting": "unchanged", "moved": "updated", "fixed": "absent", "not exercised": "unchanged",
}  # fmt: skip


def render(verdict: Verdict, *, marked: bool) -> bytes:
    """One run. Without a base to compare with, results have no `baselineState`.

    marked: suppressions were asked for. Then all results have them, some an empty list: the format has it so.
    """
    notes = [{"level": "error", "message": {"text": text}} for text in verdict.errors]
    notes += [{"level": "warning", "message": {"text": text}} for text in beside(verdict)]
    notes += [{"level": "note", "message": {"text": text}} for text in lines(verdict.coverage)]
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "hbtrace",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": [_rule(kind) for kind in KINDS],
                    }
                },
                "invocations": [{"executionSuccessful": not verdict.errors, "toolExecutionNotifications": notes}],
                "results": [_result(finding, marked=marked) for finding in verdict.findings],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _rule(kind: str) -> dict[str, Any]:
    return {
        "id": kind,
        "name": "".join(word.capitalize() for word in kind.split("-")),
        "shortDescription": {"text": f"A {kind} race"},
        "fullDescription": {"text": _MEANING[kind]},
        "defaultConfiguration": {"level": "error"},
        "help": {"text": "`hbtrace docs rules` tells how a race is decided, `hbtrace docs output` how to read one."},
    }


def _result(finding: Finding, *, marked: bool) -> dict[str, Any]:
    report = finding.report
    gone = finding.head is None
    result: dict[str, Any] = {
        "ruleId": report.kind,
        "ruleIndex": KINDS.index(report.kind),
        "kind": "pass" if finding.state == "fixed" else "open" if gone else "fail",
        "level": "none" if gone else "error",
        "message": {"text": sentence(finding)},
        "locations": [_location(report.current, report.buffer)],
        "relatedLocations": [{"id": 0, "message": {"text": "earlier"}, **_location(report.earlier, report.buffer)}],
        "partialFingerprints": {"hbtraceRace/v1": full_identity(report.canonical)},
        "properties": {
            "id": finding.ident,
            "state": finding.state,
            "tensors": tensors(report.signature),
            "signature": list(report.signature),
            "base": occurrences(finding.base),
            "head": occurrences(finding.head),
        },
    }
    if seen := finding.head or finding.base:
        result["occurrenceCount"] = seen.max
    if finding.consequence is not None:
        result["properties"]["consequence"] = finding.consequence
    if finding.state in _STATES:
        result["baselineState"] = _STATES[finding.state]
    if marked:
        found = finding.suppression
        result["suppressions"] = [{"kind": "external", "justification": found.reason}] if found is not None else []
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
