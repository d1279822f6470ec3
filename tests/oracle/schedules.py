"""What an even program does when its queued work runs at other times than it was recorded.

What it is: the events as operations on lines, one line a host thread or queue. An operation runs after the one before
it on its line and after what it waits for; any order that keeps to this is a schedule that the machine may take. A
write gives its bytes a new version, a read notes the versions it sees. No value is computed and no clock is kept, so
that a wrong vector clock shows up here.

What it is not: a judge of odd programs. It expects what `random_program` makes with `weird` 0.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.oracle.oracle import Event, Findings, Touch

AccessId = tuple[int, int]
"""Row and number of an access."""


@dataclass
class Operation:
    """A step of a line: what it waits for and what it touches then, in order."""

    waits: set[int]
    touches: list[Touch]


@dataclass
class Outcome:
    """What one schedule did."""

    seen: dict[AccessId, list[AccessId | None]] = field(default_factory=dict)
    """Of each read the version of each of its bytes: the write that made it, None for what was there before."""
    memory: dict[tuple[int, int], AccessId] = field(default_factory=dict)
    """The last version of each byte of each life of a buffer."""


class Order:
    """The operations of a program and what each waits for."""

    def __init__(self, events: Sequence[Event], found: Findings) -> None:
        self.operations: list[Operation] = []
        self.lines: dict[Hashable, list[int]] = {}
        self.before_of: list[int] = []
        """Of each operation the set of all before it, as the bits of an integer."""
        self.operation_of: dict[AccessId, int] = {}
        _Machine(self, events, found).build()

    def add(self, line: Hashable, waits: Iterable[int] = (), touches: Iterable[Touch] = ()) -> None:
        """The next operation of a line."""
        own = self.lines.setdefault(line, [])
        number = len(self.operations)
        operation = Operation({*waits, *own[-1:]}, list(touches))
        before = 0
        for wait in operation.waits:
            before |= self.before_of[wait] | 1 << wait
        self.operations.append(operation)
        self.before_of.append(before)
        own.append(number)
        for touch in operation.touches:
            self.operation_of[touch.access.row, touch.access.access] = number

    def last(self, line: Hashable) -> list[int]:
        """The newest operation of a line as something to wait for."""
        return self.lines.get(line, [])[-1:]

    def unordered(self, one: AccessId, other: AccessId) -> bool:
        """Whether some schedule runs the two accesses the one way round and some the other."""
        a, b = self.operation_of[one], self.operation_of[other]
        return a != b and not (self.before_of[b] >> a & 1 or self.before_of[a] >> b & 1)

    def recorded(self) -> Outcome:
        """The schedule in which all work runs where it was recorded."""
        return self._run(range(len(self.operations)))

    def shuffled(self, rng: random.Random) -> Outcome:
        """A random schedule. Some lines are favoured over others, else queues would seldom lag far behind."""
        favour = {line: rng.random() ** 4 + 0.001 for line in self.lines}
        position = dict.fromkeys(self.lines, 0)
        done: set[int] = set()
        order = []
        while len(order) < len(self.operations):
            ready = [
                line
                for line, own in self.lines.items()
                if position[line] < len(own) and self.operations[own[position[line]]].waits <= done
            ]
            line = rng.choices(ready, [favour[line] for line in ready])[0]
            number = self.lines[line][position[line]]
            position[line] += 1
            done.add(number)
            order.append(number)
        return self._run(order)

    def _run(self, order: Iterable[int]) -> Outcome:
        outcome = Outcome()
        for number in order:
            for touch in self.operations[number].touches:
                access = (touch.access.row, touch.access.access)
                places = [(id(touch.buffer), byte) for byte in touch.addresses]
                if touch.access.mode == "read":
                    outcome.seen[access] = [outcome.memory.get(place) for place in places]
                else:
                    outcome.memory.update(dict.fromkeys(places, access))
        return outcome


class _Machine:
    """Walks over the events and says which line does what, and what it waits for (section 3, as a machine does it)."""

    def __init__(self, order: Order, events: Sequence[Event], found: Findings) -> None:
        self.order = order
        self.events = events
        self.touches: dict[int, list[Touch]] = {}
        for touch in found.touches:
            self.touches.setdefault(touch.access.row, []).append(touch)
        self.ordered = bool(events) and events[0]["ev"] == "meta" and events[0].get("threads") == "ordered"
        self.backends: dict[int, Event] = {}
        self.queues: dict[int, Hashable] = {}
        """The line of each backend id: a new one with each row."""
        self.freed: set[int] = set()
        self.buffers: dict[int, Event] = {}
        self.tensors: dict[int, Event] = {}
        self.recorded: dict[int, list[int]] = {}
        self.released: dict[str, list[int]] = {}

    def build(self) -> None:
        for row, event in enumerate(self.events):
            handler = getattr(self, f"on_{event['ev']}", None)
            if handler is not None:
                handler(row, event)

    def host(self, event: Event) -> Hashable:
        return ("host", event.get("thread", 0) if self.ordered else 0)

    def side(self, event: Event) -> Hashable:
        return self.queues[event["backend"]] if "backend" in event else self.host(event)

    def buffer_of(self, given: Event) -> Event:
        return self.buffers[self.tensors[given["tensor"]]["buffer"] if "tensor" in given else given["buffer"]]

    def on_backend(self, row: int, event: Event) -> None:
        self.backends[event["id"]] = event
        self.queues[event["id"]] = ("queue", row)
        self.freed.discard(event["id"])

    def on_backend_free(self, _row: int, event: Event) -> None:
        self.freed.add(event["backend"])

    def on_buffer(self, _row: int, event: Event) -> None:
        self.buffers[event["id"]] = event

    def on_tensor(self, _row: int, event: Event) -> None:
        self.tensors[event["id"]] = event

    # --- the host

    def drained(self, by: str, buffer: Event) -> list[int]:
        """What a blocking call waits for: the work so far of the queues that drain the buffer."""
        waits = []
        for backend, its in self.backends.items():
            same_device = "device" in buffer and buffer["device"] == its.get("device")
            meant = backend == buffer.get("backend") or same_device
            if meant and backend not in self.freed and by in its.get("drains", ()):
                waits += self.order.last(self.queues[backend])
        return waits

    def on_tensor_set(self, row: int, event: Event) -> None:
        self.order.add(self.host(event), self.drained("set", self.buffer_of(event)), self.touches.get(row, ()))

    on_tensor_memset = on_buffer_clear = on_tensor_set

    def on_tensor_get(self, row: int, event: Event) -> None:
        self.order.add(self.host(event), self.drained("get", self.buffer_of(event)), self.touches.get(row, ()))

    def on_set_direct(self, row: int, event: Event) -> None:
        self.order.add(self.host(event), (), self.touches.get(row, ()))

    on_get_direct = on_host_access = on_set_direct

    def on_buffer_free(self, row: int, event: Event) -> None:
        if event.get("backend", -1) == -1:
            self.on_set_direct(row, event)
        else:
            self.on_compute(row, event)

    def on_tensor_copy(self, row: int, event: Event) -> None:
        for mode, by, key in (("read", "get", "src"), ("write", "set", "dst")):
            touches = [touch for touch in self.touches.get(row, ()) if touch.access.mode == mode]
            self.order.add(self.host(event), self.drained(by, self.buffer_of(event[key])), touches)

    # --- the queues

    def issue(self, row: int, event: Event, backend: int, modes: tuple[str, ...] = ("read", "write")) -> None:
        """Work enters a queue; the call returns at once, or of a synchronous backend when the work is done."""
        touches = [touch for touch in self.touches.get(row, ()) if touch.access.mode in modes]
        self.order.add(self.queues[backend], self.order.last(self.host(event)), touches)

    def returned(self, event: Event, *backends: int) -> None:
        for backend in backends:
            if self.backends[backend].get("synchronous"):
                self.order.add(self.host(event), self.order.last(self.queues[backend]))

    def on_compute(self, row: int, event: Event) -> None:
        self.issue(row, event, event["backend"])
        self.returned(event, event["backend"])

    on_kernel = on_set_async = on_get_async = on_compute

    def on_copy_async(self, row: int, event: Event) -> None:
        dst, src = event["backend"], event.get("src_backend", event["backend"])
        from_host = self.buffer_of(event["src"]).get("host", False)
        runs_on = event.get("runs_on", "dst" if from_host else "src")
        if runs_on == "dst":
            self.wait(dst, src)
            self.issue(row, event, dst)
            self.returned(event, dst)
        elif runs_on == "src":
            if event.get("after_dst", False):
                self.wait(src, dst)
            self.issue(row, event, src)
            self.wait(dst, src)
            self.returned(event, src)
        else:
            self.issue(row, event, src, ("read",))
            self.wait(dst, src)
            self.issue(row, event, dst, ("write",))
            self.returned(event, src, dst)

    def wait(self, backend: int, other: int) -> None:
        """One queue goes on when another has done what it has so far."""
        self.order.add(self.queues[backend], self.order.last(self.queues[other]))

    # --- edges

    def on_synchronize(self, _row: int, event: Event) -> None:
        self.order.add(self.host(event), self.order.last(self.queues[event["backend"]]))

    def on_event_record(self, _row: int, event: Event) -> None:
        line = self.queues[event["backend"]]
        self.order.add(line, self.order.last(self.host(event)))
        self.recorded[event["event"]] = self.order.last(line)

    def on_event_wait(self, _row: int, event: Event) -> None:
        waits = self.order.last(self.host(event)) + self.recorded.get(event["event"], [])
        self.order.add(self.queues[event["backend"]], waits)

    def on_event_synchronize(self, _row: int, event: Event) -> None:
        self.order.add(self.host(event), self.recorded.get(event["event"], []))

    def on_event_free(self, _row: int, event: Event) -> None:
        self.recorded.pop(event["event"], None)

    def on_release(self, _row: int, event: Event) -> None:
        self.released.setdefault(event["object"], []).extend(self.order.last(self.side(event)))

    def on_acquire(self, _row: int, event: Event) -> None:
        self.order.add(self.side(event), self.released.get(event["object"], []))
