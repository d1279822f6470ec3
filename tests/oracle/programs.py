"""Random programs: small event lists that look like recordings of a scheduler's work, or like damaged ones.

What it is: `random_program`, which turns a seeded `random.Random` into a list of events. What it is not: a judge. It
keeps no clocks; whether a program races is decided by how much of its work it happens to wait for (`care`).

An even program (`weird` 0) breaks no rule: its ids are defined and alive, its ranges lie in their buffers. An odd one
is cut short, mistyped or out of bounds. Huge sizes only occur in programs that leave no buffer undefined: in memory
without bounds a byte-wise oracle would have to visit every byte.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from hbtrace.trace import vocabulary as v

Event = dict[str, Any]

_BACKEND_NAMES = ("ROCm0", "ROCm0", "CUDA0", "CUDA1", "SYCL0", "CPU")
_DEVICES = ("SYCL0", "CUDA0")
_BUFFER_NAMES = ("ROCm_Host", "CUDA0", "CUDA0", "CPU")
_TENSOR_NAMES = (
    "inp_tokens", "l_out-0", "l_out-1", "cache_k_l0", "blk.2.ffn_up.weight", "Qcur-3", "result_output",
    "CUDA1#l_out-1#0", "CUDA1#l_out-1#1", "CUDA1#a#b#7", "#a#0", "CUDA1#a#0x",
)  # fmt: skip
_RUN = ("first", "count", "repeat", "step")
_LABELS = ("fill", "sample", "mul_mat", "add", "")
_UNDEFINED = (70, 71, 72, 2**63 - 1, 2**62, -5)
_HUGE = (2**31, 2**32 + 1, 2**62, 2**63 - 1)
_WRONG = ("x", 8.0, 1, 0, True, False, [], {}, [None], [1.5, "x"], {"tensor": "0"}, None, -1, -7)
_UNKNOWN_KEYS = ("write", "node", "sizes", "ev", "tensor", "by", "picked", "runs", "count", "", "X_mine", "x", "extra")
"""Some are another's keys."""
_NO_ROWS = ({"rows": 2}, {"rows": 0}, {"stride": 8}, {"stride": -1}, {"buffer": 0}, {"size": None}, {"rows": "x"})
"""What a range with `by` cannot have, but for the last, which is none."""
_QUEUED = frozenset({"set_async", "get_async", "copy_async", "compute", "kernel"})


def random_program(rng: random.Random, *, weird: float) -> list[Event]:
    """One program. `weird` is the chance of each event to be odd, and half the chance of odd things between them."""
    return _Builder(rng, weird).build()


