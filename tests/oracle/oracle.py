"""A brute-force replay of an event list, written from the contract of events alone.

What it is: the contract in the plainest code that states it. Shadow memory is a dictionary from a byte to what it
remembers, a vector clock is a dictionary from an actor to a number, nothing is forgotten early and nothing is
optimised. What it is not: part of the product. It imports the contract's tables (`hbtrace.trace.vocabulary`) and
nothing of `hbtrace.replay`, so the two can only agree by both being right.

Where the contract can be read in two ways, the reading taken is marked with "Reading:".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hbtrace.trace import vocabulary as v

Event = dict[str, Any]

SKIPPED_ROWS = "skipped rows"
VALUES = "values"
UNKNOWN_KEYS = "unknown keys"
LATE_META = "late meta"
CUT_RANGES = "cut ranges"
TOUCHES_NOTHING = "touches nothing"
UNDEFINED_BACKEND = "undefined backend"
UNDEFINED_BUFFER = "undefined buffer"
UNDEFINED_TENSOR = "undefined tensor"
UNDEFINED_GRAPH = "undefined graph"
FREED_BACKEND = "freed backend"
USE_AFTER_FREE = "use-after-free"
NAMED_HOST = "backend named HOST"

STRICT_ERRORS = frozenset(
    {
        SKIPPED_ROWS, UNKNOWN_KEYS, CUT_RANGES, UNDEFINED_BACKEND, UNDEFINED_BUFFER, UNDEFINED_TENSOR,
        UNDEFINED_GRAPH, USE_AFTER_FREE, NAMED_HOST,
    }
)  # fmt: skip
"""The warnings that are errors in strict mode: what the contract calls one, and nothing else (sections 9 and 10)."""

_ELEMENTS = {
    v.INTS: v.INT, v.STRS: v.STR, v.RANGES: v.RANGE, v.NODES: "node", v.PICKS: "pick", v.RUNS: "run",
}  # fmt: skip
"""Of lists the kind of an element."""

_MOST_BYTES = 1 << 20
_INT64 = range(-(2**63), 2**63)
_SCHEDULER_COPY = re.compile(r"([^#]*#.*)#[0-9]+", re.DOTALL)


class TooLargeError(Exception):
    """A program that a byte-wise replay cannot run."""


@dataclass(eq=False)
class Actor:
    """A host thread or one `backend` row. Compared by identity: a row for an id in use is another actor."""

    name: str
    base: str
    """The name without the suffix that the replay adds."""
    id: int = -1
    synchronous: bool = False
    device: str | None = None
    drains: tuple[str, ...] = ()
    freed: bool = False


@dataclass(eq=False)
class Buffer:
    """One life of a buffer, with the shadow memory of its bytes. A size of None: never defined, no bounds."""

    id: int
    name: str
    size: int | None = None
    host: bool = False
    owner: int = -1
    device: str | None = None
    weights: bool = False
    dead: bool = False
    writes: dict[int, Access] = field(default_factory=dict)
    """Of each byte its last write."""
    reads: dict[int, dict[Actor, Access]] = field(default_factory=dict)
    """Of each byte the newest read of each actor since its last write."""

    def whole(self) -> Pieces:
        """All of it; where it was never defined, exactly the bytes touched so far."""
        if self.size is not None:
            return Pieces(0, self.size)
        touched = sorted(self.writes.keys() | self.reads.keys())
        low = touched[0] if touched else 0
        return Pieces(low, 1, runs=tuple(Run(byte - low) for byte in touched))


@dataclass(frozen=True)
class Run:
    """The rows first + j·step + i for 0 ≤ i < count and 0 ≤ j < repeat."""

    first: int
    count: int = 1
    repeat: int = 1
    step: int = 0

    def meets(self, low: int, high: int) -> bool:
        """Whether one of its rows is in [low, high]. Rows may be far too many to be listed."""
        if self.count < 1 or self.repeat < 1 or low > high:
            return False
        least, most, step = low - self.first - self.count + 1, high - self.first, self.step  # where j·step lies
        if step < 0:
            least, most, step = -most, -least, -step
        if step == 0:
            return least <= 0 <= most
        return max(0, -(-least // step)) <= min(self.repeat - 1, most // step)

    def ends(self) -> tuple[int, int]:
        """Its lowest and its highest row."""
        last = self.first + (self.repeat - 1) * self.step
        return min(self.first, last), max(self.first, last) + self.count - 1


@dataclass(frozen=True)
class Pieces:
    """The bytes [start + r·pitch, + size) of every row r ≥ 0 of the runs. Without more, the one piece at `start`."""

    start: int
    size: int
    pitch: int = 1
    runs: tuple[Run, ...] = (Run(0),)

    def meets(self, low: int, high: int) -> bool:
        """Whether one of its rows is in [low, high]."""
        return self.size > 0 and any(run.meets(max(low, 0), high) for run in self.runs)

    @property
    def span(self) -> tuple[int, int]:
        """An interval that holds all of its bytes and ends with them."""
        ends = [run.ends() for run in self.runs if run.count >= 1 and run.repeat >= 1]
        last = max((high for _, high in ends), default=-1)
        if self.size <= 0 or last < 0:
            return 0, 0
        first = max(min(low for low, _ in ends), 0)
        return self.start + first * self.pitch, self.start + last * self.pitch + self.size

    def leaves(self, low: int, high: int) -> bool:
        """Whether one of its pieces begins below `low` or ends past `high`."""
        last = (self.span[1] - self.size - self.start) // self.pitch
        first_past = (high - self.size - self.start) // self.pitch + 1
        return self.meets(0, (low - self.start - 1) // self.pitch) or self.meets(first_past, last)

    def within(self, low: int, high: int) -> list[int]:
        """Its bytes in [low, high), each once."""
        if high - low > _MOST_BYTES:
            raise TooLargeError("more bytes than can be visited one by one")
        return [byte for byte in range(low, high) if self.meets(*self.rows_on(byte))]

    def rows_on(self, byte: int) -> tuple[int, int]:
        """The first and the last row that would hold the byte."""
        return -((self.size - 1 - byte + self.start) // self.pitch), (byte - self.start) // self.pitch


@dataclass(frozen=True)
class Tensor:
    """What one `tensor` row says. A size of None: to the end of its buffer."""

    name: str
    buffer: int
    offset: int
    size: int | None
    view_of: int


@dataclass(frozen=True)
class Place:
    """A range resolved with the addresses in force: bytes of one buffer, neither cut nor checked."""

    buffer: Buffer
    tensor_id: int
    pieces: Pieces
    approx: bool


@dataclass(eq=False)
class Access:
    """One side of a report. `access` is its number within the event, `by` the actor itself."""

    row: int
    access: int
    mode: str
    by: Actor
    clock: int
    split: int
    ubatch: int
    thread: int
    tensor: str | None
    tensor_id: int
    root: str | None
    root_id: int
    label: str
    site: str | None
    approx: bool

    @property
    def actor(self) -> str:
        return self.by.name

    @property
    def shown(self) -> str:
        """The tensor as section 4 prints it."""
        if self.tensor is None:
            return "-"
        return self.tensor if self.tensor_id == self.root_id else f"{self.tensor} <- {self.root}"

    @property
    def identity(self) -> tuple[str, str | None, str]:
        """Its part of a signature: actor without suffix, root tensor without the scheduler's slot, label."""
        root = self.root
        if root is not None and (copy := _SCHEDULER_COPY.fullmatch(root)):
            root = copy[1]
        return (self.by.base, root, self.label)


