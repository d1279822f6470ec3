"""Small traces for the rules, made by hand: a scheduler over one device that computes on host memory in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hbtrace.checks.checked import Checked, check_source
from hbtrace.trace.rows import batch_from_rows

Event = dict[str, Any]

HOST, DEVICE = 0, 1
INPUT, OUTPUT, STATE, VIEW = 0, 1, 2, 3


class Rows:
    """Events as a source of a check."""

    path = "rows"
    rows = 0
    dropped_bytes = 0

    def __init__(self, events: Iterable[Event], *, batch: int = 1 << 20) -> None:
        self._events = list(events)
        self._batch = batch
        self.warnings: list[str] = []

    def batches(self) -> Any:
        for start in range(0, len(self._events), self._batch):
            yield batch_from_rows(self._events[start : start + self._batch])


def checked(events: Iterable[Event], **options: Any) -> Checked:
    return check_source(Rows(events), **options)


def found(result: Checked, *, severity: str | None = None) -> set[str]:
    """Ids of the findings, by default of errors and warnings."""
    wanted = ("error", "warning") if severity is None else (severity,)
    return {finding.id for finding in result.findings if finding.severity in wanted}


def findings(events: list[Event], ident: str) -> list[Any]:
    return [finding for finding in checked(events).findings if finding.id == ident]


def status(result: Checked, ident: str) -> str:
    return next(f"{j.status}: {j.note}" for j in result.judgements if j.id == ident)


def set_up(*, ring: int = 2, accepts: bool = True, uid: int = 1, **backend: Any) -> list[Event]:
    """A device 0, a CPU 1; an input in host memory, an output and a state in the device's; graph 0 reads the input."""
    return [
        {"ev": "backend", "id": 0, "name": "ROCm0", "device": "ROCm0", "async": True,
         "accepts": ["ROCm0", "ROCm_Host"] if accepts else ["ROCm0"], **backend},
        {"ev": "backend", "id": 1, "name": "CPU", "type": "cpu", "async": False, "synchronous": True},
        {"ev": "buffer", "id": HOST, "name": "ROCm_Host", "size": 4096, "host": True},
        {"ev": "buffer", "id": DEVICE, "name": "ROCm0", "size": 4096, "backend": 0},
        {"ev": "tensor", "id": INPUT, "name": "inp_tokens", "buffer": HOST, "size": 128, "flags": ["input"]},
        {"ev": "tensor", "id": OUTPUT, "name": "l_out", "buffer": DEVICE, "size": 128},
        {"ev": "tensor", "id": STATE, "name": "cache_k", "buffer": DEVICE, "offset": 128, "size": 256},
        {"ev": "tensor", "id": VIEW, "name": "cache_k (view)", "buffer": DEVICE, "offset": 128, "size": 256,
         "view_of": STATE},
        {"ev": "graph", "id": 0, "uid": uid, "nodes": [
            {"op": "ADD", "tensor": OUTPUT, "reads": [{"tensor": INPUT}], "writes": [{"tensor": OUTPUT}]}]},
        {"ev": "sched", "id": 0, "backends": [0, 1], "cpu_buffer_type": "ROCm_Host", "ring": ring},
    ]  # fmt: skip


def alloc(slot: int = 0, **keys: Any) -> Event:
    return {"ev": "sched_alloc", "sched": 0, "slot": slot, "realloc": False, "inputs": [INPUT], **keys}


def reuse() -> Event:
    return {"ev": "sched_reuse", "sched": 0}


def prepare(slot: int, *, rotated: bool = True) -> Event:
    return {"ev": "sched_prepare", "sched": 0, "slot": slot, "rotated": rotated}


def point(slot: int, tensor: int = INPUT) -> Event:
    """The input, in a slot of the ring."""
    return {"ev": "tensor", "id": tensor, "name": "inp_tokens", "buffer": HOST, "offset": slot * 128, "size": 128}


def ubatch(number: int = 0, phase: str = "prefill") -> Event:
    return {"ev": "ubatch", "sched": 0, "n": number, "tokens": 32, "phase": phase}


def write() -> Event:
    return {"ev": "set_direct", "tensor": INPUT}


def compute(graph: int = 0, backend: int = 0) -> list[Event]:
    return [
        {"ev": "sched_compute", "sched": 0},
        {"ev": "compute", "backend": backend, "graph": graph, "split": 0},
        {"ev": "sched_compute_end", "sched": 0},
    ]


def wait() -> Event:
    return {"ev": "synchronize", "backend": 0}


FIRST = [alloc(), ubatch(), write(), *compute()]
STAMPED = {**set_up()[8], "uid": 2}
"""The graph after its inputs were re-pointed."""


def two(*between: Event, slot: int = 1) -> list[Event]:
    """A compute in flight, then `between`, then the input written in a slot and computed on."""
    return [*set_up(), *FIRST, *between, ubatch(1), write(), *compute()]


def third(*entry: Event) -> list[Event]:
    return [*two(reuse(), prepare(1), point(1), STAMPED), reuse(), prepare(0), *entry, point(0), set_up()[8], ubatch(2),
            write(), *compute()]  # fmt: skip


def aliasing(backend: int, op: str = "SET_ROWS") -> list[Event]:
    nodes = [{"op": op, "tensor": VIEW, "reads": [{"tensor": 9}], "writes": [{"tensor": VIEW}]}]
    copy = {"ev": "tensor", "id": 9, "name": "CPU#Kcur-0#0", "buffer": HOST, "offset": 600, "size": 16}
    return [copy, {"ev": "graph", "id": 1, "nodes": nodes}, {"ev": "compute", "backend": backend, "graph": 1}]


def second_device() -> list[Event]:
    return [
        {"ev": "backend", "id": 2, "name": "ROCm1", "device": "ROCm1"},
        {"ev": "buffer", "id": 2, "name": "ROCm1", "size": 512, "backend": 2},
        {"ev": "tensor", "id": 9, "name": "ROCm1#l_out#3", "buffer": 2, "size": 128},
        {"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "tensor": -1, "reads": [{"tensor": 9}]}]},
        {"ev": "compute", "backend": 2, "graph": 1},
        {"ev": "event_record", "backend": 2, "event": 1},
        {"ev": "event_wait", "backend": 2, "event": 1},
    ]


def copy(**keys: Any) -> Event:
    return {"ev": "copy_async", "backend": 2, "src_backend": 0, "src": {"tensor": OUTPUT}, "dst": {"tensor": 9}, **keys}
