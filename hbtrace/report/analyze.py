"""The report text of the contract's section 4, and the summary under it. Computes nothing, decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hbtrace.compare.outcome import Outcome
from hbtrace.compare.selection import Race, Selection
from hbtrace.escape import harmless
from hbtrace.races.suppressions import suppression_block
from hbtrace.replay.reports import Access, Report
from hbtrace.report.tables import fitted
from hbtrace.report.words import short_kind, tensors
from hbtrace.words import count

if TYPE_CHECKING:
    from hbtrace.consequence.sampling import Judged


def block(report: Report) -> str:
    """The four lines of a report, byte for byte as the contract tells, without a newline at the end."""
    earlier, current = report.earlier, report.current
    columns = [(a.actor, f"@{a.clock}", f"split {a.split}") for a in (earlier, current)]
    widths = [max(len(left), len(right)) for left, right in zip(*columns, strict=True)]
    sides = [
        f"  {a.mode:<5} " + "".join(f"{c:<{w}}  " for c, w in zip(cells, widths, strict=True)) + _what(a)
        for a, cells in zip((earlier, current), columns, strict=True)
    ]
    head = f"RACE ({report.kind}) on {report.buffer}[{report.lo}, {report.hi})"
    known = f"{current.actor} knows {earlier.actor}@{report.knows}, needs >={report.needs}"
    return "\n".join([head, *sides, f"  no happens-before edge: {known}"])


def _what(access: Access) -> str:
    name = "-" if access.tensor is None else access.tensor
    return f"{name} <- {access.root} ({access.label})" if access.is_view else f"{name} ({access.label})"


def details(report: Report, ident: str, judged: Judged | None = None) -> list[str]:
    """The lines that `-v` adds under a block."""
    lines = [f"    id       {ident}"]
    for title, access in (("earlier", report.earlier), ("current", report.current)):
        lines.append(
            f"    {title}  row {access.row}, access {access.access}, ubatch {access.ubatch}, thread {access.thread}"
        )
        if access.site:
            lines.append(f"             called from {access.site}")
        if access.is_view:
            lines.append(f"             view of tensor {access.root_id}: {access.tensor} <- {access.root}")
    exact = "may be wider than what was touched" if report.approx else "exact"
    lines.append(f"    bytes    {report.bytes} in conflict, {exact}")
    if judged is not None:
        found = judged.of(report)
        told = "not judged" if found is None else f"{found.verdict}: {found.why}"
        lines.append(f"    comes to {told}")
        lines.append(f"    cause    {judged.cause(report)}")
    return [harmless(line) for line in lines]


def blocks(selection: Selection, *, verbose: bool, suppression: bool = False) -> Iterator[str]:
    """The shown reports, one block each, with what they stand for and a ready suppression, if asked for."""
    for report in selection.reports:
        lines = [block(report)]
        if verbose:
            lines += details(report, selection.ids[report.canonical], selection.judged)
        if report.repeats > 1:
            lines.append(f"  ... and {count(report.repeats - 1, 'more report')} of this race")
        if suppression:
            lines += ["", suppression_block(report, selection.ids[report.canonical])]
        yield "\n".join(lines)


def render(outcome: Outcome, *, verbose: bool, suppression: bool = False, width: int | None = None) -> str:
    """Everything `analyze` prints of one trace. width: of the terminal, if it goes to one."""
    parts = list(blocks(outcome.selection, verbose=verbose, suppression=suppression))
    lines = summary(outcome.selection, outcome.rows, width) + _coverage(outcome)
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


def _coverage(outcome: Outcome) -> list[str]:
    """What the verdict is worth, and how much of it hangs on recorded direct writes."""
    coverage = outcome.coverage
    if coverage is None:
        return []
    lines = [*([""] if outcome.races else []), coverage.line(), *([coverage.hidden_line()] if outcome.races else [])]
    return [harmless(line) for line in lines]


def page(lines: Iterable[str]) -> str:
    """Lines of ours, none of them a report's: whatever names are in them, they stay lines."""
    return "\n".join(map(harmless, lines)) + "\n"


def spans(numbers: Iterable[int]) -> str:
    """Numbers as people write them: `1-6, 9`; -1 is `-`."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and number == out[-1][1] + 1 and out[-1][0] >= 0:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ", ".join("-" if lo < 0 else str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in out)


def summary(selection: Selection, rows: int, width: int | None = None) -> list[str]:
    """What the reports come to, and what filters and limits left out."""
    reports = count(selection.findings, "report")
    if not selection.races:
        return [f"no race in {count(rows, 'row')}"]
    lines = []
    if selection.groups:
        groups = selection.groups
        tensors = {name for race in groups for name in (race.signature[3], race.signature[6]) if name is not None}
        buffers = {race.signature[1] for race in groups}
        pairs = {frozenset((race.signature[2], race.signature[5])) for race in groups}
        lines.append(
            f"{reports}, {count(len({race.signature for race in groups}), 'distinct race')}:"
            f" {count(len(tensors), 'tensor')},"
            f" {count(len(buffers), 'buffer')}, {count(len(pairs), 'pair')} of actors{_causes(selection)}"
        )
        lines += ["", *_races(groups, selection.judged, width)]
    else:
        lines.append("0 reports shown")
    if selection.filtered:
        lines += ["", f"left out by filters: {selection.filtered:,} of {count(selection.races, 'report')}"]
    out = [
        (selection.suppressed, f"suppressed: {count(selection.suppressed, 'report')}"),
        (selection.limited, f"left out as repeats: {count(selection.limited, 'report')} (--all shows every one)"),
    ]
    told = [sentence for number, sentence in out if number]
    return lines + ([""] if told and not selection.filtered else []) + told


def _causes(selection: Selection) -> str:
    """How many root causes the shown races have, where that was looked at."""
    if selection.judged is None:
        return ""
    causes = set().union(*(selection.judged.causes.get(race.canonical, ()) for race in selection.groups))
    return f", {count(len(causes), 'root cause')}" if causes else ""


def _races(groups: Sequence[Race], judged: Judged | None, width: int | None) -> list[str]:
    """A line for each distinct race, with what it comes to where that was judged."""
    comes_to = [] if judged is None else ["comes to"]
    head = ["id", "kind", "buffer", "tensor", "earlier", "current", *comes_to, "reports", "ubatches"]
    rows = [
        [
            race.ident,
            short_kind(race.signature[0]),
            race.signature[1],
            tensors(race.signature),
            f"{race.signature[2]} ({race.signature[4]})",
            f"{race.signature[5]} ({race.signature[7]})",
            *([] if judged is None else [judged.races.get(race.canonical, "-")]),
            str(race.reports),
            spans(race.ubatches),
        ]
        for race in sorted(groups, key=lambda r: (-r.reports, r.first_row))
    ]
    return fitted(head, rows, right=frozenset({len(head) - 2}), width=width)
