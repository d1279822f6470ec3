"""The nature of a race: which kind of order is missing; and the id of the root cause that it belongs to.

A function of the report and of what the trace says of its queues and inputs. It holds over runs: nothing that is
counted while the program runs is in it.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import orjson

from hbtrace.replay.canonical import fold_layers, without_slot
from hbtrace.replay.reports import Access, Report

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
_COPIES: Final = (" src", " dst")
_NO_SITE: Final = re.compile(r"\??|[^:]*\.(?:so|dll|dylib|exe)\b[^:]*")
"""A recorder that finds no name for a caller writes `?`, or the library alone, which is no point of a program."""


class Named(Protocol):
    """What a trace says of its queues and inputs, by which a cause is told; a `Recording` has it."""

    @property
    def queues(self) -> dict[str, dict[str, Any]]: ...

    @property
    def inputs(self) -> set[int]: ...


def cause_of(report: Report, named: Named) -> str:
    """The id of the root cause that a report belongs to."""
    return ident_of(key_of(report, named))


Key = tuple[str, ...]


def key_of(report: Report, named: Named) -> Key:
    """What makes two reports one cause. It holds over runs: nothing that is counted while the program runs is in it."""
    nature = nature_of(report, named)
    families = report.canonical[2], report.canonical[5]
    return (nature, *families, *_place(nature, report))


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


def ident_of(key: Key) -> str:
    return "C-" + hashlib.sha256(orjson.dumps(key)).hexdigest()[:6]
