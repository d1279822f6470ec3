"""Baselines: what the file holds, who may change it, and what the gate makes of it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.compare.samples import renumbered, run, write
from tests.material import recording

TWO = run("inp_tokens", "inp_pos")


@pytest.fixture
def base(hbtrace, tmp_path):
    """A baseline of two races, and its trace."""
    trace, file = write(tmp_path / "run.jsonl", TWO), tmp_path / "races.toml"
    assert hbtrace("baseline", "write", trace, "-o", file)[0] == 0
    return file, trace


def check(hbtrace, file, *traces):
    code, out, err = hbtrace("baseline", "check", file, *traces, "--format", "json")
    document = json.loads(out) if out else {}
    states = ("new", "expired", "persisting", "fixed", "moved", "not_exercised")
    return {s: len(document[s]) for s in states if document.get(s)}, code, err, document


def test_the_file(base):
    file, _ = base
    text = file.read_text()
    assert text.startswith('format = 1\nlayers = "kept"\n\n[[race]]\nid = "R-')
    races = tomllib.loads(text)["race"]
    assert [race["id"] for race in races] == sorted(race["id"] for race in races)
    assert races[0].keys() == {
        "id", "kind", "buffer", "earlier_actor", "earlier_tensor", "earlier_label", "current_actor", "current_tensor",
        "current_label",
    }  # fmt: skip


def test_it_is_a_pure_function_of_the_findings(hbtrace, base, tmp_path):
    file, _ = base
    other = write(tmp_path / "elsewhere.jsonl", renumbered(run("inp_pos", "inp_tokens", ubatches=9), 50))
    again = tmp_path / "again.toml"
    assert hbtrace("baseline", "write", other, "-o", again)[0] == 0
    assert again.read_bytes() == file.read_bytes()


def test_reasons_and_dates_stay_when_it_is_written_again(hbtrace, base, tmp_path):
    file, trace = base
    text = file.read_text().replace('_label = "set_direct"\n', '_label = "set_direct"\nreason = "issue 5 \\"x\\""\n', 1)
    text = text.rstrip("\n") + "\nexpires = 2999-01-01\n"
    file.write_text(text)
    assert hbtrace("baseline", "write", trace, "-o", file, "-f")[0] == 0
    assert file.read_text() == text
    more = write(tmp_path / "more.jsonl", run("inp_tokens", "inp_pos", "c"))
    assert hbtrace("baseline", "write", more, "-o", file, "-f")[0] == 0
    races = tomllib.loads(file.read_text())["race"]
    assert (len(races), sum("reason" in r for r in races), sum("expires" in r for r in races)) == (3, 1, 1)


def test_nothing_is_overwritten_without_f(hbtrace, base):
    file, trace = base
    code, _, err = hbtrace("baseline", "write", trace, "-o", file)
    assert code == 2
    assert "exists" in err


def test_it_can_go_to_standard_output(hbtrace, base, monkeypatch):
    file, trace = base
    monkeypatch.chdir(file.parent)
    code, out, err = hbtrace("baseline", "write", trace, "-o", "-")
    assert (code, out, err, Path("-").exists()) == (0, file.read_text(), "", False)


def test_a_tensor_without_a_name_is_called_one(hbtrace, tmp_path):
    racy = write(tmp_path / "racy.jsonl", run("a", ""))
    once = [e for e in run("a", "") if e["ev"] != "set_direct" or e["tensor"] == 0 or e["ubatch"] == 0]
    out = hbtrace("diff", racy, write(tmp_path / "once.jsonl", once))[1]
    assert ": a tensor without a name is no longer written again after it is read\n" in out


def test_only_new_races_fail(hbtrace, base, tmp_path):
    file, trace = base
    assert check(hbtrace, file, trace)[:2] == ({"persisting": 2}, 0)
    more = write(tmp_path / "more.jsonl", run("inp_tokens", "inp_pos", "c"))
    assert check(hbtrace, file, more)[:2] == ({"new": 1, "persisting": 2}, 1)
    assert hbtrace("baseline", "check", file, trace, "--fail-on", "any")[0] == 1
    assert hbtrace("baseline", "check", file, more, "--fail-on", "none")[0] == 0
    assert hbtrace("baseline", "check", file, more, "--exit-zero")[0] == 0


def test_fixed_and_prune(hbtrace, base, tmp_path):
    file, trace = base
    fixed = write(tmp_path / "fixed.jsonl", run("inp_tokens", "inp_pos", waits=True))
    assert check(hbtrace, file, fixed)[:2] == ({"fixed": 2}, 0)
    before = file.read_bytes()
    assert hbtrace("baseline", "check", file, trace, "--prune")[0] == 0
    assert file.read_bytes() == before
    code, _, err = hbtrace("baseline", "check", file, fixed, "--prune")
    assert (code, err) == (0, f"pruned {file}: 2 fixed, 0 left\n")
    assert file.read_text() == 'format = 1\nlayers = "kept"\n'
    assert check(hbtrace, file, trace)[:2] == ({"new": 2}, 1)


NOT_EXERCISED = {
    "a run too short to race": (
        run("inp_tokens", "inp_pos", ubatches=1), "inp_pos is no longer written again after it is read",
    ),
    "a root that is gone": (run("inp_pos", waits=True), "inp_tokens is no longer touched"),
    "a tensor that is written once": (
        [e for e in run("inp_tokens", "inp_pos", waits=True)
         if e["ev"] != "set_direct" or e["tensor"] == 0 or e["ubatch"] == 0],
        "inp_pos is no longer written again after it is read",
    ),
    "a backend never defined": (
        [e for e in run("inp_tokens", "inp_pos", waits=True) if e["ev"] != "backend"],
        "no run has an asynchronous backend GPU0",
    ),
    "a queue that does not go on": (run("inp_tokens", "inp_pos", synchronous=True), "no asynchronous backend"),
    "a host that writes no more": (run("inp_tokens", "inp_pos", touched=False), ""),
}


@pytest.mark.parametrize("name", NOT_EXERCISED)
def test_what_was_not_exercised_is_neither_fixed_nor_pruned(hbtrace, base, tmp_path, name):
    file, _ = base
    before = file.read_bytes()
    events, why = NOT_EXERCISED[name]
    trace = write(tmp_path / "other.jsonl", events)
    states, code, _, document = check(hbtrace, file, trace)
    assert states["not_exercised"] >= 1
    assert code == 0
    assert any(why in note for note in document["notes"])
    hbtrace("baseline", "check", file, trace, "--prune")
    assert file.read_bytes().count(b"[[race]]") == states["not_exercised"]
    assert before


@pytest.mark.parametrize("marked", [True, False])
def test_a_run_without_ubatches_or_full_coverage_fixes(hbtrace, tmp_path, marked):
    """Another engine's kernels, or computes without markers: the host writes what they read, and waits. Coverage says
    that a wait kept all races away, which is what mends this one."""
    def work(waits):
        events = [{k: v for k, v in e.items() if k != "ubatch"} for e in run("a", waits=waits) if e["ev"] != "ubatch"]
        kernel = {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}
        return events if marked else [e if e["ev"] != "compute" else kernel for e in events]

    racy, waits = (write(tmp_path / f"{w}.jsonl", work(w)) for w in (False, True))
    assert hbtrace("baseline", "write", racy, "-o", tmp_path / "k.toml")[0] == 0
    states, code, _, document = check(hbtrace, tmp_path / "k.toml", waits)
    assert (states, code, document["coverage"]["head"]["verdict"]) == ({"fixed": 1}, 0, "not-exercised")


def test_a_number_for_want_of_a_name_is_never_fixed(hbtrace, tmp_path):
    """It may be another tensor's in the next version."""
    reads = {"ev": "kernel", "backend": 0, "reads": [{"tensor": 0}]}
    sides = []
    for waits in (False, True):
        events = [reads if e["ev"] == "compute" else e for e in run("leaf_1", waits=waits)]
        sides.append(write(tmp_path / f"{waits}.jsonl", events))
    assert hbtrace("baseline", "write", sides[0], "-o", tmp_path / "k.toml")[0] == 0
    assert check(hbtrace, tmp_path / "k.toml", sides[0])[0] == {"persisting": 1}
    states, _, _, document = check(hbtrace, tmp_path / "k.toml", sides[1])
    assert states == {"not_exercised": 1}
    assert "a tensor without a name cannot be known again" in document["notes"][0]


