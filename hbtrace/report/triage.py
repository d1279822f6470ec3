"""Root causes as text and JSON. Computes nothing, decides nothing."""

from __future__ import annotations

import re
from shlex import quote
from typing import Any, Final

from hbtrace.compare.race_text import place, short_kind
from hbtrace.consequence.sampling import OF_EACH
from hbtrace.escape import as_text, json_document, page
from hbtrace.explain.causes import NO_TENSOR, Cause, Window
from hbtrace.explain.triage import Triage
from hbtrace.races.natures import NATURES
from hbtrace.replay.recording import pair_of
from hbtrace.replay.reports import Report
from hbtrace.report.objects import FORMAT, report_object
from hbtrace.report.tables import fitted, of_races
from hbtrace.report.words import spans
from hbtrace.words import count, effect_of, effects, left_out, sampled

_KNOWN: Final = (
    (re.compile(r"inp_tokens"), "inp_tokens"),
    (re.compile(r"inp_pos"), "positions"),
    (re.compile(r".*kq_mask.*"), "attention mask"),
    (re.compile(r"(attn_)?inp_(k|v|kv)_idxs.*"), "KV indices"),
)
"""Inputs of llama.cpp's graphs by what people call them."""
_MOST_SPANS: Final = 4
_INDENT: Final = 6


def plain_name(tensor: str) -> str:
    """What people call an input; any other tensor by its name."""
    return next((name for pattern, name in _KNOWN if pattern.fullmatch(tensor)), tensor)


def plain_names(tensors: list[str]) -> str:
    return ", ".join(dict.fromkeys(map(plain_name, tensors)))


def missing_order(cause: Cause) -> str:
    """The order that a cause lacks, in a sentence without its end."""
    return _missing(cause) + cause.also


def _missing(cause: Cause) -> str:
    if cause.nature == "input":
        host, queue = sorted((cause.earlier, cause.current), key=lambda actor: not actor.startswith("HOST"))
        steps = cause.steps
        if not steps or steps[0] <= 0:
            return f"{host} writes inputs before {queue} is done with what reads them"
        later = f"ubatch k+{steps[0]}" if len(steps) == 1 else "a later ubatch"
        return f"{host} writes the inputs of {later} before {queue} has run ubatch k"
    if cause.nature == "reuse":
        return f"{cause.current} is handed memory that {cause.earlier} still uses"
    if cause.nature == "cpu-split":
        return f"{cause.current} computes in place before {cause.earlier} is done with the ubatch before"
    if cause.nature == "copy":
        return f"{cause.current} ({cause.point[1]}) overtakes {cause.earlier} ({cause.point[0]})"
    return f"{cause.current} ({cause.point[1]}) does not wait for {cause.earlier} ({cause.point[0]})"


def window_text(narrow: Window | None, wide: Window | None) -> str:
    """`4-13 events, 0.1-4.6 ms`"""
    if narrow is None or wide is None:
        return "-"
    one = narrow.events == wide.events
    events = count(narrow.events, "event") if one else f"{narrow.events}-{wide.events} events"
    times = sorted(w.time for w in (narrow, wide) if w.time is not None)
    if not times:
        return events
    low, high = milliseconds(times[0]), milliseconds(times[-1])
    return f"{events}, {low if low == high else f'{low}-{high}'} ms"


def milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3g}" if nanoseconds < 1e9 else f"{nanoseconds / 1e6:,.0f}"


def few_spans(numbers: set[int]) -> str:
    """`1-6, 24-29, 47-52, ... (936)`: long runs have hundreds of spans."""
    parts = spans(numbers).split(", ")
    return ", ".join(parts) if len(parts) <= _MOST_SPANS else ", ".join([*parts[:3], f"... ({len(numbers):,})"])


def primary_text(cause: Cause) -> str:
    if cause.primary == len(cause.reports):
        return "primary"
    return "consequent" if not cause.primary else f"primary ({len(cause.reports) - cause.primary} consequent)"


def render(found: Triage, *, verbose: bool, width: int | None = None) -> str:
    """Everything `triage` prints of a trace. width: of the terminal, if it goes to one."""
    unseen = [*found.unseen, ""] if found.unseen else []
    if not found.races:
        size = count(found.recording.rows, "line" if found.reported else "row")
        told = [*unseen, f"no race {'seen ' if unseen else ''}in {size}"]
        return page([*told, *(["", found.reported] if found.reported else [])])
    lines = [
        *unseen,
        f"{count(len(found.reports), 'report')}, {count(found.shown_distinct, 'distinct race')},"
        f" {count(len({t for c in found.causes for t in c.tensors} - {NO_TENSOR}), 'tensor')},"
        f" {count(len(found.causes), 'root cause')}",
    ]
    if found.causes:
        lines += ["", *_table(found, width)]
        judged = sum(map(found.judged, found.causes))
        if judged < len(found.reports):
            what = f"the first {OF_EACH} of each distinct race, and more where these are not visible"
            lines += ["", f"{sampled(judged, len(found.reports))}: {what}"]
    if verbose:
        for cause in found.causes:
            lines += ["", *_open(found, cause, width)]
    if found.left_out:
        lines += ["", left_out(found.left_out, found.races, "report")]
    if found.suppressed:
        lines += [*([] if found.left_out else [""]), f"suppressed: {count(found.suppressed, 'report')}"]
    if found.reported:
        return page([*lines, "", found.reported])
    if found.causes and found.path != "-":
        first = found.causes[0]
        path = quote(found.path)
        lines += ["", "next:", f"  hbtrace explain {path} {first.ident}"]
        lines += [f"  hbtrace whatif {path} {rule}" for rule in found.advice(first).typed[:1]]
        lines += [f"  hbtrace whatif {path} --fix"]
    return page(lines)


