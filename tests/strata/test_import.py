"""Strata's logs: each line's shape, captures mixed and apart, and the events that come of them."""

from __future__ import annotations

from typing import Any

import pytest

from hbtrace.checks.strata import rules
from hbtrace.checks.strata_grammar import grammar
from hbtrace.checks.strata_races import COPY_RACES, copy_race
from hbtrace.errors import TraceError
from hbtrace.importers.strata import Settings, events, events_of, identify
from hbtrace.importers.strata_lines import (
    LayerHashes,
    Said,
    StateHash,
    Timing,
    Told,
    TraceBegin,
    TraceLine,
    record,
)
from hbtrace.importers.strata_log import Log, read_logs
from hbtrace.replay import analyze_events
from hbtrace.simulate.strata_logs import write_logs
from tests.strata.runs import lines, run

HASH = "strata serve: STATE_HASH L=41 gdn=00000000000000aa ple=01 tail=02 pooled=03 kv=04 mtp=05 stale=06 dead=07"

RECORDS = {
    "# request p0=599": TraceBegin(599),
    "12.345 L0 3 4 1": TraceLine(12.345, "L0", 3, 4, 1),
    "0.001 V 3 1 -1": TraceLine(0.001, "V", 3, 1, -1),
    "7.250 CD 9 3 512": TraceLine(7.25, "CD", 9, 3, 512),
    "[2026-08-01 10:00:00] \x1b[32m12.345 U 3 2 0\x1b[0m\r": TraceLine(12.345, "U", 3, 2, 0),
    "strata serve: STATE_HASH_GDN 0a1b ffff 0000": LayerHashes(("0a1b", "ffff", "0000")),
    "strata pipeline: 87 windows in 596.1 ms (6.85 ms/window): 60 speculative, 41 on the path, 19 rolled back,"
    " 3 below the gate (theta 0.35)": Timing(87, 596.1, 60, 41, 19, 3, "0.35"),
    "T 1234": Said("T", ("1234",)),
    "DONE 600 41 10.5 99.0 length 30 60 8": Said("DONE", ("600", "41", "10.5", "99.0", "length", "30", "60", "8")),
    "ERR no room": Said("ERR", ("no", "room")),
    "RESUME": Said("RESUME", ()),
    "T for two": None,
    "DONE with it": None,
    "Testing 1.000 2": None,
    "": None,
}

TOLD = {
    "strata serve: --pipeline-windows 2: two verifiers per stage (decode too; the GDN snapshots beside the window)": (
        "start", {"windows": "2"},
    ),
    "strata serve: a request with penalties decodes serially": ("serial", {"why": "penalties"}),
    "strata pipeline switch: pw=2 theta=0.5 force_miss=3 short_read=0": (
        "switch", {"pw": "2", "theta": "0.5", "force_miss": "3", "short_read": "0"},
    ),
    "strata serve: the GDN snapshot ring": ("engage", {"why": ""}),
    "strata serve: the GDN snapshot ring is off: STRATA_QFUSE": ("refuse", {"why": "is off: STRATA_QFUSE"}),
    "strata pipeline: classes: fresh 3 | speculative 4": ("classes", {}),
    "strata pipeline: calibration 0.1": ("calibration", {}),
    "strata serve: --pipeline-windows is off: one device": ("off", {"why": "one device"}),
}  # fmt: skip


@pytest.mark.parametrize("text", RECORDS)
def test_lines(text: str) -> None:
    assert record(text.encode()) == RECORDS[text]


@pytest.mark.parametrize("text", TOLD)
def test_what_is_told(text: str) -> None:
    found = record(text.encode())
    assert isinstance(found, Told)
    assert (found.what, found.values) == TOLD[text]


def test_a_state_hash_has_twelve_items() -> None:
    found = record(f"{HASH} pooled_full=08 ple_prev=17,29\n".encode())
    assert isinstance(found, StateHash)
    assert len(found.items) == 12
    assert (found.items["L"], found.items["ple_prev_0"], found.items["ple_prev_1"]) == ("41", "17", "29")


