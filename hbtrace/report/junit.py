"""JUnit XML: a case for each distinct race, or for each check of each trace, which is what a reader follows from run
to run. A case's names hold nothing that changes with its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from hbtrace.compare.check_result import CheckedTrace
from hbtrace.compare.findings import RaceFinding
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.race_text import block, tensors
from hbtrace.compare.result import Unreadable
from hbtrace.escape import as_text, harmless
from hbtrace.report.renderer import AnyResult, Renderer, Style
from hbtrace.report.words import rows
from hbtrace.words import effect_of


@dataclass(frozen=True, slots=True)
class _Case:
    """One test. outcome: `failure`, `skipped` or `error` with what is said of it; None for one that passes."""

    of: str
    name: str
    outcome: str | None = None
    message: str = ""
    type: str = ""
    text: Sequence[str] = ()
    out: Sequence[str] | None = None
    """Lines."""


def _whole(result: AnyResult, _: Style) -> str:
    root = Xml.Element("testsuites")
    if isinstance(result, RaceResult):
        beside = [*result.first, *result.last]
        out, err = ([one.text for one in beside if one.severity == severity] for severity in ("info", "warning"))
        _suite(root, f"hbtrace {result.verb}", _races(result), out, err)
    else:
        for trace in result.traces:
            if isinstance(trace, Unreadable):
                name = f"hbtrace check {as_text(trace.path)}".rstrip()
                _suite(root, name, [_unread("hbtrace.check", as_text(trace.error))])
            else:
                _suite(root, f"hbtrace check {trace.name}", _checks(trace), err=trace.warnings)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(
    root: Xml.Element, name: str, cases: Iterable[_Case], out: Sequence[str] = (), err: Sequence[str] = ()
) -> None:
    suite = Xml.SubElement(root, "testsuite", name=harmless(name), tests="", failures="", skipped="", errors="")
    met: Counter[str | None] = Counter()
    for case in cases:
        met[case.outcome] += 1
        _case(suite, case)
    for element, lines in (("system-out", out), ("system-err", err)):
        if lines:
            Xml.SubElement(suite, element).text = _lines(lines)
    counts = {"tests": met.total(), "failures": met["failure"], "skipped": met["skipped"], "errors": met["error"]}
    for key, number in counts.items():
        suite.set(key, str(number))


def _case(suite: Xml.Element, case: _Case) -> None:
    element = Xml.SubElement(suite, "testcase", classname=harmless(case.of), name=harmless(case.name))
    if case.outcome is not None:
        told = {"type": case.type} if case.type else {}
        Xml.SubElement(element, case.outcome, {**told, "message": harmless(case.message)}).text = _lines(case.text)
    if case.out is not None:
        Xml.SubElement(element, "system-out").text = _lines(case.out)


def _unread(of: str, error: str) -> _Case:
    return _Case(of, "read the trace", "error", error)


def _races(result: RaceResult) -> Iterator[_Case]:
    """It fails where the race counts, and is skipped where suppressed. With no race at all there is one case that
    passes, for empty suites count as broken in some readers."""
    for finding in result.findings:
        yield _race(finding, result.verb)
    for one in result.unreadable:
        yield _unread("hbtrace", as_text(one.error))
    if result.unmet:
        yield _Case("hbtrace", "compare the runs", "error", "; ".join(result.unmet))
    if not result.findings and not result.errors:
        yield _Case("hbtrace", "no race")


def _race(finding: RaceFinding, verb: str) -> _Case:
    report = finding.report
    of = f"hbtrace.{finding.trace or verb}"
    name = f"{finding.id} {report.kind} on {report.buffer}: {tensors(report.signature)}"
    # The schema of Jenkins' xUnit knows no properties of a case.
    effect = [] if finding.consequence is None else [f"effect: {effect_of(finding.consequence)}"]
    if finding.suppression is not None:
        return _Case(of, name, "skipped", finding.suppression.said, out=effect or None)
    if finding.severity == "error":
        return _Case(of, name, "failure", finding.message, report.kind, block(report).split("\n"), effect or None)
    why = [f"reason: {finding.why}"] if finding.why else []
    return _Case(of, name, out=[f"{finding.state}: {finding.message}", *effect, *why])


def _checks(trace: CheckedTrace) -> Iterator[_Case]:
    """It fails by an error or a warning, and is skipped where it could not be made."""
    of = "hbtrace.check"
    if trace.unjudged is not None:
        yield _Case(of, "judge the trace", "error", as_text(trace.unjudged.error))
    for judgement in trace.checked.judgements:
        found = [finding for finding in trace.findings if finding.id == judgement.id]
        failing = [finding for finding in found if finding.severity != "info"]
        if judgement.status == "not checkable":
            yield _Case(of, judgement.id, "skipped", judgement.note)
        elif failing:
            text = [f"{finding.message} (rows {rows(finding)})" for finding in failing]
            yield _Case(of, judgement.id, "failure", failing[0].message, failing[0].severity, text)
        else:
            yield _Case(of, judgement.id, out=[finding.message for finding in found] or [judgement.note])
    if trace.checked.unseen:
        yield _Case(of, "see the whole run", "error", trace.checked.unseen)
    for sentence in trace.unmet:
        yield _Case(of, f"--require {sentence}", "failure", sentence, "required")


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(map(harmless, lines))


RENDERER = Renderer(whole=_whole)
