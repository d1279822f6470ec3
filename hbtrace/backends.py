"""What the backends in tree can do, as data: the facts that no call of a run shows.

Facts of ggml as of a row's `holds_for`, from the backends' sources. A recorder writes them into `backend` rows, a
simulator takes them for its devices, `info` and `check` fall back on them. What a trace declares always goes first:
it may come from a later version, or from a backend that was changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

HOLDS_FOR: Final = "ggml 0.18 to 0.25 (July to November 2026)"
_SINCE_INTEGRATED: Final = "ggml 0.18 to 0.25 (16 July, with #24233, to November 2026)"
_BEFORE_ASYNC_RPC: Final = "ggml 0.18 to August 2026, before asynchronous RPC (#18626)"

_NUMBER: Final = re.compile(r"[0-9]*(?:_Host)?(?:\[.*\]|\(.*\))?$")
"""What a device's name has behind its backend's: a number, a server, the members of a device made of others."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend in tree.

    `declares_async` is `caps.async`, which the input ring goes by; `synchronize` says whether the interface has one at
    all: without it work is complete when the call returns. They disagree for some. `accepts_host` says whether it
    computes on its own host buffer type in place. `drains`: blocking accesses that wait for the queue. `runs_on`: the
    queue of its asynchronous copies; none of them waits for the destination's earlier work. `source`: where the last
    two are from. `holds_for`: the versions of which all this is true. None: it depends on the devices it is made of.
    """

    name: str
    devices: tuple[str, ...]
    """Prefixes of device names, and names of registries."""
    type: Literal["cpu", "gpu", "accel"]
    declares_async: bool | None
    events: bool
    synchronize: bool
    host_buffer: bool | None
    accepts_host: Literal["yes", "no", "if integrated"]
    reports_integrated: bool
    """Whether it reports `integrated` for a device that is; CUDA says false whatever the device."""
    drains: tuple[str, ...] = ()
    runs_on: Literal["src", "dst"] | None = None
    note: str = ""
    source: str = ""
    holds_for: str = HOLDS_FOR


_CUDA_COPY: Final = (
    "ggml-cuda.cu, cpy_tensor_async: issued on the source's stream, and the destination's waits for an event of it;"
    " nothing makes the source wait for the destination. Seen so in the runtime calls of two H200. Blocking transfers"
    " use a stream of the calling thread, which is not ordered with a backend's: no drains."
)

TABLE: Final[tuple[Backend, ...]] = (
    Backend("CPU", ("CPU",), "cpu", False, False, False, False, "yes", False, note="computes on any host buffer type"),
    Backend("BLAS", ("BLAS",), "accel", False, False, False, False, "yes", False, note="synchronous: no hazard"),
    Backend("ZenDNN", ("ZenDNN",), "accel", False, False, False, False, "yes", False),
    Backend("OpenVINO", ("OPENVINO", "OpenVINO"), "gpu", False, False, False, True, "yes", False),
    Backend("CUDA", ("CUDA",), "gpu", True, True, True, True, "if integrated", False, (), "src",
            "integrated is hard-coded to false; no events with GGML_CUDA_NO_PEER_COPY", _CUDA_COPY),
    Backend("HIP", ("ROCm", "HIP"), "gpu", True, True, True, True, "if integrated", True, (), "src",
            "the one that has the hazard, on integrated GPUs", f"compiled for HIP: {_CUDA_COPY}", _SINCE_INTEGRATED),
    Backend("MUSA", ("MUSA",), "gpu", True, True, True, True, "if integrated", False, (), "src",
            source=f"compiled for MUSA: {_CUDA_COPY}"),
    Backend("SYCL", ("SYCL",), "gpu", True, True, True, True, "no", False, ("set",),
            source="ggml-sycl.cpp, set_tensor: waits for all queues of the device first; no asynchronous copy"),
    Backend("Vulkan", ("Vulkan",), "gpu", True, True, True, True, "no", False, (), "dst",
            "a copy from pinned host memory reads it late; reads of unified memory drain",
            "ggml-vulkan.cpp, cpy_tensor_async: accepted on one device, or from pinned host memory, and recorded into"
            " the destination's command buffer; blocking transfers use a queue of their own"),
    Backend("Metal", ("Metal", "MTL"), "gpu", True, True, True, False, "no", False, (), "src",
            "shared buffers are no host buffers",
            "ggml-metal: a blit on the source's queue, and an event that the destination's waits for"),
    Backend("CANN", ("CANN",), "gpu", False, True, True, True, "no", False, note="asynchronous, caps.async denies it"),
    Backend("OpenCL", ("OpenCL", "GPUOpenCL"), "gpu", False, False, True, False, "no", False, ("set", "get"),
            source="ggml-opencl.cpp: blocking transfers go through the backend's own in-order queue"),
    Backend("WebGPU", ("WebGPU",), "gpu", False, False, True, False, "no", False),
    Backend("RPC", ("RPC",), "gpu", False, False, True, False, "no", False, ("set", "get"),
            note="synchronize is a no-op", source="ggml-rpc.cpp: one socket, served in order",
            holds_for=_BEFORE_ASYNC_RPC),
    Backend("Hexagon", ("HTP", "Hexagon"), "gpu", True, False, True, False, "no", False,
            note="the CPU reads its buffers in place"),
    Backend("ET", ("ET",), "gpu", True, False, True, False, "no", False, note="its host buffer type is plain CPU"),
    Backend("zDNN", ("zDNN", "ZDNN"), "accel", False, False, False, False, "no", False),
    Backend("VirtGPU", ("VirtGPU",), "gpu", False, False, False, False, "no", False),
    Backend("Meta", ("Meta",), "gpu", None, False, True, None, "no", False,
            note="tensor parallel, one queue of several devices; asynchronous if all of them are"),
)  # fmt: skip
"""The backends, in the order of their facts; a name that none of them claims has no entry."""


@lru_cache(maxsize=256)
def of_device(name: str) -> Backend | None:
    """The backend of a queue or device by its name: `CUDA0`, `ROCm1`, `CPU`."""
    stem = _NUMBER.sub("", name).casefold()
    return next((b for b in TABLE if stem in {d.casefold() for d in (*b.devices, b.name)}), None)


def is_done(row: Mapping[str, Any]) -> bool:
    """Whether a queue's work is complete when the call returns, by its `backend` row."""
    return row.get("synchronous") is True


