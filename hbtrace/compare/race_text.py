"""One race in words: the four lines of the contract's section 4, what `-v` adds, one sentence. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbtrace.escape import harmless
from hbtrace.importers.logged import UNTOLD
from hbtrace.replay.reports import Access, Report, Signature
from hbtrace.words import EFFECTS

if TYPE_CHECKING:
    from hbtrace.consequence.sampling import Judged
    from hbtrace.consequence.taint import Consequence


def block(report: Report) -> str:
    """The four lines of a report, byte for byte as the contract tells, without a newline at the end.

    Columns are as wide as what is printed: what is hostile in a name is told.
    """
    earlier, current = report.earlier, report.current
    columns = [(harmless(a.actor), _clock(a), f"split {a.split}") for a in (earlier, current)]
    widths = [max(len(left), len(right)) for left, right in zip(*columns, strict=True)]
    lines = [
        f"  {a.mode:<5} " + "".join(f"{c:<{w}}  " for c, w in zip(cells, widths, strict=True)) + _what(a)
        for a, cells in zip((earlier, current), columns, strict=True)
    ]
    head = f"RACE ({report.kind}) on {place(report)}"
    known = f"{current.actor} knows {earlier.actor}@{report.knows}, needs >={report.needs}"
    if report.needs == UNTOLD:
        known = f"{current.actor} does not wait for {earlier.actor}"
    return "\n".join(map(harmless, [head, *lines, f"  no happens-before edge: {known}"]))


def place(report: Report) -> str:
    """Where the bytes are: buffer and range; a log of reports may not tell the range."""
    return report.buffer if report.hi == UNTOLD else f"{report.buffer}[{report.lo}, {report.hi})"


def _clock(access: Access) -> str:
    return "" if access.clock == UNTOLD else f"@{access.clock}"


def _what(access: Access) -> str:
    name = "-" if access.tensor is None else access.tensor
    return f"{name} <- {access.root} ({access.label})" if access.is_view else f"{name} ({access.label})"


def details(report: Report, ident: str, judged: Judged | None = None, *, reported: bool = False) -> list[str]:
    """The lines that `-v` adds under a block. reported: it stands in a log of reports, which tells less."""
    lines = [f"    id       {ident}", f"    line     {report.current.row}"]
    if not reported:
        lines = [f"  {step_text(report)}", f"    id       {ident}"]
    for title, access in () if reported else (("earlier", report.earlier), ("current", report.current)):
        ubatch = f", ubatch {access.ubatch}" if access.ubatch != -1 else ""
        lines.append(f"    {title}  row {access.row}, access {access.access}{ubatch}, thread {access.thread}")
        if access.site:
            lines.append(f"             called from {access.site}")
        if access.is_view:
            lines.append(f"             view of tensor {access.root_id}: {access.tensor} <- {access.root}")
    exact = "may be wider than what was touched" if report.approx else "exact"
    if not reported:
        lines.append(f"    bytes    {report.bytes} in conflict, {exact}")
    if judged is not None:
        found = judged.of(report)
        told = "not judged" if found is None else f"{EFFECTS[found.verdict]}: {found.why}"
        lines.append(f"    effect   {told}{_of_race(report, found, judged)}")
        lines.append(f"    cause    {judged.cause(report)}")
    return [harmless(line) for line in lines]


def _of_race(report: Report, found: Consequence | None, judged: Judged) -> str:
    """What all reports of the race come to, where this one of them does not tell it."""
    its = judged.races.get(report.canonical)
    return "" if its is None or (found is not None and found.verdict == its) else f" (this race: {EFFECTS[its]})"


def step_text(report: Report) -> str:
    """`HOST has waited for ROCm0#2 up to step 2; this read is step 3`: the block's last line, in words."""
    earlier, current = report.earlier, report.current
    waited = f"has waited for {earlier.actor} up to step {report.knows}"
    return (
        f"{current.actor} {waited if report.knows else f'has not waited for {earlier.actor}'};"
        f" this {earlier.mode} is step {report.needs}"
    )


def short_kind(kind: str) -> str:
    """WAR, WAW or RAW."""
    return "".join(word[0] for word in kind.split("-")).upper()


def tensors(signature: Signature) -> str:
    """The root, or both where they differ; `-` for bytes of no tensor."""
    earlier, current = (name if name is not None else "-" for name in (signature[3], signature[6]))
    return earlier if earlier == current else f"{earlier} / {current}"


def sides(report: Report) -> tuple[str, str]:
    """Earlier and current side: actor and label. Two actors of one name are told apart by their `#n`."""
    earlier, current = report.signature[2], report.signature[5]
    if earlier == current:
        earlier, current = report.earlier.actor, report.current.actor
    return f"{earlier} ({report.earlier.label})", f"{current} ({report.current.label})"


def sentence(report: Report) -> str:
    """One sentence about a race."""
    earlier, current = sides(report)
    roots = (report.bytes_touched if name is None else name for name in (report.signature[3], report.signature[6]))
    return (
        f"{report.kind} on {report.buffer}: {earlier} and {current} access {' / '.join(dict.fromkeys(roots))}"
        " with no happens-before edge between them"
    )
