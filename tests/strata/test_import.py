"""Strata's logs: each line's shape, captures mixed and apart, and the events that come of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hbtrace.errors import TraceError
from hbtrace.importers import LogFile, cut_bytes
from hbtrace.replay.session import analyze_events
from hbtrace.strata.checks.coverage import coverage
from hbtrace.strata.checks.grammar import grammar
from hbtrace.strata.checks.protocol import rules
from hbtrace.strata.checks.races import COPY_RACES, copy_race
from hbtrace.strata.logs import match as strata_match
from hbtrace.strata.logs.importer import LogSettings, events, events_of, identify
from hbtrace.strata.logs.lines import LayerHashes, Said, StateHash, Timing, ToldLine, TraceBegin, TraceLine, record
from hbtrace.strata.logs.reading import read_logs
from hbtrace.strata.logs.run import Log
from hbtrace.strata.model.written_logs import write_logs
from hbtrace.strata.registration import LOG
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
    assert isinstance(found, ToldLine)
    assert (found.what, found.values) == TOLD[text]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("the GDN snapshot ring", "engage"),
        ("the GDN snapshot ring is on", "engage"),
        ("the GDN snapshot ring: engaged", "engage"),
        ("the GDN snapshot ring: 3 buffers a stage, no copy is kept", "engage"),
        ("GDN snapshot ring unavailable: Metal", "refuse"),
        ("the GDN snapshot ring is not supported with STRATA_QFUSE", "refuse"),
        ("the GDN snapshot ring is disabled with SNAP_OVERLAP=0", "refuse"),
        ("no GDN snapshot ring: graphs were captured before it was set", "refuse"),
        ("the GDN snapshot ring does not run without STRATA_COMMIT_BATCH", "refuse"),
        ("the GDN snapshot ring: STRATA_GDN_SPLIT=1, the copy is kept", "refuse"),
        ("asked for the GDN snapshot ring: looking at the device", "unclear"),
        ("the GDN snapshot ring may be used", "unclear"),
        ("the GDN snapshot ring is on: copies are not needed", "unclear"),
        ("the GDN snapshot ring is on, STRATA_QFUSE is off", "unclear"),
    ],
)
def test_what_is_said_of_the_ring(line: str, what: str) -> None:
    found = record(f"strata serve: {line}\n".encode())
    assert isinstance(found, ToldLine)
    assert found.what == what


def test_prefixes_of_a_log_driver_are_learned() -> None:
    """Time stamps and names before every line, also of standard output alone; a sentence is no prefix."""
    made = write_logs(run("ring", hashes=True))
    plain = read_logs([lines(made.mixed)])

    def stamped(text: str) -> list[bytes]:
        rows = enumerate(text.splitlines(keepends=True))
        return lines("".join(f"2026-08-01T10:{at // 60:02}:{at % 60:02}Z engine-1 | {row}" for at, row in rows))

    def told(log: Log) -> list[object]:
        return [(r.tokens, r.done, r.resumed, r.block and len(r.block.steps), r.hash, r.timing) for r in log.requests]

    assert told(read_logs([stamped(made.mixed)])) == told(plain)
    assert sum(len(request.tokens) for request in plain.requests) > 50
    apart = read_logs([lines(made.trace), stamped(made.stderr), stamped(made.stdout)])
    assert told(apart) == told(read_logs([lines(text) for text in (made.trace, made.stderr, made.stdout)]))
    text = "they said T 5\nDONE 0 5 1.0 2.0 stop 0 0 0\n" + TRACE
    assert [request.tokens for request in read_logs([lines(text)]).requests[:1]] == [[]]
    assert read_logs([iter(stamped(made.mixed))]).requests[0].tokens == plain.requests[0].tokens


def test_a_line_that_is_not_clear_asks_for_the_mode() -> None:
    text = START.format(2) + "strata serve: the GDN snapshot ring may be used\n" + TRACE
    warnings: list[str] = []
    rows = list(events_of([lines(text)], None, warnings))
    assert warnings[0].startswith("line 2: it does not say clearly whether the snapshot ring is on: 'strata serve: the")
    assert warnings[1].startswith("no capture tells the mode: copy is assumed")
    assert next(row["attrs"]["mode"] for row in rows if row.get("what") == "strata") == "copy"
    warnings.clear()
    list(events_of([lines(text)], LogSettings(mode="ring"), warnings))
    assert warnings == []


def test_a_start_up_line_that_names_the_ring_is_both() -> None:
    text = "strata serve: --pipeline-windows 3: two verifiers per stage (decode too; the GDN snapshot ring)\n" + TRACE
    rows = list(events(lines(text)))
    assert depth(rows) == 3
    assert next(row["attrs"]["mode"] for row in rows if row.get("what") == "strata") == "ring"


def test_new_and_resumed_sessions_are_played() -> None:
    """A session that reuses nothing is zeroed, one that is resumed restored; what tells neither is neither."""
    block, end = BLOCK.format(4), "T 7\nDONE 1 5 1.0 2.0 stop"
    text = block + end + " 0 0 0\n" + block + "RESUME\n" + end + " 0 0 0\n" + block + end + " 0 0 3\n"
    text += block + end + "\n" + block + "REUSED 0\n" + end + "\n"
    rows = list(events(lines(text), LogSettings(mode="ring")))
    seen: dict[int, str] = {}
    for row in rows:
        if row.get("what") == "request":
            number = row["attrs"]["request"]
        elif row.get("what") == "session":
            seen[number] = row["attrs"]["do"]
    assert seen == {0: "zero", 1: "restore", 4: "zero"}
    assert not rules(rows)


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
    assert not analyze_events(events(lines(text + text), LogSettings(mode="ring"))).reports


def test_settings_and_the_stages_between() -> None:
    """A trace that names the first and the last stage of four: the two between are played where they can be."""
    text = write_logs(run("ring")).trace
    rows = list(events(lines(text), LogSettings(mode="ring", stages=4, layers=2, layer_bytes=10)))
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


def test_a_request_without_its_end_is_marked() -> None:
    """The model ends each request; that the log did not is said where it does."""
    block = "# request p0={}\n0.100 L0 0 1 0\n0.200 F0 0 1 0\n0.300 L1 0 1 0\n0.400 F1 0 1 0\n0.500 V 0 0 0\n"
    text = block.format(4) + "T 7\nDONE 1 5 1.0 2.0 stop 0 0 0\n"
    for log, cut in ((text, 0), (text + block.format(9), 1), (text + "T 8\n", 1), (block.format(4), 0)):
        rows = list(events(lines(log)))
        ends = [row["attrs"] for row in rows if row.get("what") == "request" and row["attrs"]["do"] == "end"]
        assert [attrs.get("cut", False) for attrs in ends][-1] == bool(cut)
        assert sum("cut" in attrs for attrs in ends) == cut
        assert coverage(rows).unended == cut


TAILS = {"": 0, "0.500 V 0 0 0": 0, "0.500 V 0 0": 11, "DO": 2, "DONE 1 5": 0, f"T {'9' * 5000}": 0}


@pytest.mark.parametrize("tail", TAILS)
def test_a_log_that_was_cut_off_in_a_line_is_partial(tmp_path: Path, tail: str) -> None:
    (tmp_path / "run.log").write_text(TRACE + tail)
    assert cut_bytes(LOG, LogFile(tmp_path / "run.log")) == TAILS[tail]


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
    assert depth(list(events_of(captures, LogSettings(windows=3)))) == 3


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
    rows = list(events_of([lines(text + TRACE)], LogSettings(mode=mode), warnings))
    assert [warning[:51] for warning in warnings] == ["no capture tells the mode: copy is assumed; hbtrace"] * assumed
    assert rows[0]["notes"].endswith("No capture tells the mode: copy is assumed.") == assumed
    assert "itself says" not in rows[0]["notes"]


def test_a_sound_imported_log_checks_clean(tmp_path: Path) -> None:
    """Its start-up line, its switch echo and whatever else it says are no notes that a rule reads."""
    from hbtrace.checks.checked import check

    path = tmp_path / "run.log"
    switch = "strata pipeline switch: pw=2 theta=0.5 line=7 text=no on=yes stage=first\n"
    path.write_text(switch + write_logs(run("ring", hashes=True)).mixed)
    assert [finding for finding in check(str(path)).findings if finding.severity != "info"] == []
    said = {row["what"]: row["attrs"] for row in events(path.read_bytes().splitlines()) if row["ev"] == "note"}
    assert (said["start"]["windows"], said["switch"]["line"]) == (2, 1)
    assert said["switch"]["text"] == switch.strip()


def test_notes_that_rules_read_are_listed() -> None:
    from hbtrace.strata.checks.coverage import StrataExerciser
    from hbtrace.strata.checks.grammar import Grammar
    from hbtrace.strata.checks.notes import READ, is_sound
    from hbtrace.strata.checks.protocol import Protocol

    counted = {name.removeprefix("_on_") for name in dir(StrataExerciser) if name.startswith("_on_")}
    assert {*Protocol()._handlers, *Grammar()._handlers, *counted} == READ
    assert not is_sound("commit", {"stage": "first", "seq": 0, "verifier": 0, "kind": "spec commit"})


def test_stages_above_nine() -> None:
    made = write_logs(run("ring", stages=11))
    rows = list(events(lines(made.mixed)))
    assert next(row["attrs"]["stages"] for row in rows if row.get("what") == "strata") == 11
    assert not rules(rows)
    assert not grammar(rows)
    with pytest.raises(TraceError, match=r"^line 2: L16 is beyond the 16 stages that are played"):
        list(events(lines("# request p0=4\n0.100 L16 0 2 0\n")))


BLOCK = "# request p0={}\n0.100 L0 0 1 0\n0.200 F0 0 1 0\n0.300 L1 0 1 0\n0.400 F1 0 1 0\n0.500 V 0 0 0\n"
SUMMARY = "strata pipeline: {} windows in 9.0 ms (9.00 ms/window): 0 speculative, 0 on the path, 0 rolled back,"
SUMMARY += " 0 below the gate (theta 0.50)\n"
SERIAL = "strata serve: a request with logprobs decodes serially\n"
HASHED = HASH.replace("L=41", "L={}") + " pooled_full=08 ple_prev=17,29\n"


def done(prompt: int, tokens: int = 1) -> str:
    return "T 7\n" * tokens + f"DONE {tokens} {prompt} 1.0 2.0 stop 0 0 0\n"


def read(*captures: str) -> Log:
    return read_logs([lines(text) for text in captures])


def kinds(*captures: str) -> list[str]:
    rows = events_of([lines(text) for text in captures])
    return [row["attrs"]["kind"] for row in rows if row.get("what") == "request" and row["attrs"]["do"] == "begin"]


def test_a_lost_trace_is_no_serial_request() -> None:
    """Three requests, the second's trace is missing: its summary says that there was one, and whose it is."""
    trace = BLOCK.format(4) + BLOCK.format(6)
    stderr = "".join(SUMMARY.format(1) + HASHED.format(length) for length in (6, 7, 8))
    stdout = done(5) + done(6) + done(7)
    assert kinds(trace, stderr, stdout) == ["pipelined", "untraced", "pipelined"]
    log = read(trace, stderr, stdout)
    assert [request.timing_line for request in log.requests] == [1, 3, 5]
    assert log.unassigned == []
    rows = list(events_of([lines(text) for text in (trace, stderr, stdout)]))
    assert not grammar(rows)
    covered = coverage(rows)
    assert (covered.untraced, covered.serial, covered.serial_after_pipelined) == (1, 0, 0)
    assert "1 of 3 requests have no pipeline trace in the log, and are not covered" in covered.told()


