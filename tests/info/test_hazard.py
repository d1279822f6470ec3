"""The in-place hazard of each queue: asynchronous, and computes on what the CPU slot was handed. Never by a name."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hbtrace.info.info import Info
from hbtrace.report.info import document, render
from tests.info.memory import info_in

IGPU = {"ev": "backend", "id": 0, "name": "ROCm0", "async": True, "accepts": ["ROCm0", "ROCm_Host"]}
CPU = {"ev": "backend", "id": 1, "name": "CPU", "async": False, "synchronous": True, "accepts": ["CPU", "ROCm_Host"]}
SCHED = {"ev": "sched", "id": 0, "backends": [0, 1], "cpu_buffer_type": "ROCm_Host", "ring": 0}
READS_HOST: list[dict[str, Any]] = [
    {"ev": "buffer", "id": 0, "name": "ROCm_Host", "size": 4096, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "size": 128},
    {"ev": "graph", "id": 0, "nodes": [{"op": "GET_ROWS", "tensor": 0, "reads": [{"tensor": 0}]}]},
    {"ev": "compute", "backend": 0, "graph": 0},
]


def verdict(found: Info, name: str) -> tuple[str, str]:
    queue = next(queue for queue in found.contents.queues if queue.name == name)
    return found.hazards[queue].verdict, found.hazards[queue].reason


def without(row: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in keys}


def test_can_arise() -> None:
    found = info_in(IGPU, CPU, SCHED)
    reason = "asynchronous and computes in place on ROCm_Host, which the CPU slot was handed"
    assert verdict(found, "ROCm0") == ("can arise", reason)
    assert found.verdict == "can arise"
    assert found.queues_with("can arise") == ["ROCm0"]


def test_the_name_decides_nothing() -> None:
    """The same attributes under the name of a device that never has the hazard, and the other way round."""
    renamed = {**IGPU, "name": "CUDA0", "type": "gpu"}
    assert verdict(info_in(renamed, CPU, SCHED), "CUDA0")[0] == "can arise"
    refusing = {**IGPU, "type": "igpu", "integrated": True, "accepts": ["ROCm0"]}
    assert verdict(info_in(refusing, CPU, SCHED), "ROCm0") == (
        "no",
        "does not accept ROCm_Host, which the CPU slot was handed",
    )


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"synchronous": True, "async": False}, "synchronous (its work is complete when the call returns)"),
        ({"synchronous": True}, "synchronous (its work is complete when the call returns)"),
        ({"async": False}, "not asynchronous"),
    ],
)
def test_an_accelerator_on_host_memory_that_is_not_asynchronous(attributes: dict[str, Any], reason: str) -> None:
    """BLAS: it accepts every host buffer, and its work is done when the call returns."""
    blas = {"ev": "backend", "id": 2, "name": "BLAS", "type": "accel", "accepts": ["CPU", "ROCm_Host"], **attributes}
    found = info_in(blas, CPU, {**SCHED, "backends": [2, 1]}, *[row | {"backend": 2} for row in READS_HOST[-1:]])
    assert verdict(found, "BLAS") == ("no", reason)
    assert found.verdict == "no"


def test_async_is_the_default_and_said_to_be() -> None:
    found = verdict(info_in(without(IGPU, "async"), CPU, SCHED), "ROCm0")
    assert found[0] == "can arise"
    assert found[1].startswith("asynchronous (the default: the trace does not say) and computes in place")


def test_accepts_absent_is_not_known_and_empty_is_no() -> None:
    found = verdict(info_in(without(IGPU, "accepts"), CPU, SCHED), "ROCm0")
    assert found[0] == "not known"
    assert "does not say what the backend accepts" in found[1]
    assert verdict(info_in({**IGPU, "accepts": []}, CPU, SCHED), "ROCm0")[0] == "no"


def test_computing_in_place_stands_in_for_accepts() -> None:
    found = info_in(without(IGPU, "accepts"), CPU, SCHED, *READS_HOST)
    assert verdict(found, "ROCm0")[0] == "can arise"
    assert "did compute in place on ROCm_Host" in verdict(found, "ROCm0")[1]
    touch = found.contents.queues[0].touched["ROCm_Host"]
    assert (touch.works, touch.bytes_read, touch.bytes_written) == (1, 128, 0)


def test_computing_in_place_outweighs_accepts() -> None:
    found = verdict(info_in({**IGPU, "accepts": ["ROCm0"]}, CPU, SCHED, *READS_HOST), "ROCm0")
    assert found[0] == "can arise"
    assert found[1].endswith("though `accepts` does not name it")


def test_no_scheduler_or_one_that_does_not_say() -> None:
    found = verdict(info_in(IGPU, CPU, *READS_HOST), "ROCm0")
    assert found[0] == "not known"
    assert found[1].startswith("no scheduler in the trace says which buffer type the CPU slot got")
    found = verdict(info_in(IGPU, CPU, without(SCHED, "cpu_buffer_type")), "ROCm0")
    assert found[0] == "not known"
    assert "(scheduler 0 has no `cpu_buffer_type`)" in found[1]


def test_a_plain_cpu_buffer_type_is_refused() -> None:
    """clip.cpp and ggml_opt hand the CPU slot a plain CPU buffer."""
    assert verdict(info_in(IGPU, CPU, {**SCHED, "cpu_buffer_type": "CPU"}), "ROCm0")[0] == "no"


def test_of_several_schedulers_each_counts() -> None:
    plain = {**SCHED, "id": 1, "cpu_buffer_type": "CPU"}
    for order in ([plain, SCHED], [SCHED, plain]):
        assert verdict(info_in(IGPU, CPU, *order), "ROCm0")[0] == "can arise"
    assert verdict(info_in(IGPU, CPU, without(SCHED, "cpu_buffer_type"), plain), "ROCm0")[0] == "not known"
    # a scheduler that is sent again counts as it was, too
    assert verdict(info_in(IGPU, CPU, SCHED, {**SCHED, "cpu_buffer_type": "CPU"}), "ROCm0")[0] == "can arise"


def test_a_scheduler_without_backends_holds_all() -> None:
    assert verdict(info_in(IGPU, CPU, without(SCHED, "backends")), "ROCm0")[0] == "can arise"


def test_beside_a_scheduler() -> None:
    other = {**IGPU, "id": 7, "name": "upload"}
    assert verdict(info_in(IGPU, CPU, other, SCHED), "upload") == (
        "no",
        "no scheduler uses it, and nothing was computed on it",
    )
    by_hand = {"ev": "kernel", "backend": 7}
    assert verdict(info_in(IGPU, CPU, other, SCHED, by_hand), "upload")[0] == "can arise"


def test_the_cpu_slot_itself() -> None:
    bare = {"ev": "backend", "id": 1, "name": "CPU", "accepts": ["ROCm_Host"]}
    assert verdict(info_in(IGPU, bare, SCHED), "CPU") == ("no", "it is the CPU slot itself")


def test_a_scheduler_by_hand_that_left_its_cpu_out() -> None:
    alone = {**SCHED, "backends": [0]}
    assert verdict(info_in({**IGPU, "type": "igpu"}, alone), "ROCm0")[0] == "can arise"
    assert verdict(info_in({**CPU, "id": 0, "type": "cpu"}, alone), "CPU")[0] == "no"


def test_redefined_after_the_scheduler_ended_and_before_it_began() -> None:
    refusing = {**IGPU, "accepts": ["ROCm0"]}
    # the id is taken over while the scheduler is in force: both are its
    found = info_in(refusing, CPU, SCHED, IGPU)
    assert verdict(found, "ROCm0")[0] == "no"
    assert verdict(found, "ROCm0#1")[0] == "can arise"
    # the first holder of the id was gone before the scheduler came
    found = info_in(IGPU, {"ev": "backend_free", "backend": 0}, refusing, CPU, SCHED)
    assert verdict(found, "ROCm0") == ("no", "no scheduler uses it, and nothing was computed on it")
    assert verdict(found, "ROCm0#1")[0] == "no"
    assert [queue.freed for queue in found.contents.queues] == [True, False, False]
    assert found.slots(found.contents.schedulers[0]) == ["ROCm0#1", "CPU"]


def test_never_defined() -> None:
    found = info_in(CPU, SCHED, {"ev": "compute", "backend": 0, "graph": 0})
    assert verdict(found, "?0") == ("not known", "the trace never defines it (a `backend` row would)")
    assert found.slots(found.contents.schedulers[0]) == ["?0", "CPU"]
    assert verdict(info_in(CPU, SCHED), "?0")[0] == "not known"
    # defined too late: the queue before it is another actor
    found = info_in(CPU, {"ev": "compute", "backend": 0, "graph": 0}, IGPU, SCHED)
    assert [queue.name for queue in found.contents.queues] == ["CPU", "ROCm0", "?0"]
    assert verdict(found, "ROCm0")[0] == "can arise"


def test_no_backend_at_all() -> None:
    found = info_in({"ev": "note", "what": "hello"})
    assert found.verdict == "not known"
    assert found.devices == []


# what the trace leaves open


def decided(found: Info, name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    queue = next(queue for queue in found.contents.queues if queue.name == name)
    hazard = found.hazards[queue]
    return hazard.verdict, hazard.declared, hazard.assumed


def named(name: str, **attributes: Any) -> dict[str, Any]:
    return {"ev": "backend", "id": 0, "name": name, **attributes}


def handed(buffer_type: str) -> dict[str, Any]:
    return {**SCHED, "cpu_buffer_type": buffer_type}


def test_what_is_left_open_is_assumed_from_the_table_and_said_to_be() -> None:
    found = info_in(named("CUDA0"), CPU, handed("CUDA_Host"))
    assert decided(found, "CUDA0") == ("no", (), ("async", "accepts"))
    text = " ".join(render(found).split())
    assert "decided by what is assumed of CUDA in ggml 0.18 to 0.25" in text
    assert "(July to November 2026): asynchronous, accepts CUDA0 attributes" in text
    assert "decided by what the trace declares (synchronous)" in text  # the CPU's
    queue = orjson.loads(document(found))["queues"][0]
    assert queue["hazard"]["assumed"] == ["async", "accepts"]
    assert queue["hazard"]["assumed_of"].startswith("CUDA in ggml 0.18")
    assert queue["accepts"] is None  # what the trace says stays what it says
    assert orjson.loads(document(found))["queues"][1]["hazard"]["assumed_of"] is None


def test_what_the_trace_declares_overrides_the_table() -> None:
    """A backend that was changed: an integrated CUDA, an asynchronous RPC, a SYCL that computes on host memory."""
    for name, host in (("CUDA0", "CUDA_Host"), ("RPC0", "RPC_Host"), ("SYCL0", "SYCL_Host")):
        changed = named(name, **{"async": True, "synchronous": False, "accepts": [name, host]})
        assert decided(info_in(changed, CPU, handed(host)), name) == ("can arise", ("async", "accepts"), ())
    for keys in ({"async": False}, {"synchronous": True}):
        found = info_in(named("ROCm0", integrated=True, **keys), CPU, SCHED)
        assert decided(found, "ROCm0") == ("no", tuple(keys), ())
    assert decided(info_in(named("RPC0"), CPU, handed("RPC_Host")), "RPC0") == ("no", (), ("async",))


def test_an_integrated_device_is_known_by_what_is_declared() -> None:
    """HIP computes on its host buffers on integrated devices only: without that, no is not sure, nor is yes."""
    for keys in ({"integrated": True}, {"type": "igpu"}):
        assert decided(info_in(named("ROCm0", **keys), CPU, SCHED), "ROCm0") == ("can arise", (), ("async", "accepts"))
    for keys in ({"integrated": False}, {"type": "gpu"}):
        assert decided(info_in(named("ROCm0", **keys), CPU, SCHED), "ROCm0") == ("no", (), ("async", "accepts"))
    found = info_in(named("ROCm0"), CPU, SCHED)
    assert decided(found, "ROCm0") == ("not known", (), ())
    assert "a ROCm0 that is integrated computes on its host buffers" in verdict(found, "ROCm0")[1]


def test_a_name_that_the_table_does_not_have_is_assumed_nothing_of() -> None:
    found = info_in(named("G0"), CPU, handed("G_Host"))
    assert decided(found, "G0") == ("not known", (), ())
    assert "assumed" not in render(found)


def test_each_group_of_queues_has_a_heading() -> None:
    refusing = {**IGPU, "accepts": ["ROCm0"]}
    text = render(info_in(IGPU, CPU, refusing, SCHED))
    assert "\ndevice ROCm0\n  queues     ROCm0\n" in text
    assert "\n\ndevice ROCm0, other queues\n  queues     ROCm0#1\n" in text


@pytest.mark.parametrize(
    ("numbers", "mode", "told"),
    [
        ([0], "one", "1 host thread, one actor"),
        ([3], "ordered", "1 host thread (3), one actor"),
        ([0, 1, 5], "one", "3 host threads (0-1, 5), one actor"),
        ([0, 1], "ordered", "2 host threads (0-1), an actor each, ordered by release and acquire"),
    ],
)
def test_host_threads(numbers: list[int], mode: str, told: str) -> None:
    rows = [{"ev": "synchronize", "backend": 0, "thread": number} for number in numbers]
    text = " ".join(render(info_in({"ev": "meta", "threads": mode}, *rows)).split())
    assert f"threads {told} hazard" in text
