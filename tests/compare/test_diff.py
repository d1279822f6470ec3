"""What becomes of races between two sides: on small runs where each rule shows, and on recorded ones."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from hbtrace.strata.model.simulate import Mix, RunShape, simulate
from tests.compare.samples import renumbered, run, write
from tests.material import recording

STATES = ("new", "fixed", "persisting", "moved", "not_exercised")


@pytest.fixture
def diff(hbtrace, tmp_path):
    """Diff two runs (lists of events, lists of runs, or paths): states -> ids, the whole document, the exit code."""

    def side(name, given):
        if isinstance(given, (str, Path)):
            return given
        runs = given if isinstance(given[0], list) else [given]
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for number, events in enumerate(runs):
            write(folder / f"{number}.jsonl", events)
        return folder

    def call(base, head, *options):
        code, out, err = hbtrace("diff", side("base", base), side("head", head), "--format", "json", *options)
        assert out, err
        document = json.loads(out)
        return {state: len(document[state]) for state in STATES if document[state]}, document, code

    return call


def test_new_fixed_persisting(diff):
    one, two = run("a"), run("a", "b")
    assert diff(one, two)[::2] == ({"new": 1, "persisting": 1}, 1)
    waits = run("a", waits=True)
    assert diff(waits, one)[::2] == ({"new": 1}, 1)
    states, document, code = diff(one, waits)
    assert (states, code, document["comparable"]) == ({"fixed": 1}, 0, {"ok": True, "reasons": []})
    assert diff(one, one)[::2] == ({"persisting": 1}, 0)
    assert diff(waits, waits)[0] == {}


def test_a_ring_is_a_fix(diff):
    """The host writes another slot than the one the queue still reads: the tensor is re-pointed for each ubatch."""
    ring = []
    for event in run("a", ubatches=6):
        if event["ev"] == "ubatch":
            ring += [{"ev": "synchronize", "backend": 0}] if event["n"] % 4 == 0 else []
            slot = 64 * (event["n"] % 4)
            ring.append({"ev": "tensor", "id": 0, "name": "a", "buffer": 0, "offset": slot, "size": 64})
        ring.append(event)
    assert diff(run("a", ubatches=6), ring)[0] == {"fixed": 1}


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (run("a", ubatches=1, waits=True), "ubatches fell from 3 to 1"),
        (run("a", ubatches=5, waits=True), "ubatches rose from 3 to 5"),
        (run("a", tokens=16, waits=True), "tokens fell from 96 to 48"),
        (run("a", how="tensor_set", waits=True), "direct writes fell from 3 to 0"),
        (run("a", waits=True, touched=False), "direct writes fell from 3 to 0"),
        (run("a", synchronous=True), "GPU0 now completes its work before each call returns: nothing on it races"),
        (run("a", name="GPU1"), "backends GPU0 against GPU1"),
        ([e for e in run("a") if e["ev"] != "compute"], "computes fell from 3 to 0"),
    ],
)  # fmt: skip
def test_not_exercised_and_not_comparable(diff, head, why):
    states, document, _ = diff(run("a"), head, "--require-comparable")
    assert states.get("not_exercised") == 1
    assert "fixed" not in states
    assert f"not comparable: {why}" in document["comparable"]["reasons"]
    assert not document["comparable"]["ok"]
    assert diff(run("a"), head, "--require-comparable")[2] == 4
    assert diff(run("a"), head, "--require-comparable", "--exit-zero")[2] == 4


def test_what_cannot_be_compared_is_said_first(hbtrace, tmp_path):
    base, head = write(tmp_path / "a.jsonl", run("a")), write(tmp_path / "b.jsonl", run("a", "b", ubatches=9))
    code, out, err = hbtrace("diff", base, head)
    assert (code, err) == (1, "")
    assert out.split("\n\n")[1].startswith("not comparable: ubatches rose from 3 to 9\n")
    assert "1 new, 1 persisting (workloads not comparable)" in out


def test_a_root_that_is_no_longer_touched_is_not_exercised(diff):
    head = [e for e in run("a", "b", waits=True) if e.get("tensor") != 1]
    for event in head:
        if event["ev"] == "graph":
            event["nodes"] = event["nodes"][:1]
    states, document, code = diff(run("a", "b"), head)
    assert (states, code) == ({"fixed": 1, "not_exercised": 1}, 0)
    assert document["notes"] == [f"{document['not_exercised'][0]['id']}: b is no longer touched"]
    assert document["comparable"]["ok"]


def test_a_root_that_is_only_read_now_is_not_exercised(diff):
    head = [e for e in run("a", "b") if not (e["ev"] == "set_direct" and e["tensor"] == 1)]
    states, document, _ = diff(run("a", "b"), head)
    assert states == {"persisting": 1, "not_exercised": 1}
    assert document["notes"][0].endswith("b is no longer both read and written")


def test_a_host_that_writes_a_tensor_once_has_not_mended_it(diff):
    """All counters but the number of windows are as they were; only that tensor's place for a race is gone."""
    base = run("a", "b")
    once = [e for e in base if e["ev"] != "set_direct" or e["tensor"] == 0 or e["ubatch"] == 0]
    states, document, code = diff(base, once)
    assert (states, code) == ({"persisting": 1, "not_exercised": 1}, 0)
    assert document["notes"] == [f"{document['not_exercised'][0]['id']}: b is no longer written again after it is read"]