@dataclass(frozen=True)
class Touch:
    """An access that was checked and remembered, with its bytes."""

    access: Access
    buffer: Buffer
    addresses: list[int]


@dataclass
class Report:
    """One pair of accesses that race."""

    earlier: Access
    current: Access
    buffer: str
    """The buffer's name at the current access."""
    buffer_id: int
    knows: int
    addresses: list[int]

    @property
    def kind(self) -> str:
        return f"{self.current.mode}-after-{self.earlier.mode}"

    @property
    def lo(self) -> int:
        return min(self.addresses)

    @property
    def hi(self) -> int:
        return max(self.addresses) + 1

    @property
    def bytes(self) -> int:
        return len(self.addresses)

    @property
    def approx(self) -> bool:
        return self.earlier.approx or self.current.approx

    @property
    def needs(self) -> int:
        return self.earlier.clock

    @property
    def signature(self) -> tuple[str | None, ...]:
        return (self.kind, self.buffer, *self.earlier.identity, *self.current.identity)

    def text(self) -> str:
        """The report, byte for byte (section 4), with the newline that ends its last line."""
        sides = (self.earlier, self.current)
        columns = [[_told(side.actor), f"@{side.clock}", f"split {side.split}"] for side in sides]
        widths = [max(len(cell) for cell in pair) for pair in zip(*columns, strict=True)]
        lines = [f"RACE ({self.kind}) on {self.buffer}[{self.lo}, {self.hi})"]
        for side, cells in zip(sides, columns, strict=True):
            padded = "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
            lines.append(f"  {side.mode:<5} {padded}{side.shown} ({side.label})")
        missing = f"{self.current.actor} knows {self.earlier.actor}@{self.knows}, needs >={self.needs}"
        lines.append(f"  no happens-before edge: {missing}")
        return "\n".join(map(_told, lines)) + "\n"


