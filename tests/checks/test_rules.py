"""What holds for every rule: its words, rows of wrong types, batches. Each family has a file of its own."""

from __future__ import annotations

import pytest

from hbtrace.checks.registry import SCHEDULER_RULES, all_rules
from tests.checks.traces import (
    FIRST,
    HOST,
    Rows,
    aliasing,
    checked,
    compute,
    copy,
    reuse,
    second_device,
    set_up,
    third,
    two,
    wait,
    write,
)


def test_every_rule_says_what_it_is() -> None:
    expected = (
        "hazard cpu-split-in-place ring-rotation prepare-missing prepare-twice stale-uid alias-moved memory-reuse"
        " placement copy-unordered stale-copy event-order freed-in-flight use-after-free redundant-wait"
    )
    assert [rule.id for rule in SCHEDULER_RULES] == expected.split()
    for rule in SCHEDULER_RULES:
        assert all((rule.title, rule.needs, rule.why.endswith("."), len(rule.about) > 100)), rule.id
    assert all(rule.id.startswith("strata.") for rule in all_rules()[len(SCHEDULER_RULES) :])
    assert not any(j.id.startswith("strata.") for j in checked([*set_up(), *FIRST]).judgements)


def test_values_of_wrong_types_break_nothing() -> None:
    for key, row in [(k, r) for r in (*set_up(), *FIRST, wait(), *aliasing(1), copy()) for k in r if k != "ev"]:
        for wrong in ("x", [1, None, {"tensor": "y"}], {"tensor": []}):
            checked(
                [*set_up(), *FIRST, {**row, key: wrong}, *compute(), {"ev": "buffer_free", "buffer": HOST}, write()]
            )


@pytest.mark.parametrize("batch", [1, 3])
def test_batches_make_no_difference(batch: int) -> None:
    from hbtrace.checks.checked import check_source

    for events in (
        third(),
        two(reuse()),
        [*set_up(), *aliasing(1)],
        [*set_up(), *second_device(), copy(runs_on="src")],
    ):
        whole, cut = checked(events), check_source(Rows(events, batch=batch))
        assert (whole.findings, whole.judgements, whole.coverage) == (cut.findings, cut.judgements, cut.coverage)
