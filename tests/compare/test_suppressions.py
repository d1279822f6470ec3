"""Suppressions: by each property, with reason and expiry, checked for use, marked in every output."""

from __future__ import annotations

import json
from datetime import date, timedelta
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbtrace.races.suppressions import read_suppressions, suppression_block
from tests.compare.samples import found, run, write

TODAY = date(2030, 6, 15)
RUN = [e | {"site": "llama.cpp:77"} if e["ev"] == "set_direct" else e for e in run("inp_tokens", "inp_pos")]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "run.jsonl", RUN)


@pytest.fixture
def file(tmp_path):
    def make(text):
        path = tmp_path / "s.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return make


def read(path):
    return read_suppressions(path, TODAY)


(FIRST,) = [ident for ident, report in found(RUN).items() if report.earlier.tensor == "inp_tokens"]


@pytest.mark.parametrize(
    ("line", "suppressed"),
    [
        (f'id = "{FIRST}"', 1), ('id = "R-000000"', 0),
        ('kind = "write-after-read"', 2), ('kind = "read-*"', 0),
        ('buffer = "GPU_*"', 2), ('buffer = "CPU"', 0),
        ('tensor = "inp_tok*"', 1), ('tensor = "inp_*"', 2), ('tensor = "tokens"', 0),
        ('actor = "HOST"', 2), ('actor = "GPU0"', 2), ('actor = "GPU1"', 0),
        ('label = "set_direct"', 2), ('label = "compute"', 2), ('label = "COMPUTE"', 0),
        ('site = "llama.cpp:*"', 2), ('site = "ggml*"', 0),
        ("split = 0", 2), ("split = 3", 0), ('split = "0-4"', 2),
        ("ubatch = 2", 0), ('ubatch = "0-1"', 2), ('ubatch = "0-2"', 2),  # of two reports each, both must be
        ('tensor = "inp_pos"\nactor = "HOST"\nlabel = "set_*"', 1), ('tensor = "inp_pos"\nactor = "CPU"', 0),
    ],
)  # fmt: skip
def test_each_property(hbtrace, trace, file, line, suppressed):
    path = file(f"[[suppress]]\n{line}\n")
    code, out, _ = hbtrace("analyze", trace, "--suppressions", path, "--format", "junit")
    assert (out.count("<skipped"), out.count("<failure")) == (suppressed, 2 - suppressed)
    assert code == (0 if suppressed == 2 else 1)


def test_a_race_of_which_one_report_is_not_suppressed_counts(hbtrace, trace, file):
    for line in ("ubatch = 0", "ubatch = 2"):
        options = ("--fail-on", "any", "--suppressions", file(f"[[suppress]]\n{line}\n"))
        code, out, _ = hbtrace("diff", trace, trace, *options)
        assert code == 1, line
        assert "2 persisting" in out


def test_expiry_and_use(hbtrace, trace, file):
    assert [len(read(file(f'[[suppress]]\ntensor = "x"\nexpires = {day}\n')).expired) for day in
            (TODAY, TODAY - timedelta(1), TODAY + timedelta(1))] == [0, 1, 0]  # fmt: skip
    path = file('[[suppress]]\ntensor = "inp_*"\nexpires = 2001-01-01\n\n[[suppress]]\ntensor = "nothing"\n')
    code, _, err = hbtrace("analyze", trace, "--suppressions", path)
    assert code == 1
    assert err.splitlines() == [
        f"warning: {path}:1: this suppression expired on 2001-01-01",
        f"warning: {path}:5: this suppression matches nothing",
    ]


