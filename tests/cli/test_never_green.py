"""What would be green by mistake is not: a trace that was not understood, what a recorder could not see, keys that
nobody reads, filters that show nothing, and usage errors behind a trace that cannot be read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import hbtrace as api
from hbtrace.cli import run
from hbtrace.trace.reader import open_trace
from hbtrace.trace.writer import open_writer
from tests.material import SAMPLES

Row = dict[str, Any]

DEFINED: list[Row] = [
    {"ev": "backend", "id": 0, "name": "GPU0", "type": "igpu"},
    {"ev": "backend", "id": 1, "name": "GPU0", "type": "igpu"},
    {"ev": "buffer", "id": 0, "name": "GPU_Host", "size": 256, "host": True},
    {"ev": "tensor", "id": 0, "name": "inp_tokens", "buffer": 0, "offset": 0, "size": 128},
    {"ev": "tensor", "id": 1, "name": "inp_pos", "buffer": 0, "offset": 128, "size": 64},
    {"ev": "graph", "id": 0, "nodes": [{"op": "GET_ROWS", "reads": [{"tensor": 0}, {"tensor": 1}], "writes": []}]},
]
BLIND: Row = {"ev": "note", "what": "blind", "attrs": {"calls": "hipMemcpyAsync", "why": "not in the table"}}
UNSEEN = "the recorder could not see some calls (hipMemcpyAsync: not in the table)"


def rounds(*, waits: bool, inputs: tuple[int, ...] = (0, 1)) -> list[Row]:
    """Three ubatches of which the host sets the inputs, after waiting for the second queue named GPU0 or not."""
    rows = list(DEFINED)
    for n in range(3):
        rows += [{"ev": "synchronize", "backend": 1}] if waits else []
        rows += [{"ev": "ubatch", "n": n, "tokens": 32, "phase": "prefill"}]
        rows += [{"ev": "set_direct", "tensor": tensor, "ubatch": n} for tensor in inputs]
        rows += [{"ev": "compute", "backend": 1, "graph": 0, "split": 0, "ubatch": n}]
    return rows


@pytest.fixture
def call(capfd):
    """Run a command line: (exit code, standard output, standard error)."""

    def run_it(*arguments):
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        return code, *capfd.readouterr()

    return run_it


@pytest.fixture
def trace(tmp_path):
    """A trace of rows, by a name."""

    def write(name: str, rows: list[Row]) -> str:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


@pytest.fixture
def runs(trace):
    """(a run that races, the same with its waits)."""
    return trace("racy", rounds(waits=False)), trace("fixed", rounds(waits=True))


# ---- nothing to judge

CHROME: list[Row] = [{"name": "ggml_cuda", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}] * 3
SKIPPED = "none of its {rows} rows makes an access; {rows} skipped (first in row 0: {why})"
NOTHING: dict[str, tuple[list[Row], str]] = {
    "chrome, a line an event": (CHROME, SKIPPED.format(rows=3, why="no `ev`: this is a Chrome trace")),
    "chrome, one object": (
        [{"traceEvents": CHROME, "displayTimeUnit": "ms"}],
        "its one row makes no access; 1 skipped (first in row 0: no `ev`: this is a Chrome trace)",
    ),
    "torch": (
        [{"schemaVersion": 1, "deviceProperties": [], "traceEvents": CHROME}],
        "its one row makes no access; 1 skipped (first in row 0: no `ev`: this is a trace of the PyTorch profiler)",
    ),
    "nsys": (
        [{"Type": 79, "CudaEvent": {"startNs": "1"}}] * 2,
        SKIPPED.format(rows=2, why="no `ev`: this is an export of Nsight Systems"),
    ),
    "our own result": (
        [{"trace": "a", "kind": "write-after-read", "signature": [], "earlier": {}, "current": {}}] * 2,
        SKIPPED.format(rows=2, why="no `ev`: this is a result of `hbtrace analyze`"),
    ),
    "somebody's": ([{"level": "info", "msg": "ok"}] * 2, SKIPPED.format(rows=2, why="no `ev`")),
    "other events": ([{"ev": "launch"}] * 2, SKIPPED.format(rows=2, why="unknown event `launch`")),
    "keys missing": (
        [{"ev": "compute", "backend": 0}] * 2, SKIPPED.format(rows=2, why="`compute` lacks `graph`"),
    ),
    "definitions": (DEFINED, "none of its 6 rows makes an access"),
    "a view is computed": (
        [*DEFINED, {"ev": "graph", "id": 0, "nodes": [{"op": "VIEW"}]}, {"ev": "compute", "backend": 0, "graph": 0}],
        "none of its 8 rows makes an access",
    ),
    "no byte": (
        [*DEFINED, {"ev": "tensor_set", "tensor": 0, "size": 0}], "none of its 7 rows makes an access",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING)
def test_what_made_no_access_is_no_clean_run(call, trace, name):
    rows, why = NOTHING[name]
    path = trace("it", rows)
    for verb in ("analyze", "triage"):
        code, out, err = call(verb, path)
        assert (code, out, err) == (3, "", f"hbtrace: {path}: nothing to judge: {why}\n")
    code, out, err = call("check", path)
    assert code == 3
    assert f"{path}: nothing to judge: {why}\n" in out
    assert "\nno race\n" not in out
    assert err.endswith(f"hbtrace: {path}: nothing to judge: {why}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "IT", "--format", "json"), ("analyze", "IT", "--format", "sarif"), ("analyze", "IT", "--exit-zero"),
        ("analyze", "IT", "--only", "live"), ("analyze", "IT", "--format", "jsonl"),
        ("analyze", "IT", "--fail-on", "none"),
        ("check", "IT", "--format", "json"), ("triage", "IT", "--format", "json"),
        ("explain", "IT", "R-000000"), ("minimize", "IT", "R-000000", "-o", "-"), ("whatif", "IT", "--fix"),
        ("whatif", "IT", "--waits"), ("whatif", "IT", "--ring", "2"), ("whatif", "IT", "--edge", "C-000000"),
        ("diff", "IT", "GOOD"), ("diff", "GOOD", "IT"), ("diff", "IT", "IT"),
        ("diff", "GOOD", "IT", "--format", "json"),
        ("baseline", "write", "IT", "-o", "-"), ("baseline", "write", "GOOD", "IT", "-o", "-"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_verb_that_judges_says_so_and_prints_no_document(call, trace, runs, arguments):
    path = trace("it", CHROME)
    code, out, err = call(*({"IT": path, "GOOD": runs[1]}.get(word, word) for word in arguments))
    assert (code, out) == (3, "")
    assert err.endswith(f"{path}: nothing to judge: {NOTHING['chrome, a line an event'][1]}\n")


def test_a_baseline_is_not_held_against_it(call, trace, runs, tmp_path):
    known = tmp_path / "known.toml"
    assert call("baseline", "write", runs[0], "-o", known)[0] == 0
    assert call("baseline", "check", known, trace("it", CHROME))[0] == 3
    assert call("baseline", "check", known, runs[0], trace("it", CHROME))[:2] == (3, "")


def test_of_several_the_others_are_reported(call, trace, runs):
    path, (racy, fixed) = trace("it", CHROME), runs
    code, out, _ = call("analyze", path, racy)
    assert (code, out.count("RACE (")) == (3, 2)
    code, out, _ = call("analyze", fixed, path, "--format", "json")
    found = json.loads(out)
    assert (code, [one["trace"]["path"] for one in found["traces"]]) == (3, [fixed])
    assert [(one["path"], one["exit_code"]) for one in found["errors"]] == [(path, 3)]
    code, out, _ = call("check", fixed, path, "--format", "json")
    found = json.loads(out)
    assert (code, [one["trace"]["path"] for one in found["traces"]]) == (3, [fixed])
    assert [(one["path"], one["exit_code"]) for one in found["errors"]] == [(path, 3)]


def test_check_prints_its_findings_all_the_same(call, trace):
    used = [*DEFINED, {"ev": "event_record", "backend": 0, "event": 3}, {"ev": "event_free", "event": 3}]
    path = trace("it", [*used, {"ev": "event_wait", "backend": 1, "event": 3}])
    code, out, _ = call("check", path)
    assert code == 3
    assert "[use-after-free]" in out
    assert f"{path}: nothing to judge: none of its 9 rows makes an access" in out
    code, out, _ = call("check", path, "--format", "github")
    assert code == 3
    assert out.count(f"{path}: nothing to judge") == 1
    assert "use-after-free" in out


def test_flags_make_nothing_of_an_access(call, trace):
    weights = [{"ev": "buffer", "id": 0, "name": "W", "size": 64, "usage": "weights"}]
    path = trace("weights", [*weights, {"ev": "buffer_clear", "buffer": 0}])
    assert call("analyze", path, "--skip-weights")[0] == 0
    dead = [{"ev": "buffer", "id": 0, "name": "B", "size": 64}, {"ev": "buffer_free", "buffer": 0}]
    assert call("analyze", trace("dead", [*dead, {"ev": "buffer_clear", "buffer": 0}]))[0] == 0


def test_in_strict_mode_the_row_comes_first(call, trace):
    path = trace("it", CHROME)
    code, out, err = call("analyze", path, "--strict")
    assert (code, out) == (3, "")
    assert err == f"hbtrace: {path}: row 0: no `ev`: this is a Chrome trace: the row cannot be replayed (strict)\n"


def test_queries_answer(call, trace, tmp_path):
    path = trace("it", DEFINED)
    assert call("info", path)[0] == 0
    assert call("convert", path, tmp_path / "it.arrow")[0] == 0


def test_the_library_raises(trace):
    path = trace("it", CHROME)
    batches = open_trace(path).batches
    for judge in (lambda: api.analyze(path), lambda: api.triage(path), lambda: api.fix(batches),
                  lambda: api.whatif(batches, []), lambda: api.weigh(batches())):  # fmt: skip
        with pytest.raises(api.TraceError, match="nothing to judge: none of its 3 rows makes an access"):
            judge()


def test_pandas_keeps_the_races(tmp_path):
    """As the page on the format shows: a null makes floats of the ids of a whole column."""
    import pandas

    frame = pandas.read_feather(SAMPLES / "integrated.arrow")
    assert frame["id"].dtype == float
    frame.to_feather(tmp_path / "it.arrow")
    ours, theirs = (api.analyze(str(path)) for path in (SAMPLES / "integrated.arrow", tmp_path / "it.arrow"))
    assert (theirs.races, theirs.distinct, theirs.warnings) == (30, 5, [])
    assert [theirs.id_of(report) for report in theirs] == [ours.id_of(report) for report in ours]


# ---- what the recorder could not see


def test_a_blind_recorder_makes_no_clean_run(call, trace, runs):
    path = trace("blind", [*rounds(waits=True), BLIND])
    for arguments in (("analyze",), ("triage",), ("whatif", "--fix"), ("whatif", "--waits"), ("whatif", "--ring", "2")):
        code, out, _ = call(arguments[0], path, *arguments[1:])
        assert (code, out.splitlines()[0][: 7 + len(UNSEEN)]) == (0, f"blind: {UNSEEN}")
        assert "no race in" not in out
    for arguments in (("analyze", path, "--fail-on", "any"), ("check", path), ("diff", runs[1], path),
                      ("diff", path, runs[1]), ("check", path, "--format", "junit")):  # fmt: skip
        code, out, _ = call(*arguments)
        assert (code, UNSEEN in out) == (4, True)


def test_races_of_a_blind_run_are_told(call, trace, runs, tmp_path):
    path, known = trace("blind", [*rounds(waits=False), BLIND]), tmp_path / "known.toml"
    code, out, _ = call("analyze", path)
    assert (code, out.count("RACE ("), out.startswith(f"blind: {UNSEEN}")) == (1, 2, True)
    for form in ("markdown", "github", "junit", "json"):
        assert UNSEEN in call("analyze", path, "--format", form)[1].replace("\\", "")
    assert call("baseline", "write", runs[0], "-o", known)[0] == 0
    assert call("baseline", "check", known, path)[0] == 4


def test_what_is_gone_from_a_blind_run_is_not_fixed(call, trace, runs, tmp_path):
    path, known = trace("blind", [*rounds(waits=True), BLIND]), tmp_path / "known.toml"
    found = json.loads(call("diff", runs[0], path, "--format", "json")[1])
    assert (len(found["fixed"]), len(found["not_exercised"])) == (0, 2)
    assert call("baseline", "write", runs[0], "-o", known)[0] == 0
    found = json.loads(call("baseline", "check", known, path, "--format", "json")[1])
    assert (len(found["fixed"]), len(found["not_exercised"])) == (0, 2)


@pytest.mark.parametrize("attrs", [{}, {"why": 5}, {"calls": None}, "text"])
def test_a_blind_note_needs_no_words(call, trace, attrs):
    path = trace("blind", [*rounds(waits=True), {"ev": "note", "what": "blind", "attrs": attrs}])
    code, out, _ = call("analyze", path, "--fail-on", "new")
    assert (code, out.startswith("blind: the recorder could not see some calls (")) == (4, True)


# ---- keys that nobody reads

KEYS: dict[str, tuple[Row, str]] = {
    "event": ({"ev": "kernel", "backend": 0, "read": [{"tensor": 0}]},
              "`kernel` has no key `read` (did you mean `reads`?)"),
    "another event's key": ({"ev": "synchronize", "backend": 0, "graph": 0}, "`synchronize` has no key `graph`"),
    "range": ({"ev": "kernel", "backend": 0, "reads": [{"tensr": 0, "tensor": 0}]},
              "a range has no key `tensr` (did you mean `tensor`?) in `reads` of `kernel`"),
    "single range": ({"ev": "tensor_copy", "src": {"tensor": 0, "len": 4}, "dst": {"tensor": 1}},
                     "a range has no key `len` in `src` of `tensor_copy`"),
    "node": ({"ev": "graph", "id": 1, "nodes": [{"op": "ADD", "write": []}]},
             "a node has no key `write` (did you mean `writes`?) in `nodes` of `graph`"),
    "range of a node": ({"ev": "graph", "id": 1, "nodes": [{"reads": [{"tensor": 0, "ofset": 4}]}]},
                        "a range has no key `ofset` (did you mean `offset`?) in `nodes` of `graph`"),
    "pick": ({"ev": "kernel", "backend": 0, "picked": [{"tensor": 0, "run": []}]},
             "a pick has no key `run` (did you mean `runs`?) in `picked` of `kernel`"),
    "run": ({"ev": "kernel", "backend": 0, "picked": [{"tensor": 0, "runs": [{"first": 0, "counts": 1}]}]},
            "a run has no key `counts` (did you mean `count`?) in `picked` of `kernel`"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_an_unknown_key_is_told_and_no_strict_run(call, trace, name):
    row, what = KEYS[name]
    racy = [*rounds(waits=False), row]
    path = trace("it", racy)
    at = len(racy) - 1
    code, _, err = call("analyze", path)
    assert (code, err) == (1, f"warning: 1 row with a key that nobody reads (first in row {at}: {what})\n")
    ident = api.analyze(path).id_of(api.analyze(path).reports[0])
    for arguments in (("analyze", path), ("check", path), ("triage", path), ("explain", path, ident),
                      ("diff", path, path), ("minimize", path, ident, "-o", "-"), ("whatif", path, "--fix"),
                      ("whatif", path, "--waits"), ("baseline", "write", path, "-o", "-")):  # fmt: skip
        code, out, err = call(*arguments, "--strict")
        assert (code, out) == (3, "")
        assert err == f"hbtrace: {path}: row {at}: {what} (strict)\n"


def test_a_producers_own_keys_are_free(call, trace):
    own = {"ev": "kernel", "backend": 0, "x_stream": 3, "reads": [{"tensor": 0, "x_why": "mask"}]}
    note = {"ev": "note", "what": "mine", "attrs": {"read": 1}}
    path = trace("it", [*rounds(waits=True), own, note])
    code, _, err = call("analyze", path, "--strict")
    assert (code, err) == (0, "")


# ---- filters that show nothing

MISTYPED = {
    ("--tensor", "inp_tokns"): "--tensor inp_tokns: matches no tensor of {where}; did you mean `inp_tokens`",
    ("--tensor", "INP_POS"): "--tensor INP_POS: matches no tensor of {where}; did you mean `inp_pos`",
    ("--tensor", "kq*"): "--tensor kq*: matches no tensor of {where}; it has `inp_pos`, `inp_tokens`",
    ("--buffer", "GPUHost"): "--buffer GPUHost: matches no buffer of {where}; did you mean `GPU_Host`?",
    ("--actor", "GPU1"): "--actor GPU1: matches no actor of {where}; did you mean `GPU0#1` or `GPU0`?",
    ("--label", "compte"): "--label compte: matches no label of {where}; did you mean `compute`?",
    ("--split", "7"): "--split 7: matches no split of {where}; they are -1 to 0",
    ("--ubatch", "5-9"): "--ubatch 5-9: matches no ubatch of {where}; they are",
    ("--kind", "wra"): "invalid value for '--kind': 'wra' is none of read-after-write (RAW), write-after-write (WAW),",
    ("--kind", "re*d"): "invalid value for '--kind': 're*d' is none of",
}


@pytest.mark.parametrize("option", MISTYPED, ids=" ".join)
def test_a_filter_that_matches_no_name_is_wrong_use(call, runs, tmp_path, option):
    racy, fixed = runs
    known = tmp_path / "known.toml"
    assert call("baseline", "write", racy, "-o", known)[0] == 0
    for where, arguments in (
        ("the trace", ("analyze", racy)), ("the trace", ("triage", racy)), ("the trace", ("whatif", racy, "--fix")),
        ("the trace", ("whatif", racy, "--sync", "ubatch")), ("the trace", ("analyze", racy, "--format", "json")),
        ("any trace", ("analyze", racy, fixed)), ("any trace", ("diff", fixed, racy)),
        ("any trace", ("diff", racy, racy)),
        ("any trace", ("baseline", "write", racy, "-o", "-")), ("any trace", ("baseline", "check", known, racy)),
    ):  # fmt: skip
        code, out, err = call(*arguments, *option)
        assert (code, out) == (2, "")
        assert err.startswith(f"hbtrace: {MISTYPED[option].format(where=where)}")
        assert err.count("\n") == 1
    with pytest.raises(api.UsageError):
        api.analyze(racy, filters=filters_of(option))
    with pytest.raises(api.UsageError):
        api.triage(racy, filters=filters_of(option))


@pytest.mark.parametrize(
    ("mistyped", "fine"),
    [
        (("--tensor", "--actor"), ("--buffer", "GPU*")), (("--tensor", "--tensor"), ()),
        (("--buffer", "--split", "--ubatch"), ("--tensor", "inp_*")),
        (("--label", "--actor", "--tensor", "--buffer"), ()),
    ],
)  # fmt: skip
def test_all_mistyped_filters_are_told(call, runs, mistyped, fine):
    """Not the first alone, or whoever mends it meets the next one."""
    racy, fixed = runs
    number = ("--split", "--ubatch")
    wrong = [(option, f"{'7' if option in number else 'zz'}{n:03}") for n, option in enumerate(mistyped)]
    for arguments in (("analyze", racy), ("triage", racy), ("whatif", racy, "--fix"), ("diff", fixed, racy)):
        code, out, err = call(*arguments, *fine, *(word for pair in wrong for word in pair))
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        for option, value in wrong:
            assert f"{option} {value}: matches no {option.removeprefix('--')} of " in err
        assert err.count("matches no ") == len(wrong)


def filters_of(option: tuple[str, str]) -> api.Filters:
    key, value = option[0].removeprefix("--"), option[1]
    spans = {"7": 7, "5-9": (5, 9)}
    return api.Filters(**{key: spans.get(value, value)})


def test_a_name_of_one_side_is_enough(call, trace, runs, tmp_path):
    less, known = trace("less", rounds(waits=True, inputs=(0,))), tmp_path / "known.toml"
    gone = [row for row in rounds(waits=True, inputs=(0,)) if row.get("id") != 1 or row["ev"] != "tensor"]
    gone[4] = {"ev": "graph", "id": 0, "nodes": [{"op": "GET_ROWS", "reads": [{"tensor": 0}]}]}
    without = trace("without", gone)
    assert call("diff", runs[0], without, "--tensor", "inp_pos")[0] == 0
    assert call("diff", without, runs[0], "--tensor", "inp_pos")[0] == 1
    assert call("baseline", "write", runs[0], "-o", known)[0] == 0
    assert call("baseline", "check", known, without, "--tensor", "inp_pos")[0] == 0
    assert call("analyze", without, runs[0], "--tensor", "inp_pos")[0] == 1
    assert call("analyze", less, "--tensor", "inp_pos")[0] == 0


def test_an_actor_by_both_its_names(call, runs):
    racy, fixed = runs
    for name in ("GPU0#1", "GPU0", "GPU?", "HOST"):
        assert call("analyze", racy, "--actor", name)[1].count("RACE (") == 2
        assert call("triage", racy, "--actor", name)[0] == 1
        code, out, _ = call("diff", fixed, racy, "--actor", name)
        assert (code, "2 new" in out) == (1, True)


def test_kinds_in_any_case(call, runs):
    racy = runs[0]
    for kind in ("war", "WAR", "War", "write-after-read", "Write-After-Read", "*-read", "wa?", "*"):
        assert call("analyze", racy, "--kind", kind)[1].count("RACE (") == 2
        assert len(api.analyze(racy, filters=api.Filters(kind=kind)).reports) == 4
    for kind in ("raw", "WAW", "read-*"):
        code, out, _ = call("analyze", racy, "--kind", kind)
        assert (code, "left out by filters: 4 of 4 reports" in out) == (0, True)


def test_an_id_that_is_not_there_is_said(call, runs, tmp_path):
    """A race may be gone: that is what one wants to see. Where the id is what is asked for, it is wrong use."""
    racy, fixed = runs
    known, absent = tmp_path / "known.toml", "--id R-000000: no race has this id, so it shows none\n"
    assert call("baseline", "write", racy, "-o", known)[0] == 0
    for arguments in (("analyze", racy), ("triage", racy), ("whatif", racy, "--fix"), ("whatif", racy, "--ring", "2"),
                      ("diff", fixed, racy), ("baseline", "check", known, racy), ("baseline", "write", racy, "-o", "-"),
                      ("analyze", racy, "--format", "json"), ("analyze", racy, fixed)):  # fmt: skip
        code, _, err = call(*arguments, "--id", "R-000000")
        assert (code, absent in err) == (0, True), (arguments, err)
    for verb in ("explain", "minimize"):
        code, out, err = call(verb, racy, "R-000000", *(["-o", "-"] if verb == "minimize" else []))
        assert (code, out) == (2, "")
        assert "no race R-000000" in err
    ident = api.analyze(racy).id_of(api.analyze(racy).reports[0])
    code, out, err = call("analyze", racy, "--id", ident, "--id", "R-000000")
    assert (code, out.count("RACE ("), err.endswith(absent)) == (1, 1, True)


@pytest.mark.parametrize(
    "value",
    ["", "foo", "R-", "R-4ea6", "C-5e8c8b", "R-4EA695", "R-zzzzzz", "r-4ea695", "inp_*", "R4*", " R-4ea695", "R-x*"],
)
def test_what_can_be_no_id_is_wrong_use(call, runs, tmp_path, value):
    """No race can ever have it: it would hide them all for ever. An id that is not there is another thing."""
    racy, fixed = runs
    known = tmp_path / "known.toml"
    assert call("baseline", "write", racy, "-o", known)[0] == 0
    for arguments in (("analyze", racy), ("triage", racy), ("whatif", racy, "--fix"), ("diff", fixed, racy),
                      ("baseline", "check", known, racy), ("analyze", "not there")):  # fmt: skip
        code, out, err = call(*arguments, "--id", value)
        assert (code, out) == (2, ""), arguments
        assert err.startswith(f"hbtrace: --id {value or repr(value)}: is no id of a race")
    with pytest.raises(api.UsageError, match="is no id of a race"):
        api.Filters(ids=(value,))


@pytest.mark.parametrize(
    "value", ["R-000000", "R-0000000000", "R-*", "*", "?-*", "[R]-*", "R*", "R-0[0-7]*", "R-00000?"]
)
def test_what_can_be_an_id_is_none(value):
    assert api.Filters(ids=(value,)).ids == (value,)


def test_every_verb_says_how_much_filters_left_out(call, runs, tmp_path):
    racy, fixed = runs
    known = tmp_path / "known.toml"
    assert call("baseline", "write", racy, "-o", known)[0] == 0
    reports, races = "left out by filters: 2 of 4 reports", "left out by filters: 1 of 2 distinct races"
    for told, arguments in (
        (reports, ("analyze", racy)), (reports, ("triage", racy)), (reports, ("whatif", racy, "--fix")),
        (reports, ("whatif", racy, "--sync", "ubatch")), (races, ("diff", fixed, racy)), (races, ("diff", racy, fixed)),
        (races, ("baseline", "check", known, racy)), (races, ("baseline", "check", known, fixed)),
        (races, ("baseline", "write", racy, "-o", "-")),
        *((reports, ("analyze", racy, "--format", form)) for form in ("markdown", "github", "junit", "jsonl")),
        *((races, ("diff", fixed, racy, "--format", form)) for form in ("json", "markdown", "github", "junit")),
        (races, ("diff", fixed, racy, "--format", "jsonl")),
    ):  # fmt: skip
        _, out, err = call(*arguments, "--tensor", "inp_pos")
        assert told in out + err, arguments
        _, out, err = call(*arguments)
        assert "left out by filters" not in out + err


# ---- usage errors come before a trace is read

MISUSED = [
    ("analyze", "NOT", "--limit", "0"), ("analyze", "NOT", "--limit", "2", "--all"), ("analyze", "NOT", "-o", "THERE"),
    ("analyze", "NOT", "--kind", "wra"), ("analyze", "NOT", "--split", "x"), ("check", "NOT", "--require", "no>=1"),
    ("check", "NOT", "-o", "THERE"), ("triage", "NOT", "-o", "THERE"), ("explain", "NOT", "nonsense"),
    ("explain", "NOT", "R-000000", "-o", "THERE"), ("minimize", "NOT", "nonsense", "-o", "-"),
    ("minimize", "NOT", "R-000000", "-o", "THERE"), ("minimize", "NOT", "R-000000", "-o", "small.txt"),
    ("whatif", "NOT"), ("whatif", "NOT", "--ring", "-1"), ("whatif", "NOT", "--sync", "nowhere"),
    ("whatif", "NOT", "--edge", "C-000000=x"), ("whatif", "NOT", "--waits", "--tensor", "x"),
    ("whatif", "NOT", "--place", "x"), ("whatif", "NOT", "--fix", "-o", "THERE"), ("diff", "NOT", "NOT", "-o", "THERE"),
    ("diff", "NOT", "NOT", "--suppressions", "NOT"), ("baseline", "write", "NOT", "-o", "THERE"),
    ("baseline", "check", "THERE", "NOT"), ("baseline", "check", "KNOWN", "NOT", "-o", "THERE"),
    ("baseline", "check", "KNOWN", "NOT", "--prune", "--tensor", "x"),
]  # fmt: skip


@pytest.mark.parametrize("arguments", MISUSED, ids=" ".join)
def test_wrong_use_is_told_before_a_trace_is_read(call, tmp_path, runs, arguments):
    there, known = tmp_path / "there.jsonl", tmp_path / "known.toml"
    there.write_text("as it was")
    assert call("baseline", "write", runs[0], "-o", known)[0] == 0
    words = {"NOT": tmp_path / "not-there.jsonl", "THERE": there, "KNOWN": known}
    code, out, err = call(*(words.get(word, word) for word in arguments))
    assert (code, out) == (2, ""), err
    assert there.read_text() == "as it was"


def test_a_file_of_another_format_is_written_back_whole(tmp_path):
    """A frame of floats as Arrow: the fault's own shape, made here."""
    import pyarrow as pa

    with open_writer(tmp_path / "a.arrow") as writer:
        writer.write_rows(rounds(waits=False))
    table = open_trace(str(tmp_path / "a.arrow")).table()
    columns = {
        name: column.cast(pa.float64()) if pa.types.is_integer(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    path = Path(tmp_path / "b.arrow")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    assert (api.analyze(str(path)).races, api.analyze(str(path)).warnings) == (4, [])
