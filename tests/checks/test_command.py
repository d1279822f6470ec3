"""`hbtrace check` and `hbtrace simulate ggml` as scripts use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from hbtrace.checks.coverage import COUNTERS
from hbtrace.cli import run

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def inner(*arguments: object) -> tuple[int, str, str]:
        code = run(list(map(str, arguments)))
        told = capsys.readouterr()
        return code, told.out, told.err

    return inner


@pytest.fixture
def ring_off(call: Call, tmp_path: Path) -> Path:
    path = tmp_path / "off.arrow"
    assert call("simulate", "ggml", "--ring", "0", "-o", path)[0] == 0
    return path


def test_simulate_and_check(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "run.arrow"
    code, out, err = call("simulate", "ggml", "-o", path)
    assert (code, err) == (0, "")
    assert "hazard       yes, ring of depth 2" in out
    assert "schedules    0 of 50 differ from in-order" in out
    assert call("simulate", "ggml", "-o", path)[0] == 2  # nothing is overwritten
    code, out, err = call("check", path)
    assert (code, err) == (0, "")
    assert "0 errors, 0 warnings" in out
    assert "coverage: exercised" in out


def test_races_that_break_no_rule_are_said_to_fail_analyze_only(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "early.arrow"
    told = "hbtrace analyze shows them; they break no rule, so only analyze fails on them"
    assert call("simulate", "ggml", "--prompt", 8, "--fault", "output-read-early", "-o", path)[0] == 0
    code, out, _ = call("check", path)
    assert (code, told in out) == (0, True)
    assert call("analyze", path)[0] == 1
    assert call("simulate", "ggml", "--prompt", 64, "--ring", 0, "-o", path, "-f")[0] == 0
    code, out, _ = call("check", path)
    assert (code, told in out) == (1, False)
    assert "hbtrace analyze shows them\n" in out


def test_exit_codes_and_text(call: Call, ring_off: Path, tmp_path: Path) -> None:
    code, out, _ = call("check", ring_off)
    assert code == 1
    assert "warning [hazard]" in out
    assert "without direct writes 18 of 30 reports would have been invisible" in out
    assert call("check", ring_off, "--require", "ubatches>=2")[0] == 1
    code, out, _ = call("check", ring_off, "--require", "ubatches>=99")
    assert code == 4
    assert "required: ubatches>=99 is not met: ubatches is 24" in out
    assert call("check", ring_off, "--require", "nonsense")[0] == 2
    assert call("check")[0] == 2
    assert call("check", tmp_path / "none.arrow")[0] == 3
    code, out, err = call("check", ring_off, tmp_path / "none.arrow")
    assert code == 3
    assert "hazard" in out
    assert "none.arrow" in err


def test_json(call: Call, ring_off: Path) -> None:
    _, out, _ = call("check", ring_off, "--format", "json")
    document = orjson.loads(out)
    assert document["format"] == 1
    assert {"id", "severity", "rows", "message"} <= set(document["findings"][0])
    assert document["coverage"]["verdict"] == "exercised"
    assert set(COUNTERS) <= set(document["coverage"])
    assert {c["status"] for c in document["checks"]} <= {"findings", "holds", "not checkable"}
    _, out, _ = call("check", ring_off, ring_off, "--format", "json")
    assert len(orjson.loads(out)["traces"]) == 2
    code, out, _ = call("check", ring_off, ring_off.with_name("none.arrow"), "--format", "json")
    assert (code, len(orjson.loads(out)["traces"])) == (3, 1)
    (failed,) = orjson.loads(out)["errors"]
    assert (failed["path"], failed["exit_code"]) == (str(ring_off.with_name("none.arrow")), 3)
    assert "cannot be opened" in failed["error"]


def test_documentation(call: Call) -> None:
    code, out, _ = call("check", "--list")
    assert code == 0
    assert out.splitlines()[1].startswith("hazard")
    assert len(out.splitlines()) >= 15
    code, out, _ = call("check", "--explain", "prepare_missing")
    assert code == 0
    assert out.startswith("prepare-missing (error): ")
    assert "Needs: " in out
    code, _, err = call("check", "--explain", "stale-id")
    assert code == 2
    assert "did you mean `stale-uid`?" in err
    _, out, _ = call("check", "--list", "--format", "json")
    assert orjson.loads(out)[0]["id"] == "hazard"


def test_faults(call: Call) -> None:
    _, out, _ = call("simulate", "ggml", "--list-faults", "--format", "json")
    faults = orjson.loads(out)
    assert {"name", "engine", "expects"} <= set(faults[0])
    assert {fault["engine"] for fault in faults} == {"ggml"}
    _, out, _ = call("simulate", "ggml", "--list-faults")
    assert len(out.splitlines()) == len(faults) + 1


def test_simulate_options(call: Call, tmp_path: Path) -> None:
    code, out, _ = call(
        "simulate", "ggml", "--backend", "CUDA0", "--backend", "CUDA1", "--fault", "copy-unordered", "--schedule",
        "random", "--seed", 7, "--format", "json", "-o", tmp_path / "a.jsonl",
    )  # fmt: skip
    told = orjson.loads(out)
    assert (code, told["hazard"], told["ring"], told["schedule"]) == (0, False, 0, "random")
    assert told["differing"] > 0
    assert call("check", tmp_path / "a.jsonl")[0] == 1
    code, out, err = call("simulate", "ggml", "--prompt", 40, "--decode", 1, "-o", "-")
    assert code == 0
    assert "result" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ggml",), "give -o FILE"),
        (("ggml", "--fault", "copy-unorderd", "-o", "x.arrow"), "did you mean `copy-unordered`?"),
        (("ggml", "--backend", "CUDA0:fast", "-o", "x.arrow"), "no capability 'fast'"),
        (("ggml", "--ring", "9", "-o", "x.arrow"), "not in the range"),
        ((), "name an engine"),
        (("ggm",), "no such command"),
    ],
)
def test_wrong_use(call: Call, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = call("simulate", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a terminal of 60 characters."""
    for module in ("showing", "output"):  # imported before what it imports is another
        monkeypatch.setattr(f"hbtrace.cli.{module}.terminal_width", lambda output: 60 if output is None else None)


