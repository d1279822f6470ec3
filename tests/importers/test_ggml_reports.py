"""RACE blocks: from logs, from pull requests, whole and in pieces; and telling logs apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sanitizer_model import program

from hbtrace.importers import GGML_REPORTS, GGML_TRACE, identify_foreign, sniff_foreign
from hbtrace.importers.ggml_sanitize import cross_check, reports
from hbtrace.importers.logged import LoggedReports

BLOCK = """\
ggml-sched-sanitize: RACE (write-after-read) on ROCm_Host[0, 2048)
ggml-sched-sanitize:   read  ROCm0#1      @14174 split 0    inp_tokens (compute)
ggml-sched-sanitize:   write HOST         @415  split -1   inp_tokens (tensor_set)
ggml-sched-sanitize:   no happens-before edge: HOST knows ROCm0#1@14173, needs >=14174
"""
VIEW = """\
ggml-sched-sanitize: RACE (read-after-write) on RPC[1.2.3.4:5][16, 32)
ggml-sched-sanitize:   write Vulkan0      @7    split 2    v (view) <- Vulkan0#l_out-3#1 (cpy_async dst)
ggml-sched-sanitize:   read  ROCm0        @3    split 1    q (compute)
ggml-sched-sanitize:   no happens-before edge: ROCm0 knows Vulkan0@0, needs >=7
"""


def read(text: str) -> LoggedReports:
    return reports(text.encode().splitlines(keepends=True))


def bare(text: str) -> str:
    return text.replace("ggml-sched-sanitize: ", "")


CLOTHES = {
    "as printed": lambda text: text,
    "without prefix": bare,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "time stamps": lambda text: "".join(f"2026-08-24T10:00:00Z E {line}\n" for line in text.splitlines()),
    "colours": lambda text: "".join(f"\x1b[31m{line}\x1b[0m\n" for line in text.splitlines()),
    "quoted": lambda text: "".join(f"> > {line}\n" for line in text.splitlines()),
    "fenced": lambda text: f"Here:\n```text\n{text}```\n",
    "ticks": lambda text: "".join(f"- `{line}`\n" for line in text.splitlines()),
    "indented": lambda text: "".join(f"\t    {bare(line)}\n" for line in text.splitlines()),
    "escaped": lambda text: text.replace(">=", "&gt;="),
    "between other output": lambda text: "".join(f"{line}\ngraph splits = 2\nread the docs (now)\n"
                                                 for line in text.splitlines()),
    "no final line ending": lambda text: text.rstrip("\n"),
}


@pytest.mark.parametrize("clothes", CLOTHES.values(), ids=CLOTHES.keys())
def test_blocks_in_all_clothes(clothes: object) -> None:
    first, second = read(clothes(BLOCK + VIEW))  # type: ignore[operator]
    assert first.complete
    assert second.complete
    assert (first.kind, first.buffer, first.lo, first.hi) == ("write-after-read", "ROCm_Host", 0, 2048)
    assert (first.knows, first.needs) == (14173, 14174)
    assert first.earlier is not None
    assert (first.earlier.mode, first.earlier.actor, first.earlier.clock) == ("read", "ROCm0#1", 14174)
    assert (first.earlier.split, first.earlier.tensor, first.earlier.label) == (0, "inp_tokens", "compute")
    assert second.buffer == "RPC[1.2.3.4:5]"
    assert second.earlier is not None
    assert (second.earlier.tensor, second.earlier.root) == ("v (view)", "Vulkan0#l_out-3#1")


def test_our_own_format_reads_back() -> None:
    text = """\
RACE (write-after-read) on ROCm_Host[0, 2048)
  read  ROCm0#2  @3  split 0   inp_tokens (compute)
  write HOST     @5  split -1  inp_tokens (tensor_set)
  no happens-before edge: HOST knows ROCm0#2@2, needs >=3