UNPROVED = {
    "every compute an unknown event": [e | {"ev": "compute2"} if e["ev"] == "compute" else e for e in TWO],
    "a late recording": [e for e in run("inp_tokens", "inp_pos", waits=True) if e["ev"] != "backend"],
    "a tensor written once": NOT_EXERCISED["a tensor that is written once"][0],
    "a root that is gone": NOT_EXERCISED["a root that is gone"][0],
}


@pytest.mark.parametrize("name", UNPROVED)
def test_what_must_be_exercised_was_not(hbtrace, base, tmp_path, name):
    file, trace = base
    other = write(tmp_path / "other.jsonl", UNPROVED[name])
    assert hbtrace("baseline", "check", file, other)[0] == 0
    code, out, _ = hbtrace("baseline", "check", file, trace, other, "--require-exercised")
    gone = "not exercised: R-" in out
    assert (code, gone) == ((4, False) if "could not show" in out else (0, False))  # the other run shows both
    for extra in ([], ["--exit-zero"], ["--format", "github"], ["--format", "junit"]):
        code, out, _ = hbtrace("baseline", "check", file, other, "--require-exercised", *extra)
        assert (code, "not exercised: R-" in out) == (4, True)


@pytest.mark.parametrize("name", UNPROVED)
def test_what_must_be_exercised_was_not_in_a_diff(hbtrace, base, tmp_path, name):
    """A race that is gone without a place to be, or two sides that did nothing alike."""
    trace, other = base[1], write(tmp_path / "other.jsonl", UNPROVED[name])
    for sides in ([trace, other], [other, other]):
        code = hbtrace("diff", *sides)[0]
        strict, out, _ = hbtrace("diff", *sides, "--require-exercised", "--format", "junit")
        red = "not exercised: R-" in out or "could not show every race" in out
        assert (code, strict, "<error" in out) == (0, 4 if red else 0, red)
        assert red or sides == [other, other]
    assert hbtrace("diff", trace, trace, "--require-exercised")[0] == 0


