"""Carry a tape out under a schedule: which order its queues really ran in, and what the bytes were then.

A schedule is any order of operations in which each follows the one before it on its line and all that it waits for.
`recorded` runs work where it was issued, `latest` lets queues lag as far as they may, `random` is seeded.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from hbtrace.strata.model.tape import HOST, BlockMemory, StrataTape, TapeStep

SCHEDULES: Final = ("recorded", "latest", "random")


def carry_out(tape: StrataTape, schedule: str = "recorded", seed: int = 0) -> BlockMemory:
    """The memory that a schedule leaves; actions may leave more in the objects that they close over."""
    memory = tape.memory()
    for number in order(tape.operations, schedule, seed):
        action = tape.operations[number].action
        if action is not None:
            action(memory)
    return memory


def order(operations: Sequence[TapeStep], schedule: str, seed: int = 0) -> Iterator[int]:
    """The numbers of the operations in the order in which a schedule runs them."""
    if schedule == "recorded":
        yield from range(len(operations))
    elif schedule == "latest":
        yield from _latest(operations)
    else:
        yield from _random(operations, random.Random(seed))


def _lines(operations: Sequence[TapeStep]) -> dict[str, list[int]]:
    lines: dict[str, list[int]] = {}
    for number, operation in enumerate(operations):
        lines.setdefault(operation.line, []).append(number)
    return lines


def _latest(operations: Sequence[TapeStep]) -> Iterator[int]:
    """The host first, always; a queue runs only as far as somebody waits for it. What nobody waits for runs last."""
    lines = _lines(operations)
    place = {number: at for own in lines.values() for at, number in enumerate(own)}
    position = dict.fromkeys(lines, 0)
    for goal in [*lines.get(HOST, []), *range(len(operations))]:
        yield from _up_to(goal, operations, lines, place, position)


def _up_to(
    goal: int,
    operations: Sequence[TapeStep],
    lines: dict[str, list[int]],
    place: dict[int, int],
    position: dict[str, int],
) -> Iterator[int]:
    """Everything that must run before `goal`, and `goal` itself, unless it ran already."""
    stack = [goal]
    while stack:
        number = stack[-1]
        line = operations[number].line
        if place[number] < position[line]:
            stack.pop()
            continue
        own = lines[line]
        if place[number] > position[line]:
            stack.append(own[place[number] - 1])
            continue
        missing = [other for other in operations[number].after if place[other] >= position[operations[other].line]]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        position[line] += 1
        yield number


def _random(operations: Sequence[TapeStep], rng: random.Random) -> Iterator[int]:
    """A random choice among the lines that can go on. Some are favoured, else no queue would lag far behind."""
    lines = _lines(operations)
    names = list(lines)
    favour = {name: rng.random() ** 4 + 0.001 for name in names}
    position = dict.fromkeys(names, 0)
    done = bytearray(len(operations))
    for _ in range(len(operations)):
        ready = [
            name
            for name in names
            if position[name] < len(lines[name])
            and all(done[other] for other in operations[lines[name][position[name]]].after)
        ]
        name = rng.choices(ready, [favour[name] for name in ready])[0]
        number = lines[name][position[name]]
        position[name] += 1
        done[number] = 1
        yield number
