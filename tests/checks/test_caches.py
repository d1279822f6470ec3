"""`stale-uid` and `alias-moved` on small traces that break them, and on twins that do not."""

from __future__ import annotations

from tests.checks.traces import (
    FIRST,
    STAMPED,
    alloc,
    checked,
    compute,
    found,
    point,
    prepare,
    reuse,
    set_up,
    status,
    ubatch,
    wait,
    write,
)


def test_a_stale_uid() -> None:
    result = checked([*set_up(), *FIRST, wait(), reuse(), prepare(1), point(1), *compute()])
    assert found(result) == {"stale-uid"}
    assert "inp_tokens" in next(f.message for f in result.findings if f.id == "stale-uid")
    assert found(checked([*set_up(), *FIRST, wait(), reuse(), prepare(1), point(1), STAMPED, *compute()])) == set()
    unset = checked([*set_up(uid=0), *FIRST, wait(), reuse(), prepare(1), point(1), *compute()])
    assert status(unset, "stale-uid") == "holds: 0 computes with a uid, 2 with uid 0, which bypasses caches"
    rows = [{k: v for k, v in row.items() if k != "uid"} for row in set_up()]
    assert status(checked([*rows, *FIRST]), "stale-uid") == "not checkable: needs `graph` with `uid`"


def test_a_new_backend_has_cached_no_graph() -> None:
    moved = [reuse(), prepare(1), point(1), *compute()]
    again = [{"ev": "backend_free", "backend": 0}, set_up()[0]]
    assert found(checked([*set_up(), *FIRST, wait(), *again, *moved])) == set()
    other = [{"ev": "backend_free", "backend": 1}, set_up()[1]]
    assert found(checked([*set_up(), *FIRST, wait(), *other, *moved])) == {"stale-uid"}


def test_a_reserve_that_reallocates_moves_aliases_rightly() -> None:
    again = point(1, tensor=9)
    for realloc, expected in ((True, set()), (False, {"alias-moved"})):
        reserve = {"ev": "sched_alloc", "sched": 0, "reserve": True, "realloc": realloc}
        rows = [*set_up(), *FIRST, wait(), reserve, again, alloc(1, inputs=[9]), ubatch(1), *compute()]
        assert found(checked(rows)) == expected


def test_an_alias_that_moved() -> None:
    again = point(1, tensor=9)
    bad = [*set_up(), *FIRST, wait(), again, alloc(1, inputs=[9]), ubatch(1), *compute()]
    assert found(checked(bad)) == {"alias-moved"}
    reallocated = [*set_up(), *FIRST, wait(), again, alloc(1, inputs=[9], realloc=True), ubatch(1), *compute()]
    assert found(checked(reallocated)) == set()
    elsewhere = [*set_up(), *FIRST, wait(), alloc(0), point(3), STAMPED, ubatch(1), *compute()]
    assert found(checked(elsewhere)) == {"alias-moved"}


def test_an_alias_is_not_checkable_without_knowing_what_reallocates() -> None:
    silent = {k: v for k, v in alloc().items() if k != "realloc"}
    rows = [*set_up(), silent, ubatch(), write(), *compute()]
    needs = "not checkable: needs `sched` with `ring` above 1, `sched_alloc` with `inputs` and `realloc`"
    assert status(checked(rows), "alias-moved") == needs
    assert status(checked([*rows, reuse(), prepare(0), *compute()]), "alias-moved") == needs
    assert status(checked([*rows, wait(), alloc(0), *compute()]), "alias-moved") == "holds: 1 rounds"