def has_events(row: Mapping[str, Any]) -> bool:
    """Whether a queue can record and wait for events, by its `backend` row.

    Where that does not say it the table does; of a queue that no row and no table knows it is assumed.
    """
    if is_done(row):
        return False
    if isinstance(said := row.get("events"), bool):
        return said
    known = of_device(str(row.get("name", "")))
    return known.events if known is not None else row.get("type") != "cpu"


def runs_beside(row: Mapping[str, Any]) -> bool:
    """Whether a queue runs beside the host at all, and so can run a copy of its own, by its `backend` row."""
    return not is_done(row) and row.get("type") != "cpu"


def registry_of(row: Mapping[str, Any]) -> str | None:
    """Whose events those of a queue are, by its `backend` row; None where nothing tells."""
    known = of_device(str(row.get("registry") or row.get("name") or ""))
    return known.name if known is not None else row.get("registry")


def by_registry() -> dict[str, Backend]:
    """The backends by each name that their registries have had: HIP's is `ROCm`, Metal's `MTL` or `Metal`."""
    return {name: backend for backend in TABLE for name in dict.fromkeys((*backend.devices, backend.name))}


def attributes(name: str, *, integrated: bool = False) -> dict[str, Any]:
    """The attributes of a `backend` row that the table knows for a device name; empty for an unknown one.

    integrated: what the device is; whether its backend says so is the table's to know.
    """
    known = of_device(name)
    if known is None:
        return {}
    says = integrated and known.reports_integrated
    host = f"{_NUMBER.sub('', name)}_Host"
    on_host = known.accepts_host == "yes" or (known.accepts_host == "if integrated" and says)
    accepts = [name, host] if known.host_buffer and on_host else [name]
    row: dict[str, Any] = {
        "device": name,
        "type": "igpu" if says else known.type,
        "async": known.declares_async,
        "events": known.events,
        "integrated": says,
        "host_buffer": known.host_buffer,
        "synchronous": not known.synchronize,
    }
    row = {key: value for key, value in row.items() if value is not None}
    if known.type != "cpu" and known.accepts_host != "yes":
        row["accepts"] = accepts
    if known.drains:
        row["drains"] = list(known.drains)
    return row