class _Builder:
    """Emits events and remembers what is defined, so that even programs stay even."""

    def __init__(self, rng: random.Random, weird: float) -> None:
        self.rng = rng
        self.weird = weird
        self.huge = weird > 0 and rng.random() < 0.2
        self.events: list[Event] = []
        self.threads = [0, 1, 2] if rng.random() < 0.35 else [0]
        self.thread = 0
        self.care = rng.choice((0.0, 0.3, 0.7, 0.9, 1.0, 1.0))
        """The chance that a piece of work is waited for, and that a thread hands over to the next."""
        self.chatty = rng.random() < 0.3
        """Whether events carry labels, splits, sites and the like."""
        self.queues: list[int] = []
        self.buffers: dict[int, int] = {}
        """Sizes of the buffers that are alive."""
        self.tensors: dict[int, tuple[int, int, int]] = {}
        """(buffer, offset, size) of the tensors in force."""
        self.graphs: dict[int, dict[int, int]] = {}
        """Of each graph the index tensors that choose its rows, with how many rows there are to choose from."""
        self.indexes: dict[int, int] = {}
        """The same of the ranges made since it was emptied."""
        self.lasting = False
        """Whether the ranges made now are used again when their tensors have moved: no room is sure but their own."""
        self.fresh_id = 20

    # --- small helpers

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def emit(self, ev: str, **keys: Any) -> None:
        event = {"ev": ev, **keys}
        if self.thread or self.chance(0.1):
            event["thread"] = self.thread
        if self.chatty and ev not in ("backend", "buffer", "tensor", "graph"):
            extras = {
                "label": self.rng.choice(_LABELS), "split": self.rng.randrange(12), "ubatch": self.rng.randrange(3),
                "site": "ggml-backend.cpp:1500", "time": len(self.events) * 1000, "x_note": [1, {"a": None}],
                "duration": 5, "frames": ["f.cpp:3 f", 4096],
            }  # fmt: skip
            event |= {key: value for key, value in extras.items() if self.chance(0.3)}
        if self.weird and self.chance(self.weird):
            event = self.odd(event)
        self.events.append(event)
        queued = ev in _QUEUED or (ev == "buffer_free" and keys.get("backend", -1) != -1)
        if queued and self.chance(self.care):
            self.wait_for(keys["backend"], keys.get("src_backend"))

    def wait_for(self, *queues: int | None) -> None:
        """The host, or every other queue and the host, waits for what was queued."""
        for queue in {queue for queue in queues if queue is not None}:
            if self.chance(0.7):
                self.emit("synchronize", backend=queue)
            else:
                event = self.rng.randrange(4)
                self.emit("event_record", backend=queue, event=event)
                for other in self.queues:
                    if other != queue:
                        self.emit("event_wait", backend=other, event=event)
                self.emit("event_synchronize", event=event)

    def new_id(self) -> int:
        self.fresh_id += 1
        return self.fresh_id

    def backend(self) -> int:
        return self.rng.choice(self.queues)

    # --- ranges

    def span(self, available: int) -> Event:
        """Offset, size, rows and stride within `available` bytes; without a size it reaches to their end."""
        rng = self.rng
        available = max(available, 0)
        if self.chance(0.05):
            return {"offset": rng.randint(0, available), "size": 0}
        if self.chance(0.25):
            size, rows, stride = rng.randint(1, 4), rng.randint(2, 4), rng.randint(1, 8)
            reach = size + stride * (rows - 1)
            if reach <= available:
                return {"offset": rng.randint(0, available - reach), "size": size, "rows": rows, "stride": stride}
        offset = rng.randint(0, max(available - 1, 0))
        if self.chance(0.2):
            return {"offset": offset}
        return {"offset": offset, "size": rng.randint(0, available - offset)}

    def of_tensor(self) -> Event:
        """A tensor and a span of it, now and then past its end: the keys of a range, or an event's own."""
        tensor = self.rng.choice(list(self.tensors))
        buffer, offset, size = self.tensors[tensor]
        given: Event = {"tensor": tensor}
        if self.chance(0.05) and not self.lasting:
            given |= {"offset": size // 2, "size": max(self.buffers[buffer] - offset - size // 2, 0)}
        elif self.chance(0.6):
            given |= self.span(size)
        if self.chance(0.05):
            given["approx"] = True
        return given

    def of_rows(self) -> Event:
        """Rows of a tensor that an index chooses, which need not be a tensor that anybody defined."""
        rng = self.rng
        tensor = rng.choice(list(self.tensors))
        size = self.tensors[tensor][2]
        pitch, piece, offset = rng.randint(1, 8), rng.randint(0, 8), rng.choice((0, 0, rng.randint(0, 4)))
        rows = (size - offset - piece) // pitch + 1 if offset + piece <= size else 0
        by = rng.choice((*self.tensors, *range(4), 900))
        self.indexes[by] = min(rows, self.indexes.get(by, rows))
        given: Event = {"tensor": tensor, "by": by, "pitch": pitch, "size": piece, "offset": offset}
        given |= rng.choice(({}, {}, {"approx": True}, {"rows": 1, "stride": 0, "buffer": -1}))
        return given

    def range(self) -> Event:
        if self.tensors and self.chance(0.15):
            given = self.of_rows()
        elif self.tensors and self.chance(0.75):
            given = self.of_tensor()
        else:
            buffer = self.rng.choice(list(self.buffers))
            given = {"buffer": buffer, **self.span(self.buffers[buffer])}
            if self.chance(0.1):
                given["approx"] = True
        return self.odd_range(given) if self.weird and self.chance(self.weird) else given

    def ranges(self, most: int) -> list[Any]:
        found: list[Any] = [self.range() for _ in range(self.rng.randint(0, most))]
        if self.weird and self.chance(self.weird / 2):
            found.insert(self.rng.randint(0, len(found)), self.rng.choice((None, "x", 3, {}, [])))
        return found

    def work(self, most_reads: int, most_writes: int) -> Event:
        """The keys of an event that lists what it touches."""
        self.indexes = {}
        keys = {"reads": self.ranges(most_reads), "writes": self.ranges(most_writes)}
        return {**keys, **self.picks(self.indexes)}

    def picks(self, indexes: dict[int, int]) -> Event:
        """What an event says of the content of index tensors: of most that choose its rows, and now and then twice, or
        of one that chooses nothing; odd programs choose rows that are not there."""
        rng = self.rng
        told = [by for by in indexes if self.chance(0.8)]
        told += [rng.choice((*indexes, 901)) for _ in range(2) if self.chance(0.1)]
        rng.shuffle(told)
        picked: list[Any] = []
        for by in told:
            element: Event = {"tensor": by, "runs": [self.run(indexes.get(by, 8)) for _ in range(rng.randint(0, 3))]}
            if not element["runs"] and self.chance(0.5):
                del element["runs"]
            picked.append(self.odd_pick(element) if self.weird and self.chance(self.weird) else element)
        if self.weird and self.chance(self.weird / 3):
            picked.insert(rng.randint(0, len(picked)), rng.choice((None, "x", 3, {}, [], {"tensor": None})))
        return {"picked": picked} if picked or self.chance(0.2) else {}

    def run(self, rows: int) -> Event:
        """A run of some of so many rows, of rows below them, or of none."""
        rng = self.rng
        if rows < 1 or self.chance(0.1):
            kind = rng.randrange(3)
            if kind == 0:
                return {"first": -rng.randint(1, 9)}
            return {"first": rng.randint(-4, 4), ("count", "repeat")[kind - 1]: rng.choice((0, -1, -3))}
        count = rng.randint(1, min(rows, 3))
        run = {"first": rng.randint(0, rows - count)}
        if count > 1 or self.chance(0.3):
            run["count"] = count
        if self.chance(0.4):
            run["repeat"], run["step"] = rng.randint(1, 4), rng.randint(-5, 5)
            highest = run["first"] + (run["repeat"] - 1) * max(run["step"], 0) + count - 1
            run["first"] -= max(highest - (rows - 1), 0)
        return run

    # --- definitions

    def define_backend(self, backend: int) -> None:
        keys: Event = {"id": backend, "name": self.rng.choice(_BACKEND_NAMES), "type": "gpu"}
        if self.chance(0.3):
            keys["device"] = self.rng.choice(_DEVICES)
        if self.chance(0.35):
            keys["drains"] = self.rng.choice((["set"], ["get"], ["set", "get"]))
        if self.chance(0.15):
            keys["synchronous"] = True
        if backend not in self.queues:
            self.queues.append(backend)
        self.emit("backend", **keys)

    def define_buffer(self, buffer: int, size: int) -> None:
        keys: Event = {"id": buffer, "name": self.rng.choice(_BUFFER_NAMES), "size": size}
        if self.chance(0.3):
            keys["host"] = True
        if self.chance(0.6):
            keys["backend"] = self.backend()
        if self.chance(0.2):
            keys["device"] = self.rng.choice(_DEVICES)
        if self.chance(0.25):
            keys["usage"] = self.rng.choice(("weights", "weights", "compute", "any"))
        self.buffers[buffer] = size
        self.emit("buffer", **keys)

    def move_tensor(self, tensor: int, buffers: list[int]) -> None:
        """The tensor is sent again: elsewhere in one of `buffers` that holds it, as large as it was."""
        size = self.tensors[tensor][2]
        if not (roomy := [buffer for buffer in buffers if self.buffers[buffer] >= size]):
            return
        buffer = self.rng.choice(roomy)
        offset = self.rng.randint(0, self.buffers[buffer] - size)
        keys: Event = {"id": tensor, "name": self.rng.choice(_TENSOR_NAMES), "size": size}
        if self.chance(0.3):
            keys["view_of"] = self.rng.choice(list(self.tensors))
        self.tensors[tensor] = (buffer, offset, size)
        self.emit("tensor", **keys, buffer=buffer, offset=offset)

    def define_tensor(self, tensor: int) -> None:
        """A tensor somewhere in a buffer, or a view somewhere in another tensor."""
        rng = self.rng
        keys: Event = {"id": tensor, "name": rng.choice(_TENSOR_NAMES)}
        buffer = rng.choice(list(self.buffers))
        roots = [other for other, place in self.tensors.items() if other != tensor and place[0] == buffer]
        low, high = 0, self.buffers[buffer]
        if roots and self.chance(0.35):
            keys["view_of"] = rng.choice(roots)
            _, low, size = self.tensors[keys["view_of"]]
            high = low + size
        offset = rng.randint(low, max(high - 1, low))
        size = rng.randint(0 if self.chance(0.05) else min(1, high - offset), high - offset)
        self.tensors[tensor] = (buffer, offset, size)
        if self.chance(0.15) and "view_of" not in keys:
            self.tensors[tensor] = (buffer, offset, self.buffers[buffer] - offset)  # no size: to the buffer's end
        else:
            keys["size"] = size
        self.emit("tensor", **keys, buffer=buffer, offset=offset)

    def define_graph(self, graph: int) -> None:
        nodes: list[Any] = []
        self.lasting, self.indexes = True, {}
        for _ in range(self.rng.randint(20, 30) if self.chance(0.12) else self.rng.randint(1, 5)):
            node = {"op": "ADD", "reads": self.ranges(2), "writes": self.ranges(1)}
            if self.tensors and self.chance(0.5):
                node["tensor"] = self.rng.choice(list(self.tensors))
            if self.chatty and self.chance(0.1):
                node["x_level"] = [None]
            nodes.append(self.unknown_key(node) if self.weird and self.chance(self.weird / 5) else node)
        if self.weird and self.chance(self.weird / 2):
            nodes.insert(self.rng.randint(0, len(nodes)), self.rng.choice((None, "x", 1, {})))
        self.lasting = False
        self.graphs[graph] = self.indexes
        self.emit("graph", id=graph, nodes=nodes)

    # --- steps that any number of repetitions keeps even

    def blocking(self) -> None:
        ev = self.rng.choice(("tensor_set", "tensor_memset", "tensor_get", "set_direct", "get_direct"))
        self.emit(ev, **self.of_tensor())

    def copy_blocking(self) -> None:
        self.emit("tensor_copy", src=self.range(), dst=self.range())

    def clear(self) -> None:
        self.emit("buffer_clear", buffer=self.rng.choice(list(self.buffers)))

    def transfer(self) -> None:
        keys = {"backend": self.backend(), **self.of_tensor()}
        if self.chance(0.5):
            keys["host_range"] = self.range()
        self.emit(self.rng.choice(("set_async", "get_async")), **keys)

    def copy_queued(self) -> None:
        keys: Event = {"backend": self.backend(), "src": self.range(), "dst": self.range()}
        if self.chance(0.8):
            keys["src_backend"] = self.backend()
        if self.chance(0.6):
            keys["runs_on"] = self.rng.choice(("src", "dst", "both"))
        if self.chance(0.4):
            keys["after_dst"] = self.chance(0.7)
        self.emit("copy_async", **keys)

    def compute(self) -> None:
        graph = self.rng.choice(list(self.graphs))
        self.emit("compute", backend=self.backend(), graph=graph, **self.picks(self.graphs[graph]))

    def kernel(self) -> None:
        self.emit("kernel", backend=self.backend(), **self.work(2, 2))

    def host_work(self) -> None:
        self.emit("host_access", **self.work(2, 2))

    def synchronize(self) -> None:
        self.emit("synchronize", backend=self.backend())

    def event(self) -> None:
        kinds = ("event_record", "event_wait", "event_synchronize", "event_free")
        ev = self.rng.choices(kinds, (2, 2, 1, 1))[0]
        keys: Event = {"event": self.rng.randrange(4)}
        if ev in ("event_record", "event_wait"):
            keys["backend"] = self.backend()
        self.emit(ev, **keys)

    def object(self) -> None:
        keys: Event = {"object": self.rng.choice(("door", "lock"))}
        if self.chance(0.5):
            keys["backend"] = self.backend()
        self.emit(self.rng.choice(("release", "acquire")), **keys)

    def switch_thread(self) -> None:
        """Another thread goes on; careful programs hand everything over to it."""
        hand_over = len(self.threads) > 1 and self.chance(self.care)
        if hand_over:
            self.emit("release", object="baton")
        self.thread = self.rng.choice(self.threads)
        if hand_over:
            self.emit("acquire", object="baton")

    def hand_over(self) -> None:
        """One side touches bytes, tells another through an event, an object or a call that drains, and the other
        touches them: a race exactly if the telling fails, as some does. Nothing else is waited for between the two."""
        care, self.care, self.indexes = self.care, 0.0, {}
        thread, given = self.thread, self.range()
        teller, listener = (self.rng.choice((None, self.backend())) for _ in range(2))  # None: a host thread
        self.touch_as(teller, given)
        self.rng.choice((self.tell_by_object, self.tell_by_event, self.tell_by_drain))(teller, listener)
        self.touch_as(listener, given)
        self.thread, self.care = thread, care

    def touch_as(self, side: int | None, given: Event) -> None:
        work = {self.rng.choice(("reads", "writes", "writes")): [dict(given)], **self.picks(self.indexes)}
        if side is None:
            self.emit("host_access", **work)
        else:
            self.emit("kernel", backend=side, **work)

    def tell_by_object(self, teller: int | None, listener: int | None) -> None:
        for side in (teller, self.backend()) if self.chance(0.3) else (teller,):
            self.emit("release", object="bell", **({} if side is None else {"backend": side}))
        self.thread = self.rng.choice(self.threads)
        self.emit("acquire", object="bell", **({} if listener is None else {"backend": listener}))

    def tell_by_event(self, teller: int | None, listener: int | None) -> None:
        event = self.rng.randrange(4)
        self.emit("event_record", backend=self.backend() if teller is None else teller, event=event)
        if self.chance(0.15):
            self.emit("event_free", event=event)
        elif self.chance(0.15):
            self.emit("event_record", backend=self.backend(), event=event)
        self.thread = self.rng.choice(self.threads)
        if listener is None:
            self.emit("event_synchronize", event=event)
        else:
            self.emit("event_wait", backend=listener, event=event)

    def tell_by_drain(self, _teller: int | None, listener: int | None) -> None:
        """A blocking call that touches nothing waits for the queues that drain its buffer, which the teller may be."""
        tensors = [{"tensor": tensor, "size": 0} for tensor in self.tensors]
        ev = self.rng.choice(("tensor_set", "tensor_get", "tensor_copy", "set_direct"))
        if ev == "tensor_copy":
            self.emit(ev, src=self.rng.choice(tensors), dst=self.rng.choice(tensors))
        else:
            self.emit(ev, **self.rng.choice(tensors))
        if listener is not None:
            self.emit("event_wait", backend=listener, event=999)  # never recorded: what the host knows, no more

    def repoint(self) -> None:
        """A tensor moves, and its views do not: they were not sent again."""
        self.move_tensor(self.rng.choice(list(self.tensors)), list(self.buffers))

    def marker(self) -> None:
        self.rng.choice(
            (
                lambda: self.emit("sched_prepare", sched=0, slot=1, rotated=True),
                lambda: self.emit("ubatch", sched=0, n=3, tokens=16, phase="decode"),
                lambda: self.emit("note", what="copy_refused", attrs={"why": "not peers"}),
                lambda: self.emit("sched", id=0, backends=list(self.queues), copies=2),
            )
        )()

    # --- steps that end or replace something

    def end_backend(self) -> None:
        backend = self.backend()
        if len(self.queues) > 1 and self.chance(0.5):
            self.emit("backend_free", backend=backend)
            self.queues.remove(backend)
        else:
            if self.chance(0.3):
                self.emit("backend_free", backend=backend)
            self.define_backend(backend)

    def end_buffer(self) -> None:
        """A buffer is freed and its id lives again, or its attributes are replaced; its tensors are sent again."""
        buffer = self.rng.choice(list(self.buffers))
        size = self.buffers[buffer]
        if self.chance(0.7):
            self.free(buffer)
            size = max(size, self.rng.choice((16, 32, 64)))  # graphs still name its bytes
        self.define_buffer(buffer, size)
        for tensor in [tensor for tensor, place in self.tensors.items() if place[0] == buffer]:
            self.move_tensor(tensor, [buffer])

    def free(self, buffer: int) -> None:
        """A free, of the host or ordered on a queue."""
        queue = {"backend": self.rng.choice((self.backend(), self.backend(), -1))} if self.chance(0.4) else {}
        self.emit("buffer_free", buffer=buffer, **queue)

    # --- odd things

    def odd(self, event: Event) -> Event:
        """The event with one thing wrong with it."""
        if self.huge:
            return self.odd_range(event) if {"tensor", "size"} & event.keys() and event["ev"] != "buffer" else event
        kind = self.rng.randrange(7)
        known = v.EVENTS[event["ev"]]
        table = {**v.COMMON, **known.keys}
        if kind == 0:
            event[self.rng.choice(list(table))] = copy.deepcopy(self.rng.choice(_WRONG))
        elif kind == 1 and known.needs:
            key = self.rng.choice(known.needs)
            event[key] = self.rng.choice((None, -1, event[key]))
        elif kind == 2:
            sets = [key for ev, key in v.SETS if ev == event["ev"]]
            for key in sets:
                event[key] = self.rng.choice(("scratch", ["put", "set"], ["set", None, 5], "both", None))
        elif kind == 3 and "tensor" in event:
            return self.odd_range(event)
        elif kind == 4 and (ids := [key for key, of in table.items() if of == v.ID and key in event]):
            event[self.rng.choice(ids)] = self.rng.choice(_UNDEFINED)
        elif kind == 5:
            self.unknown_key(event)
        elif self.chance(0.5):
            event["ev"] = self.rng.choice(("kernel_launch", "tensor_set ", 5, None))
        return event

    def unknown_key(self, given: Event) -> Event:
        """A key that nobody reads here, which is no key where its value is null."""
        given.setdefault(self.rng.choice(_UNKNOWN_KEYS), copy.deepcopy(self.rng.choice(_WRONG)))
        return given

    def odd_pick(self, element: Event) -> Event:
        """An element of `picked` that is wrong, or says rows that are not there."""
        rng = self.rng
        runs = element.setdefault("runs", [])
        if self.huge:
            huge = [rng.choice(_HUGE) * rng.choice((1, 1, -1)) + rng.choice((0, 0, -9, 9)) for _ in range(4)]
            some = {"first": 0} | {key: max(-(2**63), min(n, 2**63 - 1)) for key, n in zip(_RUN, huge, strict=True)}
            runs.append({key: n for key, n in some.items() if key == "first" or self.chance(0.6)})
            return element
        kind = rng.randrange(6)
        if kind == 0:
            runs.append({"count": 2})
        elif kind == 1:
            runs.append({"first": 0, rng.choice(_RUN): copy.deepcopy(rng.choice(_WRONG))})
        elif kind == 2:
            element[rng.choice(("tensor", "runs"))] = copy.deepcopy(rng.choice(_WRONG))
        elif kind == 3:
            self.unknown_key(rng.choice((element, *runs)))
        elif kind == 4:
            runs.insert(rng.randint(0, len(runs)), copy.deepcopy(rng.choice(_WRONG)))
        else:
            runs.append({"first": rng.randint(0, 80), "count": rng.randint(1, 9), "repeat": 2, "step": 9})
        return element

    def odd_range(self, given: Event) -> Event:
        """A range that goes out of bounds, is empty in an odd way, lies nowhere, or says what it cannot mean."""
        rng = self.rng
        some = rng.choice(_UNDEFINED)
        if self.huge:
            keys = ("offset", "size", *(("pitch",) if "by" in given else ("stride",)))
            given[rng.choice(keys)] = rng.choice(_HUGE) * rng.choice((1, 1, -1))
            if self.chance(0.3):
                given |= {"rows": rng.randint(2, 4), "stride": rng.choice((3, *_HUGE))}
            return given
        odd: Event = rng.choice(
            (
                {"offset": -rng.randint(1, 20), "size": rng.randint(0, 20)},
                {"offset": rng.randint(0, 80), "size": rng.randint(0, 80)},
                {"offset": rng.randint(0, 80), "size": None},
                {"offset": rng.choice((2**40, 2**62)), "size": 4},
                {"size": -rng.randint(1, 20)},
                {"size": 3, "rows": rng.randint(-1, 6), "stride": rng.randint(-1, 20)},
                {"rows": rng.randint(2, 5)},
                {"approx": 1},
                {"offset": 8.0},
                {"stride": "8", "rows": 3},
                {"tensor": None},
                {"tensor": -1, "buffer": -1},
                {"tensor": some},
                {"buffer": some, "tensor": None, "offset": rng.randint(-8, 8), "size": rng.randint(1, 8)},
                {"buffer": some, "tensor": None},
                {"by": rng.choice((some, -1, "x", None, 0))},
                {"pitch": rng.choice((0, -3, "4", None, 5))},
                {"by": 0, "pitch": 4, "size": 4, **rng.choice(_NO_ROWS)},
                {"by": 0, "pitch": 4, "size": rng.choice((0, -2)), "rows": 1},
            )
        )
        if self.chance(0.1):
            self.unknown_key(odd)
        return {**given, **odd}

    def odd_step(self) -> None:
        """Something that a sound recording does not hold."""
        rng = self.rng
        steps = [
            self.odd_buffer, self.odd_tensor, self.late_meta, self.dead_buffer, self.dead_buffer, self.dead_backend,
            self.view_cycle, self.named_host,
        ]  # fmt: skip
        if not self.huge:
            steps += [self.undefined, self.undefined, self.define_undefined]
        rng.choice(steps)()

    def odd_buffer(self) -> None:
        """Hardly any bytes, used at its edges; perhaps freed, once or twice."""
        buffer = self.new_id()
        self.define_buffer(buffer, self.rng.choice((0, 0, 1, -4)))
        if self.chance(0.5):
            edges = [{"buffer": buffer, "offset": self.rng.randint(-6, 1)}]
            self.emit("host_access", reads=edges)
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            self.free(buffer)

    def odd_tensor(self) -> None:
        """Nowhere, out of bounds, of an odd size or none, or over the end of its buffer; perhaps used at once."""
        buffer = self.rng.choice((-1, self.rng.choice(list(self.buffers))))
        size = self.rng.choice((0, 8, 100, -4, None))
        tensor = self.rng.choice((self.new_id(), *self.tensors))
        self.tensors[tensor] = (next(iter(self.buffers)), 0, 8)
        self.emit("tensor", id=tensor, name="odd", buffer=buffer, offset=self.rng.choice((0, -4, 8, 90)), size=size)
        if self.chance(0.5):
            span = self.rng.choice(({}, {"offset": 2, "size": 0}, {"offset": self.rng.randint(-9, 4)}))
            self.emit("get_direct", tensor=tensor, **span)

    def late_meta(self) -> None:
        self.emit("meta", version=1, threads="ordered")

    def dead_buffer(self) -> None:
        """Freed, perhaps twice, and used on."""
        buffer = self.rng.choice(list(self.buffers))
        for _ in range(self.rng.randint(1, 2)):
            self.free(buffer)
        if self.chance(0.5):
            self.hand_over()
        if self.chance(0.3):
            whole = {"buffer": buffer}
            keys = {"backend": self.backend(), "src_backend": self.backend(), "src": whole, "dst": self.range()}
            self.emit("copy_async", **keys)

    def dead_backend(self) -> None:
        """Freed, perhaps twice, and used on."""
        backend = self.backend()
        for _ in range(self.rng.randint(1, 2)):
            self.emit("backend_free", backend=backend)

    def view_cycle(self) -> None:
        """Views of each other, of themselves, or of what nobody defined."""
        buffer = self.rng.choice(list(self.buffers))
        ids = [self.new_id() for _ in range(self.rng.randint(1, 3))]
        last = ids[0] if self.huge else self.rng.choice((ids[0], ids[-1], self.rng.choice(_UNDEFINED)))
        offset = self.rng.choice((0, 0, 70))
        for tensor, target in zip(ids, [*ids[1:], last], strict=True):
            self.tensors[tensor] = (buffer, 0, min(8, self.buffers[buffer]))
            self.emit("tensor", id=tensor, name=f"cyc-{tensor}", buffer=buffer, offset=offset, size=8, view_of=target)
        if self.chance(0.5):
            self.emit("get_direct", tensor=self.rng.choice(ids))

    def named_host(self) -> None:
        backend = self.new_id()
        self.queues.append(backend)
        self.emit("backend", id=backend, name="HOST")

    def undefined(self) -> None:
        """An id that no row has defined so far is used."""
        rng = self.rng
        some = rng.choice(_UNDEFINED)
        small = {"offset": rng.randint(-8, 8), "size": rng.randint(0, 12)}
        copied = {"src": self.range(), "dst": self.range()}
        rng.choice(
            (
                lambda: self.emit("kernel", backend=some, reads=[self.range()], writes=[{"buffer": some, **small}]),
                lambda: self.emit("host_access", reads=[{"buffer": some, **small}], writes=[{"tensor": some, **small}]),
                lambda: self.emit("tensor_set", tensor=some, **(small if self.chance(0.7) else {})),
                lambda: self.emit("compute", backend=self.backend(), graph=some),
                lambda: self.emit("buffer_clear", buffer=some),
                lambda: self.emit("buffer_free", buffer=some),
                lambda: self.emit("buffer_free", buffer=self.rng.choice(list(self.buffers)), backend=some),
                lambda: self.emit("backend_free", backend=some),
                lambda: self.emit("synchronize", backend=some),
                lambda: self.emit("copy_async", backend=self.backend(), src_backend=some, **copied),
                lambda: self.emit("tensor", id=self.new_id(), name="in_unknown", buffer=some, offset=4, size=8),
                lambda: self.emit("get_async", backend=self.backend(), tensor=some, **small),
                lambda: self.emit("event_wait", backend=some, event=1),
            )
        )()

    def define_undefined(self) -> None:
        """An id that was perhaps used before is defined now."""
        rng = self.rng
        some = rng.choice(_UNDEFINED)
        rng.choice(
            (
                lambda: self.define_backend(some),
                lambda: self.define_buffer(some, 24),
                lambda: self.define_tensor(some),
                lambda: self.define_graph(some),
            )
        )()

    # --- the whole

    def set_up(self) -> None:
        rng = self.rng
        if len(self.threads) > 1:
            self.events.append({"ev": "meta", "version": 1, "threads": "ordered"})
        elif self.chance(0.2):
            self.events.append({"ev": "meta", "version": 1, "producer": "test", "env": {"A": "1"}, "command": ["x"]})
        for backend in range(rng.randint(1, 4)):
            self.define_backend(backend)
        for buffer in range(rng.randint(1, 3)):
            self.define_buffer(buffer, rng.choice((16, 32, 48, 64)))
        for tensor in range(rng.randint(1, 6)):
            self.define_tensor(tensor)
        for graph in range(rng.randint(1, 3)):
            self.define_graph(graph)

    def step(self) -> None:
        steady = [
            (self.blocking, 5), (self.copy_blocking, 1.5), (self.clear, 0.5), (self.transfer, 3), (self.copy_queued, 3),
            (self.compute, 6), (self.kernel, 4), (self.host_work, 2), (self.synchronize, 2), (self.event, 4),
            (self.object, 1.5), (self.switch_thread, 1.5 if len(self.threads) > 1 else 0), (self.repoint, 1),
            (self.hand_over, 2.5 if self.care < 1 else 0), (self.marker, 0.5),
        ]  # fmt: skip
        steps, weights = zip(*steady, strict=True)
        self.rng.choices(steps, weights)[0]()

    def replace(self) -> None:
        again = lambda: self.define_graph(self.rng.choice(list(self.graphs)))  # noqa: E731
        self.rng.choice((self.end_backend, self.end_buffer, again))()

    def loop(self) -> None:
        """The same few events again and again, as decoding does, with small disturbances between the rounds."""
        start = len(self.events)
        self.lasting = True
        for _ in range(self.rng.randint(1, 4)):
            self.step()
        self.lasting = False
        body = self.events[start:]
        moved = {tensor: self.tensors[tensor] for tensor in self.tensors if any(tensor == e.get("id") for e in body)}
        for _ in range(self.rng.randint(3, 12)):
            shift = self.chance(0.4)
            for event in copy.deepcopy(body):
                if shift and event.get("backend") in self.queues:
                    event["backend"] = self.backend()
                self.events.append(event)
            self.tensors |= moved
            if self.chance(0.4):
                self.rng.choice((self.blocking, self.repoint, self.compute, self.host_work, self.kernel))()

    def build(self) -> list[Event]:
        rng = self.rng
        self.set_up()
        length = rng.choice((4, 12, 25, 40))
        target = len(self.events) + length
        if self.chance(0.3):
            self.loop()
        while len(self.events) < target:
            if self.chance(0.06):
                self.replace()
            if self.weird and self.chance(self.weird / 2):
                self.odd_step()
            self.step()
        if self.weird and not self.huge and self.chance(0.15):
            del self.events[: rng.randint(1, 6)]  # the recording began late
        return self.events
