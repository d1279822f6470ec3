"""`copy-unordered` on small traces that break it, and on twins that do not."""

from __future__ import annotations

from tests.checks.traces import checked, copy, findings, found, second_device, set_up, status


def test_a_copy_that_the_wait_does_not_hold() -> None:
    result = checked([*set_up(), *second_device(), copy(runs_on="src")])
    assert found(result) == {"copy-unordered"}
    message = next(f.message for f in result.findings if f.id == "copy-unordered")
    assert "ROCm1#l_out#3 (read by ROCm1, copied by ROCm0); 1 had a wait on the destination" in message
    assert found(checked([*set_up(), *second_device(), copy(runs_on="src", after_dst=True)])) == set()
    assert found(checked([*set_up(), *second_device(), copy(runs_on="dst")])) == set()
    assert status(checked([*set_up(), copy()]), "copy-unordered").startswith("not checkable: needs `copy_async`")


def test_a_copy_over_what_is_still_being_written() -> None:
    fill = {"ev": "kernel", "backend": 2, "label": "memset", "writes": [{"tensor": 9}]}
    rows = [*set_up(), *second_device()[:4], fill, copy(runs_on="src")]
    (finding,) = findings(rows, "copy-unordered")
    assert finding.message == (
        "1 copy fills a slot before its last writer is known to be done: ROCm1#l_out#3 (written by ROCm1, copied by"
        " ROCm0)"
    )
    both = findings([*rows, *second_device()[4:], copy(runs_on="src")], "copy-unordered")
    assert [f.message.split(" is known")[0] for f in both] == [
        "1 copy fills a slot before its last reader", "1 copy fills a slot before its last writer",
    ]  # fmt: skip
