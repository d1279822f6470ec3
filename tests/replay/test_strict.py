"""What strict mode says: the row, the thing, and what is wrong with it, in one sentence. When: `test_cases`."""

from __future__ import annotations

from typing import Any

import pytest

from hbtrace.errors import TraceError
from hbtrace.replay.diagnostics import STRICT
from hbtrace.replay.session import Session, analyze_events
from hbtrace.replay.settings import Settings
from hbtrace.trace.rows import batch_from_rows

QUEUE = {"ev": "backend", "id": 0, "name": "GPU0"}
BUFFER = {"ev": "buffer", "id": 0, "name": "GPU0", "size": 64}

BREACHES: list[tuple[list[dict[str, Any]], str]] = [
    ([{"ev": "synchronize", "backend": 4}], "row 0: backend 4 is used before any definition"),
    ([{"ev": "tensor_set", "tensor": 9}], "row 0: tensor 9 is used before any definition"),
    ([{"ev": "buffer_clear", "buffer": 7}], "row 0: buffer 7 is used before any definition"),
    ([QUEUE, {"ev": "compute", "backend": 0, "graph": 5}], "row 1: graph 5 is used before any definition"),
    (
        [BUFFER, {"ev": "host_access", "writes": [{"buffer": 0, "offset": 0, "size": 100000}]}],
        "row 1: the range [0, 100000) of buffer 0, which is [0, 64), leaves its buffer",
    ),
    (
        [BUFFER, {"ev": "buffer_free", "buffer": 0}, {"ev": "buffer_clear", "buffer": 0}],
        "row 2: use-after-free: buffer 0 is used after it was freed",
    ),
    (
        [{"ev": "backend", "id": 0, "name": "HOST"}],
        "row 0: a backend is named HOST, which is reserved for host threads",
    ),
    ([{"ev": "synchronize"}], "row 0: `synchronize` lacks `backend`: the row cannot be replayed"),
    ([QUEUE, {"ev": "backend_free", "backend": 0, "graph": 1}], "row 1: `backend_free` has no key `graph`"),
    ([{"ev": "kernal"}], "row 0: unknown event `kernal`: the row cannot be replayed"),
]


@pytest.mark.parametrize(("events", "sentence"), BREACHES, ids=[sentence for _, sentence in BREACHES])
def test_strict_says_what_is_wrong(events: list[dict[str, Any]], sentence: str) -> None:
    with pytest.raises(TraceError) as caught:
        analyze_events(events, strict=True)
    assert str(caught.value) == sentence
    assert len(analyze_events(events).warnings) == 1


def test_every_kind_has_its_sentence() -> None:
    assert len(STRICT) + 1 == len(BREACHES)  # a skipped row has two


@pytest.mark.parametrize("batch", [1, 2, 9])
def test_the_first_breach_is_named(batch: int) -> None:
    """Also where a later row of the same batch has a key that nobody reads, which is found before rows are lowered."""
    early, late = {"ev": "synchronize", "backend": 0}, {"ev": "synchronize", "backend": 0, "k": 1}
    for rows, named in (([QUEUE, {"ev": "kernal"}, late], 1), ([QUEUE, late, {"ev": "kernal"}], 1), ([early, late], 0)):
        batches = [batch_from_rows(rows[at : at + batch]) for at in range(0, len(rows), batch)]
        with pytest.raises(TraceError) as caught:
            Session(batches, Settings(strict=True)).run()
        assert caught.value.row == named


def test_what_stays_a_warning_in_strict_mode() -> None:
    events = [QUEUE, BUFFER, {"ev": "tensor_set", "tensor": 0, "offset": "4"}, {"ev": "meta", "version": 1}]
    events[2:2] = [{"ev": "tensor", "id": 0, "name": "x", "buffer": 0}]
    by = {"tensor": 0, "by": 1, "pitch": 0, "size": 4}
    events += [{"ev": "host_access", "reads": [by, {}], "picked": [{"tensor": 1, "runs": [{"count": 2}]}]}]
    assert len(analyze_events(events, strict=True).warnings) == 3
