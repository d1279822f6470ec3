"""The faults that the model can be given: what each breaks, and which check, or a race, is to find it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from hbtrace.errors import UsageError
from hbtrace.simulate.config import Config, parse_device
from hbtrace.words import did_you_mean

ENGINE: Final = "ggml"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `racy`: some schedule gives a wrong result, and the replay reports a race.

    hazard, pipeline, events, single, ubatches, decodes: what its run must have (devices with events, one device only,
    that many whole ubatches of prompt). set_up: what of the configuration it changes.
    """

    name: str
    expects: str
    about: str
    racy: bool = False
    hazard: bool = True
    pipeline: bool = False
    events: bool = False
    single: bool = False
    ubatches: int = 0
    decodes: int = 0
    set_up: tuple[tuple[str, Any], ...] = ()
    whole: bool = False
    """The prompt is cut to whole ubatches, so that the last one is reused, too."""
    flight: bool = False
    """Shows only where something is in flight, as every racy one does."""
    without: tuple[str, ...] = ()
    """Options of the run that hide it, or show another fault's finding beside its own."""
    first: bool = False
    """The first device must be the one that computes on host memory in place."""
    last: bool = False
    """The last device must be one: to feed a discrete one behind it is to wait for its earlier work, and so for all."""

    def arrange(self, config: Config) -> Config:
        """The configuration with what this fault needs."""
        config = replace(config, fault=self.name, **dict(self.set_up))
        if self.whole and config.prompt > config.ubatch:
            config = replace(config, prompt=config.prompt // config.ubatch * config.ubatch)
        if self.pipeline and len(config.devices) == 1:
            config = replace(config, devices=(parse_device("CUDA0"), parse_device("CUDA1")))
        return config


_REBUILT: Final = (("reuse", False),)
_REUSED: Final = (("reuse", True),)

FAULTS: Final[tuple[Fault, ...]] = (
    Fault("no-ring", "hazard", "the hazard is there and the input ring is not; graphs are rebuilt each time",
          racy=True, ubatches=2, set_up=(("ring", 0), *_REBUILT), last=True),
    Fault("cpu-split-in-place", "cpu-split-in-place",
          "the token look-up is a CPU split into host memory; nothing waits for its reader before the next one",
          racy=True, events=True, single=True, ubatches=2, set_up=(("cpu_embd", True),), without=("cpu_ops",)),
    Fault("ring-wait-missing", "ring-rotation", "a slot of the ring is entered without a wait for its last compute",
          racy=True, single=True, ubatches=3, without=("cpu_embd", "cpu_ops")),
    Fault("ring-rotates-in-decode", "ring-rotation", "every token rotates, although results were read and waited for",
          decodes=2),
    Fault("prepare-forgotten", "prepare-missing", "the engine reuses a graph and writes its inputs without prepare",
          racy=True, ubatches=2, set_up=_REUSED, last=True),
    Fault("prepare-twice", "prepare-twice", "prepare rotates again after an allocation that has rotated",
          ubatches=2, set_up=_REBUILT),
    Fault("uid-not-stamped", "stale-uid",
          "the last rotation of the prefill re-points the inputs and leaves the splits' uids (the prompt is cut to"
          " whole ubatches)", ubatches=2, set_up=_REUSED, whole=True, flight=True),
    Fault("alias-moved", "alias-moved", "an allocation that does not reallocate gives the inputs a new identity",
          ubatches=2, set_up=_REBUILT),
    Fault("quarantine-off", "memory-reuse",
          "memory that a device reads in place returns to the allocator behind its last consumer",
          racy=True, set_up=(("cpu_ops", True),), first=True),
    Fault("placement", "placement", "a SET_ROWS is split off to the CPU while its cache belongs to the device"),
    Fault("copy-unordered", "copy-unordered",
          "copies between devices run on the source's queue, and only the destination waits for the slot's reader",
          racy=True, hazard=False, pipeline=True, ubatches=5),
    Fault("stale-copy-slot", "stale-copy",
          "a graph is used again: the copies go to the next slot, and it still reads the one that it was split with",
          hazard=False, pipeline=True, decodes=2),
    Fault("event-recorded-again", "event-order", "an event is recorded again while another queue still waits for it",
          hazard=False, pipeline=True, ubatches=2),
    Fault("event-freed", "event-order", "an event is freed right after it was recorded", hazard=False, decodes=1),
    Fault("buffer-freed", "freed-in-flight", "a cache is freed while the last compute still uses it",
          racy=True, hazard=False, decodes=1),
    Fault("queue-freed", "freed-in-flight", "a backend is freed with a compute in flight", hazard=False, decodes=1,
          flight=True),
    Fault("use-after-free", "use-after-free", "the host writes an input into a buffer that it has freed", hazard=False),
    Fault("redundant-wait", "redundant-wait", "everything is waited for twice", hazard=False),
    Fault("output-read-early", "race", "the last token's output is read before its queue was waited for",
          racy=True, hazard=False, decodes=1),
)  # fmt: skip


class Named(Protocol):
    """A fault of any model."""

    @property
    def name(self) -> str: ...


AnyFault = TypeVar("AnyFault", bound=Named)


def fault_named(name: str, faults: Iterable[AnyFault]) -> AnyFault:
    """The fault of a name among those of a model. Raises UsageError with a suggestion."""
    found = {fault.name: fault for fault in faults}
    if name in found:
        return found[name]
    raise UsageError(f"no fault `{name}`: {did_you_mean(name, found, 'they are ' + ', '.join(found))}")


def listed() -> list[dict[str, Any]]:
    """As `--list-faults --format json` has them."""
    return [{"name": f.name, "engine": ENGINE, "expects": f.expects, "racy": f.racy, "about": f.about} for f in FAULTS]
