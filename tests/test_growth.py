"""What grows with the square of a trace is counted and capped: operations, not seconds (issue of the false greens)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hbtrace.cli import run
from hbtrace.consequence import taint, work
from hbtrace.consequence.sources import ones
from hbtrace.consequence.taint import UNLOOKED, judge
from hbtrace.replay.recording import pair_of, record
from hbtrace.report.whatif import fix_document, render_fix
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if import fix as fixes
from hbtrace.what_if import waits

Event = dict[str, Any]
HOST_MEMORY: Event = {"ev": "buffer", "id": 0, "name": "H", "size": 1 << 20, "host": True}


def queues(count: int) -> list[Event]:
    """Each reads one tensor that the host then writes, and what it read is read by the host."""
    tensors = [
        {"ev": "tensor", "id": k, "name": f"t{k}", "buffer": 0, "offset": 64 * k, "size": 64} for k in range(count + 1)
    ]
    kernels = [
        {"ev": "kernel", "backend": k, "reads": [{"tensor": 0}], "writes": [{"tensor": k + 1}]} for k in range(count)
    ]
    gets = [{"ev": "get_direct", "tensor": k + 1} for k in range(count)]
    backends = [{"ev": "backend", "id": k, "name": f"Q{k}"} for k in range(count)]
    return [HOST_MEMORY, *backends, *tensors, *kernels, {"ev": "tensor_set", "tensor": 0}, *gets]


def distinct(count: int) -> list[Event]:
    """A race of its own for each of so many tensors, none of which comes to anything."""
    rows = [
        row for k in range(count)
        for row in (
            {"ev": "tensor", "id": k, "name": f"t{k}", "buffer": 0, "offset": 64 * k, "size": 64},
            {"ev": "kernel", "backend": 0, "reads": [{"tensor": k}]},
            {"ev": "tensor_set", "tensor": k},
        )
    ]  # fmt: skip
    return [HOST_MEMORY, {"ev": "backend", "id": 0, "name": "Q"}, *rows]


class Counted(work.Work):
    spent: list[int] = []  # noqa: RUF012 - of all that a test makes

    def spend(self, count: int, sources: int = 0) -> None:
        self.spent.append(count)
        super().spend(count, sources)


def spent_on(events: Iterable[Event], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(Counted, "spent", [])
    monkeypatch.setattr(taint, "Work", Counted)
    judge(record([batch_from_rows(list(events))]))
    return sum(Counted.spent)


def test_distinct_races_are_judged_in_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (spent_on(distinct(count), monkeypatch) for count in (100, 400))
    assert few > 100
    assert many <= 4.5 * few


def test_a_race_that_is_not_judged_for_its_cost_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record([batch_from_rows(queues(30))])
    whole = judge(recording)
    assert len(recording.reports) > 30
    assert {found.verdict for found in whole.values()} == {"live"}
    monkeypatch.setattr(work, "MOST", 300)
    cut = judge(recording)
    assert set(cut) == {pair_of(report) for report in recording.reports}
    assert UNLOOKED in cut.values()
    assert {found.verdict for found in cut.values()} <= {"live", "unknown"}  # what is not known is never dead


def test_no_dead_race_without_the_work_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    overwritten = [
        *queues(8)[:-8], *({"ev": "synchronize", "backend": k} for k in range(8)),
        *({"ev": "set_direct", "tensor": k} for k in range(9)),
    ]  # fmt: skip
    recording = record([batch_from_rows(overwritten)])
    assert {found.verdict for found in judge(recording).values()} == {"dead"}
    for most in range(0, 60, 7):
        monkeypatch.setattr(work, "MOST", most)
        assert {found.verdict for found in judge(recording).values()} == {"unknown"}


def test_the_user_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace := tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queues(30)))
    monkeypatch.setattr(work, "MOST", 100)
    assert run(["analyze", str(trace)]) == 1
    assert "reports are of unknown effect because judging all of them would cost too much" in capsys.readouterr().err


@pytest.mark.parametrize("bits", [0, 1, 0b1011, 1 << 255, 1 << 256, 1 << 1000 | 1 << 256 | 5, (1 << 3000) - 1])
def test_places_of_bits(bits: int) -> None:
    assert list(ones(bits)) == [place for place in range(3001) if bits >> place & 1]


def test_fixes_of_very_many_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_from_rows(distinct(6))
    whole = fixes.fix(lambda: [batch])
    assert [len(answer.mends) for answer in whole.answers] == [6]
    assert whole.limits == []
    monkeypatch.setattr(fixes, "MOST_CAUSES", 5)
    cut = fixes.fix(lambda: [batch])
    assert cut.answers == []  # none that is not clean passes for one
    assert cut.tried < whole.tried
    (limit,) = cut.limits
    assert limit.startswith("6 causes: fixes of their own were tried for the 5 with the most reports only")
    assert limit in render_fix(cut, "run.jsonl")
    assert json.loads(fix_document(cut, "run.jsonl"))["warnings"] == [limit]


def test_the_causes_with_the_most_reports_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 2}]}, {"ev": "tensor_set", "tensor": 2}]
    monkeypatch.setattr(fixes, "MOST_CAUSES", 1)
    found = fixes.fix(lambda: [batch_from_rows([*distinct(4), *twice])])
    edges = {mend.name for mend in found.mends if mend.edge}
    assert edges
    assert all("t2" in name for name in edges)


def test_waits_are_weighed_within_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def weighed(count: int) -> tuple[int, bool]:
        runs = []
        original = waits.Recording.without
        with monkeypatch.context() as patch:
            patch.setattr(waits.Recording, "without", lambda self, rows: runs.append(1) or original(self, rows))
            one = [{"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}, {"ev": "synchronize", "backend": 0},
                   {"ev": "tensor_set", "tensor": 0}]  # fmt: skip
            tensor = {"ev": "tensor", "id": 0, "name": "t", "buffer": 0, "size": 64}
            rows = [HOST_MEMORY, {"ev": "backend", "id": 0, "name": "Q"}, tensor, *one * count]
            found = waits.weigh([batch_from_rows(rows)])
        return len(runs), found.together

    assert weighed(40) == (40, False)
    monkeypatch.setattr(waits, "MOST_STEPS", 4_000)
    runs, together = weighed(100)
    assert together
    assert runs * 300 <= 4_000 + 300
