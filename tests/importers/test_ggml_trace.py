"""Level-2 logs as traces: what becomes of each line, and that a replay agrees with the log's own reports."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sanitizer_model import Sanitizer, Tensor, program

from hbtrace.cli import run
from hbtrace.errors import TraceError
from hbtrace.importers import GGML_REPORTS, GGML_TRACE, LogFile, cut_bytes, foreign_events, ggml_sanitize
from hbtrace.importers.ggml_lines import Unread, records
from hbtrace.importers.source import open_source
from hbtrace.replay.session import analyze_events
from hbtrace.trace import vocabulary
from tests.oracle import oracle

ROOT = Path(__file__).resolve().parents[2]
HEAD = "san [split  -1 -         ] "


def made(*lines: str) -> list[dict[str, Any]]:
    rows = list(ggml_sanitize.events([line.encode() + b"\n" for line in lines]))
    for row in rows:
        event = vocabulary.EVENTS[row["ev"]]
        known = event.keys | vocabulary.COMMON
        assert not set(row) - {"ev"} - set(known), row
        assert all(key in row for key in event.needs), row
    return rows


def only(rows: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["ev"] in kinds]


def replay(rows: Iterable[dict[str, Any]]) -> list[oracle.Report]:
    """What the oracle reports. Nothing that becomes of a log is odd: no range is cut, no id undefined."""
    found = oracle.analyze(rows)
    assert not found.warnings
    return found.reports


def differences(log: list[bytes], rows: list[dict[str, Any]] | None = None) -> list[str]:
    rows = list(ggml_sanitize.events(log)) if rows is None else rows
    return ggml_sanitize.cross_check(ggml_sanitize.reports(log), replay(rows))


def test_the_seed_s_race() -> None:
    san, tokens = Sanitizer(), Tensor("inp_tokens", "ROCm_Host", 0, 2048)
    for n in range(2):
        san.access("HOST", tokens, "write", "tensor_set")
        san.split, san.split_actor = 0, "ROCm0#1"
        san.compute("ROCm0#1", [([tokens], Tensor(f"embd{n}", "ROCm0", 0, 64))])
        san.split, san.split_actor = -1, "-"
    log = san.log()
    rows = list(ggml_sanitize.events(log))
    (race,) = replay(rows)
    assert (race.kind, race.buffer, race.lo, race.hi) == ("write-after-read", "ROCm_Host", 0, 2048)
    assert (race.earlier.actor, race.earlier.split, race.current.label) == ("ROCm0#1", 0, "tensor_set")
    assert differences(log) == []


def test_definitions_come_first_and_number_backends_as_the_log_does() -> None:
    sync, compute = "ROCm0#2    EDGE  synchronize -> HOST", "CPU        compute       1 nodes, r=0 w=0 ranges"
    rows = made(HEAD + sync, HEAD + compute)
    assert rows[0]["ev"] == "meta"
    assert "Taken to be synchronous by name: CPU." in rows[0]["notes"]
    assert [(row["name"], row.get("synchronous", False)) for row in only(rows, "backend")] == [
        ("ROCm0", False), ("ROCm0", False), ("ROCm0", False), ("CPU", True),
    ]
    assert only(rows, "synchronize") == [{"ev": "synchronize", "backend": 2}]


def test_a_buffer_holds_every_range() -> None:
    rows = made(HEAD + "HOST       write CPU[96+32] a (tensor_set)", HEAD + "HOST       read  CPU[0+8] b (tensor_get)")
    assert only(rows, "buffer") == [{"ev": "buffer", "id": 0, "name": "CPU", "size": 128, "host": True}]
    assert [row["label"] for row in only(rows, "host_access")] == ["tensor_set", "tensor_get"]


def test_a_transfer_within_a_tensor_does_not_move_it() -> None:
    rows = made(
        HEAD + "HOST       write CPU[64+32] a (tensor_set)",
        HEAD + "HOST       write CPU[72+8] a (tensor_set)",
        HEAD + "HOST       write CPU[0+32] a (tensor_set)",
    )
    assert [row["offset"] for row in only(rows, "tensor")] == [64, 0]
    assert only(rows, "host_access")[1]["writes"] == [{"tensor": 0, "offset": 8, "size": 8}]


def test_a_name_at_two_places_in_one_graph_has_two_ids() -> None:
    rows = made(
        HEAD + "A          read  A[0+8] x (compute)",
        HEAD + "A          write A[8+8] x (compute)",
        HEAD + "A          compute       1 nodes, r=1 w=1 ranges",
    )
    assert [(row["id"], row["offset"]) for row in only(rows, "tensor")] == [(0, 0), (1, 8)]


def test_a_graph_keeps_the_order_of_its_nodes_and_is_defined_once() -> None:
    lines = [
        HEAD + "A          write A[0+8] x (compute)",
        HEAD + "A          read  A[0+8] x (compute)",
        HEAD + "A          write A[8+8] y (compute)",
        HEAD + "A          compute       4 nodes, r=1 w=2 ranges",
    ]
    rows = made(*lines, *lines)
    (graph,) = only(rows, "graph")
    x, y = {"tensor": 0}, {"tensor": 1}
    assert graph["nodes"] == [{"tensor": 0, "reads": [], "writes": [x]}, {"tensor": 1, "reads": [x], "writes": [y]}]
    assert [row["graph"] for row in only(rows, "compute")] == [0, 0]


def test_a_compute_of_weights_alone_still_ticks() -> None:
    assert only(made(HEAD + "A          compute       3 nodes, r=0 w=0 ranges"), "compute", "note") == [
        {"ev": "compute", "backend": 0, "graph": 0}
    ]


def test_missing_lines_are_noted() -> None:
    rows = made(HEAD + "A          write A[0+8] x (compute)", HEAD + "A          compute       3 nodes, r=4 w=1 ranges")
    (note,) = only(rows, "note")
    assert note["what"] == "log_lines_missing"
    assert note["attrs"] == {"actor": "A", "said": [4, 1], "found": [0, 1]}


@pytest.mark.parametrize(
    "damaged",
    ["HOST garbled line", "ROCm0 read  A[0+2048 x (compute)", "A          EDGE  synchro", "read a " * 200],
)
def test_a_damaged_line_is_a_row_that_every_verb_counts(
    damaged: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was left out without a word: "no race", of accesses that nobody could read."""
    log = tmp_path / "run.log"
    lines = ("A          write A[0+8] x (compute)", damaged, "A          EDGE  synchronize -> HOST")
    log.write_text("".join(f"{HEAD}{line}\n" for line in lines))
    for verb in ("analyze", "check", "triage"):
        assert run([verb, str(log)]) == 0
        said = capsys.readouterr()
        assert "warning: 1 row skipped" in said.err
        assert "unknown event `damaged_line`" in said.err
        assert verb == "triage" or "not-exercised: 1 row was skipped" in said.out.replace("\n  1 row", ": 1 row")
    assert run(["analyze", "--strict", str(log)]) == 3


