"""Logs of CSAN and of Vulkan's synchronization validation: sets of reports, whatever stands around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.importers import CSAN, SYNCVAL, csan, identify_foreign, syncval
from hbtrace.importers.logged import LoggedReport

CSAN_OLD = """\
============================
CSAN detected a possible data race on tensor with data pointer 139719969079296
Access by stream 94646435460352 during kernel:
aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
writing to argument: self, out, output
With stack trace:
  File "t.py", line 9, in <module>

Previous access by stream 0 during kernel:
aten::rand(int[] size) -> Tensor
writing to argument: output
"""
CSAN_NEW = """\
============================
CSAN detected a possible data race on tensor with data pointer 140
Access by stream 77 during kernel:
aten::add(Tensor self, Tensor other) -> Tensor
reading from argument(s) self
With stack trace:
  File "a.py", line 1, in <module>
    writing to argument(s) nobody

Previous access by stream 78 during kernel:
aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)
writing to argument(s) self, and to the output
With stack trace:
  File "a.py", line 2, in <module>

Trace for tensor allocation not found.
"""
VULKAN_OLD = (
    "[2021-12-02 ERROR hal] VALIDATION [SYNC-HAZARD-WRITE_AFTER_WRITE (0xfdf9f5e1)]\n"
    "\tValidation Error: [ SYNC-HAZARD-WRITE_AFTER_WRITE ] Object 0: handle = 0x55, name = U; | MessageID = 0xf |"
    " vkCmdCopyBuffer: Hazard WRITE_AFTER_WRITE for dstBuffer VkBuffer 0x55ad[Uniform Buffer], region 0. Access info"
    " (usage: SYNC_COPY_TRANSFER_WRITE, prior_usage: SYNC_CLEAR_TRANSFER_WRITE, write_barriers: 0, command:"
    " vkCmdCopyBuffer, seq_no: 13, reset_no: 1).\n"
)
VULKAN_NEW = (
    "Validation Error: [ SYNC-HAZARD-READ-AFTER-WRITE ] | MessageID = 0xe4\n"
    "vkCmdCopyBuffer(): READ_AFTER_WRITE hazard detected. vkCmdCopyBuffer reads VkBuffer 0x6a[ids], which was"
    " previously written by another vkCmdDispatch[region] command.\nNo sufficient synchronization is present.\n"
)


def told(report: LoggedReport) -> tuple[Any, ...]:
    assert report.earlier is not None
    assert report.current is not None
    sides = tuple((side.actor, side.mode, side.tensor, side.label) for side in (report.earlier, report.current))
    return report.kind, report.buffer, *sides, report.complete


def lines(text: str) -> list[bytes]:
    return text.encode().splitlines(keepends=True)


def test_csan_tells_both_sides() -> None:
    (old, new) = csan.reports(lines("noise\n" + CSAN_OLD + CSAN_NEW))
    assert told(old) == (
        "write-after-write", "device memory", ("stream default", "write", "output", "aten::rand"),
        ("stream 1", "write", "self, out, output", "aten::mul.out"), True,
    )  # fmt: skip
    assert (old.line, new.line) == (3, 14)
    assert told(new) == (
        "read-after-write", "device memory", ("stream 3", "write", "self, output", "aten::copy_"),
        ("stream 2", "read", "self", "aten::add"), True,
    )  # fmt: skip


@pytest.mark.parametrize("cut", [3, 5, 8, 10])
def test_csan_cut_off_is_not_whole(cut: int) -> None:
    (report,) = csan.reports(lines(CSAN_OLD)[:cut])
    assert not report.complete


def test_vulkan_in_both_shapes() -> None:
    (old,) = syncval.reports(lines(VULKAN_OLD))
    assert told(old) == (
        "write-after-write", "VkBuffer",
        ("Vulkan", "write", "Uniform Buffer", "an earlier command SYNC_CLEAR_TRANSFER_WRITE"),
        ("Vulkan", "write", "Uniform Buffer", "vkCmdCopyBuffer SYNC_COPY_TRANSFER_WRITE"), True,
    )  # fmt: skip
    (new,) = syncval.reports(lines(VULKAN_NEW))
    assert told(new) == (
        "read-after-write", "VkBuffer", ("Vulkan", "write", "ids", "vkCmdDispatch"),
        ("Vulkan", "read", "ids", "vkCmdCopyBuffer"), True,
    )  # fmt: skip
    broken = VULKAN_NEW.replace(" which was", "\nwhich was").replace("Buffer reads ", "Buffer reads\n")
    (pasted,) = syncval.reports(lines(broken))
    assert told(pasted) == told(new)
    assert [r.complete for r in syncval.reports(lines(VULKAN_OLD + VULKAN_NEW + VULKAN_OLD))] == [True] * 3


def test_a_hazard_of_an_unknown_shape_is_not_whole() -> None:
    (report,) = syncval.reports([b"Validation Error: [ SYNC-HAZARD-PRESENT-AFTER-WRITE ] something new\n"])
    assert not report.complete


@pytest.mark.parametrize(
    ("text", "kind", "id_of"),
    [(CSAN_OLD, CSAN, "device memory"), (CSAN_NEW, CSAN, "device memory"), (VULKAN_OLD, SYNCVAL, "VkBuffer"),
     (VULKAN_NEW, SYNCVAL, "VkBuffer")],
)  # fmt: skip
def test_they_are_told_judged_and_compared(
    text: str, kind: str, id_of: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from hbtrace.cli import run

    log, twin, clean = tmp_path / "run.log", tmp_path / "twin.log", tmp_path / "other.log"
    log.write_text("INFO start\n" + text * 2)
    twin.write_text(text.replace("0x55ad", "0x99").replace("0x6a", "0x7b").replace("139719969079296", "5"))
    assert identify_foreign(lines(log.read_text())) == kind
    one, two = hbtrace.analyze(str(log)), hbtrace.analyze(str(twin))
    assert (one.races, one.distinct, two.races, two.distinct) == (2, 1, 1, 1)
    assert [one.id_of(one.reports[0])] == [two.id_of(two.reports[0])], "handles are no part of an id"
    assert one.reports[0].buffer == id_of
    assert run(["diff", str(log), str(twin)]) == 0
    known = tmp_path / "known.toml"
    assert run(["baseline", "write", str(log), "-o", str(known)]) == 0
    assert run(["baseline", "check", str(known), str(twin)]) == 0
    clean.write_text(CSAN_NEW if text != CSAN_NEW else VULKAN_NEW)
    capfd.readouterr()
    assert run(["diff", str(log), str(clean), "--format", "json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert (len(document["new"]), document["fixed"], len(document["not_exercised"])) == (1, [], 1)
    for form in ("sarif", "junit", "github", "markdown", "jsonl"):
        assert run(["analyze", str(log), "--format", form]) == 1


@pytest.mark.parametrize(
    "line", ["Hazard " * 2000, "vkCmd" * 3000, "VkBuffer 0x1[" * 1200, "writing to " * 1400, "x" * 100_000]
)
def test_hostile_lines_end(line: str) -> None:
    head = "CSAN detected a possible data race on tensor with data pointer 1\nAccess by stream 0 during kernel:\n"
    assert not any(report.complete for report in csan.reports(lines(head + (line + "\n") * 200)))
    assert not any(report.complete for report in syncval.reports(lines(("SYNC-HAZARD-" + line + "\n") * 200)))
