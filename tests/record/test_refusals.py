"""What cannot be recorded is refused in one sentence with a way out: 125, or 127 for a program that is not there."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hbtrace.record import RecordError
from hbtrace.record.program import check_program, read_elf, wants_ggml
from tests.record.engine import NATIVE, build
from tests.record.runs import HANG, Recorder, hbtrace, start_hbtrace


def _refused(*arguments: str | Path, status: int = 125, **options: object) -> str:
    """The one sentence."""
    done = hbtrace("record", *arguments, **options)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "compiling the recorder library" not in line]
    assert len(lines) == 1
    return lines[0].removeprefix("hbtrace: ")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "run.arrow"


def _compiled(folder: Path, source: str, *flags: str) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    program = folder / "program"
    done = subprocess.run(
        [compiler, "-x", "c++", "-", "-o", program, *flags], input=source, text=True, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"does not link here: {done.stderr.splitlines()[-1]}")
    return program


def test_missing_program(output: Path) -> None:
    assert _refused("-o", output, "--", "no-such-program", status=127) == "no-such-program: program not found"


def test_folder_and_file_that_cannot_be_run(output: Path, tmp_path: Path) -> None:
    assert _refused("-o", output, "--", tmp_path) == f"{tmp_path} is a folder, not a program"
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert "is not executable: chmod +x it" in _refused("-o", output, "--", plain)
    plain.chmod(0o755)
    assert "neither an ELF file nor a script with a #! line" in _refused("-o", output, "--", plain)


def test_static_program(output: Path, tmp_path: Path) -> None:
    program = _compiled(tmp_path, "int main() {}", "-static")
    assert _refused("-o", output, "--", program).endswith("is statically linked, so that no library can be loaded: "
                                                          "build it without -static")


def test_ggml_linked_into_the_program(output: Path, tmp_path: Path) -> None:
    source = 'extern "C" int ggml_backend_sched_graph_compute_async(void *, void *) { return 0; }\nint main() {}'
    program = _compiled(tmp_path, source)
    assert "its calls cannot be interposed: build llama.cpp with BUILD_SHARED_LIBS=ON" in _refused(
        "-o", output, "--", program
    )
    subprocess.run(["strip", program], check=True)
    hidden = _compiled(tmp_path, 'const char * text = "ggml_backend";\nint main() { return text == nullptr; }')
    assert "has ggml linked into it" in _refused("-o", output, "--", hidden)


def test_a_program_that_ends_before_it_uses_ggml(output: Path, tmp_path: Path) -> None:
    library = _compiled(tmp_path, 'extern "C" void ggml_free(void *) {}', "-shared", "-fPIC")
    library = library.rename(tmp_path / "libggml-none.so")
    source = 'extern "C" void ggml_free(void *);\nint main(int n, char **) { if (n > 1) ggml_free(nullptr); }'
    program = _compiled(tmp_path, source, f"-Wl,--no-as-needed,-rpath,{tmp_path}", f"-L{tmp_path}", "-lggml-none")
    assert _refused("-o", output, "--", program).endswith("ended before it used a device; see what it says itself")
    assert wants_ggml(program)
    assert not wants_ggml(library)
    assert not wants_ggml(Path("/bin/true"))
    assert not wants_ggml(tmp_path / "none")


def test_no_ggml_in_it(output: Path) -> None:
    assert _refused("-o", output, "--", "true").startswith("nothing was recorded: true never called ggml through a")
    assert not output.exists()


def test_a_failure_of_its_own_is_passed_on(output: Path) -> None:
    done = hbtrace("record", "-o", output, "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert "it ended with 7" in done.stderr


def test_another_users_rights(output: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    program.chmod(0o755 | stat.S_ISUID)
    assert "runs with another user's rights" in _refused("-o", output, "--", program)


def _elf(machine: int, interpreter: bytes = b"/lib/ld-linux.so.2", kind: int = 2) -> bytes:
    """The head of a program, with one entry that names its interpreter."""
    head = b"\x7fELF" + bytes([kind, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(interpreter), 0, 1) + interpreter


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_elf(183 if os.uname().machine == "x86_64" else 62), "64-bit program for"),
        (_elf(3, kind=1), "is a 32-bit program for x86"),
        (_elf(62 if os.uname().machine == "x86_64" else 183, b"/lib/ld-musl-x86_64.so.1"), "is built for musl"),
    ],
    ids=["architecture", "bits", "musl"],
)
def test_programs_for_other_systems(output: Path, tmp_path: Path, content: bytes, reason: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    assert reason in _refused("-o", output, "--", program)


def test_a_scripts_interpreter_is_what_counts(output: Path, tmp_path: Path) -> None:
    static = _compiled(tmp_path, "int main() {}", "-static")
    script = tmp_path / "script"
    script.write_text(f"#!{static}\n")
    script.chmod(0o755)
    assert f"{static} is statically linked" in _refused("-o", output, "--", script)
    script.write_text("#!/nowhere/interpreter\n")
    assert "its interpreter /nowhere/interpreter is not found" in _refused("-o", output, "--", script)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("#!/bin/sh -e 'x", None),  # one argument, a quote and all
        ("#! \t/bin/sh\t-e", None),
        ("#!/usr/bin/env sh", None),
        ("#!/usr/bin/env -S -u FOO sh", None),
        ("#!/usr/bin/env FOO=1 no-such-program", None),  # env's own affair
        ("#!/usr/bin/env no-such-program", "its interpreter no-such-program is not found"),
        ("#!", "is neither an ELF file nor a script"),
    ],
)
def test_a_first_line_is_read_as_the_kernel_does(tmp_path: Path, first: str, reason: str | None) -> None:
    script = tmp_path / "script"
    script.write_text(f"{first}\n")
    script.chmod(0o755)
    if reason is None:
        assert check_program(str(script)).name
    else:
        with pytest.raises(RecordError, match=reason):
            check_program(str(script))


def test_existing_output(output: Path) -> None:
    output.write_text("kept")
    assert _refused("-o", output, "--", "true") == f"{output} exists; give -f to overwrite it"
    assert output.read_text() == "kept"
    second = output.with_name("many.2.arrow")
    second.write_text("kept")
    assert _refused("-o", output.with_name("many.arrow"), "--", "true") == f"{second} exists; give -f to overwrite it"
    spool = output.with_name("other.arrow.spool.1.jsonl")
    spool.write_text("kept")
    assert "a crash left it" in _refused("-o", output.with_name("other.arrow"), "--", "true")
    assert spool.read_text() == "kept"


def test_output_that_cannot_be(output: Path, tmp_path: Path) -> None:
    assert "name it .arrow" in _refused("-o", tmp_path / "run.txt", "--", "true")
    assert "its folder does not exist" in _refused("-o", tmp_path / "no" / "run.arrow", "--", "true")


def test_no_compiler(output: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HBTRACE_CACHE": str(tmp_path / "cache"), "PATH": str(tmp_path), "CXX": ""}
    assert "no C++ compiler is found" in _refused("-o", output, "--", "/bin/true", env=environment)
    environment["CXX"] = "no-such-compiler"
    assert "CXX is no-such-compiler, which is not found" in _refused("-o", output, "--", "/bin/true", env=environment)
    environment["CXX"] = "/bin/false"
    assert "does not compile" in _refused("-o", output, "--", "/bin/true", env=environment)


def test_a_signal_ends_the_compilers_and_leaves_nothing(output: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "slow"
    compiler.write_text(f"#!/bin/sh\n[ $1 = --version ] && exit\nsleep 30 & echo $! >> {tmp_path}/pids; wait\n")
    compiler.chmod(0o755)
    environment = {**os.environ, "HBTRACE_CACHE": str(tmp_path / "cache"), "CXX": str(compiler)}
    process = start_hbtrace("record", "-o", output, "--", "true", env=environment, stderr=subprocess.DEVNULL)
    _until((tmp_path / "pids").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(HANG) == 128 + signal.SIGTERM
    for pid in (tmp_path / "pids").read_text().split():
        _until(lambda pid=pid: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
    assert list((tmp_path / "cache").iterdir()) == []


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_cache_that_the_loader_cannot_name(output: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HBTRACE_CACHE": str(tmp_path / "with blank")}
    assert "has a blank or a colon in it" in _refused("-o", output, "--", "true", env=environment)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--ubatches", "5-2"), ("--ubatches", "x"), ("--max-size", "0"), ("--max-size", "big"),
     ("--max-size", "15K"), ("--copies", "CUDA=up")],
)
def test_wrong_options(output: Path, option: str, value: str) -> None:
    done = hbtrace("record", "-o", output, option, value, "--", "true")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_build_that_the_probe_does_not_understand(output: Path) -> None:
    library = build([NATIVE / "strange_ggml.cpp"], "-shared", "-fPIC", name="libggml-strange.so")
    program = build([NATIVE / "strange_program.cpp"], str(library), f"-Wl,-rpath,{library.parent}", name="strange")
    done = hbtrace("record", "-o", output, "--", program)
    assert done.stdout == "done\n"
    assert done.returncode == 125
    assert "this build of ggml is not understood, the probe did not find the type of a tensor" in done.stderr


def test_damaged_headers_are_no_programs(tmp_path: Path) -> None:
    whole = Path("/bin/true").read_bytes()
    for length in range(0, 200, 7):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        with path.open("rb") as stream:
            elf = read_elf(stream)
        assert elf is None or elf.interpreter is None or elf.bits == 64


def test_a_folder_that_the_program_moves_away_leaves_it_its_status(tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    folder.mkdir()
    done = hbtrace("record", "-o", folder / "run.arrow", "--", "sh", "-c", f"mv {folder} {folder}.away; exit 5")
    assert done.returncode == 5, done.stderr
    assert "nothing was recorded: sh never called ggml" in done.stderr


def test_a_spool_that_cannot_be_opened_is_told_by_the_process(recorder: Recorder) -> None:
    # As where the program runs as another user. Here its folder is gone by then.
    folder = recorder.folder / "gone"
    folder.mkdir()
    script = f"mv {folder} {folder}.away; exec {recorder.driver}"
    environment = recorder.environment({"LAYERS": "0", "PLUGIN": ""})
    done = hbtrace("record", "-o", folder / "run.arrow", "--", "sh", "-c", script, env=environment)
    assert f"hbtrace: this process is not recorded: {folder}/run.arrow.spool." in done.stderr
    assert ".jsonl: No such file or directory\n" in done.stderr
    assert done.stdout.strip() == recorder.plain()
