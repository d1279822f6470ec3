"""What a race's id holds over, what tells races apart, and that ids never change from one version to the next."""

from __future__ import annotations

import pytest

from hbtrace.races import identity
from hbtrace.races.identity import full_identity, identities
from tests.compare.samples import found, renumbered, run

GOLDEN = {
    ("write-after-read", "ROCm_Host", "ROCm0", "inp_tokens", "compute", "HOST", "inp_tokens", "tensor_set"): "R-4ea695",
    ("write-after-read", "FAKE_Host", "FAKE0", "inp_pos", "compute", "HOST", "inp_pos", "tensor_set"): "R-48288e",
    ("write-after-read", "CUDA1", "CUDA1", "CUDA1#l_out-2", "compute", "CUDA0", "CUDA1#l_out-2", "copy_async dst"):
        "R-094d38",
    ("write-after-write", "b", "HOST", None, "x", "q", None, "y"): "R-956923",
}  # fmt: skip


def ids(events, **options):
    return set(found(events, **options))


BASE = run("inp_tokens")
ONE = ids(BASE)


def test_golden_ids():
    """Baselines in other people's repositories hold these: they never change."""
    assert identities(GOLDEN) == GOLDEN


def with_keys(events, which, **keys):
    return [event | keys if event["ev"] in which else event for event in events]


SAME = {
    "more ubatches": run("inp_tokens", ubatches=9),
    "other ids": renumbered(BASE, 7),
    "another address": with_keys(BASE, {"tensor"}, offset=512),
    "another size of the buffer": with_keys(BASE, {"buffer"}, size=4096),
    "other clocks": [*BASE[:2], {"ev": "synchronize", "backend": 0}, {"ev": "kernel", "backend": 0}, *BASE[2:]],
    "another split": with_keys(BASE, {"compute"}, split=5),
    "times, sites and unknown keys": with_keys(BASE, {"compute", "set_direct"}, time=5, site="a.cpp:1", more=1),
    "a later instance of the queue": [*BASE[:2], {"ev": "backend_free", "backend": 0}, *BASE[1:]],
    "more buffers": [*BASE[:2], {"ev": "buffer", "id": 9, "name": "GPU_Host", "size": 8}, *BASE[2:]],
    "a view of the root": [
        *BASE[:5], {"ev": "tensor", "id": 8, "name": "v", "buffer": 0, "offset": 0, "size": 8, "view_of": 0},
        *[e | {"tensor": 8} if e["ev"] == "set_direct" else e for e in BASE[5:]],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_an_id_holds_over(name):
    assert ids(SAME[name]) == ONE


OTHER = {
    "tensor": run("inp_pos"),
    "label": run("inp_tokens", label="fill"),
    "call": run("inp_tokens", how="tensor_set"),
    "actor": run("inp_tokens", name="GPU1"),
    "buffer": run("inp_tokens", buffer="GPU1_Host"),
    "kind": [e | {"ev": "get_direct"} if e["ev"] == "set_direct" else e for e in
             with_keys(BASE, {"graph"}, nodes=[{"op": "OP0", "reads": [], "writes": [{"tensor": 0}]}])],
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_another(name):
    other = ids(OTHER[name])
    assert other
    assert not other & ONE


def test_slots_of_a_scheduler_copy_are_one_race_and_layers_are_not():
    assert ids(run("GPU0#l_out-1#0")) == ids(run("GPU0#l_out-1#3")) != ids(run("GPU0#l_out-2#0"))
    assert ids(run("GPU0#l_out-1#0"), fold_layers=True) == ids(run("GPU0#l_out-2#1"), fold_layers=True)


@pytest.mark.parametrize(
    "pair", [("leaf_7", "leaf_12"), ("node_3", "leaf_7"), ("GPU0#leaf_7#0", "leaf_9"), ("", "leaf_1")]
)
def test_an_unnamed_root_is_known_by_its_place(pair):
    one, other = (run(name, "inp_pos") for name in pair)
    assert ids(one) == ids(other)
    assert len(ids(one)) == 2


def test_two_unnamed_roots_at_different_places_are_two_races():
    assert len(ids(run("leaf_7", "leaf_8"))) == 2
    assert ids(run("leaf_7", "leaf_8")) == ids(run("leaf_8", "leaf_7")) == ids(run("leaf_3", "node_3"))


def test_an_unnamed_roots_reports_still_show_its_name():
    (report,) = found(run("leaf_7")).values()
    assert report.earlier.root == "leaf_7"
    assert report.signature[3] == "leaf_7"
    assert report.canonical[3] == "OP0[0] of - <- host"


def test_a_collision_lengthens_just_those_that_collide(monkeypatch):
    digits = {"a": "R-1111110000", "b": "R-1111112222", "c": "R-3333330000", "d": "R-1111112299"}
    monkeypatch.setattr(identity, "full_identity", lambda canonical: digits[canonical])
    assert identities("abcd") == {"a": "R-1111110", "b": "R-111111222", "c": "R-333333", "d": "R-111111229"}
    assert identities("ac") == {"a": "R-111111", "c": "R-333333"}


def test_ids_do_not_depend_on_the_order():
    signatures = list(GOLDEN)
    assert identities(signatures) == identities(reversed(signatures))
    assert all(full_identity(s).startswith(i) for s, i in identities(signatures).items())


def kernels(*names):
    """Inputs that queued work other than a graph reads: nothing tells their places."""
    events = [e for e in run(*names) if e["ev"] != "graph"]
    reads = [{"tensor": number} for number in range(len(names))]
    return [e if e["ev"] != "compute" else e | {"ev": "kernel", "reads": reads} for e in events]


def test_unnamed_tensors_without_a_place_are_two():
    one, two, three = (ids(kernels(*names)) for names in (["leaf_1"], ["leaf_1", "leaf_2"], ["leaf_1", "leaf_2", ""]))
    assert [len(found) for found in (one, two, three)] == [1, 2, 3]
    assert one < two < three
    assert ids(run("leaf_1")) == ids(run("leaf_2"))  # a graph tells the place
    assert ids(run("leaf_1", "leaf_2")) == ids(run("leaf_7", ""))
    assert len(ids(run("leaf_7", ""))) == 2