def _told(line: str) -> str:
    """A line with what could steer a terminal or turn the order of text written out (section 10, hostile text)."""
    steers = {"Cc", "Cs", "Zl", "Zp"}
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    hostile = [unicodedata.category(c) in steers or unicodedata.bidirectional(c) in bidi for c in line]
    return "".join(ascii(c)[1:-1] if bad else c for c, bad in zip(line, hostile, strict=True))


@dataclass
class Findings:
    """What the oracle found."""

    reports: list[Report] = field(default_factory=list)
    met: dict[str, dict[int, int]] = field(default_factory=dict)
    """Of each kind of warning what it counts (rows, of undefined ids these), each with the row where it was first."""
    strict_row: int | None = None
    """The row at which strict mode stops, None if it does not."""
    accessed: bool = False
    """Whether any row touched a byte, live or dead: else there is nothing to judge."""
    chosen: set[tuple[int, int]] = field(default_factory=set)
    """Row and number of the accesses to rows that an index chooses."""
    touches: list[Touch] = field(default_factory=list)
    """Every access with bytes, in order: what the schedule simulator runs."""

    @property
    def warnings(self) -> set[str]:
        """The kinds of warning, by the names above."""
        return set(self.met)

    @property
    def counted(self) -> list[tuple[int, int]]:
        """Of each kind of warning how many and where first, in order."""
        return sorted((len(rows), min(rows.values())) for rows in self.met.values())

    @property
    def distinct(self) -> int:
        return len({report.signature for report in self.reports})

    def text(self) -> str:
        return "\n".join(report.text() for report in self.reports)


def analyze(events: Iterable[Event], *, skip_weights: bool = False, threads: str | None = None) -> Findings:
    """Replay `events` (parsed JSON lines, blank ones dropped). `threads` overrides the trace: `one` or `ordered`.

    The whole list is replayed and `strict_row` says where strict mode would have stopped. Traces that cannot be
    read at all (a higher version, no event) are the reader's business, not the oracle's.
    """
    replay = _Replay(skip_weights, threads)
    for row, event in enumerate(events):
        replay.step(row, event)
    return replay.found


