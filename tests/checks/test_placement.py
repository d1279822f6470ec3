"""`placement` on small traces that break it, and on twins that do not."""

from __future__ import annotations

from tests.checks.traces import FIRST, OUTPUT, aliasing, checked, found, set_up, status


def test_an_aliasing_node_away_from_its_root() -> None:
    result = checked([*set_up(), *aliasing(1)])
    assert found(result) == {"placement"}
    message = next(f.message for f in result.findings if f.id == "placement")
    assert "SET_ROWS cache_k (view) on CPU, its root on ROCm0; these copies would go: CPU#Kcur-0#0" in message
    assert found(checked([*set_up(), *aliasing(0)])) == set()


def test_a_copy_goes_only_with_its_last_reader() -> None:
    copy, graph, run = aliasing(1)
    stays = {"op": "ADD", "tensor": OUTPUT, "reads": [{"tensor": 9}], "writes": [{"tensor": OUTPUT}]}
    result = checked([*set_up(), copy, {**graph, "nodes": [*graph["nodes"], stays]}, run])
    message = next(f.message for f in result.findings if f.id == "placement")
    assert message == "1 aliasing node would move to its root: SET_ROWS cache_k (view) on CPU, its root on ROCm0"


def test_another_instance_on_the_device_is_no_other_place() -> None:
    for device, expected in (("ROCm0", set()), ("ROCm1", {"placement"})):
        second = {"ev": "backend", "id": 2, "name": "ROCm0", "device": device}
        assert found(checked([*set_up(), second, *aliasing(2)])) == expected
    for names, expected in ((("X", "X"), set()), (("X", "Y"), {"placement"})):
        silent = [{"ev": "backend", "id": ident, "name": name} for ident, name in zip((0, 2), names, strict=True)]
        assert found(checked([*set_up(), *silent, *aliasing(2)])) & {"placement"} == expected


def test_left_alone_where_the_target_does_not_support_it() -> None:
    note = {"ev": "note", "what": "op_unsupported", "attrs": {"backend": 0, "op": "SET_ROWS"}}
    result = checked([*set_up(), note, *aliasing(1)])
    assert found(result) == set()
    assert "placement" in found(result, severity="info")
    assert found(checked([*set_up(), note, *aliasing(1, "CPY")])) == {"placement"}


def test_placement_needs_to_know_where_the_root_is() -> None:
    rows = [{k: v for k, v in row.items() if k != "backend"} if row["ev"] == "buffer" else row for row in set_up()]
    assert status(checked([*rows, *aliasing(1)]), "placement").startswith("not checkable: needs")


def test_placement_needs_views() -> None:
    rows = [{k: v for k, v in row.items() if k != "view_of"} for row in (*set_up(), *aliasing(1))]
    assert status(checked(rows), "placement") == "not checkable: needs `tensor` with `view_of`"
    assert status(checked([*set_up(), *FIRST]), "placement").startswith("holds: 0 aliasing nodes")