def test_the_trace_alone_with_replies_tells_nothing_of_a_request_without_one() -> None:
    assert kinds(BLOCK.format(4), done(5) + done(6)) == ["pipelined", "untraced"]
    assert kinds(BLOCK.format(4), SERIAL, done(5) + done(6)) == ["pipelined", "serial"]


def test_equal_prompts_are_told_apart_by_what_standard_error_says() -> None:
    """The first was decoded serially; its reason stands before its hash."""
    trace, stdout = BLOCK.format(4) + BLOCK.format(4), done(5) + done(5, 2) + done(5, 3)
    stderr = SERIAL + HASHED.format(6) + SUMMARY.format(1) + HASHED.format(7) + SUMMARY.format(1) + HASHED.format(8)
    assert kinds(trace, stderr, stdout) == ["serial", "pipelined", "pipelined"]
    without_a_hash = stderr.replace(HASHED.format(6), "")
    assert kinds(trace, without_a_hash, stdout) == ["serial", "pipelined", "pipelined"]
    behind = HASHED.format(6) + SERIAL + HASHED.format(7) + SUMMARY.format(1) + HASHED.format(8) + SUMMARY.format(1)
    assert kinds(trace, behind, stdout) == ["serial", "pipelined", "pipelined"]
    log = read(BLOCK.format(4), done(5) + done(5))
    assert log.unassigned == ["line 1: a pipeline trace with p0=4 fits several requests: taken as of request 0"]


