"""`simulate ggml` as a function: a configuration in, rows of a trace and the results under schedules out.

run = simulate(Config(prompt=100, ubatch=16))
run.rows, run.result("latest"), run.differing(50)
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from hbtrace.simulate.config import Config, parse_device
from hbtrace.simulate.engine import GgmlEngine
from hbtrace.simulate.feasible import checked
from hbtrace.simulate.machine import QueueMachine, Schedule
from hbtrace.simulate.tape import GgmlTape

__all__ = ["Config", "Simulation", "parse_device", "simulate"]


@dataclass
class Simulation:
    """One run of the model: its trace, and what it computes."""

    config: Config
    tape: GgmlTape
    caches: list[int]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The events of the trace."""
        return self.tape.rows

    def result(self, schedule: str = "in-order", seed: int = 0, without: Container[int] | None = None) -> str:
        """A hash of all outputs that the host read and of the caches at the end, under a schedule of the queues.

        without: caches that are left out; by default those that the run has freed.
        """
        without = self.tape.freed if without is None else without
        queues = len(self.tape.synchronous)
        memory = QueueMachine(self.tape.sizes, queues, Schedule(schedule, seed)).run(self.tape.steps)
        digest = sha256(np.array(memory.results, dtype=np.int64).tobytes())
        for buffer in self.caches:
            if buffer not in without:
                digest.update(memory.buffers[buffer].tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def in_order(self) -> str:
        """The result where every queue does its work at once."""
        return self.result("in-order")

    def differing(self, schedules: int, seed: int = 0) -> int:
        """How many of so many schedules give another result than `in-order`: `latest`, then random ones."""
        results = [self.result("latest")] if schedules else []
        results += [self.result("random", seed + number) for number in range(1, schedules)]
        return sum(result != self.in_order for result in results)

    def faultless(self) -> str | None:
        """The result of the same run without its fault, in order; None for a run without a fault.

        It differs from `in_order` for a fault that is wrong under every schedule: no race, and no order would mend it.
        """
        if self.config.fault is None:
            return None
        engine = GgmlEngine(replace(self.config, fault=None))
        engine.run()
        twin = Simulation(engine.config, engine.tape, engine.caches)
        return twin.result(without=self.tape.freed)


def simulate(config: Config) -> Simulation:
    """Run the model. Raises UsageError for a configuration that cannot be, or in which its fault cannot show."""
    engine = GgmlEngine(checked(config))
    engine.run()
    return Simulation(engine.config, engine.tape, engine.caches)