def reads(name="a", *, early=False, waits=False):
    """A queue that makes a result of each ubatch, and a host that reads it, `early`: only before the first."""
    out = run(name, how="get_direct", waits=False)
    for event in out:
        if event["ev"] == "graph":
            event["nodes"] = [{"op": "OP", "reads": [], "writes": [{"tensor": 0}]}]
    if early:
        return [e for e in out if e["ev"] != "get_direct" or e["ubatch"] == 0]
    return [e for event in out for e in ([{"ev": "synchronize", "backend": 0}] if waits and event["ev"] == "get_direct"
                                         else []) + [event]]  # fmt: skip


def test_a_result_that_is_read_no_more_is_not_mended(diff):
    assert diff(reads(), reads(waits=True))[0] == {"fixed": 1}
    states, document, _ = diff(reads(), reads(early=True))
    assert states == {"not_exercised": 1}
    assert document["notes"][0].endswith("a is no longer read by the host after it is written")


def copied(wait):
    """A device that copies its input: by the host, or by a transfer out of host memory."""
    out = run("a")
    out[3:3] = [{"ev": "tensor", "id": 9, "name": "GPU0#a#0", "buffer": 0, "offset": 512, "size": 64}]
    for event in out:
        if event["ev"] == "graph":
            event["nodes"][0]["reads"] = [{"tensor": 9}]
    copy = {
        "tensor_copy": {"ev": "tensor_copy", "src": {"tensor": 0}, "dst": {"tensor": 9}},
        "set_async": {"ev": "set_async", "backend": 0, "tensor": 9, "host_range": {"tensor": 0}},
        "copy_async": {"ev": "copy_async", "backend": 0, "src": {"tensor": 0}, "dst": {"tensor": 9}},
    }[wait]
    sync = {"ev": "synchronize", "backend": 0}
    return [e for event in out for e in ([sync, copy, sync] if event["ev"] == "compute" else []) + [event]]


@pytest.mark.parametrize("how", ["tensor_copy", "set_async", "copy_async"])
def test_a_copy_of_the_input_is_a_fix(diff, how):
    """The host still writes the tensor again after something read it."""
    assert diff(run("a"), copied(how))[::2] == ({"fixed": 1}, 0)


def test_a_write_that_the_queue_does_now_is_a_fix(diff):
    """Of one input only: that none is written directly any more would be another workload."""
    head = [e | {"ev": "set_async", "backend": 0} if e["ev"] == "set_direct" and e["tensor"] == 1 else e
            for e in run("a", "b")]  # fmt: skip
    assert diff(run("a", "b"), head)[0] == {"persisting": 1, "fixed": 1}