def test_who_is_a_strata_log() -> None:
    assert identify([b"noise\n", b"# request p0=4\n"])
    assert identify([HASH.encode()])
    assert not identify([b"T 4\n", b"DONE 1 2\n", b'{"ev":"note","what":"# request p0=4"}\n'])
    assert not identify([b"san [split 0] compute\n"])


def without_notes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["ev"] not in ("note", "meta")]


def work(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What decode did: launches, verdicts, undos and commits, with their buffers."""
    found = []
    for row in rows:
        attrs = row.get("attrs", {})
        if row.get("what") in ("window", "verdict", "undo", "commit") and attrs.get("seq", -1) >= 0:
            keys = ("stage", "seq", "attempt", "do", "kind", "keep", "tokens", "a", "on", "src", "dst", "word")
            found.append((row["what"], *(attrs.get(key) for key in keys)))
    return found


@pytest.mark.parametrize(("stages", "windows"), [(2, 2), (3, 2), (3, 3)])
@pytest.mark.parametrize("mode", ["ring", "copy"])
def test_a_simulated_runs_log_gives_its_steps_again(mode: str, stages: int, windows: int) -> None:
    """Mixed in one capture or in three, the import plays what the run did, buffer for buffer."""
    for seed in range(4):
        made = run(mode, stages=stages, windows=windows, seed=seed, hashes=True)
        logs = write_logs(made)
        whole = list(events(lines(logs.mixed)))
        apart = list(events_of([lines(text) for text in (logs.trace, logs.stderr, logs.stdout)]))
        assert without_notes(whole) == without_notes(apart)
        for found in (whole, apart):
            assert not rules(found)
            assert not grammar(found)
        serial = {request.number for request in made.requests if not request.pipelined}
        if not serial:
            assert work(whole) == work(made.events)
        result = analyze_events(whole, strict=True)
        assert not result.warnings
        assert {copy_race(report) for report in result.reports} <= (set(COPY_RACES) if mode == "copy" else set())
        assert [row["attrs"]["request"] for row in whole if row.get("what") == "state_hash_items"] == list(range(6))


def test_copy_3_is_found_in_an_imported_log() -> None:
    """A stopped request, then another: the drain did not wait for the last snapshot."""
    text = "# request p0=4\n0.100 L0 0 2 0\n0.200 F0 0 2 0\n0.300 L1 0 2 0\n0.400 F1 0 2 0\n"
    reports = analyze_events(events(lines(text + text))).reports
    assert [copy_race(report) for report in reports] == ["copy-3"]
    assert not analyze_events(events(lines(text + text), Settings(mode="ring"))).reports


def test_settings_and_the_stages_between() -> None:
    """A trace that names the first and the last stage of four: the two between are played where they can be."""
    text = write_logs(run("ring")).trace
    rows = list(events(lines(text), Settings(mode="ring", stages=4, layers=2, layer_bytes=10)))
    stages = {row["attrs"]["stage"] for row in rows if row.get("what") == "window"}
    assert stages == {0, 1, 2, 3}
    assert not rules(rows)
    assert not grammar(rows)
    assert not analyze_events(rows, strict=True).reports
    sizes = {row["size"] for row in rows if row["ev"] == "tensor" and row["name"].startswith("gdn")}
    assert sizes == {20}


def test_the_seeds_size_is_the_default() -> None:
    rows = events(lines("# request p0=1\n0.100 L0 0 1 0\n0.200 F0 0 1 0\n"))
    assert {row["size"] for row in rows if row["ev"] == "tensor" and row["name"] == "gdn0"} == {29_417_472}


def test_an_error_path_wrote_no_trace() -> None:
    """Three requests, the second failed: its neighbours keep their own traces and hashes, mixed or apart."""
    block = "# request p0={}\n0.100 L0 0 1 0\n0.200 F0 0 1 0\n0.300 L1 0 1 0\n0.400 F1 0 1 0\n0.500 V 0 0 0\n"
    done = "T 7\nDONE 1 {} 1.0 2.0 stop 0 0 0\n"
    hashed = HASH.replace("L=41", "L={}") + "\n"
    trace = block.format(4) + block.format(6)
    stderr = hashed.format(5) + hashed.format(7)
    stdout = done.format(5) + "ERR out of memory\n" + done.format(7)
    mixed = block.format(4) + hashed.format(5) + done.format(5) + "ERR out of memory\n"
    mixed += block.format(6) + hashed.format(7) + done.format(7)
    for captures in ([trace, stderr, stdout], [mixed]):
        log = read_logs([lines(text) for text in captures])
        assert [request.block.p0 if request.block else None for request in log.requests] == [4, None, 6]
        assert [request.hash.items["L"] if request.hash else None for request in log.requests] == ["5", None, "7"]
        assert [request.error for request in log.requests] == ["", "out of memory", ""]
        rows = list(events_of([lines(text) for text in captures]))
        kinds = [row["attrs"]["kind"] for row in rows if row.get("what") == "request" and row["attrs"]["do"] == "begin"]
        assert kinds == ["pipelined", "serial", "pipelined"]
        assert not grammar(rows)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_captures_joined_in_one_file_are_as_good_as_apart(order: tuple[int, int, int]) -> None:
    """`cat trace stderr stdout`: nothing says so, but no request can have two pipeline traces."""
    made = write_logs(run("ring", seed=0, hashes=True))
    parts = (made.trace, made.stderr, made.stdout)
    apart = read_logs([lines(text) for text in parts])
    joined = read_logs([lines("".join(parts[number] for number in order))])
    assert sum(request.block is not None for request in apart.requests) > 3

    def told(log: Log) -> list[tuple[object, ...]]:
        return [
            (r.block and r.block.p0, r.hash and r.hash.items, r.timing and r.timing.windows, r.tokens)
            for r in log.requests
        ]

    assert told(joined) == told(apart)


def test_a_trace_behind_the_last_reply_is_of_a_request_that_was_cut_off() -> None:
    """Not of the one before it, whose own it would replace."""
    block = "# request p0={}\n0.100 L0 0 1 0\n0.200 F0 0 1 0\n0.300 L1 0 1 0\n0.400 F1 0 1 0\n0.500 V 0 0 0\n"
    text = block.format(4) + "T 7\nDONE 1 5 1.0 2.0 stop 0 0 0\n" + block.format(9)
    log = read_logs([lines(text)])
    assert [request.block and request.block.p0 for request in log.requests] == [4, 9]
    assert log.unassigned == ["the capture ends inside a request: it has no DONE"]
    assert not grammar(list(events(lines(text))))


def test_a_refused_ring_is_copy_mode() -> None:
    text = "strata serve: the GDN snapshot ring is off: STRATA_QFUSE\n" + write_logs(run("copy")).mixed
    rows = list(events(lines(text)))
    assert [row["what"] for row in rows if row.get("what") in ("engage", "refuse")] == ["refuse"]
    assert not rules(rows)
    assert analyze_events(rows).reports


def test_a_log_without_a_trace_is_refused() -> None:
    with pytest.raises(TraceError, match="no pipeline trace in this Strata log: record with STRATA_PIPELINE_DEBUG=1"):
        list(events(lines(f"{HASH}\n")))


def test_a_capture_that_ends_inside_a_request_says_so() -> None:
    log = read_logs([lines("T 1\nDONE 1 2\nT 5\n")])
    assert log.unassigned == ["1 tokens after the last DONE: the capture ends inside a request"]


TRACE = "# request p0=4\n0.100 L0 0 2 0\n0.200 F0 0 2 0\n"
START = "strata serve: --pipeline-windows {}: two verifiers per stage (decode too)\n"
LONG = "9" * 5000


@pytest.mark.parametrize(
    "line",
    [
        f"# request p0={LONG}", f"# request p0=-{LONG}", f"0.300 L1 {LONG} 2 0", f"0.300 V 0 {LONG} 0",
        f"0.300 U 0 1 {'9' * 19}", f"T {LONG}", f"DONE {LONG} 2", f"DONE 1 {LONG}", f"DONE 1 2 1 1 stop {LONG} 0 0",
        START.format(LONG).strip(), f"strata pipeline: {LONG} windows in 1.0 ms (1.00 ms/window): 1 speculative,"
        " 1 on the path, 0 rolled back, 0 below the gate (theta 0.50)",
    ],
    ids=lambda line: line.replace(LONG, "N")[:24],
)  # fmt: skip
def test_a_number_that_nothing_counts_to_is_refused_with_its_line(line: str) -> None:
    """Python itself refuses more than 4,300 digits, and a column holds 64 bits."""
    with pytest.raises(TraceError, match=r"^line 4: a number of [\d,]+ digits, and at most 18 are read$"):
        list(events(lines(f"{TRACE}{line}\n")))
    assert identify(lines(f"{line}\n{TRACE}"))


def test_the_longest_number_is_read() -> None:
    assert record(f"0.300 L1 {'9' * 18} 2 0".encode()) == TraceLine(0.3, "L1", 10**18 - 1, 2, 0)
    assert record(b"strata pipeline: 1 windows in 1.2.3 ms (1.00 ms/window): 1 speculative, 1 on the path,"
                  b" 0 rolled back, 0 below the gate (theta 0.50)") is None  # fmt: skip


@pytest.mark.parametrize("windows", [0, 1, 9, 1_000_000, 4294967296])
def test_a_depth_beyond_the_model_is_refused(windows: int) -> None:
    captures = [lines(TRACE), lines("\n" + START.format(windows))]
    with pytest.raises(TraceError, match=f"^line 2: --pipeline-windows {windows} is not one of 2 to 8; --windows"):
        list(events_of(captures))
    assert depth(list(events_of(captures, Settings(windows=3)))) == 3


def depth(rows: list[dict[str, Any]]) -> int:
    return int(next(row["attrs"]["windows"] for row in rows if row.get("what") == "strata"))


@pytest.mark.parametrize("windows", [2, 8])
def test_a_depth_of_the_model_is_the_logs_word(windows: int) -> None:
    assert depth(list(events(lines(TRACE + START.format(windows))))) == windows


@pytest.mark.parametrize("part", ["trace", "stderr", "stdout"])
def test_what_two_captures_have_is_of_two_runs(part: str) -> None:
    one, other = (write_logs(run("ring", seed=seed, hashes=True)) for seed in (0, 1))
    captures = [lines(text) for text in (one.trace, one.stderr, one.stdout)]
    assert list(events_of(captures))
    with pytest.raises(TraceError, match=r"^capture 4: it has .*, and so has capture .: give one run's only$"):
        list(events_of([*captures, lines(getattr(other, part))]))


def test_a_capture_of_something_else_is_refused() -> None:
    with pytest.raises(TraceError, match=r"^capture 2: nothing of Strata is in it"):
        list(events_of([lines(TRACE), lines("loading the model\n")]))
    stderr = lines("ERR is how this line begins\nRESUME\n" + START.format(2))
    assert list(events_of([lines(TRACE), stderr, lines("T 7\nDONE 1 5 1.0 2.0 stop 0 0 0\n")]))


@pytest.mark.parametrize(
    ("text", "mode", "assumed"),
    [
        ("", None, True),
        ("", "ring", False),
        ("", "copy", False),
        (START.format(2), None, False),
        ("strata serve: the GDN snapshot ring\n", None, False),
        ("strata serve: the GDN snapshot ring is off: STRATA_QFUSE\n", None, False),
    ],
)
def test_a_mode_that_nothing_tells_is_said_to_be_assumed(text: str, mode: str | None, assumed: bool) -> None:
    warnings: list[str] = []
    rows = list(events_of([lines(text + TRACE)], Settings(mode=mode), warnings))
    assert [warning[:51] for warning in warnings] == ["no capture tells the mode: copy is assumed; hbtrace"] * assumed
    assert rows[0]["notes"].endswith("No capture tells the mode: copy is assumed.") == assumed
    assert "itself says" not in rows[0]["notes"]
