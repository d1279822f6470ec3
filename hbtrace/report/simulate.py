"""What `simulate ggml` prints: the run, its result under schedules, the list of faults."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from hbtrace.escape import as_text, json_document, page
from hbtrace.report.tables import fitted

if TYPE_CHECKING:
    from hbtrace.simulate.ggml import Simulation


def facts(run: Simulation, path: str, schedule: str, seed: int, schedules: int) -> dict[str, Any]:
    """A run as plain values; runs the schedules."""
    config = run.config
    return {
        "format": 1,
        "trace": {"path": as_text(path), "rows": len(run.rows)},
        "hazard": config.hazard,
        "ring": config.depth,
        "asked": config.ring,
        "ubatches": config.ubatches,
        "fault": config.fault,
        "schedule": schedule,
        "seed": seed,
        "result": run.result(schedule, seed),
        "in_order": run.in_order,
        "without_fault": run.faultless(),
        "schedules": schedules,
        "differing": run.differing(schedules, seed),
    }


def run_text(told: dict[str, Any]) -> str:
    """The run in words, with what to type next."""
    ring = f"ring of depth {told['ring']}" if told["ring"] else "no ring"
    if not told["hazard"] and told["asked"] > 1:
        ring += f" (asked for {told['asked']}; without a hazard it stays off)"
    seed = f", seed {told['seed']}" if told["schedule"] == "random" else ""
    lines = [
        f"hazard       {'yes' if told['hazard'] else 'no'}, {ring}",
        f"fault        {told['fault'] or 'none'}",
        f"result       {told['result']} ({told['schedule']}{seed})",
        f"schedules    {told['differing']} of {told['schedules']} differ from in-order",
    ]
    if told["without_fault"] not in (None, told["in_order"]):
        lines.append(f"without it   {told['without_fault']}: the fault is wrong under every schedule")
    path = told["trace"]["path"]
    if path != "-":
        lines.append(f"trace        {path}, {told['trace']['rows']} rows")
        lines.append(f"next: hbtrace check {quote(path)}; hbtrace analyze {quote(path)}")
    return page(lines)


def run_json(told: dict[str, Any]) -> str:
    return json_document(told).decode()


def faults_text(faults: Sequence[dict[str, Any]], width: int | None = None) -> str:
    rows = [(f["name"], f["expects"], "yes" if f["racy"] else "no", f["about"]) for f in faults]
    return "\n".join(fitted(("fault", "found by", "races", "what it breaks"), rows, width=width)) + "\n"


def faults_json(faults: Sequence[dict[str, Any]]) -> str:
    return json_document(list(faults)).decode()
