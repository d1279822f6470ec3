"""Whether a run can be as it is asked for, and whether its fault can show there."""

from __future__ import annotations

from collections.abc import Iterator

from hbtrace.errors import UsageError
from hbtrace.simulate.config import Config
from hbtrace.simulate.faults import FAULTS, Fault, fault_named


def checked(config: Config) -> Config:
    """The run that a fault needs, where the options leave it open. Raises UsageError where they forbid it."""
    for name in ("ubatch", "prompt", "layers"):
        if getattr(config, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    if config.fault is None:
        return config
    fault = fault_named(config.fault, FAULTS)
    changed = fault.arrange(config)
    lacking = next((text for holds, text in _needs(fault, changed) if not holds), None)
    if lacking is not None:
        raise UsageError(f"--fault {fault.name} needs {lacking}")
    return changed


def _needs(fault: Fault, config: Config) -> Iterator[tuple[bool, str]]:
    """(whether a run has it, what it is) of everything without which a fault cannot show."""
    least = config.depth + 1 if fault.name == "ring-wait-missing" else fault.ubatches
    whole = config.prompt // config.ubatch
    if fault.expects != "use-after-free":
        some = all(not device.attributes["synchronous"] for device in config.devices)
        yield some, "devices whose work is not done when the call returns"
    for name in fault.without:
        yield not getattr(config, name), f"a run without --{name.replace('_', '-')}"
    if fault.first:
        yield config.on_host(config.devices[0]), "the device with the in-place hazard as the first one"
    if fault.last:
        yield config.on_host(config.devices[-1]), "a device with the in-place hazard as the last one"
    if fault.name == "buffer-freed":
        behind = config.layers > 1 or not config.cpu_ops
        yield behind, "a layer behind the operations of the CPU: --layers 2 or more"
    if fault.racy or fault.flight:
        yield not config.eval_callback, "work in flight, so no --eval-callback, which waits for each node"
    if fault.hazard:
        yield config.hazard, "a device with the in-place hazard, such as ROCm0:integrated"
        yield config.depth > 1 or fault.expects == "hazard", "the ring: --ring 2 or more"
    if fault.pipeline:
        yield config.pipeline, "two discrete devices: --backend CUDA0 --backend CUDA1"
    if fault.pipeline or (fault.hazard and fault.racy):
        yield config.layers >= len(config.devices), f"a layer for each device: --layers {len(config.devices)} or more"
    if fault.events:
        yield all(device.events for device in config.devices), "devices with events: without them more is waited for"
    if fault.single:
        yield len(config.devices) == 1, "a single device: copies between devices wait for more"
    yield whole >= least, f"{least} whole ubatches of prompt: --prompt {least * config.ubatch} or more"
    yield config.decode >= fault.decodes, f"--decode {fault.decodes} or more"