def _table(found: Triage, width: int | None) -> list[str]:
    head = (
        "cause", "missing order", "tensors", "reports", "distinct", "ubatches", "row", "effect", "", "window", "fix",
    )  # fmt: skip
    rows = [
        (
            cause.ident,
            missing_order(cause),
            plain_names(cause.touched),
            str(len(cause.reports)),
            str(cause.distinct),
            few_spans(cause.ubatches),
            str(cause.first_row),
            effect_of(cause.consequence),
            primary_text(cause),
            window_text(cause.narrowest, cause.widest),
            found.advice(cause).short,
        )
        for cause in found.causes
    ]
    return fitted(head, rows, right=frozenset({3, 4, 6}), width=width)


def _open(found: Triage, cause: Cause, width: int | None) -> list[str]:
    """A cause in full: its nature, its distinct races, its mend."""
    advice = found.advice(cause)
    lines = [f"{cause.ident}  {missing_order(cause)}", f"    nature   {cause.nature}: {NATURES[cause.nature]}"]
    lines.append(f"    fix      {advice.text}")
    lines += [f"    try      hbtrace whatif {quote(found.path)} {rule}" for rule in advice.typed]
    judged = [c for report in cause.reports if (c := found.consequences.get(pair_of(report))) is not None]
    why = dict.fromkeys(consequence.why for consequence in judged)
    sums = effects({"live": cause.live, "dead": cause.dead, "unknown": cause.unknown})
    seen = sampled(found.judged(cause), len(cause.reports))
    lines.append(f"    effect   {sums}" + (f", {seen}" if seen else ""))
    lines += [f"             {sentence}" for sentence in list(why)[:3]]
    lines.append("    races")
    races = [
        (
            found.ids[canonical],
            short_kind(first.kind),
            place(first),
            _tensors(first.earlier.root, first.current.root),
            str(len(its)),
            few_spans({report.current.ubatch for report in its}),
        )
        for canonical in cause.signatures
        if (its := [report for report in cause.reports if report.canonical == canonical])
        for first in its[:1]
    ]
    head = ("id", "kind", "first at", "tensor", "reports", "ubatches")
    room = None if width is None else width - _INDENT
    inside = of_races(head, races, below="tensor", right=frozenset({4}), width=room)
    return lines + [(" " * _INDENT + line).rstrip() for line in inside]


def _tensors(earlier: str | None, current: str | None) -> str:
    names = dict.fromkeys("-" if name is None else name for name in (earlier, current))
    return " / ".join(name if plain_name(name) == name else f"{name} ({plain_name(name)})" for name in names)


def cause_object(found: Triage, cause: Cause) -> dict[str, Any]:
    """A cause with keys for machines."""
    advice = found.advice(cause)
    return {
        "id": cause.ident,
        "nature": cause.nature,
        "missing": missing_order(cause),
        "earlier": cause.earlier,
        "current": cause.current,
        "tensors": cause.tensors,
        "reports": len(cause.reports),
        "distinct": cause.distinct,
        "ubatches": sorted(cause.ubatches),
        "first_row": cause.first_row,
        "consequence": cause.consequence,
        "live": cause.live,
        "dead": cause.dead,
        "unknown": cause.unknown,
        "judged": found.judged(cause),
        "primary": cause.primary,
        "window": {"narrowest": _window(cause.narrowest), "widest": _window(cause.widest)},
        "mend": {"short": advice.short, "text": advice.text, "whatif": list(advice.rules)},
        "races": sorted({found.ids[report.canonical] for report in cause.reports}),
    }


def _window(window: Window | None) -> dict[str, int | None] | None:
    return None if window is None else {"events": window.events, "time": window.time}


def _verdict(found: Triage, report: Report) -> str | None:
    consequence = found.consequences.get(pair_of(report))
    return None if consequence is None else consequence.verdict


def document(found: Triage) -> bytes:
    """One JSON document."""
    of = {pair_of(report): cause.ident for cause in found.causes for report in cause.reports}
    whole = {
        "format": FORMAT,
        "trace": {"path": as_text(found.path), "rows": found.recording.rows},
        "races": found.races,
        "distinct": found.distinct,
        "shown": len(found.reports) + found.suppressed,
        "suppressed": found.suppressed,
        "judged": sum(map(found.judged, found.causes)),
        "causes": [cause_object(found, cause) for cause in found.causes],
        "reports": [
            report_object(report, found.ids[report.canonical])
            | {"cause": of[pair_of(report)], "consequence": _verdict(found, report)}
            for report in found.reports
        ],
        "warnings": [as_text(warning) for warning in (*found.unseen, *found.warnings)],
    }
    return json_document(whole)