def test_what_must_be_exercised_was(hbtrace, base, tmp_path):
    file, trace = base
    fixed = write(tmp_path / "fixed.jsonl", run("inp_tokens", "inp_pos", waits=True))
    for runs in ([trace], [fixed], [trace, fixed]):
        assert hbtrace("baseline", "check", file, *runs, "--require-exercised")[0] == 0
    more = write(tmp_path / "more.jsonl", run("inp_tokens", "inp_pos", "c"))
    assert hbtrace("baseline", "check", file, more, "--require-exercised")[0] == 1
    one = write(tmp_path / "one.jsonl", UNPROVED["every compute an unknown event"])
    code, out, _ = hbtrace("baseline", "check", file, more, one, "--require-exercised")
    verdict, _, why = out.splitlines()[:3]
    assert (code, why) == (4, "1 of 2 runs could not show every race")
    assert verdict.startswith(f"CANNOT JUDGE: --require-exercised: {why}; 1 new race (")
    assert f"{one} was not exercised: no asynchronous backend was given work, so nothing could race\n" in out


def test_a_truncated_run_fixes_nothing(hbtrace, base, tmp_path):
    file, _ = base
    trace = tmp_path / "cut.jsonl"
    trace.write_bytes(Path(write(trace, run("inp_tokens", "inp_pos", waits=True))).read_bytes() + b"{")
    code, _, err = hbtrace("baseline", "check", file, trace)
    assert code == 3
    assert "is truncated" in err
    code, out, _ = hbtrace("baseline", "check", file, trace, "--allow-partial", "--prune")
    assert (code, out.count("the run is truncated")) == (0, 2)
    assert file.read_bytes().count(b"[[race]]") == 2


def test_an_entry_expires(hbtrace, base):
    file, trace = base
    file.write_text(file.read_text().rstrip("\n") + "\nexpires = 2001-01-01\n")
    states, code, _, document = check(hbtrace, file, trace)
    assert (states, code) == ({"expired": 1, "persisting": 1}, 1)
    assert document["notes"][0].endswith("its entry in the baseline expired on 2001-01-01")
    assert document["notes"][0].startswith(f"{file}:15: R-")