def test_one_that_another_shadows_or_a_filter_hides_is_used(hbtrace, trace, file):
    path = file('[[suppress]]\ntensor = "inp_*"\n[[suppress]]\ntensor = "inp_pos"\n')
    assert hbtrace("analyze", trace, "--suppressions", path)[2] == ""
    assert hbtrace("analyze", trace, "--suppressions", path, "--tensor", "inp_tokens")[2] == ""
    assert hbtrace("diff", trace, trace, "--suppressions", path, "--tensor", "inp_tokens")[2] == ""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[[suppress]]\ntensor = "a"\ntensr = "b"\n', 3, "knows no key `tensr`; there are id, kind"),
        ('[[suppress]]\ntensor = "a"\n\n[[suppress]]\nreason = "why"\n', 4, "would suppress everything"),
        ('\n[[suppress]]\ntensor = 5\n', 3, "`tensor` has a value of the wrong type: 5"),
        ('[[suppress]]\ntensor = "a"\nexpires = "2030-01-01"\n', 3, "`expires` has a value of the wrong type"),
        ('[[suppress]]\ntensor = "a"\nexpires = 2030-01-01T00:00:00\n', 3, "`expires` has a value of the wrong type"),
        ("[[suppress]]\nsplit = true\n", 2, "`split` has a value of the wrong type"),
        ('[[suppress]]\nsplit = "x"\n', 2, "`split` is no number such as 3"),
        ('[[suppress]]\nid = "R-12"\n', 2, "`id` is no id of a race: 'R-12'"),
        ('[[suppress]]\nid = "*"\n', 2, "`id` is no id of a race: '*'"),
        ('# mine\n[[supress]]\ntensor = "a"\n', 2, "knows no top-level key `supress`"),
        ('[suppress]\ntensor = "a"\n', 1, "`suppress` is no list of tables"),
        ('[[suppress]]\ntensor = "a\n', 2, "is no TOML"),
        ('[[suppress]]\ntensor = "a"\n<<<<<<< HEAD\n', 3, "holds an unfinished merge"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(hbtrace, trace, file, text, line, words):
    path = file(text)
    for verb in (["analyze", trace], ["diff", trace, trace]):
        code, out, err = hbtrace(*verb, "--suppressions", path)
        assert (code, out) == (2, "")
        assert err.startswith(f"hbtrace: {path}:{line}: ")
        assert words in err
        assert err.count("\n") == 1


def test_a_file_that_is_not_there_or_no_text(hbtrace, trace, tmp_path):
    code, _, err = hbtrace("analyze", trace, "--suppressions", tmp_path / "none.toml")
    assert (code, err) == (2, f"hbtrace: {tmp_path}/none.toml: cannot be read: No such file or directory\n")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    assert hbtrace("analyze", trace, "--suppressions", tmp_path / "b.toml")[0] == 2


def test_generated_blocks_suppress_exactly_their_race(hbtrace, trace, file):
    out = hbtrace("analyze", trace, "--gen-suppressions")[1]
    blocks = [part for part in out.split("\n\n") if "[[suppress]]" in part]
    assert len(blocks) == 2
    for block in blocks:
        code, out, err = hbtrace("analyze", trace, "--suppressions", file(block), "--format", "json")
        document = json.loads(out)
        assert (code, err, document["suppressed"]) == (1, "", 2)
        marked = {r["id"] for r in document["reports"] if "suppressed" in r}
        assert marked == {r["id"] for r in document["reports"] if r["id"] in block}
    code, out, _ = hbtrace("analyze", trace, "--suppressions", file("\n\n".join(blocks)))
    assert code == 0
    assert "suppressed: 4 reports" in out


@settings(max_examples=60)
@given(name=st.text(min_size=1, max_size=12), reason=st.sampled_from(["", "why"]))
def test_a_block_is_toml_whatever_names_there_are(tmp_path_factory, name, reason):
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    events = run(name, buffer=name, label=name, name=name)
    path = tmp_path_factory.mktemp("s") / "s.toml"
    for ident, report in found(events).items():
        path.write_text(suppression_block(report, ident) + "\n", encoding="utf-8", newline="")
        suppressions = read(str(path))
        assert suppressions.find(report)
        (entry,) = suppressions.entries
        assert entry.globs == {"id": ident}


def test_suppressed_races_are_marked_and_counted_everywhere(hbtrace, trace, file):
    path = file(f'[[suppress]]\nid = "{FIRST}"\nreason = "double buffered"\n')
    options = ("--suppressions", path)
    for verb in (["analyze", trace], ["diff", trace, trace, "--fail-on", "any"]):
        assert "suppressed: " in hbtrace(*verb, *options)[1]
        lines = [json.loads(line) for line in hbtrace(*verb, *options, "--format", "jsonl")[1].splitlines()]
        assert [line["suppressed"] for line in lines if line["id"] == FIRST] == [
            {"where": f"{path}:1", "reason": "double buffered"}
        ]
        assert len(lines) == 2
        document = json.loads(hbtrace(*verb, *options, "--format", "json")[1])
        assert document["suppressed"] > 0
        sarif = json.loads(hbtrace(*verb, *options, "--format", "sarif")[1])["runs"][0]["results"]
        # "The suppressions values for all result objects in theRun SHALL be either all null or all non-null."
        assert {r["properties"]["id"] == FIRST: r["suppressions"] for r in sarif} == {
            True: [{"kind": "external", "justification": "double buffered"}], False: [],
        }  # fmt: skip
        assert len(sarif) == 2
        assert '"suppressions"' not in hbtrace(*verb, "--format", "sarif")[1]
        junit = Xml.fromstring(hbtrace(*verb, *options, "--format", "junit")[1])
        assert [e.get("message") for e in junit.iter("skipped")] == ["double buffered"]
        assert "1 distinct race suppressed" in hbtrace(*verb, *options, "--format", "markdown")[1]
        assert ", 1 suppressed" in hbtrace(*verb, *options, "--format", "github")[1]
        assert hbtrace(*verb, *options)[0] == 1


def test_a_whole_file_of_blocks(hbtrace, trace, tmp_path):
    made = tmp_path / "made.toml"
    code, out, err = hbtrace("analyze", trace, trace, "--format", "toml", "-o", made)
    assert (code, out, err) == (1, "", "")
    assert made.read_text().count("[[suppress]]") == len(read(str(made)).entries) == len(found(RUN))
    code, out, err = hbtrace("analyze", trace, "--suppressions", made, "--format", "json")
    assert (code, err, json.loads(out)["suppressed"]) == (0, "", json.loads(out)["races"])
    hbtrace("analyze", trace, "--format", "toml", "-o", made, "-f", "--tensor", "inp_tokens")
    assert [entry.globs["id"] for entry in read(str(made)).entries] == [FIRST]
    assert hbtrace("analyze", trace, "--format", "toml", "--tensor", "inp_pos", "--kind", "raw")[:2] == (0, "")


@pytest.mark.parametrize(
    ("also", "said"),
    [("", "(no reason given)"), ('reason = "known"\n', "known"), ("expires = 9999-12-31\n", "(no reason given)")],
)
def test_a_reason_is_told_and_so_is_that_there_is_none(hbtrace, trace, tmp_path, file, also, said):
    """`reason` may be left out; where a reason is printed the reader sees that nobody gave one, and where to add it."""
    path = file(f'[[suppress]]\ntensor = "inp_*"\n{also}')
    clean = write(tmp_path / "clean.jsonl", run("inp_tokens", "inp_pos", waits=True))
    told = f"{said} ({path}:1)"
    assert told in hbtrace("analyze", trace, "--suppressions", path)[1]
    for form in ("text", "markdown"):
        out = hbtrace("diff", clean, trace, "--suppressions", path, "--format", form)[1]
        assert said in out.replace("\\", ""), form
    assert f'<skipped message="{said}"' in hbtrace("diff", clean, trace, "--suppressions", path, "--format", "junit")[1]
    sarif = json.loads(hbtrace("diff", clean, trace, "--suppressions", path, "--format", "sarif")[1])
    marks = [mark for result in sarif["runs"][0]["results"] for mark in result.get("suppressions", ())]
    assert marks
    assert {mark["justification"] for mark in marks} == {said}


@pytest.mark.parametrize("only", ["", "inp_tokens"])
def test_a_run_with_nothing_but_suppressed_races_says_so_first(hbtrace, trace, file, only):
    blocks = "".join(f'[[suppress]]\nid = "{ident}"\nreason = "known"\n' for ident in found(RUN))
    code, out, _ = hbtrace("analyze", trace, "--suppressions", file(blocks), *(["--tensor", only] if only else []))
    first = "0 reports shown" if only else f"no race ({sum(1 for _ in found(RUN))} suppressed)"
    assert (code, out.splitlines()[0].split(" (")[0]) == (0, first.split(" (")[0])
    assert only or " suppressed)" in out.splitlines()[0]
