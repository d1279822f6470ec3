"""`hbtrace analyze` as scripts rely on it: filters, limits, formats, exit codes, several traces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbtrace.cli import run
from hbtrace.trace.writer import open_writer

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
INTEGRATED = str(SAMPLES / "integrated.arrow")
CLEAN = str(SAMPLES / "discrete.arrow")
TOUCHED = [{"ev": "buffer", "id": 0, "name": "CPU", "size": 8}, {"ev": "buffer_clear", "buffer": 0}]


@pytest.fixture
def hbtrace(capfd):
    """Run a command line: (exit code, standard output, standard error)."""

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return code, out, err

    return call


def blocks(out):
    return out.count("RACE (")


def test_the_first_report_of_each_distinct_race_by_default(hbtrace):
    code, out, err = hbtrace("analyze", INTEGRATED)
    assert (code, blocks(out), err) == (1, 5, "")
    assert "... and 5 more reports of this race" in out
    assert "30 reports, 5 distinct races: 5 tensors, 1 buffer, 1 pair of actors" in out
    assert "left out as repeats: 25 reports" in out


def test_all_and_limit(hbtrace):
    assert blocks(hbtrace("analyze", INTEGRATED, "--all")[1]) == 30
    _, out, _ = hbtrace("analyze", INTEGRATED, "--limit", "2")
    assert blocks(out) == 10
    assert "... and 4 more reports of this race" in out
    code, _, err = hbtrace("analyze", INTEGRATED, "--limit", "2", "--all")
    assert (code, err) == (2, "hbtrace: give --all or --limit, not both\n")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--tensor", "inp_*"], 12),
        (["--tensor", "inp_tokens", "--tensor", "inp_pos"], 12),
        (["--tensor", "inp_tokens", "--ubatch", "2-3"], 3),  # the current side's 2 and 3, the earlier side's 3
        (["--ubatch", "6"], 5),
        (["--split", "-1"], 30),
        (["--actor", "HOST"], 30),
        (["--actor", "FAKE0"], 30),  # the name in the table; it is FAKE0#1 that races
        (["--actor", "FAKE0", "--ubatch", "0"], 5),
        (["--actor", "FAKE0*", "--label", "tensor_set"], 12),
        (["--kind", "write-after-read"], 30),
        (["--kind", "RAW"], 0),
        (["--buffer", "FAKE*"], 30),
        (["--buffer", "FAKE0"], 0),
        (["--id", "R-e3a290"], 6),
    ],
)
def test_filters_choose_what_is_shown_and_say_what_is_left_out(hbtrace, options, shown):
    code, out, _ = hbtrace("analyze", INTEGRATED, "--all", *options)
    assert blocks(out) == shown
    assert code == (1 if shown else 0)
    if shown < 30:
        assert f"left out by filters: {30 - shown} of 30 reports" in out
    document = json.loads(hbtrace("analyze", INTEGRATED, "--format", "json", *options)[1])
    assert (document["races"], document["distinct"], document["shown"]) == (30, 5, shown)
    assert sum(report["repeats"] for report in document["reports"]) == shown


def test_a_number_option_that_is_no_number_is_refused(hbtrace):
    code, _, err = hbtrace("analyze", INTEGRATED, "--ubatch", "5-2")
    assert code == 2
    assert err.startswith("hbtrace: ")
    assert err.count("\n") == 1


def test_verbose_adds_lines_under_a_block_and_changes_none(hbtrace):
    plain = hbtrace("analyze", INTEGRATED, "--all")[1]
    verbose = hbtrace("analyze", INTEGRATED, "--all", "-v")[1]
    for block in plain.split("\n\n")[:30]:
        assert block in verbose
    assert "id       R-e3a290" in verbose
    assert "ubatch 1, thread 0" in verbose


def test_json_has_the_keys_of_the_contract(hbtrace):
    document = json.loads(hbtrace("analyze", INTEGRATED, "--format", "json", "--all")[1])
    assert {"format", "trace", "races", "distinct", "shown", "reports", "warnings", "coverage"} <= document.keys()
    assert document["format"] == 1
    assert {"path", "rows", "dropped_bytes"} <= document["trace"].keys()
    report = document["reports"][0]
    assert {
        "kind", "buffer", "buffer_id", "lo", "hi", "bytes", "approx", "repeats", "earlier", "current", "knows",
        "needs", "signature",
    } <= report.keys()  # fmt: skip
    assert report["earlier"].keys() == report["current"].keys() == {
        "row", "access", "mode", "actor", "clock", "split", "ubatch", "thread", "tensor", "tensor_id", "root",
        "root_id", "label", "site",
    }  # fmt: skip
    assert report["signature"] == [
        "write-after-read", "FAKE_Host", "FAKE0", "inp_tokens", "compute", "HOST", "inp_tokens", "tensor_set",
    ]  # fmt: skip
    assert [r["repeats"] for r in document["reports"]] == [1] * 30


def test_jsonl_has_a_report_a_line_with_its_trace(hbtrace):
    code, out, _ = hbtrace("analyze", INTEGRATED, CLEAN, "--format", "jsonl")
    reports = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert {report["trace"] for report in reports} == {INTEGRATED}
    assert sum(report["repeats"] for report in reports) == 30


def test_jsonl_does_not_call_a_run_clean_that_could_not_have_raced(hbtrace, tmp_path):
    path = tmp_path / "idle.jsonl"
    with open_writer(path) as writer:
        writer.write_rows([*TOUCHED, {"ev": "tensor", "id": 0, "name": "x", "buffer": 0, "size": 8},
                           {"ev": "tensor_set", "tensor": 0}])  # fmt: skip
    code, out, err = hbtrace("analyze", path, "--format", "jsonl")
    assert (code, out) == (0, "")
    assert err == (
        f"note: {path}: not exercised: no asynchronous backend was given work, so nothing could race\n"
    )
    assert hbtrace("analyze", INTEGRATED, "--format", "jsonl")[2] == ""


def test_several_traces_each_under_its_heading_and_json_as_one_document(hbtrace):
    code, out, _ = hbtrace("analyze", CLEAN, INTEGRATED)
    assert code == 1
    assert out.startswith(f"== {CLEAN}\n\nno race in 1,312 rows\ncoverage: partly")
    assert f"\n\n== {INTEGRATED}\n\nRACE " in out
    document = json.loads(hbtrace("analyze", CLEAN, INTEGRATED, "--format", "json")[1])
    assert document["format"] == 1
    assert [trace["races"] for trace in document["traces"]] == [0, 30]


def test_the_worst_of_several_exit_codes_counts_and_no_trace_hides_another(hbtrace, tmp_path):
    (tmp_path / "none.jsonl").write_text("")
    code, out, err = hbtrace("analyze", tmp_path / "none.jsonl", INTEGRATED, tmp_path / "missing.arrow")
    assert code == 3
    assert "30 reports" in out
    assert len(err.splitlines()) == 2
    code, out, _ = hbtrace("analyze", tmp_path / "none.jsonl", INTEGRATED, "--format", "json")
    assert code == 3
    document = json.loads(out)
    assert [trace["races"] for trace in document["traces"]] == [30]
    (failed,) = document["errors"]
    assert (failed["path"], failed["exit_code"]) == (str(tmp_path / "none.jsonl"), 3)
    assert "no event" in failed["error"]
    assert json.loads(hbtrace("analyze", INTEGRATED, INTEGRATED, "--format", "json")[1])["errors"] == []


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_a_filter_that_matches_nothing_of_any_trace_is_wrong_use(hbtrace, form):
    def notes(*options):
        code, _, err = hbtrace("analyze", INTEGRATED, CLEAN, "--format", form, *options)
        return code, err

    for option, value in (("tensor", "inp_toks"), ("buffer", "ROCm_Host"), ("ubatch", "99")):
        code, err = notes(f"--{option}", value, "--tensor", "inp_*", "--split", "0-3")
        assert code == 2
        assert err.startswith(f"hbtrace: --{option} {value}: matches no {option} of any trace; ")
    # known to one of the traces is known; what was seen and did not race needs no note
    code, err = notes("--tensor", "FAKE0#inp_pos#0", "--actor", "CPU")
    assert (code, [line for line in err.splitlines() if "left out by filters" not in line]) == (0, [])
    code, _, err = hbtrace("analyze", INTEGRATED, "--actor", "GPU9")
    assert (code, err.split(";")[0]) == (2, "hbtrace: --actor GPU9: matches no actor of the trace")


def test_an_output_file_is_not_overwritten_without_force(hbtrace, tmp_path):
    target = tmp_path / "races.json"
    assert hbtrace("analyze", INTEGRATED, "--format", "json", "-o", target)[:2] == (1, "")
    before = target.read_bytes()
    code, _, err = hbtrace("analyze", CLEAN, "-o", target)
    assert (code, "give -f" in err, target.read_bytes()) == (2, True, before)
    assert hbtrace("analyze", CLEAN, "-o", target, "-f")[0] == 0
    assert target.read_text().startswith("no race in 1,312 rows\n")
    assert hbtrace("analyze", CLEAN, "-o", tmp_path / "nowhere" / "x")[0] == 2


def test_a_failing_run_leaves_no_output(hbtrace, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{}\nnonsense\n{}\n")
    code, _, err = hbtrace("analyze", tmp_path / "bad.jsonl", "-o", tmp_path / "out.txt")
    assert code == 3
    assert "line 2 (row 1)" in err
    assert sorted(os.listdir(tmp_path)) == ["bad.jsonl"]


def test_strict_ends_with_3_and_names_file_and_row(hbtrace, tmp_path):
    trace = str(tmp_path / "late.jsonl")
    with open_writer(trace) as writer:
        writer.write_rows([*TOUCHED, {"ev": "synchronize", "backend": 4}])
    assert hbtrace("analyze", trace)[0] == 0
    code, _, err = hbtrace("analyze", trace, "--strict")
    assert code == 3
    assert trace in err
    assert "row 2" in err


def test_warnings_go_to_standard_error_and_into_json(hbtrace, tmp_path):
    trace = str(tmp_path / "late.jsonl")
    with open_writer(trace) as writer:
        writer.write_rows([*TOUCHED, {"ev": "synchronize", "backend": 4}])
    code, out, err = hbtrace("analyze", trace)
    assert "warning" not in out
    assert err.startswith("warning: 1 backend id was used before any definition: the recording began late")
    code, out, err = hbtrace("analyze", trace, "--format", "json")
    assert (code, err, len(json.loads(out)["warnings"])) == (0, "", 1)


def test_a_clean_run_that_could_not_have_raced_is_not_just_called_clean(hbtrace, tmp_path):
    trace = str(tmp_path / "nothing.jsonl")
    with open_writer(trace) as writer:
        writer.write_rows(TOUCHED)
    assert "coverage: not-exercised" in hbtrace("analyze", trace)[1]


def test_fail_on_and_exit_zero(hbtrace):
    assert hbtrace("analyze", INTEGRATED, "--fail-on", "none")[0] == 0
    assert hbtrace("analyze", INTEGRATED, "--exit-zero")[0] == 0
    assert hbtrace("analyze", INTEGRATED, "--fail-on", "new")[0] == 1


def test_pasted_reports_are_told_as_reports(hbtrace, tmp_path):
    log = tmp_path / "paste.log"
    log.write_text(
        "ggml-sched-sanitize: RACE (write-after-read) on ROCm_Host[0, 2048)\n"
        "ggml-sched-sanitize:   read  ROCm0#1      @14174 split 0    inp_tokens (compute)\n"
        "ggml-sched-sanitize:   write HOST         @415   split -1   inp_tokens (tensor_set)\n"
        "ggml-sched-sanitize:   no happens-before edge: HOST knows ROCm0#1@14173, needs >=14174\n"
    )
    code, out, _ = hbtrace("analyze", log)
    assert code == 1
    assert "nothing was replayed" in out
    assert hbtrace("convert", log, "-")[0] == 3


def test_standard_input(tmp_path):
    source = Path(INTEGRATED).read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "hbtrace", "analyze", "-"], input=source, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert b"30 reports" in done.stdout


def test_the_same_input_gives_the_same_output(hbtrace):
    for form in ("text", "json", "jsonl", "markdown", "github", "sarif", "junit"):
        assert hbtrace("analyze", INTEGRATED, "--format", form) == hbtrace("analyze", INTEGRATED, "--format", form)


def test_a_table_fits_a_width_where_it_can():
    from hbtrace.report.tables import table

    head, row = ("id", "tensor", "reports"), ("R-123456", "a_very_long_name_of_a_tensor_in_layer_7", "12")
    whole = table(head, [row])
    assert table(head, [row], width=len(whole[1]) + 9) == whole
    fitted = table(head, [row], width=40)
    assert fitted == ["id        tensor                 reports", "R-123456  a_very_lo...n_layer_7  12"]
    assert len(fitted[0]) == 40
    # too narrow for any good: left as it is
    assert table(head, [row], width=25) == whole
