"""The ring's selector, exhaustively: the numbers of the model, found by driving the selector itself."""

from __future__ import annotations

import copy

import pytest

from hbtrace.strata.model.ring import Selector, explore

State = tuple[int, tuple[int, ...], tuple[int, ...], int]


def enumerate_selector(depth: int, fault: str = "") -> tuple[set[State], set[State]]:
    """All states that the engine's selector can reach, and those in which a guess finds no free buffer."""
    start = (Selector(depth, fault), (), 0)
    seen, stuck, todo = {_state(*start)}, set(), [start]
    while todo:
        selector, live, parity = todo.pop()
        followers = []
        following = (parity + 1) % depth
        if len(live) < depth - 1:
            kept = [b for at, b in enumerate(selector.records) if at != parity or fault == "keep-own-parity-record"]
            if {selector.cur, *kept} >= set(range(selector.buffers)):
                stuck.add(_state(selector, live, parity))
            else:
                followers.append(("speculative", (parity,), (*live, parity), following))
        if live:
            followers += [("", (), live[1:], parity), ("undo", live[:1], (), (live[0] + 1) % depth)]
        else:
            followers += [("in_place", (), (), following), ("settle", (), (), 0)]
        for name, arguments, after, turn in followers:
            moved = copy.deepcopy(selector)
            if name:
                getattr(moved, name)(*arguments)
            state = _state(moved, after, turn)
            if state not in seen:
                seen.add(state)
                todo.append((moved, after, turn))
    return seen, stuck


def _state(selector: Selector, live: tuple[int, ...], parity: int) -> State:
    return selector.cur, tuple(selector.records), live, parity


def test_the_right_rule_has_48_states_and_never_sticks() -> None:
    states, stuck = enumerate_selector(2)
    assert (len(states), len(stuck)) == (48, 0)
    assert {tuple(state) for state in explore().states} == states


def test_the_wrong_rule_sticks_in_12() -> None:
    _, stuck = enumerate_selector(2, "keep-own-parity-record")
    assert len(stuck) == 12
    assert {tuple(state) for state in explore(keep_own=True).stuck} == stuck


def test_two_buffers_stick_in_4() -> None:
    assert len(explore(2).stuck) == 4
    assert explore(3).tight == {1, 2}, "one buffer is free at the tightest"


@pytest.mark.parametrize(("depth", "states"), [(2, 48), (3, 435), (4, 3972)])
def test_deeper_pipelines_never_stick(depth: int, states: int) -> None:
    """d + 1 buffers are enough for depth d, our model beyond 2; the wrong rule sticks at every depth."""
    found = explore(depth + 1, depth)
    assert (len(found.states), len(found.stuck), min(found.tight)) == (states, 0, 1)
    assert explore(depth + 1, depth, keep_own=True).stuck
    assert explore(depth, depth).stuck


@pytest.mark.parametrize("depth", [3, 4])
def test_the_selector_is_the_machine(depth: int) -> None:
    states, stuck = enumerate_selector(depth)
    assert {tuple(state) for state in explore(depth + 1, depth).states} == states
    assert not stuck