"""
    (report,) = read(text)
    assert report.complete
    assert report.line == 1


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_block_cut_at_the_end_is_counted(kept: int) -> None:
    cut = "".join(VIEW.splitlines(keepends=True)[:kept])
    found = read(BLOCK + cut)
    assert [report.complete for report in found] == [True, False]
    assert (found[1].kind, found[1].line) == ("read-after-write", 5)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_paste_that_begins_within_a_block(lost: int) -> None:
    found = read("".join(BLOCK.splitlines(keepends=True)[lost:]) + VIEW)
    assert [report.complete for report in found] == [False, True]


def test_a_block_cut_by_the_next() -> None:
    assert [report.complete for report in read("".join(BLOCK.splitlines(keepends=True)[:3]) + VIEW)] == [False, True]


def test_blocks_of_two_processes_mixed_are_not_believed() -> None:
    a, b = BLOCK.splitlines(keepends=True), VIEW.splitlines(keepends=True)
    assert not any(report.complete for report in read(a[0] + b[0] + a[1] + b[1] + a[2] + b[2] + a[3] + b[3]))


def test_what_the_log_says_about_itself() -> None:
    found = read(BLOCK + "ggml-sched-sanitize: 87 race(s) reported\n")
    assert found.announced == 87
    assert not found.aborted
    assert read(BLOCK + "/src/ggml.c:1: ggml-sched-sanitize: race detected\n").aborted


def race(clock: int = 415, lo: int = 0, hi: int = 2048, tensor: str = "inp_tokens") -> Any:
    """As a replay reports it."""
    earlier = SimpleNamespace(mode="read", actor="ROCm0#1", clock=14174, split=0, tensor=tensor, label="compute")
    current = SimpleNamespace(mode="write", actor="HOST", clock=clock, split=-1, tensor=tensor, label="tensor_set")
    return SimpleNamespace(kind="write-after-read", buffer="ROCm_Host", lo=lo, hi=hi, earlier=earlier, current=current)


def test_repeated_blocks_and_a_narrower_range_agree() -> None:
    assert cross_check(read(BLOCK + BLOCK), [race(lo=8, hi=16)]) == []


def test_every_difference_is_a_sentence() -> None:
    assert cross_check(read(BLOCK), []) == [
        "Only in the log: write-after-read on ROCm_Host[0, 2048), read ROCm0#1@14174 split 0 inp_tokens (compute) then "
        "write HOST@415 split -1 inp_tokens (tensor_set)."
    ]
    only, why = cross_check(read(BLOCK), [race(), race(tensor="mask"), race(416, tensor="mask")])
    assert only == (
        "Only in the replay: write-after-read on ROCm_Host[0, 2048), read ROCm0#1@14174 split 0 mask (compute) then "
        "write HOST@415 split -1 mask (tensor_set) (and 1 like it)."
    )
    assert "two buffers of one type" in why
    assert cross_check(read(BLOCK), [race(99)]) == [
        "1 pair of accesses agree in all but the clocks: accesses to weights tick in the sanitizer and print no line."
    ]
    (ranged,) = cross_check(read(BLOCK), [race(hi=4096)])
    assert ranged.startswith("Another range: the replay finds [0, 4096), the log printed [0, 2048) for ")
    assert cross_check(read(""), [race()])[0].startswith("The replay finds 1 pair and the log holds no RACE block")


def test_cut_blocks_the_count_at_exit_and_an_abort() -> None:
    cut = "".join(VIEW.splitlines(keepends=True)[:2])
    assert cross_check(read(BLOCK + cut + "ggml-sched-sanitize: 3 race(s) reported\n"), [race()]) == [
        "1 block of the log could not be compared: cut off or without a first line.",
        "The log counts 3 reports at its end and holds 1.",
    ]
    second = race(hi=8)
    second.earlier = SimpleNamespace(mode="read", actor="A", clock=1, split=0, tensor="z", label="compute")
    said = cross_check(read(BLOCK + "x: ggml-sched-sanitize: race detected\n"), [race(), second])
    assert said == ["1 further pair of the access at which the run aborted: the sanitizer stops at the first."]


LEVEL2 = b"san [split  -1 -         ] ROCm0      EDGE  synchronize -> HOST\n"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (LEVEL2, GGML_TRACE),
        (b"build: 1234\r\n0.00.1 D " + LEVEL2, GGML_TRACE),
        (BLOCK.encode() + LEVEL2, GGML_TRACE),
        (("\ufeff" + LEVEL2.decode()).encode("utf-16-le"), GGML_TRACE),
        (BLOCK.encode(), GGML_REPORTS),
        (bare(BLOCK).encode(), GGML_REPORTS),
        (("# A pull request\n\n> " + VIEW.replace("\n", "\n> ")).encode(), GGML_REPORTS),
        (b"", None),
        (b"hello\nworld\n", None),
        (b"san [split\n", None),
        (b'GGML_LOG_DEBUG("san [split %3d %-10s] %-10s %-5s %s[%zu+%zu] %s (%s)\\n",\n', None),
        (b"ggml-sched-sanitize: 0 race(s) reported\n", GGML_REPORTS),
        (b"x.c:1: ggml-sched-sanitize: race detected\n", GGML_REPORTS),
        (b"the doc says: N race(s) reported at exit\n", None),
        (BLOCK.encode().splitlines(keepends=True)[0], None),
        (b'{"ev": "meta", "notes": "' + LEVEL2.strip() + b'"}\n', None),
        (b"\xef\xbb\xbf" + b'{"ev": "note", "what": "' + LEVEL2.strip() + b'"}\n', None),
        (b"ARROW1\0\0" + LEVEL2, None),
        (b"\xff\xff\xff\xff\x10\0\0\0" + LEVEL2, None),
        (b"WARNING: DATA RACE\nRead at 0x00c by goroutine 7:\n", None),
    ],
)
def test_content_tells_what_a_log_is(content: bytes, kind: str | None) -> None:
    assert sniff_foreign(content) == kind


def test_a_log_that_begins_with_pages_of_other_output() -> None:
    pages = [b"llama_model_loader: tensor\n"] * 50_000
    assert identify_foreign([*pages, LEVEL2]) == GGML_TRACE
    assert identify_foreign([*pages, *BLOCK.encode().splitlines(keepends=True)]) == GGML_REPORTS
    assert identify_foreign(pages) is None


@pytest.mark.parametrize("seed", range(10))
def test_a_log_is_a_trace_and_its_blocks_alone_are_reports(seed: int) -> None:
    log = program(seed).log()
    assert sniff_foreign(b"".join(log)) == GGML_TRACE
    assert sniff_foreign(b"".join(line for line in log if b"san [" not in line)) == GGML_REPORTS
