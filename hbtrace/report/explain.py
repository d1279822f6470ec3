"""One race in full, as text and JSON. Computes nothing, decides nothing."""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote
from typing import Any, Final

from hbtrace.compare.race_text import block, step_text
from hbtrace.consequence.taint import DOUBTFUL
from hbtrace.escape import as_text, json_document, page
from hbtrace.explain.chain import NEVER
from hbtrace.explain.explanation import Explanation
from hbtrace.explain.witness import Lane, Version
from hbtrace.report.objects import FORMAT, report_object
from hbtrace.report.tables import table
from hbtrace.report.triage import missing_order, window_text
from hbtrace.words import EFFECTS, count, effects, sampled

_MOST_BETWEEN: Final = 6
_MOST_LINKS: Final = 6
_MOST_ISSUED: Final = 3


def render(found: Explanation, width: int | None = None) -> str:
    """Everything `explain` prints. width: of the terminal, as in `tables.table`."""
    report, window = found.report, found.window
    head = f"{found.ident} of {found.cause.ident}: {missing_order(found.cause)}"
    told = [f"  {step_text(report)}", *_others(found), f"  window: {window_text(window, window)}"]
    parts = [
        _side("earlier", found, 0),
        _side("current", found, 1),
        _knowledge(found),
        _chain(found),
        _witness(found, width),
        _consequence(found),
        _mend(found),
    ]
    return "\n".join([page([head]), block(report), page(told), *map(page, parts)])


def _others(found: Explanation) -> list[str]:
    """What else the id means: a cause, and a row, can have several distinct races."""
    if not found.others:
        return []
    every = found.others + 1
    races = f" ({found.races} distinct races)" if found.races > 1 else ""
    worst = ", the first of the worst" if len(found.effects) > 1 else ""
    told = ", ".join(filter(None, (effects(found.effects), sampled(found.effects.total(), every))))
    return [f"  report {found.which:,} of {every:,} of this {found.means}{races}{worst}: {told}"]


def _side(title: str, found: Explanation, which: int) -> list[str]:
    access = (found.report.earlier, found.report.current)[which]
    told = (("split", access.split), ("ubatch", access.ubatch))
    place = [f"row {access.row}, access {access.access}", *(f"{what} {n}" for what, n in told if n != -1)]
    lines = [f"{title} side: {access.actor} {access.mode}s {found.report.touched(access)}, {', '.join(place)}"]
    if access.site:
        lines.append(f"  called from {access.site}")
    if access.is_view:
        lines.append(f"  a view of {access.root}")
    width = max(len(str(row)) for row in found.around[which])
    for row in found.around[which]:
        mark = ">" if row == access.row else " "
        lines.append(f"  {mark} {row:>{width}}  {found.words.get(row, '')}")
    return lines


def _knowledge(found: Explanation) -> list[str]:
    report, chain = found.report, found.chain
    earlier, current = report.earlier, report.current
    actors = found.actors
    lines = ["what each knew"]
    for side, clock in ((earlier, chain.earlier_clock), (current, chain.current_clock)):
        known = ", ".join(f"{actors[a]}@{clock[a]}" for a in sorted(clock) if actors[a] != side.actor)
        lines.append(f"  {side.actor}@{side.clock} knew {known or 'of nobody'}")
    return lines


def _chain(found: Explanation) -> list[str]:
    report, chain = found.report, found.chain
    earlier, current = report.earlier, report.current
    lines = [f"the chain from {earlier.actor}@{earlier.clock} to {current.actor}, and where it breaks"]
    lines.append(f"  row {earlier.row}: {found.words.get(earlier.row, '')}, on {earlier.actor}")
    lines += [
        f"  row {link.row}: {found.words.get(link.row, link.event)}; {link.who} knows of it"
        for link in chain.links[:_MOST_LINKS]
    ]
    if len(chain.links) > _MOST_LINKS:
        lines.append(f"  ... and {count(len(chain.links) - _MOST_LINKS, 'more link')}")
    known = f"{current.actor} knows {earlier.actor}@{report.knows}, needs >={report.needs}"
    since = ""
    if chain.knows_since != NEVER:
        since = f" (since row {chain.knows_since}, {found.words.get(chain.knows_since, '')})"
    lines.append(f"  BREAKS before row {current.row}: {known}{since}")
    lines += _stale(found)
    if chain.learns_at == NEVER:
        lines.append(f"  {current.actor} never learns of it")
    else:
        late = chain.learns_at - current.row
        lines.append(
            f"  {current.actor} learns of it in row {chain.learns_at} ({found.words.get(chain.learns_at, '')}),"
            f" {count(late, 'row')} too late"
        )
    return lines


def _stale(found: Explanation) -> list[str]:
    """A wait that came between the sides and was for an older record."""
    stale = found.chain.stale
    if stale is None:
        return []
    issued = [f"row {row}, {found.words.get(row, '')}" for row in stale.issued[:_MOST_ISSUED]]
    if len(stale.issued) > _MOST_ISSUED:
        issued.append(f"... ({len(stale.issued):,})")
    wait = found.words.get(stale.wait, "")
    return [
        f"  stale: row {stale.wait}, {wait}, waits for what row {stale.record} recorded on {stale.queue}",
        f"    issued there after it: {'; '.join(issued)}",
    ]