def test_lines_that_are_missing_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    lines = ["A          write A[0+8] x (compute)", "A          compute       3 nodes, r=4 w=1 ranges"]
    for said, times in (("1 compute", 1), ("2 computes", 2)):
        log.write_text("".join(f"{HEAD}{line}\n" for line in lines * times))
        assert run(["analyze", str(log)]) == 0
        assert f"warning: lines are missing in this log: {said} with other accesses than" in capsys.readouterr().err


def test_a_compute_without_its_last_line_is_kept() -> None:
    rows = made(HEAD + "A          write A[0+8] x (compute)", HEAD + "A          EDGE  synchronize -> HOST")
    assert [row["ev"] for row in rows[-2:]] == ["compute", "synchronize"]
    rows = made(HEAD + "A          write A[0+8] x (compute)", HEAD + "B          write A[8+8] y (compute)")
    assert [row["backend"] for row in only(rows, "compute")] == [0, 1]


def copied(src: str, reader: str, *, summary: bool = True) -> list[dict[str, Any]]:
    lines = [
        HEAD + f"{reader:<10} read  {src}[0+8] x (cpy_async src)",
        HEAD + "B          write B[0+8] B#x#0 (cpy_async dst)",
    ]
    return only(made(*lines, *[HEAD + f"B          cpy_async     x@{reader} -> B#x#0"] * summary), "copy_async")


