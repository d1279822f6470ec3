"""Random flat programs for kernels, and hostile ones: no trace behind them, so that they reach what traces seldom do.

Numbers are as wild as int64 allows, footprints as small and as large as the kernels tell apart, chunks forget them and
spaces end. A row is one step's, but for `ALSO`: only so is a pair of accesses told by row and number.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field

from hbtrace.replay.program import ALSO, DROP, END, HOST, JOIN, QUEUE, RECORD, RELEASE, WAIT, Program

LIMIT = (1 << 63) - 1
FAR = 10**17
"""Between actors that are far apart."""
LARGE = (16, 17, 20, 64, 65, 130)
"""Pieces of footprints that stay resident."""


@dataclass
class Script:
    """A replay to come: its chunks, and after which of them somebody asks what is remembered."""

    closed: bool
    chunks: list[Program] = field(default_factory=list)
    asks: list[bool] = field(default_factory=list)


class _Writer:
    """Writes a script with one random choice after another."""

    def __init__(self, rng: random.Random, *, long: bool) -> None:
        self.rng = rng
        self.closed = long or rng.random() < 0.7
        far = rng.random() < 0.2
        first = 1 if self.closed else rng.choice((1, 11))
        self.queues = [first + k * (FAR if far else 1) for k in range(rng.choice((1, 2, 3, 5, 30, 90)))]
        self.threads = [0] if self.closed else [0, 40, -7]
        self.slots = [*range(rng.choice((1, 4, 50))), *((1 << 41, LIMIT, -5) if far else ())]
        self.spaces = [*range(rng.choice((1, 2, 3)))]
        self.next_space = 3
        self.long = long
        self.width = 400_000 if long else rng.choice((16, 64, 300, 1000, 1000, 100_000))
        self.base = rng.choice((0, 0, 0, LIMIT - 2 * self.width - 10_000, -LIMIT - 1))
        self.writes = rng.choice((0.1, 0.3, 0.5, 0.8))
        self.footprints: list[int] = []
        self.defined: set[int] = set()
        self.row = 0
        self.program = Program()

    def chunk(self, steps: int, *, forget: bool) -> Program:
        """So many steps; fewer where a space ends, for its footprints are of no more use."""
        self.program = Program(forget_footprints=forget)
        if forget:
            self.footprints, self.defined = [], set()
        for _ in range(steps):
            self.row += 1
            if self.step():
                break
        return self.program

    def step(self) -> bool:
        """One step more; whether it ended a space."""
        rng, code, actors = self.rng, self.program.code, [*self.queues, *self.threads]
        chance = rng.random()
        if chance < 0.5:
            footprint = self.footprint() if rng.random() < 0.95 else -1
            code.extend((QUEUE, rng.choice(self.queues), rng.choice(self.threads), footprint, self.row))
        elif chance < 0.65:
            footprint = self.footprint() if rng.random() < 0.9 else -1
            code.extend((HOST, rng.choice(self.threads), 0, footprint, self.row))
        elif chance < 0.72:
            code.extend((JOIN, rng.choice(actors), rng.choice(actors), 0, self.row))
        elif chance < 0.84:
            op = RECORD if chance < 0.8 else RELEASE
            code.extend((op, rng.choice(actors), rng.choice(self.slots), 0, self.row))
        elif chance < 0.93:
            code.extend((WAIT, rng.choice(actors), rng.choice(self.slots), 0, self.row))
        elif chance < 0.95:
            code.extend((DROP, 0, rng.choice(self.slots), 0, self.row))
        elif chance < 0.955 and not self.long:
            at = rng.randrange(len(self.spaces))
            code.extend((END, self.spaces[at], 0, 0, self.row))
            self.spaces[at], self.next_space = self.next_space, self.next_space + 1
            return True
        elif code and code[-5] in (QUEUE, HOST):
            code.extend((ALSO, code[-4], 0, self.footprint(), code[-1]))
        return False

    def footprint(self) -> int:
        """One that was used before, or a new one."""
        rng = self.rng
        if self.footprints and rng.random() < 0.8:
            return rng.choice(self.footprints)
        number = len(self.footprints) if rng.random() < 0.9 else (1 << 41) + rng.randrange(1 << 50)
        if number in self.defined:
            return number
        self.footprints.append(number)
        self.defined.add(number)
        self.program.footprints.append(number)
        for piece in self.large() if rng.random() < 0.25 else self.small():
            self.program.pieces.extend(piece)
        self.program.bounds.append(len(self.program.pieces))
        return number

    def small(self) -> list[tuple[int, int, int, int, int]]:
        rng, pieces = self.rng, []
        for number in range(rng.choice((0, 1, 1, 1, 2, 3, 5))):
            lo = rng.randrange(self.width) // 4 * 4 if rng.random() < 0.7 else rng.randrange(self.width)
            pieces.append(
                self.piece(lo, rng.choice((4, 4, 4, 8, 1, 16, 32 if self.long else min(self.width, 9000))), number)
            )
        return pieces

    def large(self) -> list[tuple[int, int, int, int, int]]:
        """Mostly a run of neighbours, as a graph's are."""
        rng, at = self.rng, self.rng.randrange(self.width)
        return [
            self.piece(at + 4 * number if rng.random() < 0.95 else rng.randrange(self.width), rng.choice((4, 4, 1, 8)),
                       number)
            for number in range(rng.choice(LARGE))
        ]  # fmt: skip

    def piece(self, lo: int, size: int, number: int) -> tuple[int, int, int, int, int]:
        space = self.spaces[0] if self.rng.random() < 0.8 else self.rng.choice(self.spaces)
        return space, self.base + lo, self.base + lo + size, number, int(self.rng.random() < self.writes)


LONG = 50
"""Each so many seeds one is long enough for kernels to sweep their memory."""


def script(seed: int) -> Script:
    """The script of a seed."""
    rng = random.Random(seed)
    long = seed % LONG == LONG - 1
    writer = _Writer(rng, long=long)
    out = Script(writer.closed)
    forget = False
    for _ in range(4 if long else rng.choice((1, 3, 10))):
        steps = 8000 if long else rng.choice((1, 20, 200, 200 if writer.width < 9999 else 1500))
        out.chunks.append(writer.chunk(steps, forget=forget))
        out.asks.append(rng.random() < 0.5)
        ended = END in out.chunks[-1].code[-5:-4]
        forget = ended or rng.random() < 0.1
    return out


WILD = (0, -1, 1, 5, 7, 9, 2**31, 2**32, 2**41, LIMIT, -LIMIT - 1)


def hostile(seed: int) -> Script:
    """A script with numbers in it that no program has, anywhere."""
    rng = random.Random(seed)
    out = script(seed)
    for program in out.chunks:
        for integers in (program.code, program.footprints, program.bounds, program.pieces):
            for _ in range(rng.choice((0, 0, 1, 3))):
                if len(integers):
                    integers[rng.randrange(len(integers))] = rng.choice(WILD)
    return out


def flat(script: Script) -> bytes:
    """A script as the driver reads it: int64 by int64."""
    out = array("q", (int(script.closed), len(script.chunks)))
    for program, asks in zip(script.chunks, script.asks, strict=True):
        parts = (program.code, program.footprints, program.bounds, program.pieces)
        out.extend((program.forget_footprints, asks, *map(len, parts)))
        for part in parts:
            out.extend(part)
    return out.tobytes()
