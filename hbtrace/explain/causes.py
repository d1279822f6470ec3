"""Root causes: distinct races clustered by the order that they all lack.

A list of three thousand reports is often one bug. What makes two reports one cause is the missing order: the same pair
of program points (the host setting inputs, a queue running a ubatch, a copy into a slot, the allocator handing out
bytes) between the same two actors. What makes a cause one line is its nature, which also names the mend.

Nothing here decides whether something is a race.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import orjson

from hbtrace.explain.order import consequents
from hbtrace.explain.recording import NO_TIME, Recording
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.races import Access, Report, Signature

Nature = Literal["input", "cpu-split", "reuse", "copy", "async-read", "host", "queues"]

NATURES: Final[dict[Nature, str]] = {
    "input": "host writes the inputs of a later ubatch before a queue has read those of an earlier one",
    "cpu-split": "a split that runs on the CPU and a queue share memory in place",
    "reuse": "memory is handed to another tensor while somebody still uses it",
    "copy": "a copy between queues and another queue's work",
    "async-read": "an asynchronous read and the use of its memory",
    "host": "host and queue",
    "queues": "two queues",
}

_INPUT_NAMES: Final = ("inp_", "attn_inp_", "inp-", "leaf_inp", "embd_inp", "out_ids")
_HOST_WRITES: Final = frozenset({"tensor_set", "tensor_memset", "set_direct"})
_COPIES: Final = (" src", " dst")


@dataclass(slots=True)
class Window:
    """How far apart the two accesses of one report were called: rows, and nanoseconds where both rows have a time."""

    events: int
    time: int | None


@dataclass(slots=True)
class Cause:
    """One root cause and what it comes to.

    ident: `C-` and digits; no address, clock, count or time is in it. ubatches: of the current sides. windows: the
    narrowest and the widest. consequent: every report of it is only possible after another race.
    """

    ident: str
    nature: Nature
    earlier: str
    current: str
    point: tuple[str, ...]
    reports: list[Report] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    signatures: dict[Signature, None] = field(default_factory=dict)
    ubatches: set[int] = field(default_factory=set)
    narrowest: Window | None = None
    widest: Window | None = None
    primary: int = 0
    """Reports that are possible without any other race."""
    live: int = 0
    dead: int = 0
    unknown: int = 0

    @property
    def distinct(self) -> int:
        return len({report.signature for report in self.reports})

    @property
    def first_row(self) -> int:
        return min(report.current.row for report in self.reports)

    @property
    def consequence(self) -> str:
        """Of all its reports: live if any is, unknown if any could be."""
        return "live" if self.live else "unknown" if self.unknown else "dead"

    @property
    def steps(self) -> list[int]:
        """How many ubatches apart the two sides are, where both have one."""
        sides = ((r.earlier.ubatch, r.current.ubatch) for r in self.reports)
        return sorted({b - a for a, b in sides if a >= 0 and b >= 0})


class Named(Protocol):
    """What a trace says of its queues and inputs, by which a cause is told; a `Recording` has it."""

    @property
    def queues(self) -> dict[str, dict[str, Any]]: ...

    @property
    def inputs(self) -> set[int]: ...


def cause_of(report: Report, named: Named) -> str:
    """The id of the root cause that a report belongs to."""
    return _ident(_key(report, named))


def _key(report: Report, named: Named) -> tuple[str, ...]:
    nature = nature_of(report, named)
    return (nature, report.earlier.actor, report.current.actor, *_point(nature, report))


def causes_of(recording: Recording) -> list[Cause]:
    """The root causes of a recording's reports, by the row in which each first shows."""
    later = consequents(recording)
    found: dict[tuple[str, ...], Cause] = {}
    for index, report in enumerate(recording.reports):
        key = _key(report, recording)
        cause = found.get(key)
        if cause is None:
            cause = found[key] = Cause(_ident(key), nature_of(report, recording), key[1], key[2], key[3:])
        _add(cause, report, recording, primary=index not in later)
    return list(found.values())


def nature_of(report: Report, named: Named) -> Nature:
    """What kind of order is missing."""
    sides = (report.earlier, report.current)
    writers = [side for side in sides if side.mode == "write"]
    hosts = [side for side in sides if is_host(side.actor)]
    if any(_sets_input(side, named) for side in writers) and len(hosts) == 1 and _same_kind(report, named):
        return "input"
    if _other_tensor(report):
        return "reuse"
    labels = {side.label.removesuffix(" src").removesuffix(" dst") for side in sides}
    if any(side.label.endswith(_COPIES) and not is_host(side.actor) for side in sides):
        return "copy"
    if any(_on_cpu(side.actor, named) for side in sides) and not hosts:
        return "cpu-split"
    if labels & {"get_async", "set_async"}:
        return "async-read"
    return "host" if hosts else "queues"


def is_host(actor: str) -> bool:
    return actor == "HOST" or actor.startswith("HOST#")


def is_input(root: str | None, ident: int, named: Named) -> bool:
    """An input of a graph: flagged so; where nothing is flagged, by the names that llama.cpp gives them."""
    if root is not None and without_slot(root) != root:
        return False  # the scheduler's own copy on a device
    if named.inputs:
        return ident in named.inputs
    return root is not None and root.startswith(_INPUT_NAMES)


def _sets_input(side: Access, named: Named) -> bool:
    return is_host(side.actor) and is_input(side.root, side.root_id, named)


def _same_kind(report: Report, named: Named) -> bool:
    """Both are inputs, or the same tensor: a ring of inputs would keep them apart."""
    return all(is_input(side.root, side.root_id, named) for side in (report.earlier, report.current)) or (
        not _other_tensor(report)
    )


def _other_tensor(report: Report) -> bool:
    """Two different roots over the same bytes: the allocator gave them to somebody else in between."""
    first, second = report.earlier.root, report.current.root
    if first is None or second is None:
        return False
    return without_slot(first) != without_slot(second)


def _on_cpu(actor: str, named: Named) -> bool:
    event = named.queues.get(actor, {})
    return event.get("type") == "cpu" or event.get("synchronous") is True or actor.split("#")[0] == "CPU"


def _point(nature: Nature, report: Report) -> tuple[str, ...]:
    """The two program points, as coarse as the mend is: all inputs of a ubatch are set at one of them."""
    if nature in ("input", "reuse", "cpu-split"):
        return ()
    earlier, current = report.earlier, report.current
    return tuple(f"{side.label} split {side.split}" for side in (earlier, current))


def _ident(key: tuple[str, ...]) -> str:
    return "C-" + hashlib.sha256(orjson.dumps(key)).hexdigest()[:6]


def _add(cause: Cause, report: Report, recording: Recording, *, primary: bool) -> None:
    cause.reports.append(report)
    cause.signatures.setdefault(report.canonical)
    cause.primary += primary
    for side in (report.earlier, report.current):
        name = "-" if side.root is None else without_slot(side.root)
        if name not in cause.tensors:
            cause.tensors.append(name)
    cause.ubatches.add(report.current.ubatch)
    window = window_of(report, recording)
    if cause.narrowest is None or window.events < cause.narrowest.events:
        cause.narrowest = window
    if cause.widest is None or window.events > cause.widest.events:
        cause.widest = window


def window_of(report: Report, recording: Recording) -> Window:
    begin, end = recording.time_at(report.earlier.row), recording.time_at(report.current.row)
    span = end - begin if begin != NO_TIME and end != NO_TIME else None
    return Window(report.current.row - report.earlier.row, span)