def test_a_lost_hash_shifts_no_other() -> None:
    """Lengths tell whose each is; where they do not, it is nobody's, and that is said."""
    stdout = done(5) + done(9) + done(20)
    log = read(BLOCK.format(4), HASHED.format(6) + HASHED.format(21), stdout)
    assert [request.hash and request.hash.items["L"] for request in log.requests] == ["6", None, "21"]
    assert log.unassigned == []
    log = read(BLOCK.format(4), HASHED.format(6) + HASHED.format(6), done(5) * 3)
    assert [request.hash for request in log.requests] == [None] * 3
    said = [sentence for sentence in log.unassigned if "hash" in sentence]
    assert said == [f"line {line}: a state hash with L=6 is of no request that can be told" for line in (1, 2)]
    warnings: list[str] = []
    list(events_of([lines(BLOCK.format(4)), lines(HASHED.format(6) * 2), lines(done(5) * 3)], None, warnings))
    assert set(said) <= set(warnings)


def test_summaries_without_hashes_go_by_their_windows() -> None:
    two = BLOCK.format(5) + "0.600 L0 1 1 0\n0.700 F0 1 1 0\n0.800 L1 1 1 0\n0.900 F1 1 1 0\n1.000 V 1 0 0\n"
    log = read(BLOCK.format(4) + two, SUMMARY.format(2), done(5) + done(6))
    assert [request.timing and request.timing.windows for request in log.requests] == [None, 2]
    log = read(BLOCK.format(4) + two, SUMMARY.format(7), done(5) + done(6))
    assert [request.timing for request in log.requests] == [None, None]
    assert log.unassigned == ["line 1: a summary of 7 windows is of no trace that can be told"]


