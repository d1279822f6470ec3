"""What `explain` says of one race: what else its id means, and which approximate range leaves it unknown."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import hbtrace
from hbtrace.explain.triage import triage
from hbtrace.report import explain as report
from hbtrace.report import triage as triage_report

ROOT = Path(__file__).parents[2]
INTEGRATED = str(ROOT / "sample_traces/integrated.arrow")


def explained(trace: str, ident: str) -> str:
    return report.render(hbtrace.explain_race(trace, ident))


def test_what_else_an_id_means() -> None:
    assert "\n  report 1 of 30 of this cause (5 distinct races): 30 unknown\n" in explained(INTEGRATED, "C-5e8c8b")
    assert "\n  report 1 of 6 of this race: 6 unknown\n" in explained(INTEGRATED, "R-e3a290")
    assert "\n  report " not in explained(INTEGRATED, "431")


@pytest.mark.parametrize(
    ("ident", "told"), [("C-5e8c8b", (29, 5, "cause")), ("R-e3a290", (5, 1, "race")), ("431", (0, 1, "race"))]
)
def test_the_document_says_what_else_an_id_means(ident: str, told: tuple[int, int, str]) -> None:
    found = json.loads(report.document(hbtrace.explain_race(INTEGRATED, ident)))
    assert (found["others"], found["races"], found["means"]) == told


def keys(value: Any) -> set[str]:
    """All keys at any depth, but for those that are actors' names."""
    if isinstance(value, dict):
        return {key for name, inner in value.items() for key in ({name} if name == "knew" else {name, *keys(inner)})}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()


@pytest.mark.parametrize("verb", ["triage", "explain"])
def test_every_key_of_the_documents_is_explained(verb: str) -> None:
    page = (ROOT / "hbtrace/docs/output.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## `{verb} --format json`\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    if verb == "triage":
        whole = json.loads(triage_report.document(triage(INTEGRATED))) | {"reports": []}
    else:
        whole = json.loads(report.document(hbtrace.explain_race(INTEGRATED, "C-5e8c8b"))) | {"report": {}}
    explained = set(re.findall(r"`([a-z_]+)`", section))
    assert keys(whole) - explained <= {"format", "path", "trace"}


def test_a_row_can_have_several_races(tmp_path: Path) -> None:
    twice = {"ev": "host_access", "writes": [{"tensor": 0}, {"tensor": 1}]}
    rows = [*set_up(), {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}, {"tensor": 1}]}, twice, twice]
    rows.insert(-1, {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]})
    told = explained(written(tmp_path, rows), "7")
    assert "\n  report 1 of 2 of this row (2 distinct races): 2 unknown\n" in told


def set_up() -> list[dict[str, Any]]:
    tensors = [{"ev": "tensor", "id": k, "name": f"x{k}", "buffer": 0, "offset": 16 * k, "size": 16} for k in range(4)]
    return [{"ev": "backend", "id": 0, "name": "GPU0"}, {"ev": "buffer", "id": 0, "name": "GPU0", "size": 64}, *tensors]


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    folder.mkdir(exist_ok=True)
    path = str(folder / "run.jsonl")
    with hbtrace.open_writer(path) as out:
        out.write_rows(rows)
    return path


def test_a_buffer_freed_under_a_queue_whatever_its_number(tmp_path: Path) -> None:
    """The end of a space names no actor, though its number may be that of one or of none."""
    more = [{"ev": "buffer", "id": k, "name": "GPU0", "size": 16} for k in (1, 2, 3)]
    for freed in (0, 3):
        work = {"ev": "kernel", "backend": 0, "reads": [{"buffer": freed, "offset": 0, "size": 16}]}
        path = written(tmp_path / str(freed), [*set_up(), *more, work, {"ev": "buffer_free", "buffer": freed}])
        (found,) = hbtrace.analyze(path)
        told = report.render(hbtrace.explain_race(path, str(found.current.row)))
        assert "HOST (buffer_free) does not wait for GPU0" in told
        assert f"BREAKS before row {found.current.row}" in told


@pytest.mark.parametrize("where", ["reads", "writes"])
def test_the_approximate_range_that_decides_is_named(tmp_path: Path, where: str) -> None:
    def run(*, approx: bool) -> tuple[str, int]:
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
        found = hbtrace.explain_race(written(tmp_path, rows), "7")
        return report.render(found), json.loads(report.document(found))["consequence"]["doubt_row"]

    text, row = run(approx=True)
    assert row == 8
    assert "\neffect: unknown: an approximate range decides whether what it changes is read\n" in text
    assert "\n  the first such range is in row 8: " in text
    (tmp_path / "run.jsonl").unlink()
    text, row = run(approx=False)
    assert row == -1
    assert "\neffect: visible: " in text
    assert "such range" not in text


def test_what_to_type_next_is_quoted(tmp_path: Path) -> None:
    """The path as much as the rule: both are for a shell."""
    plain, spaced = tmp_path / "run.arrow", tmp_path / "my run.arrow"
    for path, typed in ((plain, str(plain)), (spaced, f"'{spaced}'")):
        shutil.copy(INTEGRATED, path)
        text = triage_report.render(triage(str(path)), verbose=True)
        assert f"\n  hbtrace explain {typed} C-5e8c8b\n  hbtrace whatif {typed} --ring 2\n" in text
        assert text.endswith(f"\n  hbtrace whatif {typed} --fix\n")
        assert f"\n    try      hbtrace whatif {typed} --sync ubatch\n" in text
        assert f"\n  hbtrace whatif {typed} --edge C-5e8c8b\n" in explained(str(path), "C-5e8c8b")
        with pytest.raises(hbtrace.UsageError) as caught:
            hbtrace.explain_race(str(path), "R-000000")
        assert str(caught.value) == f"{path}: no race R-000000; `hbtrace triage {typed} -v` lists them"
