"""What a mend costs of what runs side by side: in flight, beside the host, and of two queues."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hbtrace.replay.clocks import Clocks
from hbtrace.replay.kernel import Clock
from hbtrace.replay.program import QUEUE
from hbtrace.replay.recording import Recording, record
from hbtrace.replay.settings import Settings
from hbtrace.report.whatif import fix_document, render
from hbtrace.trace.rows import batch_from_rows
from hbtrace.what_if.edges import edges_for
from hbtrace.what_if.fix import Fix, fix
from hbtrace.what_if.overlap import pace_of
from hbtrace.what_if.rules import CopyOn
from hbtrace.what_if.whatif import WhatIf, side_of, whatif
from tests.oracle.programs import random_program

Event = dict[str, Any]
SLOTS = 2


def pipeline(ubatches: int) -> list[Event]:
    """Two devices: each ubatch is computed by G0, copied into a slot by G0, and computed by G1; nobody waits for G1,
    so that the copy overtakes the slot's last reader."""
    events: list[Event] = [
        *({"ev": "backend", "id": n, "name": f"G{n}"} for n in (0, 1)),
        {"ev": "buffer", "id": 0, "name": "G0", "size": 32},
        {"ev": "buffer", "id": 1, "name": "G1", "size": 64},
        {"ev": "tensor", "id": 0, "name": "l_out", "buffer": 0},
        *(
            {"ev": "tensor", "id": 1 + slot, "name": f"G1#l_out#{slot}", "buffer": 1, "offset": 32 * slot, "size": 32}
            for slot in range(SLOTS)
        ),
    ]
    for n in range(ubatches):
        slot = 1 + n % SLOTS
        common = {"ubatch": n, "split": 0}
        events += [
            {"ev": "kernel", "backend": 0, "label": "front", "writes": [{"tensor": 0}], **common},
            {
                "ev": "copy_async", "backend": 1, "src_backend": 0, "runs_on": "src", "src": {"tensor": 0},
                "dst": {"tensor": slot}, **common,
            },
            {"ev": "kernel", "backend": 1, "label": "back", "reads": [{"tensor": slot}], **common},
        ]  # fmt: skip
    return events


def tried(events: list[Event], *rules: Any) -> WhatIf:
    return whatif(lambda: [batch_from_rows(events)], list(rules))


def edge(events: list[Event], *, stall: bool = False) -> WhatIf:
    side = side_of([batch_from_rows(events)], Settings())
    (cause,) = side.causes
    return tried(events, edges_for(cause, side.recording, stall=stall))


def fixed(events: list[Event]) -> Fix:
    return fix(lambda: [batch_from_rows(events)])


def test_the_edge_waits_for_the_slots_last_reader_and_for_nothing_else() -> None:
    found = edge(pipeline(6))
    assert (found.before.races, found.after.races) == (4, 0)
    assert found.price.queue_waits == 4, "of ubatch k + 2 for ubatch k"
    # Kernel k of G1 may run beside those of G0 that are later and do not wait for it: k + 1 and k + 2, whose copy does.
    assert found.after.pace.side_by_side == 5 + 4
    assert found.before.pace.side_by_side == 5 + 4 + 3 + 2 + 1


def test_a_wait_for_all_that_the_destination_has_costs_more_side_by_side() -> None:
    events = pipeline(6)
    drained = [tried(events, CopyOn(after_dst=True)), edge(events, stall=True)]
    for found in drained:
        assert found.after.races == 0
        assert found.after.pace.side_by_side < edge(events).after.pace.side_by_side


def test_fix_says_the_edge_first_and_what_every_answer_costs() -> None:
    found = fixed(pipeline(6))
    options = [answer.mends[0].option.partition(" ")[0] for answer in found.answers]
    costs = [answer.result.after.pace.side_by_side for answer in found.answers]
    assert options[0] == "--edge"
    assert costs[0] == max(costs)
    assert b'"side_by_side": [\n          15,\n          9\n        ]' in fix_document(found, "run.jsonl")


def test_the_price_in_words_tells_pairs_only_where_they_differ() -> None:
    events = pipeline(6)
    words = "pairs of work that two queues may run at once"
    assert f"{words} 15 -> 5" in render(tried(events, CopyOn(after_dst=True)), "run.jsonl")
    assert words not in render(tried(events, CopyOn(runs_on="src")), "run.jsonl")


@pytest.mark.parametrize("threads", ["one", "ordered"])
def test_pairs_of_random_programs_are_those_that_nothing_orders(threads: str) -> None:
    told = 0
    for seed in range(60):
        events = random_program(random.Random(seed), weird=0.0)
        recording = record([batch_from_rows(events)], Settings(threads=threads))
        assert pace_of(recording).side_by_side == unordered(recording), f"seed {seed}"
        told += unordered(recording) > 0
    assert told > 10


def unordered(recording: Recording) -> int:
    """All pairs of computes and kernels of two queues, each looked at."""
    clocks, work = Clocks(), list[tuple[int, Clock]]()
    for op, actor, other, _, row in recording.steps():
        clocks.step(op, actor, other)
        if op == QUEUE and recording.events[row] in ("compute", "kernel"):
            work.append((actor, clocks.whole(actor)))
    return sum(
        one != other and known[one] > later.get(one, 0) and later[other] > known.get(other, 0)
        for place, (one, known) in enumerate(work)
        for other, later in work[place + 1 :]
    )
