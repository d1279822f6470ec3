"""Two arms' equality and speed, as text and as JSON; computes nothing."""

from __future__ import annotations

from typing import Any

from hbtrace.escape import json_document, page
from hbtrace.strata.arms import ArmsVerdict, Speed


def render_text(verdict: ArmsVerdict, *, verbose: bool = False) -> str:
    """What is equal, what differs first, what cannot be compared, then speed."""
    lines = [f"problem: {problem}" for problem in verdict.problems]
    total = len(verdict.requests)
    lines.append(f"{verdict.count('equal')} of {verdict.compared} requests equal ({total} in all)")
    hashed = [found for found in verdict.requests if found.hashed and found.verdict == "equal"]
    replied = [found for found in verdict.requests if found.replied and found.verdict == "equal"]
    lines.append(f"  by reply {len(replied)}, by every item of the state hash {len(hashed)}")
    for found in verdict.requests:
        if found.verdict != "equal":
            lines.append(f"  run {found.run + 1}, request {found.request}: {found.verdict}: {found.first}")
        elif found.stale:
            lines.append(f"  run {found.run + 1}, request {found.request}: equal; only stale cells differ")
        elif found.drafts:
            lines.append(
                f"  run {found.run + 1}, request {found.request}: equal; drafts accepted/offered are {found.drafts}"
            )
        elif verbose:
            lines.append(f"  run {found.run + 1}, request {found.request}: equal")
    lines += [f"  {note}" for note in verdict.notes]
    if verdict.speeds:
        lines.append("speed")
        lines += [_speed(speed) for speed in verdict.speeds]
    return page(lines)


def _speed(speed: Speed) -> str:
    before, after = speed.means
    told = f"{speed.claim:+.1%}" if speed.claim is not None else speed.why
    if speed.claim is not None and speed.why:
        told += f" ({speed.why})"
    spread = f", spread {speed.spread:.2f}" if min(len(speed.off), len(speed.on)) > 1 else ""
    return f"  {speed.name}: off {before:.2f}, on {after:.2f}{spread}: {told}"


def document(verdict: ArmsVerdict) -> str:
    """The `--format json` document."""
    data: dict[str, Any] = {
        "format": 1,
        "equal": verdict.count("equal"),
        "compared": verdict.compared,
        "differs": verdict.count("differs"),
        "missing": verdict.count("missing"),
        "not_comparable": verdict.count("not comparable"),
        "requests": [
            {"run": found.run, "request": found.request, "verdict": found.verdict, "first": found.first,
             "stale": found.stale, "reply": found.replied, "state_hash": found.hashed, "drafts": found.drafts}
            for found in verdict.requests
        ],
        "comparable": {"ok": verdict.comparable, "reasons": verdict.problems},
        "notes": verdict.notes,
        "speed": [
            {"name": speed.name, "off": list(speed.off), "on": list(speed.on), "spread": speed.spread,
             "claim": speed.claim, "why": speed.why}
            for speed in verdict.speeds
        ],
    }  # fmt: skip
    return json_document(data).decode()