class _Values:
    """Reads the keys of an event: null is absent, the wrong type is absent with a warning (sections 1 and 9)."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn = warn

    def keys(self, table: dict[str, str], given: Event, ev: str = "") -> Event:
        """The keys of `table` that `given` has a usable value for. Other keys warn, unless they are the producer's."""
        usable = {}
        for key, value in given.items():
            # Reading: null is absent (section 9), so an unknown key of null is no key.
            if key not in table and not key.startswith("x_") and value is not None:
                self.warn(UNKNOWN_KEYS)
        for key, kind in table.items():
            value = self.typed(kind, given.get(key))
            if (ev, key) in v.SETS:
                value = self.of_set(v.SETS[ev, key], value)
            if value is not None:
                usable[key] = value
        return usable

    def of_set(self, allowed: frozenset[str], value: str | list[str] | None) -> str | list[str] | None:
        """An unknown value is the default, an unknown element is dropped; both warn."""
        if value is None or (isinstance(value, str) and value in allowed):
            return value
        if isinstance(value, list):
            known = [element for element in value if element in allowed]
            if len(known) < len(value):
                self.warn(VALUES)
            return known
        self.warn(VALUES)
        return None

    def typed(self, kind: str, value: Any) -> Any:
        """`value` as a value of `kind`, or None. True is no 1, 8.0 no 8; what int64 cannot hold is no integer."""
        if value is None:
            return None
        if kind in (v.INT, v.ID) and type(value) is int and value in _INT64:
            return value
        if kind == v.BOOL and type(value) is bool:
            return value
        if kind == v.STR and type(value) is str:
            return value
        if kind == v.JSON and type(value) is dict:
            return value
        if kind == v.LIST and type(value) is list:
            return value
        if kind == v.RANGE and type(value) is dict:
            return self.rows_chosen(self.keys(v.RANGE_KEYS, value))
        if kind == "node" and type(value) is dict:
            return self.keys(v.NODE_KEYS, value)
        if kind == "run":
            # Reading: a run is part of its pick, so a key of it that the contract does not name warns, too. What is
            # no run at all does not say where it begins; a null is none.
            return self.keys(v.RUN_KEYS, value) if type(value) is dict else {}
        if kind == "pick" and type(value) is dict:
            return self.pick(self.keys(v.PICK_KEYS, value))
        element = _ELEMENTS.get(kind)
        if element and type(value) is list:
            # Reading: a null element is absent like a null key, hence dropped without a warning.
            usable = [self.typed(element, item) for item in value]
            return [item for item in usable if item is not None]
        self.warn(VALUES)
        return None

    def rows_chosen(self, given: Event) -> Event:
        """A range whose `by` and `pitch` stand only where they mean something (section 10)."""
        by, pitch = given.pop("by", -1), given.pop("pitch", 0)
        if by == -1:
            return given
        one_piece = given.get("rows", 1) == 1 and given.get("stride", 0) == 0 and given.get("buffer", -1) == -1
        if one_piece and "size" in given and pitch >= 1:
            return {**given, "by": by, "pitch": pitch}
        self.warn(VALUES)
        return given

    def pick(self, given: Event) -> Event | None:
        """One element of `picked`; none where a run does not say where it begins."""
        if all("first" in run for run in given.get("runs", ())):
            return given
        self.warn(VALUES)
        return None


