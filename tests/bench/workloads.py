"""The workloads, written once as traces under `.bench/` and found again on later runs.

Flat and rows are kernels on byte ranges; the graph loop computes one graph of 2,000 nodes again and again; the server
hour is the loop's calls up to ten million events, written without keeping them. Each has a racy twin, whose number of
races follows from its shape: a bench that measures nothing is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from hbtrace.trace.rows import batch_from_rows
from hbtrace.trace.writer import open_writer

FOLDER = Path(__file__).resolve().parents[2] / ".bench"
VERSION = 2
"""Part of every file's name: raise it when a generator changes."""

Event = dict[str, Any]
KIB = 1024


@dataclass(frozen=True)
class Workload:
    """A trace to replay. accesses: how many the program makes. events, reports: how many the replay must meet."""

    name: str
    path: Path
    accesses: int
    events: int
    reports: int
    aim: str = ""


def _kept(name: str, batches: Iterator[pa.RecordBatch]) -> Path:
    """The trace of this name, made if it is not there. A name of its own while it is made: runs may overlap."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}-v{VERSION}.arrow"
    if not path.exists():
        making = FOLDER / f"{name}-{os.getpid()}.arrow"
        with open_writer(making, force=True) as writer:
            for batch in batches:
                writer.write_batch(batch)
        making.replace(path)
    return path


def _kind(racy: bool) -> str:
    return "racy" if racy else "sync"


def _batches(events: Iterator[Event]) -> Iterator[pa.RecordBatch]:
    while rows := list(islice(events, 1 << 15)):
        yield batch_from_rows(rows)


def flat(size: int, *, steps: int = 200, racy: bool = False) -> Workload:
    """Two queues and a host, 2,000 accesses of `size` bytes a step; racy: the host does not wait for the queues."""
    path = _kept(f"flat-{size}-{steps}-{_kind(racy)}", _batches(_flat(size, steps, racy)))
    name = f"flat {size // KIB} KiB" if size >= KIB else f"flat {size} B"
    events = 3 + steps * (8 + 664 + 4 + (0 if racy else 2)) - 2
    # Both queues read each of the 8 inputs in every step. Without a wait the next write of it races with both reads.
    reports = 2 * 8 * (steps - 1) if racy else 0
    return Workload(f"{name} {_kind(racy)}", path, steps * (8 + 3 * 664), events, reports, "0.5 M")


def _flat(size: int, steps: int, racy: bool) -> Iterator[Event]:
    nodes, inputs, slots = 664, 8, 64
    act, weights = 2 * inputs * size, 2 * (inputs + slots) * size
    yield {"ev": "backend", "id": 1, "name": "GPU0", "type": "gpu"}
    yield {"ev": "backend", "id": 2, "name": "GPU1", "type": "gpu"}
    yield {"ev": "buffer", "id": 0, "name": "Bench", "size": weights + nodes * size}

    def span(offset: int) -> Event:
        return {"buffer": 0, "offset": offset, "size": size}

    for step in range(steps):
        for k in range(inputs):
            yield {"ev": "host_access", "label": f"input {k}", "writes": [span(k * size)]}
        for queue, first in ((1, 0), (2, nodes // 2)):
            if queue == 2 or step:
                yield {"ev": "event_record", "backend": 3 - queue, "event": queue}
                yield {"ev": "event_wait", "backend": queue, "event": queue}
            for n in range(first, first + nodes // 2):
                source = (n // 16 % inputs) * size if n % 16 == 0 else act + ((n - 1) % slots) * size
                reads = [span(weights + n * size), span(source)]
                yield {
                    "ev": "kernel", "backend": queue, "label": f"node {n}", "reads": reads,
                    "writes": [span(act + (n % slots) * size)],
                }  # fmt: skip
        if not racy:
            yield {"ev": "synchronize", "backend": 1}
            yield {"ev": "synchronize", "backend": 2}


def rows(*, steps: int = 400, racy: bool = False) -> Workload:
    """The KV cache's shape: 4 KiB rows written one at a time, 64 KiB blocks read whole; racy: the reader waits not."""
    path = _kept(f"rows-{steps}-{_kind(racy)}", _batches(_rows(steps, racy)))
    events = 3 + steps * (128 + 64 + 5 - racy)
    # Each step then reads all 1,024 rows that were written so far, and knows of none.
    reports = sum(min(128 * (step + 1), 1024) for step in range(steps)) if racy else 0
    return Workload("rows 4 of 64 KiB", path, steps * (128 + 64), events, reports)


def _rows(steps: int, racy: bool) -> Iterator[Event]:
    row, block, blocks = 4 * KIB, 64 * KIB, 64
    yield {"ev": "backend", "id": 1, "name": "GPU0", "type": "gpu"}
    yield {"ev": "backend", "id": 2, "name": "GPU1", "type": "gpu"}
    yield {"ev": "buffer", "id": 0, "name": "Bench", "size": blocks * block}
    for step in range(steps):
        for k in range(128):
            at = (step * 128 + k) % (blocks * 16)
            yield {"ev": "kernel", "backend": 1, "writes": [{"buffer": 0, "offset": at * row, "size": row}]}
        yield {"ev": "event_record", "backend": 1, "event": 1}
        if not racy:
            yield {"ev": "event_wait", "backend": 2, "event": 1}
        for k in range(blocks):
            yield {"ev": "kernel", "backend": 2, "reads": [{"buffer": 0, "offset": k * block, "size": block}]}
        yield {"ev": "event_record", "backend": 2, "event": 2}
        yield {"ev": "event_wait", "backend": 1, "event": 2}
        yield {"ev": "synchronize", "backend": 2}


