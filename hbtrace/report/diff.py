"""What a comparison prints, `diff` or `baseline check`."""

from __future__ import annotations

from hbtrace.compare.findings import RaceFinding
from hbtrace.compare.race_result import RaceResult
from hbtrace.compare.race_text import block, details, short_kind, sides, tensors
from hbtrace.compare.side_coverage import lines as coverage_lines
from hbtrace.escape import harmless
from hbtrace.report.renderer import Style
from hbtrace.report.tables import of_races, table
from hbtrace.report.words import columns, reasons, reported
from hbtrace.words import count

_STATES = ("new", "expired", "moved", "persisting", "not exercised", "fixed")


def render(result: RaceResult, style: Style) -> str:
    """The verdict, what cannot be compared, the races by state, what is new in full, the workloads, what to type next;
    and the verdict again, for a log is read from its end."""
    counted = result.counted
    verdict = harmless(result.verdict)
    said = dict.fromkeys([*result.errors, *result.reasons, *result.notes])
    parts = [verdict, *(["\n".join(map(harmless, said))] if said else []), result.headline]
    if counted:
        parts.append("\n".join(_table(counted, result, style.width)))
    shown = [one for one in counted if one.seen is not None and (one.state in ("new", "expired") or style.verbose)]
    parts += [_block(finding, verbose=style.verbose) for finding in shown]
    if result.workload:
        head = ("workload", "base", "head")
        rows = [(name.replace("_", " "), f"{b:,}", f"{h:,}") for name, (b, h) in result.workload.items()]
        parts.append("\n".join(table(head, rows, right=frozenset({1, 2}))))
    if told := coverage_lines(result.coverage):
        parts.append("\n".join(map(harmless, told)))
    parts += result.left_out
    if why := reasons(result):
        parts.append("\n".join(["reasons", *(f"  {harmless(line)}" for line in why)]))
    if result.suppressed:
        parts.append(f"suppressed: {count(result.suppressed, 'distinct race')}")
    parts.append("\n".join([*([f"next: {harmless(result.next)}"] if result.next else []), verdict]))
    return "\n\n".join(parts) + "\n"


def _block(finding: RaceFinding, *, verbose: bool) -> str:
    return "\n".join([block(finding.report), *(details(finding.report, finding.id) if verbose else [])])


def _table(findings: list[RaceFinding], result: RaceResult, width: int | None) -> list[str]:
    head = ("state", "id", "kind", "buffer", "tensor", "earlier", "current", *columns(result))
    rows = [
        (
            finding.state,
            finding.id + (f" (was {finding.was})" if finding.was else ""),
            short_kind(finding.report.kind),
            finding.report.buffer,
            tensors(finding.report.signature),
            *sides(finding.report),
            *reported(finding, result),
        )
        for finding in sorted(findings, key=lambda f: (_STATES.index(f.state), f.id))
    ]
    return of_races(head, rows, below="earlier", width=width)
