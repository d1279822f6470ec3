"""The table of backends: what it says of the hazard is what is known of the backends in tree."""

from __future__ import annotations

import pytest

from hbtrace import backends
from hbtrace.simulate.config import Config, parse_device


def test_only_integrated_hip_has_the_hazard() -> None:
    arising = {
        b.name
        for b in backends.TABLE
        for integrated in (False, True)
        if Config(devices=(parse_device(f"{b.devices[0]}0:{'' if integrated else 'discrete'}"),)).hazard
    }
    assert arising == {"HIP"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("CUDA0", "CUDA"), ("ROCm12", "HIP"), ("Vulkan0", "Vulkan"), ("BLAS", "BLAS"), ("CPU", "CPU"),
     ("RPC0[10.0.0.1:1]", "RPC"), ("Meta(CUDA0,CUDA1)", "Meta"), ("FAKE0", None), ("CUDAX", None)],
)  # fmt: skip
def test_names(name: str, expected: str | None) -> None:
    found = backends.of_device(name)
    assert (found.name if found else None) == expected


def test_attributes_are_those_of_a_backend_row() -> None:
    row = backends.attributes("ROCm0", integrated=True)
    assert row["accepts"] == ["ROCm0", "ROCm_Host"]
    assert (row["async"], row["synchronous"], row["integrated"]) == (True, False, True)
    # hard-coded to false, whatever the device
    assert backends.attributes("CUDA0", integrated=True)["accepts"] == ["CUDA0"]
    assert backends.attributes("SYCL0")["drains"] == ["set"]
    assert backends.attributes("unknown") == {}
    assert len(backends.TABLE) == 19


def test_what_depends_on_the_members_of_a_device_is_left_open() -> None:
    row = backends.attributes("Meta(CUDA0,CUDA1)")
    assert (row["synchronous"], row["events"], row["accepts"]) == (False, False, ["Meta(CUDA0,CUDA1)"])
    assert "async" not in row
    assert "host_buffer" not in row


def test_each_row_says_for_which_versions_it_holds() -> None:
    held = {b.name: b.holds_for for b in backends.TABLE}
    assert held["RPC"] == "ggml 0.18 to August 2026, before asynchronous RPC (#18626)"
    assert "#24233" in held["HIP"]
    assert {held[name] for name in held.keys() - {"RPC", "HIP"}} == {backends.HOLDS_FOR}
