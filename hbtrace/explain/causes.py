"""Root causes: distinct races clustered by the order that they all lack.

A list of three thousand reports is often one bug. What makes two reports one cause is the missing order: the same pair
of program points (the host setting inputs, a queue running a ubatch, a copy into a slot, the allocator handing out
bytes) between two actors of the same names. What makes a cause one line is its nature, which also names the mend.

Nothing here decides whether something is a race.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import numpy as np
import orjson

from hbtrace.compare.identity import identities
from hbtrace.compare.select import Filters
from hbtrace.explain.order import consequents
from hbtrace.explain.recording import NO_TIME, Pair, Recording, pair_of
from hbtrace.replay.canonical import fold_layers, without_slot
from hbtrace.replay.program import JOIN, STEP
from hbtrace.replay.races import Access, Report, Signature

Nature = Literal["input", "cpu-split", "reuse", "copy", "async-read", "host", "threads", "queues"]

NATURES: Final[dict[Nature, str]] = {
    "input": "host writes the inputs of a later ubatch before a queue has read those of an earlier one",
    "cpu-split": "a split that runs on the CPU and a queue share memory in place",
    "reuse": "memory is handed to another tensor while somebody still uses it",
    "copy": "a copy between queues and another queue's work",
    "async-read": "an asynchronous read and the use of its memory",
    "host": "host and queue",
    "threads": "two host threads",
    "queues": "two queues",
}

_INPUT_NAMES: Final = ("inp_", "attn_inp_", "inp-", "leaf_inp", "embd_inp", "out_ids")
_HOST_WRITES: Final = frozenset({"tensor_set", "tensor_memset", "set_direct"})
_COPIES: Final = (" src", " dst")
_NO_SITE: Final = re.compile(r"\??|[^:]*\.(?:so|dll|dylib|exe)\b[^:]*")
"""A recorder that finds no name for a caller writes `?`, or the library alone, which is no point of a program."""


@dataclass(slots=True)
class Window:
    """How far apart the two accesses of one report were called: rows, and nanoseconds where both rows have a time."""

    events: int
    time: int | None


@dataclass(slots=True)
class Cause:
    """One root cause and what it comes to.

    ident: `C-` and digits; no address, clock, count, split or time is in it. earlier, current: the actors, without the
    `#n` of later ones where its reports are of several. point: labels of the first report's two sides. ubatches: of the
    current sides. windows: the narrowest and the widest. consequent: every report of it is only possible after another
    race.
    """

    ident: str
    nature: Nature
    earlier: str
    current: str
    point: tuple[str, str]
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
    can_wait: bool = True
    """Whether each earlier side is a queue that can still be waited for when the current side happens."""
    sets: bool = True
    """Whether each current side is a call that sets a tensor, as the engine sets inputs."""
    fills: bool = False
    """Whether each current side is a copy that its source's queue runs, and each earlier one its destination's work."""

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


Key = tuple[str, ...]


def _key(report: Report, named: Named) -> Key:
    """What makes two reports one cause. It holds over runs: nothing that is counted while the program runs is in it."""
    nature = nature_of(report, named)
    families = report.canonical[2], report.canonical[5]
    return (nature, *families, *_place(nature, report))


def causes_of(
    recording: Recording,
    filters: Filters | None = None,
    suppressed: Collection[Pair] = (),
    ids: Mapping[Signature, str] | None = None,
) -> list[Cause]:
    """The root causes of a recording's reports, by the row in which each first shows.

    Reports that the filters hide, or that are suppressed, count nowhere; which of the others are primary they still
    decide. ids: of the distinct races, by canonical signature, if they are known already.
    """
    later = consequents(recording)
    if ids is None:
        ids = identities({report.canonical for report in recording.reports}) if filters else {}
    found: dict[Key, Cause] = {}
    for index, report in enumerate(recording.reports):
        if filters and not filters.shows(report, ids):
            continue
        if suppressed and pair_of(report) in suppressed:
            continue
        key = _key(report, recording)
        cause = found.get(key)
        if cause is None:
            earlier, current = report.earlier, report.current
            cause = found[key] = Cause(
                _ident(key), nature_of(report, recording), earlier.actor, current.actor, (earlier.label, current.label)
            )
        _add(cause, report, recording, primary=index not in later)
    _note_fills([cause for cause in found.values() if cause.nature == "copy"], recording)
    return list(found.values())


def _note_fills(copies: list[Cause], recording: Recording) -> None:
    """Of copies from the source's queue the destination's is the one that joins it in their row."""
    rows = sorted({report.current.row for cause in copies for report in cause.reports})
    joins: dict[int, set[tuple[str, str]]] = {}
    for chunk in recording.chunks if rows else ():
        steps = np.array(chunk.program.code, dtype=np.int64).reshape(-1, STEP)
        steps = steps[(steps[:, 0] == JOIN) & np.isin(steps[:, 4], rows)]
        for _, actor, other, _, row in steps.tolist():
            joins.setdefault(row, set()).add((recording.actors[actor], recording.actors[other]))
    for cause in copies:
        cause.fills = all(
            (report.earlier.actor, report.current.actor) in joins.get(report.current.row, ())
            for report in cause.reports
        )


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
    return "threads" if len(hosts) > 1 else "host" if hosts else "queues"


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


def _place(nature: Nature, report: Report) -> Key:
    """The two program points, as coarse as the mend is.

    All inputs are mended by one ring, and all copies between two queues by one wait for the destination. Elsewhere a
    point is its caller, where both are known: what is set or read there in a loop is one. Else it is told by the memory
    and the tensors. A compute needs none: its whole graph is one point; but which of the splits on the CPU it is only
    the tensors tell, for all of them have one caller.
    """
    earlier, current = report.earlier, report.current
    labels = earlier.label, current.label
    if nature == "input":
        return ()
    if nature == "copy":
        return labels
    _, buffer, _, first, _, _, second, _ = report.canonical
    if nature == "cpu-split":
        return buffer, *labels, _family(first), _family(second)
    if not any(_NO_SITE.fullmatch(side.site or "") for side in (earlier, current)):
        memory = buffer if nature == "reuse" else ""  # another pool, another allocator
        return memory, *labels, str(earlier.site), str(current.site)
    roots = zip(labels, (first, second), strict=True)
    return buffer, *labels, *("" if label == "compute" else _family(root) for label, root in roots)


@lru_cache(maxsize=1 << 16)
def _family(root: str | None) -> str:
    """A root's name with no number of a layer; of one without a name its place in the graph."""
    return "-" if root is None else " <- ".join(map(fold_layers, root.split(" <- ")))


def _ident(key: Key) -> str:
    return "C-" + hashlib.sha256(orjson.dumps(key)).hexdigest()[:6]


def _add(cause: Cause, report: Report, recording: Recording, *, primary: bool) -> None:
    cause.reports.append(report)
    cause.can_wait = cause.can_wait and _can_wait(report, recording)
    cause.sets = cause.sets and recording.events[report.current.row] in _HOST_WRITES
    if cause.earlier != report.earlier.actor:
        cause.earlier = report.canonical[2]
    if cause.current != report.current.actor:
        cause.current = report.canonical[5]
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


def _can_wait(report: Report, recording: Recording) -> bool:
    """A queue that was freed, or whose id another has, has no name to wait for it by; a synchronous one is done."""
    queue = report.earlier.actor
    named = report.current.row <= recording.renamed.get(queue, report.current.row)
    return named and not is_host(queue) and recording.queues.get(queue, {}).get("synchronous") is not True


def window_of(report: Report, recording: Recording) -> Window:
    begin, end = recording.time_at(report.earlier.row), recording.time_at(report.current.row)
    span = end - begin if begin != NO_TIME and end != NO_TIME else None
    return Window(report.current.row - report.earlier.row, span)
