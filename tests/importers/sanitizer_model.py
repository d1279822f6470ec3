"""A small model of the ggml scheduler sanitizer that writes logs: what the importer's replay is held against.

It follows the sanitizer's own rules, including the intervals of its shadow memory, so it prints a RACE block once a
piece. It is not the importer's code turned round: clocks live here, not there. Nor is it a second `tests.oracle`: it
replays no events but plays the program that a log is of, and what it prints is the sanitizer's, not the contract's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

SYNCHRONOUS = {"CPU", "BLAS"}


@dataclass
class Seen:
    actor: str
    clock: int
    split: int
    tensor: str
    what: str


@dataclass
class Piece:
    lo: int
    hi: int
    write: Seen | None = None
    reads: list[Seen] = field(default_factory=list)


@dataclass(frozen=True)
class Tensor:
    name: str
    buffer: str
    offset: int
    size: int
    root: str | None = None


@dataclass
class Sanitizer:
    """`prefix` stands before every line; `roots` prints `view <- root` in blocks as PR #27311 does."""

    prefix: str = ""
    roots: bool = True
    sweep_prints_synchronous: bool = False
    lines: list[str] = field(default_factory=list)
    blocks: int = 0

    def __post_init__(self) -> None:
        self.vc: dict[str, dict[str, int]] = {"HOST": {}}
        self.events: dict[int, dict[str, int]] = {}
        self.shadow: dict[str, list[Piece]] = {}
        self.writers: dict[tuple[str, int], str] = {}
        self.split, self.split_actor = -1, "-"

    # lines

    def out(self, text: str) -> None:
        self.lines.append(self.prefix + text)

    def trace(self, actor: str, body: str) -> None:
        self.out(f"san [split {self.split:3d} {self.split_actor:<10}] {actor:<10} {body}")

    def log(self, ending: str = "\n") -> list[bytes]:
        return [(line + ending).encode() for line in self.lines]

    # clocks

    def join(self, into: str, other: dict[str, int]) -> None:
        mine = self.vc.setdefault(into, {})
        for actor, clock in other.items():
            mine[actor] = max(mine.get(actor, 0), clock)

    def issue(self, actor: str) -> int:
        self.join(actor, dict(self.vc["HOST"]))
        self.vc[actor][actor] = self.vc[actor].get(actor, 0) + 1
        return self.vc[actor][actor]

    # shadow memory

    def pieces(self, t: Tensor, lo: int, hi: int) -> list[Piece]:
        old, new = self.shadow.get(t.buffer, []), []
        for p in old:
            cuts = sorted({p.lo, p.hi, *(c for c in (lo, hi) if p.lo < c < p.hi)})
            new += [Piece(a, b, p.write, list(p.reads)) for a, b in pairwise(cuts)]
        at, filled = lo, []
        for p in sorted((p for p in new if lo <= p.lo < hi), key=lambda p: p.lo):
            if p.lo > at:
                filled.append(Piece(at, p.lo))
            at = p.hi
        if at < hi:
            filled.append(Piece(at, hi))
        self.shadow[t.buffer] = sorted(new + filled, key=lambda p: p.lo)
        return [p for p in self.shadow[t.buffer] if lo <= p.lo < hi]

    def touch(self, actor: str, clock: int, t: Tensor, mode: str, what: str, offset: int = 0, size: int = -1) -> None:
        lo = t.offset + offset
        hi = lo + (t.size if size < 0 else size)
        self.trace(actor, f"{mode:<5} {t.buffer}[{lo}+{hi - lo}] {t.name} ({what})")
        name = f"{t.name} <- {t.root}" if self.roots and t.root else t.name
        now = Seen(actor, clock, self.split, name, what)
        for p in self.pieces(t, lo, hi):
            kind = "write-after-write" if mode == "write" else "read-after-write"
            self.test(kind, t.buffer, lo, hi, now, p.write, "write", mode)
            if mode == "write":
                for read in p.reads:
                    self.test("write-after-read", t.buffer, lo, hi, now, read, "read", mode)
                p.write, p.reads = now, []
            else:
                p.reads = [r for r in p.reads if r.actor != actor] + [now]
        if mode == "write":
            self.writers[t.buffer, lo] = actor

    def test(
        self, kind: str, buffer: str, lo: int, hi: int, now: Seen, then: Seen | None, old: str, mode: str
    ) -> None:
        if then is None or then.actor == now.actor or then.clock <= self.vc[now.actor].get(then.actor, 0):
            return
        self.blocks += 1
        tag = "ggml-sched-sanitize:"
        self.out("")
        self.out(f"{tag} RACE ({kind}) on {buffer}[{lo}, {hi})")
        for m, s in ((old, then), (mode, now)):
            self.out(f"{tag}   {m:<5} {s.actor:<12} @{s.clock:<4} split {s.split:<4} {s.tensor} ({s.what})")
        knows = self.vc[now.actor].get(then.actor, 0)
        self.out(f"{tag}   no happens-before edge: {now.actor} knows {then.actor}@{knows}, needs >={then.clock}")
        self.out("")

    # operations

    def done(self, actor: str) -> None:
        if actor in SYNCHRONOUS:
            self.join("HOST", self.vc[actor])

    def access(self, actor: str, t: Tensor, mode: str, what: str, offset: int = 0, size: int = -1) -> None:
        self.touch(actor, self.issue(actor), t, mode, what, offset, size)
        self.done(actor)

    def weights(self, actor: str) -> None:
        """An access that ticks and prints nothing."""
        self.issue(actor)
        self.done(actor)

    def compute(self, actor: str, nodes: list[tuple[list[Tensor], Tensor]]) -> None:
        clock = self.issue(actor)
        for reads, write in nodes:
            for t in reads:
                self.touch(actor, clock, t, "read", "compute")
            self.touch(actor, clock, write, "write", "compute")
        self.done(actor)
        n = sum(len(reads) for reads, _ in nodes)
        self.trace(actor, f"compute       {len(nodes) + 2} nodes, r={n} w={len(nodes)} ranges")

    def copy(self, src_be: str, dst_be: str, src: Tensor, dst: Tensor) -> None:
        reader = dst_be if src.buffer in ("CPU", "ROCm_Host") else src_be
        if reader == dst_be:
            self.join(dst_be, dict(self.vc.setdefault(src_be, {})))
            read_clock = write_clock = self.issue(dst_be)
        else:
            read_clock = self.issue(reader)
            self.join(dst_be, dict(self.vc[reader]))
            write_clock = self.issue(dst_be)
        self.touch(reader, read_clock, src, "read", "cpy_async src")
        self.touch(dst_be, write_clock, dst, "write", "cpy_async dst")
        self.trace(dst_be, f"cpy_async     {src.name}@{reader} -> {dst.name}")

    def synchronize(self, actor: str) -> None:
        if actor in SYNCHRONOUS and not self.sweep_prints_synchronous:
            return
        self.join("HOST", self.vc.setdefault(actor, {}))
        self.trace(actor, "EDGE  synchronize -> HOST")

    def record(self, actor: str, event: int) -> None:
        self.events[event] = dict(self.vc.setdefault(actor, {}))
        self.trace(actor, f"EDGE  event_record  ev={event}")

    def wait(self, actor: str, event: int) -> None:
        self.join(actor, self.events.get(event, {}))
        self.trace(actor, f"EDGE  event_wait    ev={event}")

    def wait_on_host(self, event: int) -> None:
        self.join("HOST", self.events.get(event, {}))
        self.trace("HOST", f"EDGE  event_sync    ev={event}")