def test_filters_hide_and_make_nothing_new(hbtrace, base):
    file, trace = base
    for option in ("--ubatch=1", "--split=0", "--tensor=inp_pos", "--actor=GPU0"):
        code, out, _ = hbtrace("baseline", "check", file, trace, "--format", "json", option)
        document = json.loads(out)
        assert (code, document["new"], document["fixed"]) == (0, [], []), option
    code, _, err = hbtrace("baseline", "check", file, trace, "--label=x*")
    assert (code, "matches no label" in err) == (2, True)
    fixed = write(Path(trace).with_name("fixed.jsonl"), run("inp_tokens", "inp_pos", waits=True))
    document = json.loads(hbtrace("baseline", "check", file, fixed, "--format", "json", "--tensor", "inp_pos")[1])
    assert [len(document[k]) for k in ("fixed", "not_exercised")] == [1, 0]
    code, _, err = hbtrace("baseline", "check", file, trace, "--prune", "--tensor", "inp_pos")
    assert code == 2
    assert "--prune with a filter" in err


def test_suppressed_races_are_no_part_of_it(hbtrace, base, tmp_path):
    file, trace = base
    (tmp_path / "s.toml").write_text('[[suppress]]\ntensor = "inp_pos"\n')
    assert hbtrace("baseline", "write", trace, "-o", file, "-f", "--suppressions", tmp_path / "s.toml")[0] == 0
    assert file.read_text().count("[[race]]") == 1
    assert hbtrace("baseline", "check", file, trace, "--suppressions", tmp_path / "s.toml")[0] == 0
    assert hbtrace("baseline", "check", file, trace)[0] == 1


def test_layers_are_as_the_file_says(hbtrace, tmp_path):
    one, two = (write(tmp_path / f"{n}.jsonl", run(f"l_out-{n}")) for n in (1, 2))
    kept, folded = tmp_path / "kept.toml", tmp_path / "folded.toml"
    assert hbtrace("baseline", "write", one, "-o", kept)[0] == 0
    assert hbtrace("baseline", "write", one, "-o", folded, "--fold-layers")[0] == 0
    assert 'layers = "folded"' in folded.read_text()
    assert hbtrace("baseline", "check", kept, two)[0] == 1
    assert hbtrace("baseline", "check", folded, two)[0] == 0
    code, _, err = hbtrace("baseline", "write", one, "-o", folded, "-f")
    assert code == 2
    assert "give --fold-layers as well" in err
    fixed = write(tmp_path / "fixed.jsonl", run("l_out-7", waits=True))
    assert check(hbtrace, folded, fixed)[0] == {"fixed": 1}
    assert check(hbtrace, kept, fixed)[0] == {"not_exercised": 1}


