"""Small runs for the tests of the gate: a scheduler that sets inputs and computes, with or without waiting."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson

from hbtrace.compare.selection import select
from hbtrace.races.filters import Filters
from hbtrace.replay.session import Session
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows

Event = dict[str, Any]


def run(
    *inputs: str, ubatches: int = 3, tokens: int = 32, waits: bool = False, name: str = "GPU0",
    buffer: str = "GPU_Host", label: str = "", how: str = "set_direct", touched: bool = True, **backend: Any,
) -> list[Event]:
    """A run whose host sets each input of each ubatch while the queue may still read it; `waits`: after waiting."""
    inputs = inputs or ("inp_tokens",)
    out: list[Event] = [
        {"ev": "meta", "version": 1},
        {"ev": "backend", "id": 0, "name": name, "type": "igpu", **backend},
        {"ev": "buffer", "id": 0, "name": buffer, "size": 1024, "host": True},
        *({"ev": "tensor", "id": k, "name": n, "buffer": 0, "offset": 64 * k, "size": 64}
          for k, n in enumerate(inputs)),
        {"ev": "graph", "id": 0, "nodes": [
            {"op": f"OP{k}", "reads": [{"tensor": k}], "writes": []} for k in range(len(inputs))
        ]},
    ]  # fmt: skip
    for n in range(ubatches):
        out += [{"ev": "synchronize", "backend": 0}] if waits else []
        out.append({"ev": "ubatch", "n": n, "tokens": tokens, "phase": "prefill"})
        if touched:
            said = {"label": label} if label else {}
            out += [{"ev": how, "tensor": k, "ubatch": n, **said} for k in range(len(inputs))]
        out.append({"ev": "compute", "backend": 0, "graph": 0, "split": 0, "ubatch": n})
    return out


def renumbered(events: list[Event], by: int) -> list[Event]:
    """Every id, and every mention of one, is another."""
    ids = {"backend", "src_backend", "buffer", "tensor", "graph", "event", "sched", "view_of", "by"}

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: changed(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [changed(v, "tensor" if key == "inputs" else "") for v in value]
        return value + by if key in ids and type(value) is int and value >= 0 else value

    out = [changed(event) for event in copy.deepcopy(events)]
    for event in out:
        if event.get("ev") in ("backend", "buffer", "tensor", "graph", "sched") and type(event.get("id")) is int:
            event["id"] += by
    return out


def write(path: Path, events: list[Event]) -> str:
    """A trace file of these events, as JSON Lines."""
    path.write_bytes(b"".join(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE) for event in events))
    return str(path)


def found(events: list[Event], filters: Filters | None = None, **options: Any) -> dict[str, Any]:
    """The distinct races of a run: id -> first report."""
    selection = select(Session([batch_from_rows(events)], Settings(**options)), filters or Filters(), 1)
    return {selection.ids[canonical]: race.report for canonical, race in selection.found.items()}