QUEUES = ["ROCm0", "ROCm0#1", "Vulkan0"]
BUFFERS = ["ROCm0", "ROCm_Host", "Vulkan0"]


def program(seed: int, *, steps: int = 30, hidden: bool = False, **options: object) -> Sanitizer:
    """A random run: transfers, graphs, copies and edges over a few overlapping tensors."""
    rng = random.Random(seed)
    san = Sanitizer(**options)  # type: ignore[arg-type]
    tensors = [
        Tensor(f"t{i}" if i % 3 else f"t{i} (view)", rng.choice(BUFFERS), rng.randrange(0, 40), rng.randrange(1, 24),
               None if i % 3 else f"root{i}")
        for i in range(9)
    ]
    tensors += [Tensor("t1", tensors[1].buffer, 3, 5), Tensor("", "ROCm_Host", 8, 8)]
    for _ in range(steps):
        queue, t = rng.choice([*QUEUES, "CPU"]), rng.choice(tensors)
        what = rng.randrange(9 if hidden else 8)
        if rng.random() < 0.5:
            san.split, san.split_actor = rng.randrange(3), queue
        else:
            san.split, san.split_actor = -1, "-"
        if what in (0, 1):
            part = rng.randrange(t.size)
            mode, label = rng.choice([("write", "tensor_set"), ("read", "tensor_get"), ("write", "set_direct")])
            san.access("HOST", t, mode, label, part, rng.randrange(1, t.size - part + 1))
        elif what == 2 and queue != "CPU":
            mode, label = rng.choice([("write", "set_async"), ("read", "get_async")])
            san.access(queue, t, mode, label, 0, rng.randrange(1, t.size + 1))
        elif what in (3, 4):
            nodes = [(rng.choices(tensors, k=rng.randrange(3)), rng.choice(tensors)) for _ in range(rng.randrange(4))]
            san.compute(queue, nodes)
        elif what == 5 and queue != "CPU":
            src = rng.choice(tensors)
            # The scheduler's rule: the source belongs to the backend that computed it, or to the CPU's slot.
            wrote = san.writers.get((src.buffer, src.offset), "HOST")
            host = "CPU" if wrote == "HOST" else wrote
            san.copy(host if src.buffer == "ROCm_Host" else rng.choice(QUEUES), queue, src, t)
        elif what == 6:
            event = rng.randrange(3)
            if rng.random() < 0.5:
                san.wait_on_host(event)
            else:
                san.synchronize(queue)
        elif what == 7 and queue != "CPU":
            event = rng.randrange(3)
            rng.choice([san.record, san.wait])(queue, event)
        elif what == 8:
            san.weights(rng.choice(["HOST", *QUEUES]))
    return san

