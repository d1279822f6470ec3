"""A byte-by-byte replay of the few events the importer makes: slow, plain, independent of `hbtrace.replay`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Side:
    number: int
    mode: str
    actor: str
    clock: int
    split: int
    tensor: str | None
    root: str | None
    label: str


@dataclass(frozen=True)
class Race:
    kind: str
    buffer: str
    lo: int
    hi: int
    earlier: Side
    current: Side


class Replay:
    def __init__(self) -> None:
        self.vc: dict[str, dict[str, int]] = {"HOST": {}}
        self.actors: dict[int, str] = {}
        self.synchronous: set[str] = set()
        self.names: dict[str, int] = {}
        self.buffers: dict[int, dict[str, Any]] = {}
        self.tensors: dict[int, dict[str, Any]] = {}
        self.graphs: dict[int, dict[str, Any]] = {}
        self.events: dict[int, dict[str, int]] = {}
        self.writes: dict[tuple[int, int], Side] = {}
        self.reads: dict[tuple[int, int], dict[str, Side]] = {}
        self.numbers = 0
        self.found: dict[tuple[Side, Side, str, str], list[int]] = {}

    def run(self, rows: Iterable[dict[str, Any]]) -> list[Race]:
        for row in rows:
            getattr(self, "on_" + row["ev"])(row)
        races = []
        for (now, then, kind, buffer), at in self.found.items():
            races.append(Race(kind, buffer, min(at), max(at) + 1, then, now))
        return races

    def join(self, a: str, other: dict[str, int]) -> None:
        for k, v in dict(other).items():
            self.vc[a][k] = max(self.vc[a].get(k, 0), v)

    def issue(self, a: str) -> None:
        if a != "HOST":
            self.join(a, self.vc["HOST"])
        self.vc[a][a] = self.vc[a].get(a, 0) + 1

    def touch(self, a: str, where: dict[str, Any], mode: str, label: str, split: int) -> None:
        t = self.tensors.get(where.get("tensor", -1))
        base, size = (t["offset"], t["size"]) if t else (0, 0)
        buffer = t["buffer"] if t else where["buffer"]
        lo = base + where.get("offset", 0)
        size = where.get("size", size)
        assert lo >= 0, "a range was cut"
        assert lo + size <= self.buffers[buffer]["size"], "a range was cut"
        root = self.tensors[t["view_of"]]["name"] if t and "view_of" in t else None
        self.numbers += 1
        now = Side(self.numbers, mode, a, self.vc[a].get(a, 0), split, t["name"] if t else None, root, label)
        name = self.buffers[buffer]["name"]
        for at in range(lo, lo + size):
            key = (buffer, at)
            olds = [("write-after-write" if mode == "write" else "read-after-write", self.writes.get(key))]
            if mode == "write":
                olds += [("write-after-read", r) for r in self.reads.get(key, {}).values()]
            for kind, old in olds:
                if old and old.actor != a and old.clock > self.vc[a].get(old.actor, 0):
                    self.found.setdefault((now, old, kind, name), []).append(at)
            if mode == "write":
                self.writes[key] = now
                self.reads.pop(key, None)
            else:
                self.reads.setdefault(key, {})[a] = now

    def on_meta(self, row: dict[str, Any]) -> None:
        pass

    on_note = on_meta

    def on_backend(self, row: dict[str, Any]) -> None:
        n = self.names[row["name"]] = self.names.get(row["name"], -1) + 1
        actor = row["name"] if n == 0 else f"{row['name']}#{n}"
        self.actors[row["id"]] = actor
        self.vc[actor] = {}
        if row.get("synchronous"):
            self.synchronous.add(actor)

    def on_buffer(self, row: dict[str, Any]) -> None:
        self.buffers[row["id"]] = row

    def on_tensor(self, row: dict[str, Any]) -> None:
        self.tensors[row["id"]] = row

    def on_graph(self, row: dict[str, Any]) -> None:
        self.graphs[row["id"]] = row

    def done(self, a: str) -> None:
        if a in self.synchronous:
            self.join("HOST", self.vc[a])

    def on_host_access(self, row: dict[str, Any]) -> None:
        for mode in ("read", "write"):
            for where in row.get(mode + "s", []):
                self.issue("HOST")
                self.touch("HOST", where, mode, row["label"], row.get("split", -1))

    def on_kernel(self, row: dict[str, Any]) -> None:
        a = self.actors[row["backend"]]
        self.issue(a)
        for mode in ("read", "write"):
            for where in row.get(mode + "s", []):
                self.touch(a, where, mode, row["label"], row.get("split", -1))
        self.done(a)

    def on_compute(self, row: dict[str, Any]) -> None:
        a = self.actors[row["backend"]]
        self.issue(a)
        for node in self.graphs[row["graph"]]["nodes"]:
            for mode in ("read", "write"):
                for where in node.get(mode + "s", []):
                    self.touch(a, where, mode, "compute", row.get("split", -1))
        self.done(a)

    def on_copy_async(self, row: dict[str, Any]) -> None:
        dst = self.actors[row["backend"]]
        src = self.actors[row.get("src_backend", row["backend"])]
        reader = dst if row["runs_on"] == "dst" else src
        if reader == dst:
            self.join(dst, self.vc[src])
        self.issue(reader)
        split = row.get("split", -1)
        self.touch(reader, row["src"], "read", row["label"] + " src", split)
        if reader != dst:
            self.join(dst, self.vc[src])
            self.issue(dst)
        self.touch(dst, row["dst"], "write", row["label"] + " dst", split)

    def on_synchronize(self, row: dict[str, Any]) -> None:
        self.join("HOST", self.vc[self.actors[row["backend"]]])

    def on_event_record(self, row: dict[str, Any]) -> None:
        a = self.actors[row["backend"]]
        self.join(a, self.vc["HOST"])
        self.events[row["event"]] = dict(self.vc[a])

    def on_event_wait(self, row: dict[str, Any]) -> None:
        a = self.actors[row["backend"]]
        self.join(a, self.vc["HOST"])
        self.join(a, self.events.get(row["event"], {}))

    def on_event_synchronize(self, row: dict[str, Any]) -> None:
        self.join("HOST", self.events.get(row["event"], {}))


def replay(rows: Iterable[dict[str, Any]]) -> list[Race]:
    return Replay().run(rows)
