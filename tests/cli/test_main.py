"""The command line as a whole: how quick it is, how it ends, what it says when it is used wrongly."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click
import pytest
from click.testing import CliRunner

from hbtrace import cli
from hbtrace.cli.options import filter_options
from hbtrace.errors import TraceError

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT / "sample_traces/seed.arrow"
HBTRACE = (sys.executable, "-m", "hbtrace")


def hbtrace(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HBTRACE, *map(str, arguments)], cwd=ROOT, capture_output=True, check=False, encoding="utf-8", **more
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], code: int) -> None:
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("hbtrace: ")
    assert done.stderr.count("\n") == 1


# help


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from hbtrace.cli import run; run(['--help']);"
        "heavy = {name.split('.')[0] for name in sys.modules} & {'pyarrow', 'numpy', 'rich', 'orjson'};"
        "verbs = {name for name in sys.modules if name.startswith('hbtrace.cli.')} - {'hbtrace.cli.interrupt'};"
        "sys.exit(f'imported {heavy | verbs}' if heavy | verbs else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_of_a_verb_imports_nothing_heavy(verb: str) -> None:
    code = (
        f"import sys; from hbtrace.cli import run; run([{verb!r}, '-h']);"
        "heavy = {name.split('.')[0] for name in sys.modules} & {'pyarrow', 'numpy', 'rich'};"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", [(), *((verb,) for verb in cli.VERBS)])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_everywhere(verb: tuple[str, ...], option: str) -> None:
    done = hbtrace(*verb, option)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: hbtrace")
    assert "Examples:" in done.stdout
    assert done.stderr == ""


def commands() -> Iterator[click.Command]:
    """Every verb, and every command of a verb that is a group."""
    context = click.Context(cli.cli)
    for verb in cli.VERBS:
        command = cli.cli.get_command(context, verb)
        assert command is not None
        yield command
        for name in command.list_commands(context) if isinstance(command, click.Group) else ():
            inner = command.get_command(context, name)
            assert inner is not None
            yield inner


def test_examples_fit_a_terminal() -> None:
    lines = [line for command in commands() for line in (command.epilog or "").splitlines() if line.startswith("  ")]
    assert len(lines) > len(cli.VERBS)
    assert [line for line in lines if len(line) + len("  ") > 80] == []


def test_every_verb_is_listed() -> None:
    listed = hbtrace("--help").stdout.split("Verbs:\n")[1].split("\n\n")[0]
    entries = [line for line in listed.splitlines() if not line.startswith("   ")]  # others go on with a line above
    assert [line.split()[0] for line in entries] == list(cli.VERBS)


def test_every_verb_of_the_table_is_there() -> None:
    """The table has verbs of modules to come; none that is there may be missing."""
    assert list(cli.VERBS)[:3] == ["analyze", "info", "convert"]
    assert {"docs", "diff", "baseline", "selftest"} <= cli.VERBS.keys()


def test_version() -> None:
    from hbtrace import __version__
    from hbtrace.replay.kernels import described

    assert hbtrace("--version").stdout == f"hbtrace {__version__} ({described()})\n"
    done = hbtrace("--version", env={**os.environ, "HBTRACE_NATIVE": "0"})
    assert done.stdout == f"hbtrace {__version__} (Python kernel: HBTRACE_NATIVE is 0)\n"


def test_nothing_at_all_is_wrong_use_and_shows_the_help() -> None:
    done = hbtrace()
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == hbtrace("--help").stdout


# wrong use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("anlyze",), "no verb `anlyze`: did you mean `analyze`?"),
        (("frobnicate",), f"no verb `frobnicate`: the verbs are {', '.join(cli.VERBS)}"),
        (("pyproject.toml",), "did you mean `hbtrace analyze pyproject.toml`?"),
        (("analyze",), "missing argument 'TRACE...'"),
        (("analyze", "--tensr", "x", "y"), "no such option '--tensr'"),
        (("analyze", "x", "--format", "yaml"), "'yaml' is not one of"),
    ],
)
def test_wrong_use_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = hbtrace(*arguments)
    assert_one_sentence(done, 2)
    assert said in done.stderr


def test_a_trace_that_is_not_there() -> None:
    assert_one_sentence(hbtrace("analyze", "no/such.arrow"), 3)


# ends


def test_a_reader_that_went_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [*HBTRACE, "docs", "format"], cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, check=False, encoding="utf-8"
        )
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*HBTRACE, "analyze", SEED], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False, encoding="utf-8"
        )
    assert done.returncode == 2
    assert done.stderr == "hbtrace: standard output cannot be written: No space left on device\n"


def test_a_closed_standard_output_is_told() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m hbtrace analyze "$1" >&-', sys.executable, SEED],
        cwd=ROOT, capture_output=True, check=False, encoding="utf-8",
    )  # fmt: skip
    assert_one_sentence(done, 2)


def test_closed_standard_error_costs_no_result() -> None:
    command = ["sh", "-c", '"$0" -m hbtrace analyze "$1" "$1" 2>&-', sys.executable, SEED]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout.count(b"RACE (")) == (1, 2)


def left_in(pipe: IO[bytes]) -> int:
    """How many bytes nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_interrupt() -> None:
    with subprocess.Popen(
        [*HBTRACE, "analyze", "-"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"x")  # what it reads is never whole
        process.stdin.flush()
        while left_in(process.stdin):  # it is up once it has read this
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.wait()
        assert process.returncode == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"hbtrace: interrupted\n"


def test_a_name_that_is_no_text_is_no_fault(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(name)).write_bytes(SEED.with_name("src").joinpath("seed.jsonl").read_bytes())
    done = subprocess.run([*HBTRACE, "analyze", name, SEED], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"/\\udcff.jsonl" in done.stdout


class Faulty:
    """A verb that raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
        @click.command()
        def command() -> None:
            raise error

        monkeypatch.setattr(cli._Verbs, "get_command", lambda *_: command)

    def code(self) -> int:
        return cli.run(["docs"])


def test_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("HBTRACE_DEBUG", raising=False)
    assert Faulty(monkeypatch, KeyError("gone")).code() == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "hbtrace: this is a fault of hbtrace, not of your trace (HBTRACE_DEBUG=1 shows all of it)"
    assert lines[-2] == "KeyError: 'gone'"
    assert len(lines) <= 5


def test_a_fault_of_ours_in_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HBTRACE_DEBUG", "1")
    assert Faulty(monkeypatch, KeyError("gone")).code() == 70
    assert "Traceback (most recent call last):" in capsys.readouterr().err


def test_an_error_has_its_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert Faulty(monkeypatch, TraceError("run.arrow: is none")).code() == 3
    assert capsys.readouterr().err == "hbtrace: run.arrow: is none\n"


def test_a_verb_s_result_is_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli._Verbs, "get_command", lambda *_: click.Command("docs", callback=lambda: 4))
    assert cli.run(["docs"]) == 4


# shared options


def parsed(*arguments: str) -> dict[str, Any]:
    """What `filter_options` makes of arguments. Raises AssertionError with click's message."""
    got: dict[str, Any] = {}
    command = filter_options(click.command()(lambda **given: got.update(given)))
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, (done.exit_code, done.output)
    return got


def test_filters_are_tuples_and_empty_by_default() -> None:
    names = ("tensor", "buffer", "actor", "label", "kind", "ids", "split", "ubatch")
    assert parsed() == dict.fromkeys(names, ())


@pytest.mark.parametrize("key", ["split", "ubatch"])
@pytest.mark.parametrize(
    ("value", "span"), [("3", (3, 3)), ("2-5", (2, 5)), ("-1", (-1, -1)), ("-1-5", (-1, 5)), ("0-0", (0, 0))]
)
def test_spans(key: str, value: str, span: tuple[int, int]) -> None:
    assert parsed(f"--{key}", value)[key] == (span,)
    assert parsed(f"--{key}={value}")[key] == (span,)
    assert parsed(f"--{key}", value, f"--{key}", "7")[key] == (span, (7, 7))


@pytest.mark.parametrize("value", ["x", "", "5-2", "2--1", "1.5", "2-", "--1", "1-2-3", "9" * 30, "٣"])
def test_bad_spans(value: str) -> None:
    with pytest.raises(AssertionError, match=r"no number such as|ends before it begins"):
        parsed(f"--split={value}")


def test_kinds() -> None:
    given = parsed("--kind", "write-after-read", "--kind", "RAW", "--kind", "write-*")
    assert given["kind"] == ("write-after-read", "read-after-write", "write-after-write")


def test_a_mistyped_kind_is_told() -> None:
    with pytest.raises(AssertionError, match="'write-after-reed' is none of"):
        parsed("--kind", "write-after-reed")
