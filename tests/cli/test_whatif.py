"""Where `whatif` puts its comparison and its trace, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import hbtrace
from hbtrace.cli import run

SEED = str(Path(__file__).resolve().parents[2] / "sample_traces/seed.arrow")


def whatif(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, bytes, str]:
    capfdbinary.readouterr()
    code = run(["whatif", SEED, *arguments])
    told = capfdbinary.readouterr()
    return code, told.out, told.err.decode()


@pytest.mark.parametrize("how", [["--ring", "2"], ["--fix"]], ids=["rule", "fix"])
def test_a_trace_on_standard_output_stands_alone(
    how: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, out, err = whatif(capfdbinary, *how, "-o", "-")
    assert code == 0
    assert "price:" in err
    with hbtrace.open(io.BytesIO(out)) as trace:
        assert hbtrace.analyze_events(trace).reports == []
        assert trace.warnings == []
    assert json.loads(whatif(capfdbinary, *how, "-o", "-", "--format", "json")[2])["after"]["races"] == 0


def test_the_comparison_is_on_standard_output_where_the_trace_is_not(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for target in ([], ["-o", str(tmp_path / "mended.jsonl")]):
        code, out, err = whatif(capfdbinary, "--ring", "2", *target)
        assert (code, b"price:" in out, err) == (0, True, "")


@pytest.mark.parametrize("other", [["-o", "waits.jsonl"], ["-o", "-"], ["--tensor", "inp_tokens"], ["--ubatch", "2"]])
def test_waits_takes_neither_filters_nor_an_output(
    other: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code, out, err = whatif(capfdbinary, "--waits", *other)
    assert (code, out) == (2, b"")
    assert "it takes neither filters nor -o" in err
    assert whatif(capfdbinary, "--waits")[0] == 0


@pytest.mark.parametrize(
    "command", ["whatif --fix", "whatif --ring 2", "whatif --waits", "minimize R-4ea695 -o -"]
)
def test_what_is_cut_off_the_trace_is_told(
    command: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(Path(SEED).with_name("src").joinpath("seed.jsonl").read_bytes() + b'{"ev":"sync')
    verb, *options = command.split()
    assert run([verb, str(cut), *options]) in (0, 1)
    assert b"the last line is cut off: 11 bytes dropped" in capfdbinary.readouterr().err


@pytest.mark.parametrize("name", ["mended.txt", "there.jsonl", "."])
def test_an_output_that_cannot_be_is_refused_at_once(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "there.jsonl").write_bytes(b"mine")
    code, out, _ = whatif(capfdbinary, "--fix", "-o", str(tmp_path / name))
    assert (code, out, (tmp_path / "there.jsonl").read_bytes()) == (2, b"", b"mine")
