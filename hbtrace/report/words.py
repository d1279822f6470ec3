"""Words that several outputs use for a finding, so that they all say the same."""

from __future__ import annotations

from hbtrace.compare.findings import Finding, Verdict
from hbtrace.compare.sides import Occurrences
from hbtrace.replay.reports import Access, Signature


def beside(verdict: Verdict) -> list[str]:
    """All sentences but those that are errors already, as what cannot be compared is with --require-comparable."""
    return [sentence for sentence in verdict.sentences if sentence not in verdict.errors]


def is_seen(finding: Finding) -> bool:
    """Whether a run showed the race. Of one that only a baseline knows there is no report to print."""
    return finding.base is not None or finding.head is not None


def short_kind(kind: str) -> str:
    """WAR, WAW or RAW."""
    return "".join(word[0] for word in kind.split("-")).upper()


def tensors(signature: Signature) -> str:
    """The root, or both where they differ; `-` for bytes of no tensor."""
    earlier, current = (name if name is not None else "-" for name in (signature[3], signature[6]))
    return earlier if earlier == current else f"{earlier} / {current}"


def side(access: Access, family: str) -> str:
    return f"{family} ({access.label})"


def sides(finding: Finding) -> tuple[str, str]:
    """Earlier and current side: actor and label."""
    report = finding.report
    return side(report.earlier, report.signature[2]), side(report.current, report.signature[5])


def columns(verdict: Verdict) -> tuple[str, ...]:
    """The heads of the columns of `reported`: a baseline holds no numbers, so there is one side."""
    return ("base", "head") if verdict.verb == "diff" else ("reports",)


def reported(finding: Finding, verdict: Verdict) -> list[str]:
    """How often a race was reported, on each side that has numbers."""
    return [occurrences(side) for side in (finding.base, finding.head)[verdict.verb != "diff" :]]


def occurrences(found: Occurrences | None) -> str:
    """How often, over how many runs: `6`, `4-6 in 3 runs`, `4-6 in 3 of 5 runs`, `-` for not at all."""
    if found is None:
        return "-"
    times = str(found.min) if found.min == found.max else f"{found.min}-{found.max}"
    if found.runs < found.of:
        return f"{times} in {found.runs} of {found.of} runs"
    return times if found.runs == 1 else f"{times} in {found.runs} runs"


def sentence(finding: Finding) -> str:
    """One sentence about a race."""
    earlier, current = sides(finding)
    report = finding.report
    return (
        f"{report.kind} on {report.buffer}: {earlier} and {current} access {tensors(report.signature)}"
        " with no happens-before edge between them"
    )