PAGE = 4 * KIB
CALLS = 17
"""Events of one step of the graph loop."""

ACCESSES = 8 + 6000 + 2 + 3
"""Accesses of one step."""

DEFINITIONS = 2 + 4 + 4000 + 9 + 2
"""Events before the first step."""


def graph_loop(*, steps: int = 2000, racy: bool = False) -> Workload:
    """One graph of 2,000 nodes and 6,000 accesses computed `steps` times, 17 calls a step; racy: no synchronize."""
    parts = (_loop_definitions(), *(_loop_step(step, racy=racy) for step in range(steps)))
    path = _kept(f"loop-{steps}-{_kind(racy)}", _batches(event for part in parts for event in part))
    # A step's 3 gets race with the small compute; the next step's 8 input writes with the reads of the large one, and
    # its write of the last node's page with the read of the small one.
    reports = 3 * steps + 9 * (steps - 1) if racy else 0
    events = DEFINITIONS + steps * (CALLS - 2 * racy)
    return Workload("graph loop", path, steps * ACCESSES, events, reports, "30 M")


def server_hour(*, events: int = 10_000_000) -> Workload:
    """The graph loop's calls until there are `events` of them."""
    path = _kept(f"hour-{events}", _hour(events))
    steps = events // CALLS
    return Workload("server hour", path, steps * ACCESSES, DEFINITIONS + steps * CALLS, 0, "300 MiB")


def _hour(events: int) -> Iterator[pa.RecordBatch]:
    """A batch of whole steps again and again, each time with other ubatch numbers and times."""
    yield batch_from_rows(list(_loop_definitions()))
    per_batch = 1900
    steps = events // CALLS
    batch = batch_from_rows([event for step in range(per_batch) for event in _loop_step(step)])
    for first in range(0, steps, per_batch):
        count = min(per_batch, steps - first) * CALLS
        yield _later(batch.slice(0, count), first)


def _later(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["ubatch"] = pa.compute.add(columns["ubatch"], first)
    columns["time"] = pa.compute.add(columns["time"], first * 1000)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _loop_definitions() -> Iterator[Event]:
    yield {"ev": "backend", "id": 1, "name": "GPU0", "type": "igpu"}
    yield {"ev": "backend", "id": 2, "name": "GPU1", "type": "gpu"}
    sizes = (("GPU0", 2000), ("GPU0", 200), ("GPU0_Host", 16), ("GPU1", 1))
    for ident, (name, pages) in enumerate(sizes):
        yield {"ev": "buffer", "id": ident, "name": name, "size": pages * PAGE, "host": ident == 2}
    for k in range(2000):
        yield _tensor(k, f"blk.{k // 50}.w{k % 50}", 0, k)
        yield _tensor(2000 + k, f"n{k % 50}-{k // 50}", 1, k % 200)
    for k in range(8):
        yield _tensor(4000 + k, f"inp_{k}", 2, k)
    yield _tensor(4008, "result_output", 3, 0)
    sources = [4000 + k // 250 if k % 250 == 0 else 2000 + k - 1 for k in range(2000)]
    nodes = [_node("MUL_MAT", 2000 + k, k, source) for k, source in enumerate(sources)]
    yield {"ev": "graph", "id": 0, "uid": 1, "nodes": nodes}
    yield {"ev": "graph", "id": 1, "uid": 2, "nodes": [_node("CPY", 4008, 3999)]}


def _tensor(ident: int, name: str, buffer: int, page: int) -> Event:
    return {"ev": "tensor", "id": ident, "name": name, "buffer": buffer, "offset": page * PAGE, "size": PAGE}


def _node(op: str, made: int, *read: int) -> Event:
    return {"op": op, "tensor": made, "reads": [{"tensor": k} for k in read], "writes": [{"tensor": made}]}


def _loop_step(step: int, *, racy: bool = False) -> Iterator[Event]:
    common = {"ubatch": step, "time": step * 1000}
    for k in range(8):
        yield {"ev": "set_direct" if k % 2 else "tensor_set", "tensor": 4000 + k, **common}
    yield {"ev": "compute", "backend": 1, "graph": 0, "split": 0, **common}
    yield {"ev": "event_record", "backend": 1, "event": 1, **common}
    yield {"ev": "event_wait", "backend": 2, "event": 1, **common}
    yield {"ev": "compute", "backend": 2, "graph": 1, "split": 1, **common}
    for queue in () if racy else (1, 2):
        yield {"ev": "synchronize", "backend": queue, **common}
    for k in range(3):
        yield {"ev": "tensor_get", "tensor": 4008, "offset": 1024 * k, "size": 1024, **common}