def edited(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


BROKEN = {
    "half merged": (lambda t: edited(t, "[[race]]", "<<<<<<< HEAD\n[[race]]"), 4, "holds an unfinished merge"),
    "merged with the middle left": (lambda t: edited(t, "kind =", "=======\nkind ="), 6, "holds an unfinished merge"),
    "no TOML": (lambda t: edited(t, 'id = "', "id = "), 5, "is no TOML"),
    "cut off": (lambda t: t[:-2], 24, "is no TOML"),
    "a race twice": (lambda t: t + "\n" + t[t.index("[[race]]") : t.rindex("[[race]]")], 26, "a second time"),
    "tampered": (lambda t: edited(t, '"GPU_Host"', '"CPU_Host"'), 4, "is not the id of this race"),
    "another id": (lambda t: edited(t, 'id = "R-', 'id = "R-0'), 4, "is not the id of this race"),
    "a short id": (lambda t: edited(t, t[t.index('id = "R-') :][:15], 'id = "R-12"'), 4, "is not the id of this race"),
    "a key lost": (lambda t: edited(t, 'kind = "write-after-read"\n', ""), 4, "lacks `kind`"),
    "no kind": (lambda t: edited(t, '"write-after-read"', '"write-write"'), 6, "is no kind of race"),
    "unknown key": (lambda t: edited(t, "kind =", "count = 3\nkind ="), 6, "knows no key `count`"),
    "wrong type": (lambda t: edited(t, 'buffer = "GPU_Host"', "buffer = 3"), 7, "a value of the wrong type"),
    "no format": (lambda t: edited(t, "format = 1\n", ""), 1, "is no baseline of this version"),
    "a later format": (lambda t: edited(t, "format = 1", "format = 2"), 1, "is no baseline of this version"),
    "format true": (lambda t: edited(t, "format = 1", "format = true"), 1, "is no baseline of this version"),
    "no layers": (lambda t: edited(t, '"kept"', '"both"'), 2, "`layers` must be"),
    "a top-level key": (lambda t: edited(t, "layers", "x = 1\nlayers"), 2, "knows no top-level key `x`"),
    "another file's tables": (lambda t: t.replace("[[race]]", "[[suppress]]"), 4, "knows no top-level key `suppress`"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_line(hbtrace, base, name):
    file, trace = base
    change, line, words = BROKEN[name]
    broken = change(file.read_text())
    file.write_text(broken)
    for verb in (["check", file, trace], ["write", trace, "-f", "-o", file]):
        code, out, err = hbtrace("baseline", *verb)
        assert (code, out) == (2, "")
        assert err.startswith(f"hbtrace: {file}:{line}: "), err
        assert words in err
        assert err.count("\n") == 1
        assert file.read_text() == broken


def test_conflict_marks_in_a_reason_are_a_reason(hbtrace, base):
    file, trace = base
    file.write_text(file.read_text().rstrip("\n") + '\nreason = """\n=======\n"""\n')
    assert hbtrace("baseline", "check", file, trace)[0] == 0


def test_windows_line_ends(hbtrace, base):
    file, trace = base
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert hbtrace("baseline", "check", file, trace)[0] == 0


def test_two_branches_that_add_races_merge(hbtrace, tmp_path):
    """Sorted by id, a block a race: the union of two files' blocks is the file of the union."""
    texts = []
    for number, names in enumerate((["a", "b"], ["a", "c"], ["a", "b", "c"])):
        file = tmp_path / f"{number}.toml"
        hbtrace("baseline", "write", write(tmp_path / "r.jsonl", run(*names)), "-o", file)
        texts.append(file.read_text())
    head, *_ = texts[0].split("\n[[race]]")
    blocks = sorted({block.strip() for text in texts[:2] for block in text.split("\n[[race]]")[1:]})
    assert "\n[[race]]\n".join([head, *(b + "\n" for b in blocks)]) == texts[2]


def test_recorded_runs(hbtrace, tmp_path):
    file = tmp_path / "races.toml"
    assert hbtrace("baseline", "write", recording("integrated"), "-o", file)[0] == 0
    assert check(hbtrace, file, recording("integrated"))[:2] == ({"persisting": 5}, 0)
    assert check(hbtrace, file, recording("ngl2"))[:2] == ({"persisting": 4, "fixed": 1}, 0)
    assert check(hbtrace, file, recording("discrete"))[:2] == ({"fixed": 5}, 0)
    assert check(hbtrace, file, recording("cuda_integrated"))[1] == 1
    assert check(hbtrace, file, recording("vulkan"))[1] == 0


def test_there_is_no_column_for_numbers_that_a_file_does_not_hold(hbtrace, base):
    out = hbtrace("baseline", "check", *base)[1]
    (head,) = [line for line in out.splitlines() if line.startswith("state ")]
    assert head.split() == ["state", "id", "kind", "buffer", "tensor", "earlier", "current", "reports"]
    assert "\ncoverage: partly: " in out
    out = hbtrace("baseline", "check", *base, "--format", "markdown")[1]
    assert "| current | reports |\n" in out
    assert "\n- coverage: partly: " in out
    assert check(hbtrace, *base)[3]["coverage"].keys() == {"head"}


def test_bare_it_says_what_is_missing_in_one_sentence(hbtrace):
    code, out, err = hbtrace("baseline")
    assert (code, out) == (2, "")
    assert err == "hbtrace: say `write` or `check` (`hbtrace baseline -h` shows how it is used)\n"
    assert "Write the races of TRACE" in hbtrace("baseline", "-h")[1]


def test_a_baseline_that_is_not_there_says_how_to_make_it(hbtrace, base, tmp_path):
    _, trace = base
    none = tmp_path / "none.toml"
    code, out, err = hbtrace("baseline", "check", none, trace)
    way_out = f"make it with `hbtrace baseline write TRACE... -o {none}`"
    assert (code, out, err) == (2, "", f"hbtrace: {none}: cannot be read: No such file or directory; {way_out}\n")
    assert "make it" not in hbtrace("baseline", "check", tmp_path, trace)[2]  # a folder: something else is wrong