def test_a_ring_of_tensors_is_a_fix(diff):
    """Each slot is a tensor of its own, written once: the next of its name is written after it was read."""

    def slots(of):
        out = run("GPU0#a#0", "GPU0#a#1", "GPU0#a#2", "c")[:7]
        for n in range(3):
            out += [{"ev": "ubatch", "n": n, "tokens": 1}, *({"ev": "set_direct", "tensor": k} for k in (of(n), 3))]
            out.append({"ev": "kernel", "backend": 0, "reads": [{"tensor": of(n)}, {"tensor": 3}]})
        return out

    assert diff(slots(lambda n: 0), slots(lambda n: n))[0] == {"persisting": 1, "fixed": 1}


# without markers of ubatches


def unmarked(events):
    return [{k: v for k, v in e.items() if k != "ubatch"} for e in events if e["ev"] != "ubatch"]


def test_work_issued_stands_for_ubatches_where_none_are_marked(diff):
    base, waits = (unmarked(run("a", "b", ubatches=9, waits=w)) for w in (False, True))
    assert diff(base, waits, "--require-comparable")[::2] == ({"fixed": 2}, 0)
    short = [*waits[: waits.index(waits[-1], 12) + 1]]
    states, document, code = diff(base, short, "--require-comparable")
    assert (states, code) == ({"not_exercised": 2}, 4)
    assert document["comparable"]["reasons"] == [
        f"not comparable: {what} fell from 9 to 2" for what in ("computes", "work issued")
    ]
    more = unmarked(run("a", "b", ubatches=12, waits=True))
    assert diff(base, more, "--require-comparable")[::2] == ({"fixed": 2}, 0)  # it could have shown them all the better


def test_kernels_and_copies_are_work(diff):
    def of(ev, keys, waits, ubatches):
        events = unmarked(run("a", ubatches=ubatches, waits=waits))
        return [e if e["ev"] != "compute" else {"ev": ev, "backend": 0, **keys} for e in events]

    for ev, keys in {
        "kernel": {"reads": [{"tensor": 0}]},
        "get_async": {"tensor": 0},
        "copy_async": {"src": {"tensor": 0}, "dst": {"buffer": 0, "offset": 512, "size": 64}},
    }.items():
        base = of(ev, keys, False, 9)
        assert diff(base, of(ev, keys, True, 9), "--require-comparable")[::2] == ({"fixed": 1}, 0)
        assert diff(base, of(ev, keys, True, 3), "--require-comparable")[::2] == ({"not_exercised": 1}, 4)


def strata(*requests, waits=False):
    """Requests of a Strata run, each with so many windows; a number below 0 is one that never ends."""
    events = unmarked(run("a", waits=waits, ubatches=1))
    head, body = events[:5], events[5:]
    out = [head[0] | {"engine": "strata"}, *head[1:], {"ev": "note", "what": "stage", "attrs": {"stage": 0}}]
    window = {"stage": 0, "do": "launch", "verifier": 0, "seq": 0, "kind": "decode", "tokens": 1}
    for number, windows in enumerate(requests):
        request = {"ev": "note", "what": "request", "attrs": {"do": "begin", "request": number, "kind": "pipelined"}}
        out.append(request)
        out += abs(windows) * [{"ev": "note", "what": "window", "attrs": window}, *body]
        out += [request | {"attrs": {"do": "end", "request": number}}] if windows > 0 else []
    return out


@pytest.mark.parametrize(
    ("head", "reasons"),
    [
        ((3,), ["requests fell from 2 to 1", "decode windows fell from 6 to 3"]),
        ((3, 2), ["decode windows fell from 6 to 5"]),
        ((3, -3), ["head ends inside a request"]),
        ((3, 3), []),
        ((3, 4), []),
    ],
)
def test_requests_and_windows_of_strata(diff, head, reasons):
    states, document, code = diff(strata(3, 3), strata(*head, waits=True), "--require-comparable")
    assert document["comparable"]["reasons"] == [f"not comparable: {reason}" for reason in reasons]
    assert (states, code) == (({"not_exercised": 1}, 4) if reasons else ({"fixed": 1}, 0))