class _Replay:
    """The state that the events change, and one method `on_<ev>` for each that changes it."""

    def __init__(self, skip_weights: bool, threads: str | None) -> None:
        self.found = Findings()
        self.values = _Values(self.warn)
        self.skip_weights = skip_weights
        self.override = threads
        self.ordered = threads == "ordered"

        self.clocks: dict[Actor, dict[Actor, int]] = {}
        self.hosts: dict[int, Actor] = {}
        self.backends: dict[int, Actor] = {}
        self.backend_names: dict[str, int] = {}
        self.buffers: dict[int, Buffer] = {}
        self.own_buffers: dict[int, Buffer] = {}
        """The buffers of the tensors that were never defined."""
        self.tensors: dict[int, Tensor] = {}
        self.graphs: dict[int, list[Event]] = {}
        self.events: dict[int, dict[Actor, int]] = {}
        self.objects: dict[str, dict[Actor, int]] = {}

        self.row = 0
        self.ev = ""
        self.keys: Event = {}
        self.number = 0
        """The number of the event's next access."""

    def warn(self, kind: str, ident: int | None = None) -> None:
        """One warning of a kind. A row counts once, an undefined id (`ident`) once."""
        self.found.met.setdefault(kind, {}).setdefault(self.row if ident is None else ident, self.row)
        if kind in STRICT_ERRORS and self.found.strict_row is None:
            self.found.strict_row = self.row

    def step(self, row: int, event: Event) -> None:
        self.row, self.number = row, 0
        ev = event.get("ev")
        if type(ev) is not str or ev not in v.EVENTS:
            self.warn(SKIPPED_ROWS)
            return
        if ev == "meta" and row > 0:
            # Reading: nothing in it is looked at, so wrong values in it do not warn a second time.
            self.warn(LATE_META)
            return
        self.ev, known = ev, v.EVENTS[ev]
        self.keys = keys = self.values.keys({"ev": v.STR, **v.COMMON, **known.keys}, event, ev)
        for key in known.needs:
            if key not in keys or (known.keys[key] == v.ID and keys[key] == -1):
                self.warn(SKIPPED_ROWS)
                return
        handler = getattr(self, f"on_{ev}", None)
        if handler is not None:  # None: `sched` and the markers
            handler(keys)

    # --- actors and clocks

    def new_actor(self, actor: Actor) -> Actor:
        self.clocks[actor] = {}
        return actor

    def host(self) -> Actor:
        """The actor of the event's thread."""
        thread = self.keys.get("thread", 0) if self.ordered else 0
        if thread not in self.hosts:
            name = f"HOST#{thread}" if thread else "HOST"
            # Reading: HOST#t has a suffix "added here", so in signatures all threads are HOST.
            self.hosts[thread] = self.new_actor(Actor(name, "HOST"))
        return self.hosts[thread]

    def queue(self, backend: int) -> Actor:
        """The actor that has the id, named by an event: here an id counts as used."""
        if backend not in self.backends:
            self.warn(UNDEFINED_BACKEND, backend)
            name = f"?{backend}"
            self.backends[backend] = self.new_actor(Actor(name, name, id=backend))
        if self.backends[backend].freed:
            self.warn(FREED_BACKEND)
        return self.backends[backend]

    def learn(self, actor: Actor, known: dict[Actor, int]) -> None:
        """VC[actor] |= known."""
        mine = self.clocks[actor]
        for other, clock in known.items():
            mine[other] = max(mine.get(other, 0), clock)

    def join(self, actor: Actor, other: Actor) -> None:
        """VC[actor] |= VC[other]."""
        self.learn(actor, self.clocks[other])

    def tick(self, actor: Actor) -> None:
        mine = self.clocks[actor]
        mine[actor] = mine.get(actor, 0) + 1

    def issue(self, queue: Actor) -> None:
        self.join(queue, self.host())
        self.tick(queue)

    def finish(self, *queues: Actor) -> None:
        """After queued work: the host knows what the synchronous queues that ticked have done."""
        for queue in queues:
            if queue.synchronous:
                self.join(self.host(), queue)

    # --- ids to things

    def buffer(self, buffer_id: int) -> Buffer:
        """The life that the id stands for, named by an event or reached through a tensor: here it counts as used."""
        if buffer_id not in self.buffers:
            self.warn(UNDEFINED_BUFFER, buffer_id)
            self.buffers[buffer_id] = Buffer(buffer_id, f"?{buffer_id}")
        return self.buffers[buffer_id]

    def tensor_name(self, tensor_id: int) -> str:
        return self.tensors[tensor_id].name if tensor_id in self.tensors else f"?{tensor_id}"

    def views_from(self, tensor_id: int) -> list[int]:
        """What `view_of` leads to, step by step, up to a tensor that is no view or was met before."""
        chain: list[int] = []
        while tensor_id in self.tensors and (tensor_id := self.tensors[tensor_id].view_of) != -1:
            if tensor_id in chain:
                break
            chain.append(tensor_id)
        return chain

    def root(self, tensor_id: int) -> int:
        """The first tensor from here on that is its own root: no view, or one to which a cycle leads back."""
        for candidate in [tensor_id, *self.views_from(tensor_id)]:
            onward = self.views_from(candidate)
            if not onward or candidate in onward:
                return candidate
        raise AssertionError("every chain of views ends or closes")

    def resolve(self, given: Event) -> Place | None:
        """The bytes of a range now, None where it names no memory. Rows chosen by an index are those that the event
        has `picked`; an event that does not say which touches some of its tensor."""
        runs = None
        if "by" in given:
            self.found.chosen.add((self.row, self.number))
            runs = self.picked().get(given["by"])
            if runs is None:
                given = {"tensor": given.get("tensor", -1), "approx": True}
        tensor_id, buffer_id = given.get("tensor", -1), given.get("buffer", -1)
        end: int | None
        if tensor_id != -1 and tensor_id not in self.tensors:
            self.warn(UNDEFINED_TENSOR, tensor_id)
            buffer = self.own_buffers.setdefault(tensor_id, Buffer(-1, f"?{tensor_id}"))
            base, end = 0, None
        elif tensor_id != -1:
            tensor = self.tensors[tensor_id]
            if tensor.buffer == -1:
                self.warn(TOUCHES_NOTHING)
                return None
            buffer, base = self.buffer(tensor.buffer), tensor.offset
            end = buffer.size if tensor.size is None else base + max(tensor.size, 0)
        elif buffer_id != -1:
            buffer = self.buffer(buffer_id)
            base, end = 0, buffer.size
        else:
            self.warn(TOUCHES_NOTHING)
            return None
        start = base + given.get("offset", 0)
        size = given["size"] if "size" in given else (start if end is None else end) - start
        if runs is not None:
            return Place(buffer, tensor_id, Pieces(start, size, given["pitch"], runs), approx=False)
        pieces = Pieces(start, size)
        if given.get("rows", 1) > 1 and given.get("stride", 0) >= 1:
            pieces = Pieces(start, size, given["stride"], (Run(0, given["rows"]),))
        return Place(buffer, tensor_id, pieces, given.get("approx", False))

    def picked(self) -> dict[int, tuple[Run, ...]]:
        """The rows that the event says, by index tensor; of two elements for one the later."""
        return {
            element["tensor"]: tuple(Run(**run) for run in element.get("runs", ()))
            for element in self.keys.get("picked", ())
            if "tensor" in element
        }

    # --- accesses

    def touch(self, actor: Actor, mode: str, place: Place | None, suffix: str = "") -> None:
        """One numbered access: checked against what its bytes remember, then remembered itself."""
        number, self.number = self.number, self.number + 1
        if place is None:
            return
        buffer, pieces = place.buffer, place.pieces
        low, high = pieces.span
        bounded = not buffer.dead and buffer.size is not None
        inside = pieces.within(max(low, 0), min(high, buffer.size)) if bounded else range(low, high)
        self.found.accessed |= bool(inside)
        if low == high or (self.skip_weights and buffer.weights):
            return
        if bounded and pieces.leaves(0, buffer.size):
            self.warn(CUT_RANGES)
        if not inside:
            return
        access = self.describe(actor, mode, place, number, suffix)
        if buffer.dead:
            self.warn(USE_AFTER_FREE)
            return
        addresses = pieces.within(inside[0], inside[-1] + 1)
        self.found.touches.append(Touch(access, buffer, addresses))
        self.check(access, buffer, addresses)
        for byte in addresses:
            if mode == "write":
                buffer.writes[byte] = access
                buffer.reads.pop(byte, None)
            else:
                buffer.reads.setdefault(byte, {})[actor] = access

    def describe(self, actor: Actor, mode: str, place: Place, number: int, suffix: str) -> Access:
        """The access with the names in force. It has bytes, so its view's root counts as used."""
        named = place.tensor_id != -1
        root_id = self.root(place.tensor_id) if named else -1
        if named and root_id not in self.tensors:
            self.warn(UNDEFINED_TENSOR, root_id)
        keys = self.keys
        return Access(
            row=self.row,
            access=number,
            mode=mode,
            by=actor,
            clock=self.clocks[actor][actor],
            split=keys.get("split", -1),
            ubatch=keys.get("ubatch", -1),
            thread=keys.get("thread", 0),
            tensor=self.tensor_name(place.tensor_id) if named else None,
            tensor_id=place.tensor_id,
            root=self.tensor_name(root_id) if named else None,
            root_id=root_id,
            label=(keys.get("label") or self.ev) + suffix,
            site=keys.get("site"),
            approx=place.approx,
        )

    def check(self, access: Access, buffer: Buffer, addresses: list[int]) -> None:
        """One report for each remembered access that some of the bytes race with, the earliest first."""
        knows = self.clocks[access.by]
        conflicts: dict[Access, list[int]] = {}
        for byte in addresses:
            met = [buffer.writes[byte]] if byte in buffer.writes else []
            if access.mode == "write":
                met += buffer.reads.get(byte, {}).values()
            for earlier in met:
                if earlier.by is not access.by and earlier.clock > knows.get(earlier.by, 0):
                    conflicts.setdefault(earlier, []).append(byte)
        for earlier in sorted(conflicts, key=lambda side: (side.row, side.access)):
            knew = knows.get(earlier.by, 0)
            self.found.reports.append(Report(earlier, access, buffer.name, buffer.id, knew, conflicts[earlier]))

    def on_host(self, mode: str, place: Place | None, drained_by: str | None = None, suffix: str = "") -> None:
        """One access of the host with its own tick; a blocking one first waits for the queues that drain it."""
        host = self.host()
        if drained_by and place is not None:
            for queue in self.backends.values():
                owns = queue.id == place.buffer.owner
                same_device = bool(place.buffer.device) and queue.device == place.buffer.device
                if drained_by in queue.drains and not queue.freed and (owns or same_device):
                    self.join(host, queue)
        self.tick(host)
        self.touch(host, mode, place, suffix)

    # --- definitions

    def on_meta(self, keys: Event) -> None:
        if self.override is None:
            self.ordered = keys.get("threads") == "ordered"

    def on_backend(self, keys: Event) -> None:
        name = keys["name"]
        if name == "HOST":
            self.warn(NAMED_HOST)
        earlier = self.backend_names.get(name, 0)
        self.backend_names[name] = earlier + 1
        actor = Actor(
            name=f"{name}#{earlier}" if earlier else name,
            base=name,
            id=keys["id"],
            synchronous=keys.get("synchronous", False),
            device=keys.get("device"),
            drains=tuple(keys.get("drains", ())),
        )
        # The queue that had the id ends: nothing can name it any more and it drains nothing.
        self.backends[keys["id"]] = self.new_actor(actor)

    def on_backend_free(self, keys: Event) -> None:
        self.queue(keys["backend"]).freed = True

    def on_buffer(self, keys: Event) -> None:
        buffer = self.buffers.get(keys["id"])
        if buffer is None or buffer.dead:
            buffer = self.buffers[keys["id"]] = Buffer(keys["id"], keys["name"])
        buffer.name = keys["name"]
        buffer.size = max(keys["size"], 0)
        buffer.host = keys.get("host", False)
        buffer.owner = keys.get("backend", -1)
        buffer.device = keys.get("device")
        buffer.weights = keys.get("usage") == "weights"

    def on_tensor(self, keys: Event) -> None:
        self.tensors[keys["id"]] = Tensor(
            keys["name"], keys.get("buffer", -1), keys.get("offset", 0), keys.get("size"), keys.get("view_of", -1)
        )

    def on_graph(self, keys: Event) -> None:
        self.graphs[keys["id"]] = keys.get("nodes", [])

    # --- host work

    def on_tensor_set(self, keys: Event) -> None:
        self.on_host("write", self.resolve(keys), "set")

    on_tensor_memset = on_tensor_set

    def on_tensor_get(self, keys: Event) -> None:
        self.on_host("read", self.resolve(keys), "get")

    def on_set_direct(self, keys: Event) -> None:
        self.on_host("write", self.resolve(keys))

    def on_get_direct(self, keys: Event) -> None:
        self.on_host("read", self.resolve(keys))

    def on_tensor_copy(self, keys: Event) -> None:
        self.on_host("read", self.resolve(keys["src"]), "get", " src")
        self.on_host("write", self.resolve(keys["dst"]), "set", " dst")

    def on_buffer_clear(self, keys: Event) -> None:
        buffer = self.buffer(keys["buffer"])
        self.on_host("write", Place(buffer, -1, buffer.whole(), approx=False), "set")

    def on_buffer_free(self, keys: Event) -> None:
        buffer = self.buffer(keys["buffer"])
        whole = Place(buffer, -1, buffer.whole(), approx=False)
        if keys.get("backend", -1) != -1:
            queue = self.queue(keys["backend"])
            self.issue(queue)
            self.touch(queue, "write", whole)
            self.finish(queue)
        else:
            self.on_host("write", whole)
        if buffer.dead and not (self.skip_weights and buffer.weights):
            self.warn(USE_AFTER_FREE)  # freed twice, whatever the size
        buffer.dead = True

    def on_host_access(self, keys: Event) -> None:
        for mode, ranges in (("read", "reads"), ("write", "writes")):
            for given in keys.get(ranges, ()):
                self.on_host(mode, self.resolve(given))

    # --- queued work

    def on_set_async(self, keys: Event) -> None:
        queue = self.queue(keys["backend"])
        self.issue(queue)
        if "host_range" in keys:
            self.touch(queue, "read", self.resolve(keys["host_range"]))
        self.touch(queue, "write", self.resolve(keys))
        self.finish(queue)

    def on_get_async(self, keys: Event) -> None:
        queue = self.queue(keys["backend"])
        self.issue(queue)
        self.touch(queue, "read", self.resolve(keys))
        if "host_range" in keys:
            self.touch(queue, "write", self.resolve(keys["host_range"]))
        self.finish(queue)

    def on_copy_async(self, keys: Event) -> None:
        dst = self.queue(keys["backend"])
        src = self.queue(keys["src_backend"]) if keys.get("src_backend", -1) != -1 else dst
        read, written = self.resolve(keys["src"]), self.resolve(keys["dst"])
        runs_on = keys.get("runs_on") or ("dst" if read is not None and read.buffer.host else "src")
        if runs_on == "both":
            self.issue(src)
            self.touch(src, "read", read, " src")
            self.join(dst, src)
            self.issue(dst)
            self.touch(dst, "write", written, " dst")
            self.finish(src, dst)
            return
        runner = dst if runs_on == "dst" else src
        if runs_on == "dst":
            self.join(dst, src)
        elif keys.get("after_dst", False):
            self.join(src, dst)
        self.issue(runner)
        self.touch(runner, "read", read, " src")
        self.touch(runner, "write", written, " dst")
        if runs_on == "src":
            self.join(dst, src)
        self.finish(runner)

    def run(self, queue: Actor, work: Iterable[Event]) -> None:
        """One epoch of a queue: the reads, then the writes, of one piece of work after the other."""
        self.issue(queue)
        for node in work:
            for given in node.get("reads", ()):
                self.touch(queue, "read", self.resolve(given))
            for given in node.get("writes", ()):
                self.touch(queue, "write", self.resolve(given))
        self.finish(queue)

    def on_compute(self, keys: Event) -> None:
        if keys["graph"] not in self.graphs:
            self.warn(UNDEFINED_GRAPH, keys["graph"])
        self.run(self.queue(keys["backend"]), self.graphs.get(keys["graph"], ()))

    def on_kernel(self, keys: Event) -> None:
        self.run(self.queue(keys["backend"]), [keys])

    # --- edges

    def on_synchronize(self, keys: Event) -> None:
        self.join(self.host(), self.queue(keys["backend"]))

    def on_event_record(self, keys: Event) -> None:
        queue = self.queue(keys["backend"])
        self.join(queue, self.host())
        self.events[keys["event"]] = dict(self.clocks[queue])

    def on_event_wait(self, keys: Event) -> None:
        queue = self.queue(keys["backend"])
        self.join(queue, self.host())
        self.learn(queue, self.events.get(keys["event"], {}))

    def on_event_synchronize(self, keys: Event) -> None:
        self.learn(self.host(), self.events.get(keys["event"], {}))

    def on_event_free(self, keys: Event) -> None:
        self.events.pop(keys["event"], None)

    def side(self, keys: Event) -> Actor:
        """Who releases or acquires."""
        return self.queue(keys["backend"]) if keys.get("backend", -1) != -1 else self.host()

    def on_release(self, keys: Event) -> None:
        held = self.objects.setdefault(keys["object"], {})
        for actor, clock in self.clocks[self.side(keys)].items():
            held[actor] = max(held.get(actor, 0), clock)

    def on_acquire(self, keys: Event) -> None:
        self.learn(self.side(keys), self.objects.get(keys["object"], {}))