def _version(version: Version, found: Explanation) -> str:
    if version is None:
        return "what was there before"
    return f"that of row {version[0]}, {found.words.get(version[0], '')}"


def _versions(versions: list[Version], found: Explanation) -> str:
    return "; ".join(_version(version, found) for version in versions[:3]) or "nothing"


def _witness(found: Explanation, width: int | None) -> list[str]:
    shown = found.witness
    who = "memory then holds" if shown.reader is None else f"the read of row {shown.reader[0]} sees"
    lines = [
        "a witness: a legal schedule, executed, in which the two change places",
        f"  as recorded, {who} {_versions(shown.recorded, found)}",
        f"  in this one, {who} {_versions(shown.seen, found)}",
    ]
    if not shown.differs:
        lines.append("  (the two schedules show the same versions: only the order differs)")
    return [*lines, "", *_drawing(found, width)]


def _drawing(found: Explanation, width: int | None) -> list[str]:
    """The schedule as lanes, one an actor, time going down. Of what the current side waits for the last few."""
    lanes = list(dict.fromkeys(found.witness.lanes))  # an event may be several operations of an actor
    sides = {found.report.earlier.actor, found.report.current.actor}
    between = [lane for lane in lanes if not lane.mark]
    shown = [lane for lane in between if lane.actor in sides][-_MOST_BETWEEN:]
    hidden = len(between) - len(shown)
    lanes = [lane for lane in lanes if lane.mark or lane in shown]
    actors = list(dict.fromkeys(lane.actor for lane in lanes))
    cells = [[_cell(lane, found) if actor == lane.actor else "|" for actor in actors] for lane in lanes]
    lines = ["  " + line for line in table(actors, cells, width=None if width is None else width - 2)]
    if hidden:
        first = next(place for place, lane in enumerate(lanes) if lane.mark != "version")
        what = f"    ... {count(hidden, 'event')} that {found.report.current.actor} waits for"
        lines.insert(1 + first, what)
    legend = "  V: the version that was read   C: the current side   E: the earlier side"
    if any(lane.mark == "reader" for lane in lanes):
        legend += "   R: the read that sees another version"
    return [*lines, legend]


def _cell(lane: Lane, found: Explanation) -> str:
    mark = {"earlier": "E ", "current": "C ", "version": "V ", "reader": "R "}.get(lane.mark, "  ")
    return f"{mark}{lane.row} {found.words.get(lane.row, '')}"


def _consequence(found: Explanation) -> list[str]:
    consequence = found.consequence
    lines = [f"effect: {EFFECTS[consequence.verdict]}: {consequence.why}"]
    row = _doubt_row(found)
    if row >= 0:
        lines.append(f"  the first such range is in row {row}: {found.words.get(row, '')}")
    sizes = found.trail.sizes
    if consequence.verdict == "dead" and sizes:
        spread = max(size for _, size in sizes)
        last = sizes[-1][0]
        lines.append(f"  {count(spread, 'byte')} can hold another value at most, until row {last} overwrites it")
    return lines


def _doubt_row(found: Explanation) -> int:
    """The row of the first approximate range that leaves the race unknown; -1 where none does."""
    return found.trail.doubt if found.consequence == DOUBTFUL else -1


def _mend(found: Explanation) -> list[str]:
    lines = [f"fix: {found.advice.text}"]
    return lines + [f"  hbtrace whatif {quote(found.path)} {rule}" for rule in found.advice.typed]


def document(found: Explanation) -> bytes:
    """One JSON document."""
    chain, shown = found.chain, found.witness
    whole: dict[str, Any] = {
        "format": FORMAT,
        "trace": {"path": as_text(found.path)},
        "id": found.ident,
        "cause": found.cause.ident,
        "missing": missing_order(found.cause),
        "report": report_object(found.report, found.ident)
        | {"cause": found.cause.ident, "consequence": found.consequence.verdict},
        "others": found.others,
        "races": found.races,
        "means": found.means,
        "which": found.which,
        "effects": {verdict: found.effects[verdict] for verdict in ("live", "dead", "unknown")},
        "window": {"events": found.window.events, "time": found.window.time},
        "around": {
            name: [{"row": row, "text": found.words.get(row, "")} for row in rows]
            for name, rows in zip(("earlier", "current"), found.around, strict=True)
        },
        "knew": {
            name: {found.actors[a]: n for a, n in sorted(clock.items())}
            for name, clock in (("earlier", chain.earlier_clock), ("current", chain.current_clock))
        },
        "chain": {
            "links": [{"row": link.row, "event": link.event, "who": link.who} for link in chain.links],
            "knows_since": chain.knows_since,
            "learns_at": chain.learns_at,
            "stale": None if chain.stale is None else asdict(chain.stale),
        },
        "witness": {
            "reader": None if shown.reader is None else list(shown.reader),
            "recorded": [None if v is None else list(v) for v in shown.recorded],
            "seen": [None if v is None else list(v) for v in shown.seen],
            "lanes": [{"row": lane.row, "actor": lane.actor, "mark": lane.mark} for lane in shown.lanes],
        },
        "consequence": {
            "verdict": found.consequence.verdict, "why": found.consequence.why, "row": found.consequence.row,
            "doubt_row": _doubt_row(found),
        },
        "mend": {"short": found.advice.short, "text": found.advice.text, "whatif": list(found.advice.rules)},
    }  # fmt: skip
    return json_document(whole)
