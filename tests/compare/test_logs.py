"""Logs as people have them: from a pipe, wrapped, packed, of reports alone; and files that are none."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
import time

import pyarrow as pa
import pytest

BLOCK = """\
ggml-sched-sanitize: RACE (write-after-read) on ROCm_Host[0, 2048)
ggml-sched-sanitize:   read  ROCm0#1      @14174 split 0    inp_tokens (compute)
ggml-sched-sanitize:   write HOST         @415  split -1   inp_tokens (tensor_set)
ggml-sched-sanitize:   no happens-before edge: HOST knows ROCm0#1@14173, needs >=14174
"""
TEXT = """\
RACE (write-after-read) on ROCm_Host[0, 2048)
  read  ROCm0#1  @14174  split 0   inp_tokens (compute)
  write HOST     @415    split -1  inp_tokens (tensor_set)
  no happens-before edge: HOST knows ROCm0#1@14173, needs >=14174
"""
TIME = "2026-08-10T17:28:17.000000001Z"
WRAPPED = {
    "bare": lambda line: line,
    "docker": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": TIME}),
    "journald json": lambda line: json.dumps({"MESSAGE": line, "_PID": "1", "PRIORITY": "6"}),
    "journald bytes": lambda line: json.dumps({"MESSAGE": list(line.encode()), "_PID": "1"}),
    "journald short": lambda line: f"Aug 10 17:28:17 box llama[123]: {line}",
    "actions": lambda line: f"{TIME} {line}",
    "CRI": lambda line: f"{TIME} stderr F {line}",
}


def wrapped(how: str) -> bytes:
    return "".join(WRAPPED[how](line) + "\n" for line in BLOCK.splitlines()).encode()


PACKED = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("pack", PACKED)
def test_a_log_is_read_as_people_have_it(hbtrace, tmp_path, how, pack):
    log = tmp_path / "run.log"
    log.write_bytes(PACKED[pack](wrapped(how)))
    code, out, _ = hbtrace("analyze", log)
    assert (code, out.startswith(TEXT + "\n1 report, 1 distinct race")) == (1, True), out


@pytest.mark.parametrize("pack", PACKED)
def test_from_a_pipe(pack):
    done = subprocess.run(
        [sys.executable, "-m", "hbtrace", "analyze", "-"],
        input=PACKED[pack](wrapped("docker")), capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.decode().startswith(TEXT)) == (1, True), done.stderr


def test_packed_data_is_bounded_and_damage_is_a_sentence(hbtrace, tmp_path):
    whole = gzip.compress(b"x" * 100_000)
    for data in (whole[:-4], gzip.compress(b"\n" * (120 << 20))):
        (tmp_path / "x.log.gz").write_bytes(data)
        code, _, err = hbtrace("analyze", tmp_path / "x.log.gz")
        assert (code, err.count("\n")) == (3, 1), err
        assert "gzip data" in err


def test_a_log_of_reports_is_judged_as_one(hbtrace, tmp_path):
    zero, racy, three = tmp_path / "zero.log", tmp_path / "racy.log", tmp_path / "three.log"
    zero.write_text("ggml-sched-sanitize: 0 race(s) reported\n")
    racy.write_text(BLOCK)
    three.write_text("ggml-sched-sanitize: 3 race(s) reported\n")
    code, out, _ = hbtrace("analyze", zero)
    assert (code, "a log of reports of the ggml scheduler sanitizer" in out) == (0, True)
    assert hbtrace("analyze", three)[0] == 3
    assert hbtrace("diff", zero, racy)[0] == 1
    code, out, _ = hbtrace("diff", racy, zero, "--format", "json")
    assert (code, len(json.loads(out)["not_exercised"]), json.loads(out)["fixed"]) == (0, 1, [])
    known = tmp_path / "known.toml"
    assert hbtrace("baseline", "write", racy, "-o", known)[0] == 0
    assert hbtrace("baseline", "check", known, racy)[0] == 0
    for verb in (["explain", racy, "R-4ea695"], ["whatif", racy, "--fix"], ["info", racy], ["check", racy]):
        assert hbtrace(*verb)[0] == 3, verb
    code, out, _ = hbtrace("triage", racy, "--format", "json")
    assert (code, json.loads(out)["causes"][0]["nature"]) == (1, "input")


def pasted(buffer: str, span: str, queue: str, split: int, earlier: str, current: str) -> str:
    """A block as people paste it into pull requests."""
    return (
        f"ggml-sched-sanitize: RACE (write-after-read) on {buffer}{span}\n"
        f"ggml-sched-sanitize:   read  {queue:<12} @7    split {split}    {earlier} (cpy_async src)\n"
        f"ggml-sched-sanitize:   write CPU          @2    split {split + 1}    {current} (compute)\n"
        f"ggml-sched-sanitize:   no happens-before edge: CPU knows {queue}@3, needs >=7\n"
    )


@pytest.mark.parametrize(
    "facts",
    [
        ("Vulkan_Host", "[278941760, 279064640)", "Vulkan0#1", 1, "model.input_embed", "conv_states-0"),
        ("CUDA_Host", "[0, 9223372036854775807)", "CUDA1", 0, "a (view)", "b (view) (view)"),
        ("Host Visible", "[64, 65)", "Metal 0#12", 13, "x <- y", "z"),
    ],
    ids=lambda facts: facts[0],
)
def test_a_paste_loses_nothing_of_its_four_lines(hbtrace, tmp_path, facts):
    """Range, split, number of the queue and missing edge are in the text and in the JSON."""
    (tmp_path / "paste.log").write_text(pasted(*facts))
    buffer, span, queue, split, earlier, current = facts
    code, out, _ = hbtrace("analyze", tmp_path / "paste.log")
    lines = [" ".join(line.split()) for line in out.splitlines()[:4]]
    assert (code, lines) == (1, [
        f"RACE (write-after-read) on {buffer}{span}",
        f"read {queue} @7 split {split} {earlier} (cpy_async src)",
        f"write CPU @2 split {split + 1} {current} (compute)",
        f"no happens-before edge: CPU knows {queue}@3, needs >=7",
    ])  # fmt: skip
    (report,) = json.loads(hbtrace("analyze", tmp_path / "paste.log", "--format", "json")[1])["reports"]
    assert [report["lo"], report["hi"]] == [int(edge) for edge in span[1:-1].split(", ")]
    assert (report["earlier"]["split"], report["earlier"]["actor"]) == (split, queue)
    assert (report["knows"], report["needs"]) == (3, 7)


WRONG = {
    "the PyTorch profiler": b'{\n  "schemaVersion": 1,\n  "traceEvents": [\n',
    "what GGML_SCHED_DEBUG prints": b"## SPLIT #0: CPU # 0 inputs\n",
    "without a line of the sanitizer": b"load_backend: loaded ROCm backend\n",
    "a SQLite database": b"SQLite format 3\0" + bytes(100),
    "a model (GGUF)": b"GGUF" + bytes(100),
    "lines were broken": BLOCK.replace("[0, 2048)", "[0,\n 2048)").replace("(", "\n(").encode(),
    "compute-sanitizer": b"========= COMPUTE-SANITIZER\n",
    "ThreadSanitizer": b"WARNING: ThreadSanitizer: data race (pid=1)\n",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_gets_the_next_step(hbtrace, tmp_path, what):
    (tmp_path / "file").write_bytes(WRONG[what])
    code, _, err = hbtrace("analyze", tmp_path / "file")
    assert (code, what in err, err.count("\n")) == (3, True, 1), err


HOSTILE = {
    "read": "san [split  0 A ] " + "a read " * 500,
    "blanks": "san [split  0 A ] A" + " " * 3900 + "read",
    "brackets": "san [split  0 A ] A read B" + "[1+1]" * 700,
    "side": "ggml-sched-sanitize: " + "read a " * 130 + "@1 split",
    "head": "RACE (write-after-read) on " * 37,
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_the_parser_is_linear_in_the_line(shape):
    """300 such lines; one took seconds when expressions went back. The bound is no measure, it ends a hang."""
    from hbtrace.importers.ggml_sanitize import identify

    begun = time.process_time()
    assert identify([HOSTILE[shape].encode() + b"\n"] * 300) is None
    assert time.process_time() - begun < 20