def test_a_copy_on_two_queues_runs_on_both() -> None:
    (copy,) = copied("A", "A")
    assert copy == {
        "ev": "copy_async", "backend": 1, "src_backend": 0, "runs_on": "both", "label": "cpy_async",
        "src": {"tensor": 0}, "dst": {"tensor": 1},
    }
    assert copied("A", "A", summary=False) == [copy]


def test_a_copy_out_of_host_memory_is_one_epoch_of_the_destination() -> None:
    (copy,) = copied("ROCm_Host", "B")
    assert copy["runs_on"] == "dst"
    assert "src_backend" not in copy


def test_a_copy_out_of_host_memory_follows_who_wrote_it() -> None:
    rows = made(
        HEAD + "A          write A_Host[0+8] x (compute)",
        HEAD + "A          compute       1 nodes, r=0 w=1 ranges",
        HEAD + "B          read  A_Host[0+8] x (cpy_async src)",
        HEAD + "B          write B[0+8] B#x#0 (cpy_async dst)",
        HEAD + "B          cpy_async     x@B -> B#x#0",
    )
    assert only(rows, "copy_async")[0]["src_backend"] == 0
    assert replay(rows) == []


def test_a_copy_of_weights_orders_all_the_same() -> None:
    rows = made(
        HEAD + "B          write B[0+8] B#x#0 (cpy_async dst)",
        HEAD + "B          cpy_async     x@A -> B#x#0",
        HEAD + "B          cpy_async     y@A -> B#y#0",
    )
    first, second = only(rows, "copy_async")
    nothing = {"buffer": 1, "offset": 0, "size": 0}
    assert (first["src"], first["dst"]) == (nothing, {"tensor": 0})
    assert (second["src"], second["dst"]) == (nothing, nothing)
    assert only(rows, "buffer")[-1] == {"ev": "buffer", "id": 1, "name": "(untracked)", "size": 0}


def test_half_a_copy_at_the_end_of_a_log() -> None:
    rows = made(HEAD + "A          read  A[0+8] x (cpy_async src)")
    assert only(rows, "kernel") == [{"ev": "kernel", "backend": 0, "label": "cpy_async src", "reads": [{"tensor": 0}]}]


def test_edges_and_markers() -> None:
    rows = made(
        "san [split   1 A         ] A          split         0 inputs (no sync path)",
        "san [split   1 A         ] A          EDGE  event_record  ev=4",
        HEAD + "A          EDGE  event_wait    ev=5",
        HEAD + "HOST       EDGE  event_sync    ev=4",
    )
    assert rows[-4:] == [
        {"ev": "note", "what": "split_without_inputs", "attrs": {"actor": "A"}, "split": 1},
        {"ev": "event_record", "backend": 0, "event": 4, "split": 1},
        {"ev": "event_wait", "backend": 0, "event": 5},
        {"ev": "event_synchronize", "event": 4},
    ]


def test_an_event_or_a_race_says_more_than_a_name() -> None:
    def synchronous(*lines: str) -> bool:
        return only(made(*lines), "backend")[0].get("synchronous", False)

    assert synchronous(HEAD + "BLAS       compute       1 nodes, r=0 w=0 ranges")
    assert synchronous(HEAD + "CPU#1      EDGE  synchronize -> HOST")  # PR #26167 prints it for every backend
    assert not synchronous(HEAD + "BLAS       EDGE  event_record  ev=0")
    assert not synchronous(HEAD + "NPU0       compute       1 nodes, r=0 w=0 ranges")
    race = Sanitizer()
    race.access("BLAS2", Tensor("x", "CPU", 0, 8), "write", "set_async")
    race.access("HOST", Tensor("x", "CPU", 0, 8), "write", "tensor_set")
    assert not synchronous(*race.lines)


