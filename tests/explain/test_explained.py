"""What `explain` says of one race: what else its id means, and which approximate range leaves it unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.report import explain as report

INTEGRATED = str(Path(__file__).parents[2] / "sample_traces/integrated.arrow")


def explained(trace: str, ident: str) -> str:
    return report.render(hbtrace.explain_race(trace, ident))


def test_what_else_an_id_means() -> None:
    assert "\n  ... and 29 more reports of this cause (5 distinct races)\n" in explained(INTEGRATED, "C-5e8c8b")
    assert "\n  ... and 5 more reports of this race\n" in explained(INTEGRATED, "R-e3a290")
    assert "more report" not in explained(INTEGRATED, "431")


def test_a_row_can_have_several_races(tmp_path: Path) -> None:
    twice = {"ev": "host_access", "writes": [{"tensor": 0}, {"tensor": 1}]}
    rows = [*set_up(), {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}, {"tensor": 1}]}, twice, twice]
    rows.insert(-1, {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]})
    assert "\n  ... and 1 more report of this row (2 distinct races)\n" in explained(written(tmp_path, rows), "7")


def set_up() -> list[dict[str, Any]]:
    tensors = [{"ev": "tensor", "id": k, "name": f"x{k}", "buffer": 0, "offset": 16 * k, "size": 16} for k in range(4)]
    return [{"ev": "backend", "id": 0, "name": "GPU0"}, {"ev": "buffer", "id": 0, "name": "GPU0", "size": 64}, *tensors]


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    path = str(folder / "run.jsonl")
    with hbtrace.open_writer(path) as out:
        out.write_rows(rows)
    return path


@pytest.mark.parametrize("where", ["reads", "writes"])
def test_the_approximate_range_that_decides_is_named(tmp_path: Path, where: str) -> None:
    def run(*, approx: bool) -> str:
        doubtful = {"ev": "kernel", "backend": 0, "reads": [{"tensor": 1}], "writes": [{"tensor": 2}]}
        doubtful[where] = [doubtful[where][0] | {"approx": approx}]  # type: ignore[index]
        rows = [
            *set_up(),
            {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}], "writes": [{"tensor": 1}]},
            {"ev": "tensor_set", "tensor": 0},
            doubtful,
            {"ev": "kernel", "backend": 0, "writes": [{"tensor": 1}]},
            {"ev": "synchronize", "backend": 0},
            {"ev": "tensor_get", "tensor": 2},
        ]
        return explained(written(tmp_path, rows), "7")

    text = run(approx=True)
    assert "\nconsequence: unknown: an approximate range decides whether what it changes is read\n" in text
    assert "\n  the first such range is in row 8: " in text
    (tmp_path / "run.jsonl").unlink()
    text = run(approx=False)
    assert "\nconsequence: live: " in text
    assert "such range" not in text