def test_a_ring_of_strata_saves_copies(diff):
    """Less work for the same requests is no shorter run."""
    copy = {"ev": "copy_async", "backend": 0, "src": {"tensor": 0}, "dst": {"buffer": 0, "offset": 512, "size": 64}}
    base = [e for event in strata(3, 3) for e in ([event, copy] if event["ev"] == "compute" else [event])]
    assert diff(base, strata(3, 3, waits=True), "--require-comparable")[2] == 0


def test_announcing_what_was_inferred_is_no_fall(diff):
    inferred = [e | {"inferred": True} if e["ev"] == "set_direct" else e for e in run("a")]
    for pair in ((inferred, run("a", waits=True)), (run("a"), [*inferred, *inferred[4:5]])):
        assert diff(*pair)[1]["comparable"]["ok"], pair


def test_a_backend_that_changed_is_told(diff):
    head = run("a", waits=True, integrated=False)
    assert diff(run("a", integrated=True), head)[1]["notes"] == ["backend GPU0: integrated yes -> no"]
    base, bare = run("a", accepts=["GPU0", "GPU_Host"]), run("a", waits=True, accepts=[])
    assert diff(base, bare)[1]["notes"] == ["backend GPU0: accepts GPU0, GPU_Host -> nothing"]
    told = diff([base, run("a")], run("a", accepts=["GPU0"]))[1]["notes"]
    assert told == ["backend GPU0: accepts GPU0, GPU_Host -> GPU0"]


# what the runs of a side exercised


def one_ubatch():
    return run("a", ubatches=1)


def two_in_flight():
    """Nothing is missing: a ubatch of a prompt and one of a token, in flight together."""
    out = run("a")
    out[-3]["phase"] = "decode"
    return out


def test_coverage_of_one_run_a_side(diff):
    coverage = diff(two_in_flight(), one_ubatch())[1]["coverage"]
    assert coverage["base"] == {
        "verdict": "exercised", "best": "exercised", "runs": {"exercised": 1, "partly": 0, "not-exercised": 0},
        "reason": None, "try": None,
    }  # fmt: skip
    assert coverage["head"]["verdict"] == coverage["head"]["best"] == "not-exercised"
    assert coverage["head"]["reason"].startswith("a single ubatch")
    assert coverage["head"]["try"] == "a smaller `-ub` or a longer prompt"


def test_coverage_of_several_runs_has_its_best_and_its_worst(diff, hbtrace, tmp_path):
    several = [two_in_flight(), one_ubatch(), run("a"), one_ubatch()]
    coverage = diff(several, two_in_flight())[1]["coverage"]["base"]
    assert (coverage["verdict"], coverage["best"]) == ("not-exercised", "exercised")
    assert coverage["runs"] == {"exercised": 1, "partly": 1, "not-exercised": 2}
    for number, events in enumerate(several):
        (tmp_path / f"side{number % 2}").mkdir(exist_ok=True)
        write(tmp_path / f"side{number % 2}" / f"{number}.jsonl", events)
    out = hbtrace("diff", str(tmp_path / "side0"), str(tmp_path / "side1"))[1]
    assert "\ncoverage base: partly in 1 of 2 runs, exercised at best: no decode was seen; try generating" in out
    assert "\ncoverage head: not-exercised in all 2 runs: a single ubatch: nothing was" in out
    for form in ("markdown", "github"):
        out = hbtrace("diff", str(tmp_path / "side0"), str(tmp_path / "side1"), "--format", form)[1]
        assert "coverage base: partly in 1 of 2 runs" in out
        assert "coverage head: not-exercised in all 2 runs" in out


def test_coverage_is_that_of_analyze_and_of_check(diff, hbtrace, tmp_path):
    path = write(tmp_path / "a.jsonl", run("a"))
    (line,) = [line for line in hbtrace("analyze", path)[1].splitlines() if line.startswith("coverage: ")]
    told = hbtrace("diff", path, path)[1].splitlines()
    for side in ("base", "head"):
        assert line.replace("coverage", f"coverage {side}") in told
    assert f"coverage: {diff(run('a'), run('a'))[1]['coverage']['head']['verdict']}\n" in hbtrace("check", path)[1]


# several runs of a side


