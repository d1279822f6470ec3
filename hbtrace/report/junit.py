"""JUnit XML: a test case for each distinct race; it fails where the race counts, and is skipped where suppressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree as Xml

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.report.text import block
from hbtrace.report.words import sentence, tensors

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(verdict: Verdict, failing: Callable[[Finding], bool]) -> str:
    """One suite; with no race at all it has one case that passes, for empty suites count as broken in some readers."""
    findings = verdict.findings
    failures = [finding for finding in findings if failing(finding)]
    skipped = [finding for finding in findings if finding.suppression is not None]
    suite = Xml.Element(
        "testsuite",
        name=f"hbtrace {verdict.verb}",
        tests=str(max(1, len(findings) + len(verdict.errors))),
        failures=str(len(failures)),
        skipped=str(len(skipped)),
        errors=str(len(verdict.errors)),
    )
    for finding in findings:
        _case(suite, verdict.verb, finding, failing=failing(finding))
    for error in verdict.errors:
        case = Xml.SubElement(suite, "testcase", classname="hbtrace", name="read the trace")
        Xml.SubElement(case, "error", message=clean(error))
    if not findings and not verdict.errors:
        Xml.SubElement(suite, "testcase", classname="hbtrace", name="no race")
    if verdict.sentences:
        Xml.SubElement(suite, "system-err").text = clean("\n".join(verdict.sentences))
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(suite: Xml.Element, verb: str, finding: Finding, *, failing: bool) -> None:
    """A case's names hold nothing that changes with its state: a reader follows it from run to run."""
    report = finding.report
    name = clean(f"{finding.ident} {report.kind} on {report.buffer}: {tensors(report.signature)}")
    case = Xml.SubElement(suite, "testcase", classname=clean(f"hbtrace.{finding.trace or verb}"), name=name)
    if finding.consequence is not None:
        properties = Xml.SubElement(case, "properties")
        Xml.SubElement(properties, "property", name="consequence", value=finding.consequence)
    if finding.suppression is not None:
        Xml.SubElement(case, "skipped", message=clean(finding.suppression.reason or "suppressed"))
    elif failing:
        failure = Xml.SubElement(case, "failure", type=report.kind, message=clean(sentence(finding)))
        failure.text = clean(block(report))
    else:
        Xml.SubElement(case, "system-out").text = clean(f"{finding.state}: {sentence(finding)}")


def clean(text: str) -> str:
    """What XML can hold."""
    return _NOT_XML.sub("\ufffd", text)
