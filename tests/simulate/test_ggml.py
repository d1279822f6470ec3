"""The model of the ggml scheduler: correct runs are clean and equal under every schedule, each fault is found."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hbtrace.checks.registry import SCHEDULER_RULES
from hbtrace.errors import UsageError
from hbtrace.simulate.config import ModelDevice
from hbtrace.simulate.faults import FAULTS, Fault
from hbtrace.simulate.ggml import Config, Simulation, parse_device, simulate
from tests.checks.traces import checked, found

SCHEDULES = 50

SETS = (
    "ROCm0", "ROCm0 ROCm1", "ROCm0:no-events", "CUDA0:integrated", "CUDA0", "CUDA0 CUDA1", "CUDA0 CUDA1 CUDA2",
    "Vulkan0", "BLAS", "CPU", "ROCm0 CUDA0", "CUDA0 ROCm0:integrated", "SYCL0", "Metal", "OpenCL0", "RPC0",
    "X0:discrete,no-events X1:discrete,no-events", "Metal0 ROCm0", "BLAS ROCm0", "ROCm0:no-host",
)  # fmt: skip


def configuration(names: str, draw: random.Random) -> Config:
    """A set of devices, the rest of the configuration drawn."""
    return Config(
        ring=draw.choice((2, 3, 4)), ubatch=draw.choice((1, 8, 32)), prompt=draw.choice((1, 33, 70)),
        decode=draw.choice((0, 1, 4)), layers=draw.choice((1, 2, 3)), devices=devices(names),
        warmup=draw.random() < 0.5, reuse=draw.random() < 0.6, cpu_embd=draw.random() < 0.4,
        cpu_ops=draw.random() < 0.4, eval_callback=draw.random() < 0.1,
    )  # fmt: skip


def devices(names: str) -> tuple[ModelDevice, ...]:
    return tuple(map(parse_device, names.split()))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("names", SETS)
def test_without_a_fault_nothing_is_found_and_all_schedules_are_equal(names: str, seed: int) -> None:
    run = simulate(configuration(names, random.Random(f"{names} {seed}")))
    result = checked(run.rows)
    assert found(result) == set()
    assert result.warnings == []
    assert result.races == 0
    assert run.differing(SCHEDULES) == 0


@pytest.mark.parametrize("ubatch", [1, 8, 32])
def test_a_cpu_split_waits_by_bytes_and_not_by_names(ubatch: int) -> None:
    """The CPU's first operation feeds a device that gets a copy, its second one lies in the same bytes and is read in
    place by the other device: the next ubatch's first one must wait for that."""
    run = simulate(Config(devices=devices("CUDA0 ROCm0:integrated"), layers=2, cpu_ops=True, prompt=100, ubatch=ubatch))
    result = checked(run.rows)
    assert (found(result), result.races, run.differing(SCHEDULES)) == (set(), 0, 0)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_found_by_its_own_check_and_by_no_other(fault: Fault) -> None:
    run = simulate(Config(fault=fault.name))
    result = checked(run.rows)
    assert found(result) == ({fault.expects} - {"race", "redundant-wait"})
    if fault.expects == "redundant-wait":
        assert fault.expects in found(result, severity="info")
        assert fault.expects not in found(checked(simulate(Config()).rows), severity="info")
    assert (result.races > 0) == fault.racy
    assert (run.differing(SCHEDULES) > 0) == fault.racy


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_an_eval_callback_hides_no_fault_that_it_does_not_refuse(fault: Fault) -> None:
    try:
        run = simulate(Config(fault=fault.name, eval_callback=True))
    except UsageError:
        assert fault.racy or fault.flight
        return
    result = checked(run.rows)
    assert fault.expects in found(result, severity="info" if fault.expects == "redundant-wait" else None)
    assert (result.races, run.differing(5)) == (0, 0)


def test_every_rule_has_a_fault() -> None:
    assert {fault.expects for fault in FAULTS} == {rule.id for rule in SCHEDULER_RULES} | {"race"}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def showing(fault: Fault, config: Config) -> Simulation | None:
    """The run of a fault, which its own check and no other finds; None where the set-up refuses it."""
    try:
        run = simulate(config)
    except UsageError:
        return None
    result = checked(run.rows)
    assert found(result) == ({fault.expects} - {"race", "redundant-wait"}), config
    assert (result.races > 0) == fault.racy, config
    return run


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_shows_in_every_set_up_that_it_does_not_refuse(fault: Fault) -> None:
    draw, shown = random.Random(fault.name), 0
    while shown < 3:
        config = replace(
            configuration(draw.choice(SETS), draw), fault=fault.name, prompt=draw.choice((100, 200)),
        )  # fmt: skip
        shown += showing(fault, config) is not None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_shows_on_every_set_of_devices_that_it_does_not_refuse(fault: Fault) -> None:
    shown = 0
    for names in SETS:
        if fault.pipeline and " " not in names:
            continue  # it brings its own two devices
        config = Config(
            fault=fault.name, devices=devices(names), ubatch=4, prompt=4 * (fault.ubatches + 2), decode=2, layers=3,
            warmup=False,
        )  # fmt: skip
        run = showing(fault, config)
        if run is None:
            continue
        shown += 1
        assert (run.differing(10 if fault.racy else 1) > 0) == fault.racy, names
    assert shown