def test_runs_are_united_with_ranges(diff):
    states, document, _ = diff([run("a", ubatches=3), run("a", ubatches=5), run("b")], run("a"))
    assert states["persisting"] == 1
    assert document["persisting"][0]["base"] == {"min": 2, "max": 4, "runs": 2, "of": 3}
    assert document["persisting"][0]["head"] == {"min": 2, "max": 2, "runs": 1, "of": 1}


def test_a_race_of_a_long_run_is_not_fixed_by_a_short_one(diff):
    """The head did one of the base's two workloads: what only the other one showed was not exercised."""
    long, short = run("a", "b", ubatches=9), run("a", ubatches=2)
    short_clean = run("a", ubatches=2, waits=True)
    states, document, _ = diff([long, short], short_clean)
    assert states == {"fixed": 1, "not_exercised": 1}
    assert document["comparable"]["reasons"] == [
        "not comparable: ubatches fell from 9 to 2", "not comparable: tokens fell from 288 to 64",
    ]  # fmt: skip


def test_seen_in_some_runs_only(diff):
    flaky = [run("a"), run("a", waits=True), run("a", waits=True)]
    assert diff(flaky, run("a"))[0] == {"persisting": 1}
    assert diff(flaky, run("a", waits=True))[0] == {"fixed": 1}
    assert diff(run("a", waits=True), flaky)[::2] == ({"new": 1}, 1)


def test_a_trace_named_twice_is_one_run(hbtrace, tmp_path):
    path = write(tmp_path / "a.jsonl", run("a"))
    document = json.loads(hbtrace("diff", path, str(tmp_path / "[a].jsonl"), "--format", "json")[1])
    assert document["persisting"][0]["head"]["runs"] == 1


# moved


def test_a_renamed_tensor_moved(diff):
    states, document, code = diff(run("inp_KQ_mask", "b"), run("attn_inp_kq_mask", "b"))
    assert (states, code) == ({"persisting": 1, "moved": 1}, 0)
    (moved,) = document["moved"]
    assert moved["was"] != moved["id"]
    assert moved["base"] == moved["head"] == {"min": 2, "max": 2, "runs": 1, "of": 1}
    assert diff(run("x"), run("y"), "--fail-on", "any")[2] == 1


def test_nothing_moves_between_workloads_that_cannot_be_compared(diff):
    """Another model has other tensors: its race is new."""
    for other in (run("y", ubatches=7), run("y", tokens=3), run("y", "b", name="GPU1")):
        states = diff(run("x"), other)[0]
        assert (states["new"] >= 1, states["not_exercised"], "moved" in states) == (True, 1, False)
    assert diff([run("x"), run("x", ubatches=9)], [run("y", ubatches=9)])[0] == {"moved": 1}


def test_a_name_that_the_other_side_knows_is_no_new_name(diff):
    base, head = ([e for e in run("a", "b") if e["ev"] != "set_direct" or e["tensor"] == n] for n in (1, 0))
    assert diff(base, head)[0] == {"new": 1, "not_exercised": 1}


def test_another_place_or_several_candidates_are_no_move(diff):
    assert diff(run("a", "x"), run("y", "a"))[0] == {"persisting": 1, "new": 1, "not_exercised": 1}
    kernel = [e for e in run("a") if e["ev"] != "graph"]
    kernel = [e | {"ev": "kernel", "reads": [{"tensor": 0}]} if e["ev"] == "compute" else e for e in kernel]
    other = [e | {"name": "b"} if e.get("name") == "a" else e for e in kernel]
    assert diff(kernel, other)[0] == {"moved": 1}  # a kernel tells no place, and there is one candidate
    two = [*kernel, *renumbered([e | {"name": "c"} if e.get("name") == "a" else e for e in kernel[3:]], 5)]
    moved = {"buffer": 0, "offset": 512}
    two = [e | moved if e.get("id") == 5 else e | {"backend": 0} if e["ev"] == "kernel" else e for e in two]
    assert diff(two, other)[0] == {"new": 1, "not_exercised": 2}


