"""Values on top of the schedules of `tests.oracle.schedules`: what is computed, read by the host, and left in memory.

A node's writes are a hash of the node and of all that it reads; a host write is a hash of its row. An approximate
range touches every other byte, which is one of the things that it may mean. The host looks at what `tensor_get`,
`get_direct` and `host_access` read, and at a `get_async` whose other end is not recorded.

It is no replay: it has no clock and finds no race. Accesses and their bytes are the oracle's, their order is that of a
schedule.
"""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.oracle import Findings
from tests.oracle.schedules import Order

Event = dict[str, Any]
Place = tuple[int, int]

_COPIES = {"tensor_copy", "copy_async"}


class Values:
    """Runs schedules of a program by value. `keep`: pairs of accesses that stay in their recorded order."""

    def __init__(self, events: list[Event], found: Findings, keep: list[tuple[Place, Place]]) -> None:
        self.events = events
        self.order = Order(events, found)
        self.nodes = _nodes_of(events)
        self.alive = {id(touch.buffer) for touch in found.touches if not touch.buffer.dead}
        for earlier, current in keep:
            first, then = self.order.operation_of[earlier], self.order.operation_of[current]
            self.order.operations[then].waits.add(first)

    def recorded(self) -> Any:
        return self.run(range(len(self.order.operations)))

    def shuffled(self, rng: random.Random) -> Any:
        order = self.order
        favour = {line: rng.random() ** 4 + 0.001 for line in order.lines}
        position = dict.fromkeys(order.lines, 0)
        done: set[int] = set()
        sequence = []
        while len(sequence) < len(order.operations):
            ready = [
                line
                for line, own in order.lines.items()
                if position[line] < len(own) and order.operations[own[position[line]]].waits <= done
            ]
            line = rng.choices(ready, [favour[line] for line in ready])[0]
            number = order.lines[line][position[line]]
            position[line] += 1
            done.add(number)
            sequence.append(number)
        return self.run(sequence)

    def run(self, sequence: Any) -> Any:
        """(what the host saw by access, what is left by byte of each buffer that is alive)"""
        memory: dict[Place, int] = {}
        seen: dict[Place, tuple[int, ...]] = {}
        inputs: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for number in sequence:
            for touch in self.order.operations[number].touches:
                access = touch.access
                event = self.events[access.row]
                bytes_ = [b for b in touch.addresses if not (access.approx and b % 2)]
                places = [(id(touch.buffer), byte) for byte in bytes_]
                node = (access.row, self.nodes.get(access.row, {}).get(access.access, 0))
                if access.mode == "read":
                    got = tuple(memory.get(place, 0) for place in places)
                    inputs.setdefault(node, []).append(got)
                    ev = event["ev"]
                    if ev in ("tensor_get", "get_direct", "host_access") or (
                        ev == "get_async" and "host_range" not in event
                    ):
                        seen[access.row, access.access] = got
                    continue
                value = hash((node, tuple(inputs.get(node, ())) if event["ev"] != "host_access" else ()))
                for place in places:
                    memory[place] = hash((value, access.access, place[1]))
        return seen, {place: value for place, value in memory.items() if place[0] in self.alive}


def _nodes_of(events: list[Event]) -> dict[int, dict[int, int]]:
    """Of each compute the node of each access number."""
    graphs: dict[int, list[Event]] = {}
    found: dict[int, dict[int, int]] = {}
    for row, event in enumerate(events):
        if event["ev"] == "graph":
            graphs[event["id"]] = event["nodes"]
        elif event["ev"] == "compute":
            numbers = [
                place
                for place, node in enumerate(graphs.get(event["graph"], ()))
                for _ in (*node.get("reads", ()), *node.get("writes", ()))
            ]
            found[row] = dict(enumerate(numbers))
    return found