def test_plain_cpu_memory_is_computed_on_by_no_queue_that_is_not_waited_for() -> None:
    """Where the first device has no host buffer type, the CPU slot is handed plain memory."""
    for names in ("Metal0 ROCm0", "ROCm0:no-host", "BLAS ROCm0"):
        accepts = {row["name"]: row["accepts"] for row in simulate(Config(devices=devices(names), prompt=8)).rows
                   if row["ev"] == "backend"}  # fmt: skip
        assert accepts["ROCm0"] == ["ROCm0"]
        assert accepts.get("BLAS", ["BLAS", "CPU"]) == ["BLAS", "CPU"]


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_depth_against_computes_in_flight(depth: int) -> None:
    """A ring of N holds N computes in flight; without the wait on entry the next one meets the first."""
    good = checked(simulate(Config(ring=depth)).rows)
    assert good.coverage.counters["max_in_flight"] == depth
    assert good.races == 0
    bad = checked(simulate(Config(ring=depth, fault="ring-wait-missing")).rows)
    assert bad.coverage.counters["max_in_flight"] > depth
    assert found(bad) == {"ring-rotation"}


def test_no_rotation_in_decode() -> None:
    message = next(f.message for f in checked(simulate(Config()).rows).findings if f.id == "ring-rotation")
    assert "rotations 6 (6 in prefill, 0 in decode)" in message


def test_the_ring_can_only_be_reduced() -> None:
    for names in ("CUDA0", "CUDA0 CUDA1", "Vulkan0", "BLAS", "CPU"):
        run = simulate(Config(ring=4, devices=devices(names), prompt=40, decode=1))
        sched = next(row for row in run.rows if row["ev"] == "sched")
        assert sched["ring"] == 0, names
        assert not any(row["ev"] == "sched_prepare" for row in run.rows)
        hazard = [f for f in checked(run.rows).findings if f.id == "hazard"]
        assert [f.severity for f in hazard] == ["info"]
        assert "stays off" in hazard[0].message
    assert simulate(Config(ring=3)).config.depth == 3
    assert simulate(Config(ring=1)).config.depth == 0


def test_a_ring_switched_off_where_it_is_needed() -> None:
    run = simulate(Config(ring=0))
    result = checked(run.rows)
    assert found(result) == {"hazard", "prepare-missing"}
    assert result.races
    assert run.differing(SCHEDULES) > 0


def test_a_fault_that_is_no_race_is_wrong_under_every_schedule() -> None:
    run = simulate(Config(fault="uid-not-stamped"))
    assert run.differing(SCHEDULES) == 0
    assert run.in_order != run.faultless()
    assert simulate(Config(fault="prepare-twice")).faultless() == simulate(Config(fault="prepare-twice")).in_order
    assert simulate(Config()).faultless() is None


def test_the_device_does_not_change_the_result() -> None:
    results = {simulate(Config(prompt=40, decode=3, devices=devices(n))).in_order for n in ("ROCm0", "CUDA0", "CPU")}
    assert len(results) == 1


def test_the_same_run_is_the_same_trace() -> None:
    first, second = simulate(Config(prompt=50)), simulate(Config(prompt=50))
    assert first.rows == second.rows
    assert first.result("random", 3) == second.result("random", 3)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(fault="no-ring", devices=devices("CUDA0")), "needs a device with the in-place hazard"),
        (Config(fault="prepare-twice", ring=1), "needs the ring"),
        (Config(fault="copy-unordered", devices=devices("ROCm0 ROCm1")), "needs two discrete devices"),
        (Config(fault="prepare-forgotten", prompt=10), "needs 2 whole ubatches"),
        (Config(fault="event-freed", decode=0), "needs --decode 1"),
        (Config(fault="no-ring", eval_callback=True), "needs work in flight, so no --eval-callback"),
        (Config(fault="no-ring", layers=1, devices=devices("CUDA0 ROCm0:integrated")), "needs a layer for each device"),
        (Config(fault="ring-wait-missing", cpu_embd=True), "needs a run without --cpu-embd"),
        (Config(fault="cpu-split-in-place", cpu_ops=True), "needs a run without --cpu-ops"),
        (Config(fault="quarantine-off", devices=devices("CUDA0 ROCm0:integrated")), "as the first one"),
        (Config(fault="no-ring", devices=devices("ROCm0 CUDA0")), "as the last one"),
        (Config(fault="prepare-forgotten", devices=devices("ROCm0 CUDA0")), "as the last one"),
        (Config(fault="buffer-freed", layers=1, cpu_ops=True), "needs a layer behind the operations of the CPU"),
        (Config(fault="queue-freed", eval_callback=True), "needs work in flight, so no --eval-callback"),
        (Config(fault="nothing"), "no fault `nothing`"),
        (Config(layers=0), "--layers must be at least 1"),
    ],
)
def test_what_cannot_be(config: Config, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(config)