def test_roots_are_learnt_from_the_reports() -> None:
    san = Sanitizer()
    san.access("A", Tensor("x (view)", "A", 8, 8, root="x"), "write", "set_async")
    san.access("HOST", Tensor("x", "A", 0, 64), "write", "tensor_set")
    (race,) = replay(ggml_sanitize.events(san.log()))
    assert (race.earlier.tensor, race.earlier.root, race.current.root) == ("x (view)", "x", "x")


def test_no_level_2_line_is_no_trace() -> None:
    with pytest.raises(TraceError, match="no level-2 line"):
        list(ggml_sanitize.events([b"hello\n"]))
    with pytest.raises(TraceError, match="cannot become a trace"):
        foreign_events(GGML_REPORTS, [], [])


@pytest.mark.parametrize("seed", range(150))
def test_a_replay_reports_what_the_log_reports(seed: int) -> None:
    san = program(seed, sweep_prints_synchronous=bool(seed % 2), roots=bool(seed % 3))
    log = san.log()
    assert len(ggml_sanitize.reports(log)) == san.blocks
    assert differences(log) == []


@pytest.mark.parametrize("seed", range(150))
def test_the_engine_reports_what_the_log_reports(seed: int) -> None:
    log = program(seed, sweep_prints_synchronous=bool(seed % 2), roots=bool(seed % 3)).log()
    found = analyze_events(list(ggml_sanitize.events(log))).reports
    assert ggml_sanitize.cross_check(ggml_sanitize.reports(log), found) == []


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_log_is_still_a_trace(seed: int) -> None:
    """Lines lost, cut and run together: whatever comes out can be replayed, and no byte is an exception."""
    rng, log = random.Random(seed), program(seed).log()
    for _ in range(20):
        at = rng.randrange(len(log))
        cut = log[at][: rng.randrange(len(log[at]) + 1)]
        log[at] = rng.choice([b"", cut, log[at].rstrip() + b"\xff\0", b"san [split"])
    text = b"".join(log)[: -rng.randrange(1, 200)].splitlines(keepends=True)
    rows = list(ggml_sanitize.events(text))
    damaged = sum(isinstance(record, Unread) for line in text for record in records(line))
    assert len(only(rows, "damaged_line")) == damaged
    differences(text, [row for row in rows if row["ev"] != "damaged_line"])
    assert ggml_sanitize.reports(text).lines == len(text)


def test_the_comparison_saw_races() -> None:
    assert sum(program(seed).blocks for seed in range(20)) > 200


@pytest.mark.parametrize("seed", range(40))
def test_hidden_accesses_shift_clocks_and_nothing_else(seed: int) -> None:
    said = differences(program(seed, hidden=True).log())
    assert all("agree in all but the clocks" in sentence for sentence in said)


def test_an_edge_that_is_taken_out_is_seen() -> None:
    """The positive twin: the cross-check is not blind."""
    seen = 0
    for seed in range(30):
        log = program(seed).log()
        edges = [n for n, line in enumerate(log) if b"EDGE  synchronize" in line]
        cut = [line for n, line in enumerate(log) if n not in edges]
        seen += bool(edges) and bool(differences(log, list(ggml_sanitize.events(cut))))
    assert seen > 5


@pytest.mark.parametrize("seed", range(20))
def test_other_output_colours_and_endings_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    san = program(seed)
    noisy: list[bytes] = []
    for line in san.log():
        if rng.random() < 0.3:
            noisy.append(rng.choice([b"llama_perf: x = 1\r\n", b"\r\n", b"....", b"srv  log: split the request (3)\n"]))
        dressed = rng.choice([b"%s", b"0.00.1 D %s", b"\x1b[33m%s\x1b[0m"]) % line.rstrip(b"\n")
        noisy.append(dressed + rng.choice([b"\n", b"\r\n"]))
    text = b"".join(noisy).splitlines(keepends=True)
    assert list(ggml_sanitize.events(text)) == list(ggml_sanitize.events(san.log()))
    assert [r.kind for r in ggml_sanitize.reports(text)] == [r.kind for r in ggml_sanitize.reports(san.log())]


