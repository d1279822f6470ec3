"""The brute-force oracle gives exactly what every hand-made case states: it may be trusted to judge the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.material import CASES, cases
from tests.oracle import oracle

UNREADABLE = 3
"""The exit code of a trace that cannot be read at all: the reader's business."""


def _expected(trace: Path) -> dict[str, Any]:
    expect: dict[str, Any] = json.loads(trace.with_suffix(".expect.json").read_text("utf-8"))
    return expect


READABLE = [trace for trace in CASES if _expected(trace)["exit"] != UNREADABLE]


def _parse(path: Path) -> list[oracle.Event]:
    """The events of a trace. A line ends with a newline and nothing else; blank lines are no rows."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


@pytest.mark.parametrize("trace", cases(READABLE))
def test_case(trace: Path) -> None:
    """Reports, their text, distinct races, warning kinds and the strict row, as stated by hand."""
    expect = _expected(trace)
    found = oracle.analyze(_parse(trace))

    races = [
        {
            "kind": report.kind,
            "buffer": report.buffer,
            "lo": report.lo,
            "hi": report.hi,
            "bytes": report.bytes,
            "approx": report.approx,
            "earlier": {"row": report.earlier.row, "access": report.earlier.access},
            "current": {"row": report.current.row, "access": report.current.access},
        }
        for report in found.reports
    ]
    assert races == expect["races"]
    assert found.distinct == expect["distinct"]
    assert len(found.warnings) == expect["warnings"], found.warnings
    assert found.strict_row == expect["strict"]
    text = trace.with_suffix(".txt")
    assert found.text() == (text.read_text("utf-8") if text.exists() else "")


def test_skipped_weights() -> None:
    """Case 76 once more: without its weights the first report is left, nothing is cut and strict does not stop."""
    trace = next(path for path in CASES if path.stem == "76_weights_cut")
    found = oracle.analyze(_parse(trace), skip_weights=True)
    assert [(report.current.row, report.current.access) for report in found.reports] == [(6, 0)]
    assert not found.warnings
    assert found.strict_row is None
