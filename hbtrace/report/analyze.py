"""What `analyze` prints of a trace: reports in the text of the contract's section 4, and the summary under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hbtrace.compare.outcome import Outcome
from hbtrace.compare.race_text import block, details, short_kind, sides, tensors
from hbtrace.compare.selection import Race, Selection
from hbtrace.escape import harmless
from hbtrace.races.suppressions import suppression_block
from hbtrace.report.renderer import Style
from hbtrace.report.tables import of_races
from hbtrace.report.words import spans
from hbtrace.words import count, effect_of

if TYPE_CHECKING:
    from hbtrace.consequence.sampling import Judged


def render(outcome: Outcome, style: Style) -> str:
    """Everything that is printed of one trace."""
    first, lines = [], summary(outcome.selection, _size(outcome), style.width) + _coverage(outcome)
    if outcome.unseen:
        first, lines[0] = [harmless(outcome.unseen)], lines[0].replace("no race in", "no race seen in")
    return "\n\n".join([*first, *_blocks(outcome, style), "\n".join(lines)]) + "\n"


def _size(outcome: Outcome) -> str:
    """How much was looked at, and of what if it is no trace."""
    if outcome.reported:
        return f"{count(outcome.rows, 'line')}: a log of {outcome.reported}"
    return count(outcome.rows, "row")


def _blocks(outcome: Outcome, style: Style) -> Iterator[str]:
    """The shown reports, one block each, with what they stand for and a ready suppression, if asked for."""
    selection = outcome.selection
    for report in selection.reports:
        lines = [block(report)]
        if style.verbose:
            lines += details(
                report, selection.ids[report.canonical], selection.judged, reported=bool(outcome.reported)
            )
        if report.repeats > 1:
            lines.append(f"  ... and {count(report.repeats - 1, 'more report')} of this race")
        if style.suppressions:
            lines += ["", suppression_block(report, selection.ids[report.canonical])]
        yield "\n".join(lines)


def _coverage(outcome: Outcome) -> list[str]:
    """What the verdict is worth, and how much of it hangs on recorded direct writes."""
    if outcome.reported:
        return ["", *map(harmless, outcome.remarks)]
    coverage = outcome.coverage
    if coverage is None:
        return []
    lines = [*([""] if outcome.races else []), coverage.line(), *([coverage.hidden_line()] if outcome.races else [])]
    return [harmless(line) for line in lines]


def summary(selection: Selection, size: str, width: int | None = None) -> list[str]:
    """What the reports come to, and what filters and limits left out. size: of what was looked at, in words."""
    reports = count(selection.findings, "report")
    if not selection.races:
        return [f"no race in {size}"]
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
        only_suppressed = selection.suppressed and not selection.filtered
        lines.append(f"no race ({selection.suppressed:,} suppressed)" if only_suppressed else "0 reports shown")
    if selection.filtered:
        lines += ["", *selection.left_out]
    why = {f"\n  {harmless(s.why)}" for race in selection.found.values() if (s := race.suppression)}
    out = [
        (selection.suppressed, f"suppressed: {count(selection.suppressed, 'report')}{''.join(sorted(why))}"),
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
    """A line for each distinct race, with its effect where that was judged."""
    effect = [] if judged is None else ["effect"]
    head = ["id", "kind", "buffer", "tensor", "earlier", "current", *effect, "reports", "ubatches"]
    rows = [
        [
            race.ident,
            short_kind(race.signature[0]),
            race.signature[1],
            tensors(race.signature),
            *sides(race.kept[0]),
            *([] if judged is None else [effect_of(judged.races.get(race.canonical))]),
            str(race.reports),
            spans(race.ubatches),
        ]
        for race in sorted(groups, key=lambda r: (-r.reports, r.first_row))
    ]
    return of_races(head, rows, below="earlier", right=frozenset({len(head) - 2}), width=width)