def test_an_iterator_and_a_file_give_the_same_events(tmp_path: Any) -> None:
    log = program(3).log()
    (tmp_path / "run.log").write_bytes(b"".join(log))
    expected = list(ggml_sanitize.events(log))
    assert list(foreign_events(GGML_TRACE, iter(log), [])) == expected
    assert list(foreign_events(GGML_TRACE, (line.rstrip(b"\n") for line in log), [])) == expected
    assert list(foreign_events(GGML_TRACE, LogFile(tmp_path / "run.log"), [])) == expected


LINE = b"san [split   0 -         ] ROCm0      read  ROCm_Host[0+2048] inp_tokens (compute)"
TAILS = {
    b"": 0,
    LINE: 0,
    b"  read  GPU0  @1  split 0   a (compute)": 0,
    b"ggml-sched-sanitize: 3 race(s) reported": 0,
    b" \r": 0,
    LINE[:-1]: len(LINE) - 1,
    b"san [spl": 8,
    b"  read  GPU0  @1  split 0   a (comp": 35,
    b"llama_perf: x": 13,
    b"x" * 100_000: 100_000,
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_log_that_was_cut_off_in_a_line_is_partial(tmp_path: Path, tail: bytes) -> None:
    """A last line without newline is whole if it is one of ours: another may have been anything."""
    whole = b"".join(program(3).log())
    (tmp_path / "run.log").write_bytes(whole + tail)
    assert cut_bytes(GGML_TRACE, LogFile(tmp_path / "run.log")) == TAILS[tail]
    source = open_source(str(tmp_path / "run.log"))
    rows = sum(batch.num_rows for batch in source.batches())
    assert (source.dropped_bytes, source.partial) == (TAILS[tail], TAILS[tail] > 0)
    assert ("the last line is cut off" in "".join(source.warnings)) == (TAILS[tail] > 0)
    assert rows >= len(list(ggml_sanitize.events(program(3).log())))


def test_utf_16_ends_its_lines_with_two_bytes(tmp_path: Path) -> None:
    for text, cut in ((LINE.decode() + "\n", 0), (LINE.decode(), 0), (LINE.decode()[:-1], 2 * len(LINE) - 2)):
        for encoding in ("utf-16-le", "utf-16-be"):
            (tmp_path / "run.log").write_bytes(f"{LINE.decode()}\n{text}".encode(encoding))
            assert abs(cut_bytes(GGML_TRACE, LogFile(tmp_path / "run.log")) - cut) <= 1, encoding


def long_log(graphs: int) -> Iterator[bytes]:
    """Decoding: twenty lines a graph, the KV views at ever new places."""
    for n in range(graphs):
        yield f"{HEAD}HOST       write ROCm_Host[0+2048] inp_tokens (tensor_set)\n".encode()
        for i in range(8):
            yield f"{HEAD}ROCm0      read  ROCm_Host[0+2048] inp_tokens (compute)\n".encode()
            yield f"{HEAD}ROCm0      write ROCm0[{n * 64 + i * 8}+8] cache_k_l{i} (view) (compute)\n".encode()
        yield f"{HEAD}ROCm0      compute       8 nodes, r=8 w=8 ranges\n".encode()
        yield f"{HEAD}ROCm0      EDGE  synchronize -> HOST\n".encode()
        yield b"some other output\n"


def test_a_long_log_in_bounded_memory() -> None:
    """In a process of its own, for the peak of a process is all that costs nothing to measure."""
    program = (
        "import resource, sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_ggml_trace import ggml_sanitize, long_log\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "sum(1 for _ in ggml_sanitize.events(long_log(100))); before = peak()\n"
        "print(sum(1 for _ in ggml_sanitize.events(long_log(10_000))), peak() - before)"
    )
    run = [sys.executable, "-c", program, str(Path(__file__).parent), str(ROOT)]
    rows, grown = map(int, subprocess.run(run, check=True, capture_output=True, text=True).stdout.split())
    assert rows > 100_000
    assert grown < 16 << 10  # KiB; the log has 14 MiB and its events several times that