SAMPLE = Path(__file__).parents[2] / "sample_traces/tour_ring_off.arrow"


@pytest.mark.parametrize(
    "arguments",
    [("check", SAMPLE), ("check", "--list"), ("check", "--explain", "hazard"), ("simulate", "ggml", "--list-faults"),
     ("simulate", "strata", "--list-faults")],
)  # fmt: skip
def test_what_is_printed_fits_a_terminal(call: Call, narrow: None, arguments: tuple[object, ...]) -> None:
    _, out, _ = call(*arguments)
    assert 40 < max(map(len, out.splitlines())) <= 60


def test_a_finding_is_folded_once(call: Call, narrow: None) -> None:
    lines = call("check", SAMPLE)[1].splitlines()
    assert lines[3:6] == [
        "warning [hazard] scheduler 0: ROCm0 computes asynchronously",
        "  and in place on ROCm_Host; no input ring is engaged; 15",
        "  input races: attn_inp_k_idxs 3, attn_inp_kq_mask 3,",
    ]
    assert "  ubatches 7, open_windows 3, direct_writes 21," in lines
    place = lines.index("cpu-split-in-place  holds          no asynchronous queue")
    assert lines[place + 1] == " " * 35 + "reads in place what a CPU"


def test_a_paragraph_is_filled_anew(call: Call, narrow: None) -> None:
    paragraphs = call("check", "--explain", "prepare-missing")[1].split("\n\n")
    assert paragraphs[2].startswith("Three things together: the graph is reused (`sched_reuse`),\na compute in flight")


def test_piped_lines_are_as_long_as_ever(call: Call) -> None:
    assert call("check", SAMPLE)[1].splitlines()[3].startswith("  is engaged; 15 input races:")
    assert max(map(len, call("check", "--explain", "hazard")[1].splitlines())) > 100
    assert max(map(len, call("simulate", "ggml", "--list-faults")[1].splitlines())) > 120


def test_no_such_check_is_one_short_line(call: Call) -> None:
    code, _, err = call("check", "--explain", "nope")
    assert (code, err) == (2, "hbtrace: no check `nope`: `hbtrace check --list` has their names\n")
