"""JUnit XML: a test case for each distinct race; it fails where the race counts, and is skipped where suppressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree as Xml

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.side_coverage import lines
from hbtrace.report.text import block
from hbtrace.report.words import beside, sentence, tensors

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(verdict: Verdict, failing: Callable[[Finding], bool]) -> str:
    """One suite; with no race at all it has one case that passes, for empty suites count as broken in some readers."""
    findings, broken = verdict.findings, _broken(verdict)
    failures = [finding for finding in findings if failing(finding)]
    skipped = [finding for finding in findings if finding.suppression is not None]
    suite = Xml.Element(
        "testsuite",
        name=f"hbtrace {verdict.verb}",
        tests=str(max(1, len(findings) + len(broken))),
        failures=str(len(failures)),
        skipped=str(len(skipped)),
        errors=str(len(broken)),
    )
    for finding in findings:
        _case(suite, verdict.verb, finding, failing=failing(finding))
    for name, error in broken:
        case = Xml.SubElement(suite, "testcase", classname="hbtrace", name=name)
        Xml.SubElement(case, "error", message=clean(error))
    if not findings and not broken:
        Xml.SubElement(suite, "testcase", classname="hbtrace", name="no race")
    if coverage := lines(verdict.coverage):
        Xml.SubElement(suite, "system-out").text = clean("\n".join(coverage))
    if sentences := beside(verdict):
        Xml.SubElement(suite, "system-err").text = clean("\n".join(sentences))
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _broken(verdict: Verdict) -> list[tuple[str, str]]:
    """Cases for errors, by name: one for each trace that was not read, or one for all that bars a comparison."""
    if verdict.verb == "analyze":
        return [("read the trace", error) for error in verdict.errors]
    return [("compare the runs", "; ".join(verdict.errors))] if verdict.errors else []


def _case(suite: Xml.Element, verb: str, finding: Finding, *, failing: bool) -> None:
    """A case's names hold nothing that changes with its state: a reader follows it from run to run."""
    report = finding.report
    name = clean(f"{finding.ident} {report.kind} on {report.buffer}: {tensors(report.signature)}")
    case = Xml.SubElement(suite, "testcase", classname=clean(f"hbtrace.{finding.trace or verb}"), name=name)
    told = []
    if finding.suppression is not None:
        Xml.SubElement(case, "skipped", message=clean(finding.suppression.reason or "suppressed"))
    elif failing:
        failure = Xml.SubElement(case, "failure", type=report.kind, message=clean(sentence(finding)))
        failure.text = clean(block(report))
    else:
        told.append(f"{finding.state}: {sentence(finding)}")
    if finding.consequence is not None:  # the schema of Jenkins' xUnit knows no properties of a case
        told.append(f"comes to: {finding.consequence}")
    if told:
        Xml.SubElement(case, "system-out").text = clean("\n".join(told))


def clean(text: str) -> str:
    """What XML can hold."""
    return _NOT_XML.sub("\ufffd", text)
