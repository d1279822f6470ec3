"""What a run of the model is asked to be: devices by their capabilities, workload, ring, fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hbtrace import backends
from hbtrace.errors import UsageError

MAX_COPIES: Final = 4
DEFAULT_RING: Final = 2

_DEFAULT: Final[dict[str, Any]] = {
    "type": "gpu", "async": True, "events": True, "integrated": False, "host_buffer": True, "synchronous": False,
}  # fmt: skip
_WORDS: Final[dict[str, dict[str, Any]]] = {
    "async": {"async": True, "synchronous": False},
    "sync": {"async": False, "synchronous": True},
    "events": {"events": True},
    "no-events": {"events": False},
    "gpu": {"type": "gpu"},
    "igpu": {"type": "igpu"},
    "accel": {"type": "accel"},
    "no-host": {"host_buffer": False},
    "drains-set": {"drains": ["set"]},
    "drains-get": {"drains": ["get"]},
    "drains": {"drains": ["set", "get"]},
}


@dataclass(frozen=True, slots=True)
class ModelDevice:
    """A device of the model: its queue's name, what it declares, and whether it computes on the host buffer type."""

    name: str
    attributes: dict[str, Any]
    in_place: bool

    @property
    def asynchronous(self) -> bool:
        return bool(self.attributes["async"]) and not self.attributes["synchronous"]

    @property
    def events(self) -> bool:
        return bool(self.attributes["events"])


def parse_device(text: str) -> ModelDevice:
    """`NAME` or `NAME:CAPS`, CAPS being words or a backend of the table, separated by commas. Raises UsageError.

    `integrated` (or `host`): it computes on its host buffer type; `discrete`: it does not. Without either: the table.
    """
    name, _, caps = text.partition(":")
    if not name or name == "HOST":
        raise UsageError(f"--backend {text!r}: is no name such as ROCm0 or CUDA1:discrete")
    words = [word.strip().lower() for word in caps.split(",") if word.strip()]
    attributes = {**_DEFAULT, **backends.attributes(name, integrated="discrete" not in words), "device": name}
    accepts = attributes.pop("accepts", [name, "host"] if attributes["synchronous"] else [name])
    in_place = len(accepts) > 1
    for word in words:
        if word in ("integrated", "host"):
            in_place = True
            attributes.update({"integrated": True, "type": "igpu"} if word == "integrated" else {})
        elif word == "discrete":
            in_place = False
            attributes.update({"integrated": False, "type": "gpu"})
        elif word in _WORDS:
            attributes.update(_WORDS[word])
        else:
            known = ", ".join(("integrated", "discrete", "host", *_WORDS))
            raise UsageError(f"--backend {text}: no capability {word!r}; they are {known}")
    return ModelDevice(name, attributes, in_place)


@dataclass(frozen=True, slots=True)
class Config:
    """A run. `ring` is what is asked for; the depth in use is `depth`. Tokens, layers and ubatch are at least 1."""

    ring: int = DEFAULT_RING
    ubatch: int = 32
    prompt: int = 200
    decode: int = 16
    layers: int = 4
    devices: tuple[ModelDevice, ...] = field(default_factory=lambda: (parse_device("ROCm0"),))
    fault: str | None = None
    warmup: bool = True
    reuse: bool = True
    cpu_embd: bool = False
    """The token look-up is a CPU split, as where the embeddings stay in host memory."""
    cpu_ops: bool = False
    """Two operations between the layers run on the CPU, into memory that the devices read."""
    eval_callback: bool = False
    """Each node is computed and waited for alone."""

    @property
    def hazard(self) -> bool:
        """A device that computes asynchronously and in place on the buffer type that the CPU slot is handed."""
        return any(d.asynchronous and self.on_host(d) for d in self.devices)

    def on_host(self, device: ModelDevice) -> bool:
        """Whether a device computes in place on what the CPU slot is handed.

        Plain CPU memory is accepted by no backend whose work goes on when the call returns: nobody would wait for it.
        """
        done = bool(device.attributes["synchronous"])
        return device.in_place and (done or (self.host_type != "CPU" and device.asynchronous))

    @property
    def host_type(self) -> str:
        """The buffer type of the CPU slot: the first device's host buffer type, if it has one."""
        first = self.devices[0]
        return f"{first.name.rstrip('0123456789')}_Host" if first.attributes["host_buffer"] else "CPU"

    @property
    def depth(self) -> int:
        """The ring's depth: detected, then only reduced by what is asked for. 0 is off."""
        return min(self.ring, MAX_COPIES) if self.hazard and self.ring > 1 else 0

    @property
    def pipeline(self) -> bool:
        """Pipeline parallel: several devices, all asynchronous with events, none of which has the hazard."""
        return len(self.devices) > 1 and not self.hazard and all(d.asynchronous and d.events for d in self.devices)

    @property
    def copies(self) -> int:
        return MAX_COPIES if self.pipeline else 1

    @property
    def ubatches(self) -> int:
        return -(-self.prompt // self.ubatch)
