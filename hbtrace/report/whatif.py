"""What-if replays and fixes as text and JSON. Computes nothing, decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hbtrace.escape import as_text, json_document, page
from hbtrace.explain.causes import Cause
from hbtrace.report.objects import FORMAT
from hbtrace.report.tables import fitted
from hbtrace.report.triage import milliseconds, missing_order, plain_names
from hbtrace.what_if.overlap import Pace
from hbtrace.what_if.rewriting import Price
from hbtrace.what_if.whatif import Side, WhatIf
from hbtrace.words import count, left_out

if TYPE_CHECKING:
    from hbtrace.what_if.fix import Answer, Fix
    from hbtrace.what_if.waits import Wait, Weighed


def price_text(price: Price, before: Pace, after: Pace) -> str:
    """`6 waits of the host, in flight 7 -> 1, overlap lost 4.9 ms`"""
    parts = []
    if price.waits:
        parts.append(count(price.waits, "wait") + " of the host")
    if price.queue_waits:
        parts.append(count(price.queue_waits, "wait") + " between queues")
    if price.bytes:
        parts.append(count(price.bytes, "byte") + " of memory")
    if before.in_flight != after.in_flight:
        parts.append(f"in flight at most {before.in_flight} -> {after.in_flight}")
    if before.side_by_side != after.side_by_side:
        parts.append(f"pairs of work that two queues may run at once {before.side_by_side:,} -> {after.side_by_side:,}")
    lost = _lost(before, after)
    if lost is not None and lost > 0:
        parts.append(f"overlap lost {milliseconds(lost)} ms")
    return ", ".join(parts) or "nothing"


def _lost(before: Pace, after: Pace) -> int | None:
    return None if before.beside is None or after.beside is None else before.beside - after.beside


def render(found: WhatIf, path: str, width: int | None = None) -> str:
    """Before and after by cause. width: of the terminal, None elsewhere."""
    before, after = found.before, found.after
    lines = [*_unseen(before), f"{path} with {' '.join(found.rules)}", ""]
    lines += [
        f"before: {_sum(before)}",
        f"after:  {_sum(after)}",
        f"price:  {price_text(found.price, before.pace, after.pace)}",
        *(f"note:   {note}" for note in _notes(found)),
    ]
    rows = [_row(cause, found) for cause in before.causes]
    rows += [_row(cause, found) for cause in found.added]
    if rows:
        head = ("cause", "missing order", "tensors", "before", "after", "")
        lines += ["", *fitted(head, rows, right=frozenset({3, 4}), width=width)]
    if before.left_out or after.left_out:
        lines += ["", f"{_left_out(before)} before, {after.left_out:,} after"]
    return page(lines)


def _unseen(side: Side) -> list[str]:
    """The first line, where the recorder could not see all of the run."""
    unseen = side.recording.exercise.unseen
    return [unseen] if unseen else []


def _left_out(side: Side) -> str:
    return left_out(side.left_out, len(side.recording.reports), "report")


def _notes(found: WhatIf) -> list[str]:
    """What is said of the rules, and not of the trace already."""
    return [sentence for sentence in found.warnings if sentence not in found.before.recording.warnings]


def _sum(side: Side) -> str:
    return (
        f"{count(side.races, 'report')}, {count(side.distinct, 'distinct race')},"
        f" {count(len(side.causes), 'root cause')}"
    )


def _row(cause: Cause, found: WhatIf) -> tuple[str, ...]:
    counts = [
        sum(len(its.reports) for its in side.causes if its.ident == cause.ident)
        for side in (found.before, found.after)
    ]
    word = "gone" if not counts[1] else "new" if not counts[0] else "" if counts[0] == counts[1] else "changed"
    return cause.ident, missing_order(cause), plain_names(cause.touched), str(counts[0]), str(counts[1]), word


def side_object(side: Side) -> dict[str, Any]:
    return {
        "races": side.races,
        "distinct": side.distinct,
        "left_out": side.left_out,
        "causes": [
            {
                "id": cause.ident, "nature": cause.nature, "missing": missing_order(cause), "tensors": cause.tensors,
                "reports": len(cause.reports), "distinct": cause.distinct,
            }
            for cause in side.causes
        ],
        "in_flight": side.pace.in_flight,
        "beside_ns": side.pace.beside,
        "side_by_side": side.pace.side_by_side,
    }  # fmt: skip


def price_object(price: Price, before: Pace, after: Pace) -> dict[str, Any]:
    return {
        "waits": price.waits,
        "queue_waits": price.queue_waits,
        "bytes": price.bytes,
        "in_flight": [before.in_flight, after.in_flight],
        "side_by_side": [before.side_by_side, after.side_by_side],
        "overlap_lost_ns": _lost(before, after),
    }


def document(found: WhatIf, path: str) -> bytes:
    """One JSON document: `before` and `after`."""
    whole = {
        "format": FORMAT,
        "trace": {"path": as_text(path)},
        "rules": found.rules,
        "before": side_object(found.before),
        "after": side_object(found.after),
        "price": price_object(found.price, found.before.pace, found.after.pace),
        "warnings": [as_text(warning) for warning in (*_unseen(found.before), *found.warnings)],
    }
    return json_document(whole)


def render_fix(found: Fix, path: str) -> str:
    """The answers, each with what it removes and its price."""
    hidden = [_left_out(found.before)] if found.before.left_out else []
    if not found.before.races:
        return page([*_unseen(found.before), f"{path}: no race to fix", *hidden])
    lines = [*_unseen(found.before), f"{path}: {_sum(found.before)}", *hidden]
    lines += [f"{count(found.tried, 'set')} of fixes tried by replay", *found.limits]
    if not found.answers:
        return page([*lines, "no set of fixes was found"])
    for number, answer in enumerate(found.answers, 1):
        least = f"; no smaller set of the {count(len(found.mends), 'fix', 'fixes')} tried does"
        proof = least if answer.minimal else "; no fix of it can be left out"
        proof = proof if len(answer.mends) > 1 else ""
        lines += ["", f"answer {number}: {count(len(answer.mends), 'fix', 'fixes')}, clean by replay{proof}"]
        for mend in answer.mends:
            alone = ", ".join(answer.removes[mend.name]) or "nothing alone"
            option = f"  ({mend.option})" if mend.option else ""
            lines.append(f"  {mend.name}{option}: removes {alone}")
        lines.append(f"  price: {price_text(answer.price, found.before.pace, answer.result.after.pace)}")
        lines += [f"  note: {note}" for note in _notes(answer.result)]
    return page(lines)


def fix_document(found: Fix, path: str) -> bytes:
    """`before`, `after` (of the first answer) and `answers`."""
    after = found.answers[0].result.after if found.answers else found.before
    return json_document(
        {
            "format": FORMAT,
            "trace": {"path": as_text(path)},
            "before": side_object(found.before),
            "after": side_object(after),
            "tried": found.tried,
            "candidates": [{"name": mend.name, "option": mend.option or None} for mend in found.mends],
            "answers": [_answer_object(answer, found) for answer in found.answers],
            "warnings": [*_unseen(found.before), *found.limits],
        }
    )


def _answer_object(answer: Answer, found: Fix) -> dict[str, Any]:
    return {
        "mends": [{"name": mend.name, "option": mend.option or None} for mend in answer.mends],
        "removes": answer.removes,
        "price": price_object(answer.price, found.before.pace, answer.result.after.pace),
        "minimal": answer.minimal,
        "notes": _notes(answer.result),
    }


def render_waits(weighed: Weighed, path: str, width: int | None = None) -> str:
    """Which waits carry weight, and which do not."""
    bearing = [wait for wait in weighed.waits if wait.bears]
    several = [wait for wait in bearing if len(wait.rows) > 1]
    idle = sum(len(wait.rows) for wait in weighed.waits if not wait.learns)
    spare = [wait for wait in weighed.waits if wait.learns and not wait.bears]
    lines = [
        *([weighed.unseen] if weighed.unseen else []),
        f"{path}: {count(_rows(weighed.waits), 'wait')}, {count(len(bearing) - len(several), 'wait')} load-bearing,"
        f" {count(_rows(spare), 'wait')} without which no race appears, {idle:,} that tell nobody anything new",
    ]
    if several:
        lines.append(
            f"{count(_rows(several), 'more wait')} in {count(len(several), 'group')} that are load-bearing together:"
            " one by one they were not tried, there are too many"
        )
    rows = [
        (_where(wait), wait.event, wait.who, wait.whom or "-", f"{wait.races:,}" if wait.bears else "none")
        for wait in (*bearing, *spare)
    ]
    if rows:
        head = ("row", "wait", "by", "for", "races without it")
        lines += ["", *fitted(head, rows, right=frozenset({0, 4}), width=width)]
    return page(lines)


def _rows(waits: list[Wait]) -> int:
    return sum(len(wait.rows) for wait in waits)


def _where(wait: Wait) -> str:
    return str(wait.rows[0]) if len(wait.rows) == 1 else f"{wait.rows[0]}, ... ({len(wait.rows):,})"


def waits_document(weighed: Weighed, path: str) -> bytes:
    """`waits`: rows, whether they are load-bearing, and how many races appear without them."""
    return json_document(
        {
            "format": FORMAT,
            "trace": {"path": as_text(path)},
            "races": weighed.reports,
            "together": weighed.together,
            "warnings": [weighed.unseen] if weighed.unseen else [],
            "waits": [
                {
                    "rows": wait.rows, "event": wait.event, "by": wait.who, "for": wait.whom or None,
                    "learns": wait.learns, "load_bearing": wait.bears, "races": wait.races,
                }
                for wait in weighed.waits
            ],
        }
    )  # fmt: skip