def test_an_unnamed_leaf_that_got_a_name_moved(diff):
    assert diff(run("leaf_7", "b"), run("inp_x", "b"))[0] == {"persisting": 1, "moved": 1}
    assert diff(run("inp_x", "b"), run("leaf_7", "b"))[0] == {"persisting": 1, "moved": 1}
    assert diff(run("leaf_7", "leaf_8"), run("leaf_8", "leaf_9"))[0] == {"persisting": 2}
    # leaf_8 is there in both, but a number is no name: it got one, and the other kept its place
    assert diff(run("leaf_7", "leaf_8"), run("leaf_8", "inp_x"))[0] == {"persisting": 1, "moved": 1}


def test_an_unnamed_leaf_is_fixed_where_its_number_is_touched(diff):
    assert diff(run("leaf_7"), run("leaf_7", waits=True))[0] == {"fixed": 1}
    assert diff(run("leaf_7"), run("inp_x", waits=True))[0] == {"not_exercised": 1}


# filters and suppressions


def test_a_filter_that_hides_one_side_makes_nothing_new_or_fixed(diff):
    early, late = (run("a", ubatches=6) for _ in range(2))
    wait = {"ev": "synchronize", "backend": 0}
    early = [e for e in early for e in ([wait, e] if e["ev"] == "ubatch" and e["n"] > 3 else [e])]
    late = [e for e in late for e in ([wait, e] if e["ev"] == "ubatch" and e["n"] < 4 else [e])]
    for base, head in ((early, late), (late, early)):
        states, document, code = diff(base, head, "--ubatch", "0-2")
        assert (states, code) == ({"persisting": 1}, 0)
        assert None in (document["persisting"][0]["base"], document["persisting"][0]["head"])


@pytest.mark.parametrize("options", [["--tensor", "old"], ["--tensor", "new"], ["--tensor", "b"], ["--id", "R-*"]])
def test_filter_and_move(diff, options):
    states, _, _ = diff(run("old", "b"), run("new", "b"), *options)
    assert states == ({"persisting": 1} if options[1] == "b" else
                      {"moved": 1, "persisting": 1} if options[1] == "R-*" else {"moved": 1})  # fmt: skip


