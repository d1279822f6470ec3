"""`check` for other programs: JSON lines, a Markdown table, GitHub annotations, SARIF 2.1.0, JUnit XML.

A check has an id but a finding has none: two of one check are told apart by their message and rows. So SARIF has no
fingerprints and no `baselineState`, and JUnit a case for each check, which is what a reader follows from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as Xml

import orjson

from hbtrace import __version__
from hbtrace.checks.model import SEVERITIES
from hbtrace.escape import as_text
from hbtrace.report.github import annotation
from hbtrace.report.junit import clean
from hbtrace.report.markdown import escaped, row
from hbtrace.report.sarif import SCHEMA
from hbtrace.words import count

if TYPE_CHECKING:
    from hbtrace.checks.checked import Checked
    from hbtrace.checks.model import Finding

_LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}
_COMMANDS: Final = {"error": "error", "warning": "warning", "info": "notice"}
_ROWS: Final = 8


@dataclass(frozen=True)
class Told:
    """A trace that was checked, or one that could not be read: then `error` says why. `unmet`: sentences."""

    path: str
    checked: Checked | None = None
    unmet: Sequence[str] = field(default=())
    error: str = ""

    @property
    def findings(self) -> Sequence[Finding]:
        return () if self.checked is None else self.checked.findings

    @property
    def name(self) -> str:
        """The path as text."""
        return as_text(self.path)


def render(form: str, traces: Sequence[Told]) -> str:
    """All traces in one of FORMATS, with a newline at its end; of JSON lines, none where there is no finding."""
    return FORMATS[form](traces)


def _rows(finding: Finding) -> str:
    """The first of its rows."""
    if not finding.rows:
        return ""
    more = ", ..." if len(finding.rows) > _ROWS else ""
    return ", ".join(map(str, finding.rows[:_ROWS])) + more


def _jsonl(traces: Sequence[Told]) -> str:
    return "".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE).decode() for line in _lines(traces))


def _lines(traces: Sequence[Told]) -> Iterator[dict[str, Any]]:
    for told in traces:
        for f in told.findings:
            yield {
                "trace": told.name, "id": f.id, "severity": f.severity, "rows": f.rows, "message": f.message,
                "count": f.count,
            }  # fmt: skip


def headline(traces: Sequence[Told]) -> str:
    """How many findings of each severity, over all traces."""
    kinds = [(kind, sum(f.severity == kind for told in traces for f in told.findings)) for kind in SEVERITIES]
    found = ", ".join(f"{number} info" if kind == "info" else count(number, kind) for kind, number in kinds if number)
    unread = sum(told.checked is None for told in traces)
    return (found or "no finding") + (f"; {count(unread, 'trace')} not read" if unread else "")


def _notes(traces: Sequence[Told], *, errors: bool = True) -> list[str]:
    """What each run exercised, by its name where there are several; and which could not be read."""
    notes = []
    for told in traces:
        of = f"{told.name}: " if len(traces) > 1 else ""
        if told.checked is None:
            notes += [told.error] if errors else []
            continue
        coverage = told.checked.coverage
        notes.append(f"{of}coverage: " + "; ".join([coverage.verdict, *coverage.reasons[:1]]))
    return notes


def _warnings(traces: Sequence[Told]) -> list[str]:
    """What was lost or is wrong in the traces."""
    return [
        f"{told.name}: {as_text(warning).removeprefix(f'{told.name}: ')}"
        for told in traces
        if told.checked is not None
        for warning in told.checked.warnings
    ]


def _unmet(traces: Sequence[Told]) -> list[str]:
    """What --require asked for and did not get."""
    return [f"{told.name}: {sentence}" for told in traces for sentence in told.unmet]


def _markdown(traces: Sequence[Told]) -> str:
    parts = [f"**hbtrace check**: {headline(traces)}"]
    several = len(traces) > 1
    head = ["severity", "check", *(["trace"] if several else []), "what", "rows"]
    cells = [
        [f.severity, f"`{f.id}`", *([escaped(told.name)] if several else []), escaped(f.message), _rows(f)]
        for told in traces
        for f in told.findings
    ]
    if cells:
        parts.append("\n".join([row(head), row(["---"] * len(head)), *map(row, cells)]))
    parts.append("\n".join(f"- {escaped(note)}" for note in [*_warnings(traces), *_notes(traces), *_unmet(traces)]))
    return "\n\n".join(parts) + "\n"


def _github(traces: Sequence[Told]) -> str:
    lines = []
    for told in traces:
        if told.checked is None:
            lines.append(annotation("error", "hbtrace", told.error))
        for f in told.findings:
            at = f" (rows {_rows(f)} of {told.name})" if f.rows else f" ({told.name})"
            lines.append(annotation(_COMMANDS[f.severity], f.id, f.message + at))
    lines += [annotation("error", "hbtrace check --require", sentence) for sentence in _unmet(traces)]
    lines += [annotation("warning", "hbtrace", sentence) for sentence in _warnings(traces)]
    lines += [annotation("notice", "hbtrace", note) for note in _notes(traces, errors=False)]
    lines.append(annotation("notice", "hbtrace check", headline(traces)))
    return "\n".join(lines) + "\n"


def _sarif(traces: Sequence[Told]) -> str:
    from hbtrace.checks.registry import all_rules

    index = {rule.id: number for number, rule in enumerate(all_rules())}
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.why},
            "help": {"text": f"{rule.about}\n\nNeeds: {rule.needs}."},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in all_rules()
    ]
    unread = [told.error for told in traces if told.checked is None]
    notes = [{"level": "error", "message": {"text": error}} for error in unread]
    notes += [{"level": "error", "message": {"text": sentence}} for sentence in _unmet(traces)]
    notes += [{"level": "warning", "message": {"text": sentence}} for sentence in _warnings(traces)]
    notes += [{"level": "note", "message": {"text": note}} for note in _notes(traces, errors=False)]
    results = [
        {
            "ruleId": f.id,
            "ruleIndex": index[f.id],
            "level": _LEVELS[f.severity],
            "message": {"text": f.message},
            "locations": [{"logicalLocations": [{"name": told.name, "kind": "trace"}]}],
            "occurrenceCount": max(1, f.count),
            "properties": {"rows": f.rows},
        }
        for told in traces
        for f in told.findings
    ]
    run = {
        "tool": {"driver": {"name": "hbtrace", "version": __version__, "semanticVersion": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": not unread, "toolExecutionNotifications": notes}],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _junit(traces: Sequence[Told]) -> str:
    root = Xml.Element("testsuites")
    for told in traces:
        _suite(root, told)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(root: Xml.Element, told: Told) -> None:
    """A case for each check that could be made, failed by an error or a warning; skipped where not checkable."""
    suite = Xml.SubElement(root, "testsuite", name=clean(f"hbtrace check {told.name}"))
    counts = {"tests": 0, "failures": 0, "skipped": 0, "errors": 0}
    if told.checked is None:
        case = Xml.SubElement(suite, "testcase", classname="hbtrace.check", name="read the trace")
        Xml.SubElement(case, "error", message=clean(told.error))
        counts |= {"tests": 1, "errors": 1}
    for judgement in told.checked.judgements if told.checked is not None else ():
        case = Xml.SubElement(suite, "testcase", classname="hbtrace.check", name=judgement.id)
        found = [f for f in told.findings if f.id == judgement.id]
        failing = [f for f in found if f.severity != "info"]
        counts["tests"] += 1
        if judgement.status == "not checkable":
            Xml.SubElement(case, "skipped", message=clean(judgement.note))
            counts["skipped"] += 1
        elif failing:
            failure = Xml.SubElement(case, "failure", type=failing[0].severity, message=clean(failing[0].message))
            failure.text = clean("\n".join(f"{f.message} (rows {_rows(f)})" for f in failing))
            counts["failures"] += 1
        else:
            told_of = "\n".join(f.message for f in found) or judgement.note
            Xml.SubElement(case, "system-out").text = clean(told_of)
    for sentence in told.unmet:
        case = Xml.SubElement(suite, "testcase", classname="hbtrace.check", name=clean(f"--require {sentence}"))
        Xml.SubElement(case, "failure", type="required", message=clean(sentence))
        counts["tests"] += 1
        counts["failures"] += 1
    if warnings := _warnings([told]):
        Xml.SubElement(suite, "system-err").text = clean("\n".join(warnings))
    for key, number in counts.items():
        suite.set(key, str(number))


FORMATS: Final = {"jsonl": _jsonl, "markdown": _markdown, "github": _github, "sarif": _sarif, "junit": _junit}