def test_too_many_are_no_misfits(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = BLOCK.format(4) * 2, HASHED.format(6) * 2, done(5) * 3
    fitting = read(*captures)
    assert not any("too many" in sentence for sentence in fitting.unassigned)
    assert (fitting.crowded, fitting.requests[0].block is None) == ("", False)
    monkeypatch.setattr(strata_match, "MOST_PAIRS", 5)
    end = "and 3 requests are too many to tell which belong together"
    assert read(*captures).unassigned == [f"2 state hashes {end}", f"2 pipeline traces {end}"]
    with pytest.raises(TraceError, match="2 pipeline traces and 3 requests are too many"):
        list(events_of([lines(text) for text in captures]))
    in_order = read(BLOCK.format(4) * 3, HASHED.format(6) * 3, done(5) * 3)
    assert (in_order.unassigned, in_order.requests[2].block is None) == ([], False)


def test_too_many_summaries_are_loose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strata_match, "MOST_PAIRS", 3)
    log = read(BLOCK.format(4) + BLOCK.format(5), SUMMARY.format(1) * 3, done(5) + done(6))
    said = "3 summaries and 2 pipeline traces are too many to tell which belong together"
    assert (log.unassigned, log.loose) == ([said], True)


def test_what_stands_behind_its_reply_is_not_the_next_requests() -> None:
    """A server that flushes its reply first: every hash and summary comes behind its DONE."""
    late = "".join(BLOCK.format(n) + done(n + 1) + SUMMARY.format(1) + HASHED.format(n + 2) for n in (4, 30, 60))
    log = read(late)
    assert [request.hash and request.hash.items["L"] for request in log.requests] == ["6", "32", "62"]
    assert [bool(request.timing) for request in log.requests] == [True] * 3
    assert (log.cut, log.unassigned) == (False, [])
    cut = BLOCK.format(4) + done(5) + BLOCK.format(30) + HASHED.format(32) + done(31) + BLOCK.format(60)
    log = read(cut + HASHED.format(62))
    assert [request.hash and request.hash.items["L"] for request in log.requests] == [None, "32", "62"]
    assert log.cut


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_other_line_ends(end: str) -> None:
    made = write_logs(run("ring", hashes=True)).mixed
    other = made.replace("\n", end).encode().splitlines(keepends=True) if end == "\r\n" else [
        made.replace("\n", end).encode()
    ]  # fmt: skip
    assert identify(other)
    assert list(events(other)) == list(events(lines(made)))


def test_layers_and_the_numbers_of_a_reply_are_in_the_trace() -> None:
    text = BLOCK.format(4) + HASHED.format(6) + "STATE_HASH_GDN 0a1b ffff\n" + "DONE 1 5 1.5 2.5 stop 3 4 2\n"
    said = {row["what"]: row["attrs"] for row in events(lines(text)) if row["ev"] == "note"}
    assert said["state_hash_layers"] == {"request": 0, "stages": [0], "hashes": ["0a1b", "ffff"]}
    assert said["reply"] == {
        "request": 0, "generated": 1, "prompt": 5, "prompt_ms": 1.5, "decode_ms": 2.5, "finish": "stop",
        "accepted": 3, "offered": 4, "reused": 2,
    }  # fmt: skip