def test_suppressions_count_on_both_sides(diff, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('[[suppress]]\ntensor = "b"\nreason = "benign"\n')
    states, document, code = diff(run("a"), run("a", "b"), "--suppressions", file)
    assert (states, code, document["suppressed"]) == ({"new": 1, "persisting": 1}, 0, 1)
    assert document["new"][0]["suppressed"] == {"where": f"{file}:1", "reason": "benign"}
    states, document, code = diff(run("a", "b"), run("a"), "--suppressions", file)
    assert (code, document["suppressed"]) == (0, 1)
    assert document["warnings"] == []


# truncated


def test_nothing_is_fixed_by_a_truncated_run(diff, tmp_path):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(Path(write(path, run("a", waits=True))).read_bytes() + b'{"ev":"comp')
    states, document, code = diff(run("a"), path, "--allow-partial")
    assert (states, code) == ({"not_exercised": 1}, 0)
    assert "not comparable: head is truncated" in document["comparable"]["reasons"]


# recorded runs


def rows(name):
    return [orjson.loads(line) for line in recording(name).read_bytes().splitlines()]


def test_integrated_to_discrete_is_fixed(diff):
    states, document, code = diff(recording("integrated"), recording("discrete"), "--require-comparable")
    assert (states, code) == ({"fixed": 5}, 0)
    assert document["notes"][-1] == "backend FAKE0: integrated yes -> no"
    assert diff(recording("discrete"), recording("integrated"))[::2] == ({"new": 5}, 1)


def test_a_copy_that_waits_for_the_destination_is_fixed(diff):
    ordered = [e | {"after_dst": True} if e["ev"] == "copy_async" else e for e in rows("cuda")]
    states, document, code = diff(recording("cuda"), ordered, "--require-comparable")
    assert (states, code, document["fixed"][0]["id"]) == ({"fixed": 1}, 0, "R-094d38")
    assert document["fixed"][0]["base"]["max"] == 9


def test_without_markers_a_mended_run_is_no_shorter_one(diff):
    """A device that copies issues more than one that computes in place; a wait for the destination as much."""
    assert diff(*(unmarked(rows(name)) for name in ("integrated", "discrete")), "--require-comparable")[2] == 0
    ordered = [e | {"after_dst": True} if e["ev"] == "copy_async" else e for e in rows("cuda")]
    assert diff(unmarked(rows("cuda")), unmarked(ordered), "--require-comparable")[::2] == ({"fixed": 1}, 0)


@pytest.mark.parametrize(
    ("base", "head", "fixed"),
    [
        ("tour_ring_off", "tour_ring_on", 5),
        ("seed", "seed_mended", 1),
        ("recorded_copy_unordered", "recorded_copy_ordered", 1),
        ("ring2_three_in_flight", "ring2_waited", 1),
    ],
)
def test_sample_runs_that_were_mended_are_fixed(diff, base, head, fixed):
    """A ring whose slots are written in turn, a copy that waits for its destination, a host that waits."""
    base, head = (Path(__file__).parents[2] / "sample_traces" / f"{name}.arrow" for name in (base, head))
    assert diff(base, head, "--require-comparable")[::2] == ({"fixed": fixed}, 0)


@pytest.mark.parametrize("seed", range(2))
def test_a_strata_ring_instead_of_copies_is_a_fix(diff, tmp_path, seed):
    sides = [write(tmp_path / f"{mode}.jsonl", simulate(RunShape(mode=mode), Mix(requests=3), seed).events)
             for mode in ("copy", "ring")]  # fmt: skip
    states, _, code = diff(*map(Path, sides), "--require-comparable")
    assert (states.keys(), code) == ({"fixed"}, 0)


@pytest.mark.parametrize("name", ["integrated", "cuda", "ngl2", "cuda_integrated", "discrete", "vulkan"])
def test_the_same_build_twice_shows_nothing(diff, name):
    states, document, code = diff(recording(name), recording(name), "--require-comparable")
    assert (states.keys() - {"persisting"}, code) == (set(), 0)
    assert document["notes"] == []


def test_a_run_cut_short_is_not_exercised(diff):
    events = rows("integrated")
    second = [row for row, e in enumerate(events) if e["ev"] == "ubatch"][1]
    states, document, code = diff(recording("integrated"), events[:second])
    assert (states, code) == ({"not_exercised": 5}, 0)
    assert document["comparable"]["reasons"][0] == "not comparable: ubatches fell from 23 to 1"
    assert diff(recording("integrated"), events[:second], "--require-comparable")[2] == 4


def test_a_base_from_another_workload_is_not_comparable(diff):
    for base, head in (("cuda", "integrated"), ("integrated", "cuda")):
        states, document, code = diff(recording(base), recording(head), "--require-comparable")
        assert code == 4
        assert "fixed" not in states
        assert any("backends" in reason for reason in document["comparable"]["reasons"])


def test_another_version_with_other_names_moved(diff):
    """Tensors of one version under the names they have in another."""
    names = {"attn_inp_kq_mask": "KQ_mask", "attn_inp_k_idxs": "k_idxs", "attn_inp_v_idxs": "v_idxs"}
    older = [e | {"name": names.get(e["name"], e["name"])} if e["ev"] == "tensor" else e for e in rows("integrated")]
    states, document, code = diff(recording("integrated"), older)
    assert (states, code) == ({"persisting": 2, "moved": 3}, 0)
    assert {e["signature"][3] for e in document["moved"]} == set(names.values())


def test_another_version_where_inputs_have_no_name(diff):
    names = {"attn_inp_kq_mask": "leaf_7", "inp_pos": "leaf_2"}
    older = [e | {"name": names.get(e["name"], e["name"])} if e["ev"] == "tensor" else e for e in rows("integrated")]
    assert diff(older, recording("integrated"))[::2] == ({"persisting": 3, "moved": 2}, 0)
    newer = [e | {"name": {"leaf_7": "leaf_9", "leaf_2": "leaf_7"}.get(e["name"], e["name"])}
             if e["ev"] == "tensor" else e for e in older]  # fmt: skip
    assert diff(older, newer)[::2] == ({"persisting": 5}, 0)
