"""Two arms: the four shapes of equality, and speed with no claim where the spread is wider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hbtrace.errors import TraceError
from hbtrace.strata.arms import ArmsVerdict, compare
from hbtrace.strata.cli.arms_text import render_text
from hbtrace.strata.cli.diff_state import read_run, state_diff
from hbtrace.strata.logs.reading import read_logs
from hbtrace.strata.logs.run import Log
from hbtrace.strata.model.written_logs import write_logs
from tests.strata.runs import lines, run

RING = "strata serve: the GDN snapshot ring\n"
HASH = (
    "STATE_HASH L={L} gdn={gdn} ple=01 tail=02 pooled=03 kv=04 mtp=05 stale={stale} dead=07 pooled_full=08 ple_prev=1,2"
)


def request(
    number: int, *, L: int = 20, gdn: str = "aa", stale: str = "06", finish: str = "stop", tokens: int = 4,  # noqa: N803
    ms: float = 40.0, windows: int = 2, layers: str = "",
) -> str:  # fmt: skip
    summary = (
        f"strata pipeline: {windows} windows in {ms:.1f} ms ({ms / windows:.2f} ms/window): 0 speculative,"
        " 0 on the path, 0 rolled back, 0 below the gate (theta 0.50)\n"
    )
    text = summary + HASH.format(L=L, gdn=gdn, stale=stale) + "\n"
    text += f"STATE_HASH_GDN {layers}\n" if layers else ""
    text += "".join(f"T {100 * number + at}\n" for at in range(tokens))
    return text + f"DONE {tokens} 10 5.0 {ms} {finish} 1 2 0\n"


def log(*requests: str, ring: bool = False) -> Log:
    return read_logs([lines((RING if ring else "") + "".join(requests))])


def arms(off: list[str], on: list[str]) -> ArmsVerdict:
    return compare([log(*off)], [log(*on, ring=True)])


def verdicts(verdict: ArmsVerdict) -> list[tuple[str, str]]:
    return [(found.verdict, found.first) for found in verdict.requests]


def test_equal() -> None:
    found = arms([request(0), request(1)], [request(0), request(1)])
    assert verdicts(found) == [("equal", ""), ("equal", "")]
    assert (found.comparable, found.differs) == (True, False)
    assert render_text(found).startswith(
        "2 of 2 requests equal (2 in all)\n  by reply 2, by every item of the state hash 2\n"
    )


def test_one_item_differs() -> None:
    found = arms(
        [request(0), request(1, layers="0001 0002 0003")], [request(0), request(1, gdn="ab", layers="0001 00ff 00fe")]
    )
    assert verdicts(found)[1] == ("differs", "state: gdn is aa and ab, first in GDN layer 1")
    assert found.differs


def test_a_request_cut_by_its_length_is_not_comparable() -> None:
    """Neither a pass nor a failure: the seed's 7 of 8."""
    cut = [request(1, finish="length", L=length, gdn=gdn) for length, gdn in ((20, "aa"), (22, "bb"))]
    found = arms([request(0), cut[0]], [request(0), cut[1]])
    assert verdicts(found)[1] == (
        "not comparable",
        "cut by the length limit: it ends at 20 and 22, which depends on timing",
    )
    assert (found.compared, found.count("equal"), found.differs) == (1, 1, False)
    assert "1 of 1 requests equal (2 in all)" in render_text(found)
    # at the same length there is nothing to excuse a difference
    same = [request(1, finish="length", gdn=gdn) for gdn in ("aa", "bb")]
    assert verdicts(arms([same[0]], [same[1]])) == [("differs", "state: gdn is aa and bb")]
    # and without the limit neither
    stopped = [request(1, L=length) for length in (20, 22)]
    assert verdicts(arms([stopped[0]], [stopped[1]])) == [("differs", "state: L is 20 and 22")]


def test_a_missing_request() -> None:
    found = arms([request(0), request(1)], [request(0)])
    assert verdicts(found)[1] == ("missing", "the on run has no such request")
    assert found.differs
    assert verdicts(arms([request(0)], [request(0), request(1)]))[1][0] == "missing"


def test_replies_errors_stale_cells_and_hashes_left_out() -> None:
    reply = request(0).replace("T 2\n", "T 9\n")
    assert verdicts(arms([request(0)], [reply])) == [("differs", "reply: token 2 is 2 and 9")]
    assert verdicts(arms([request(0)], ["ERR no room\n"])) == [("differs", "the on run failed: no room")]
    assert verdicts(arms(["ERR a\n"], ["ERR a\n"])) == [("not comparable", "both failed")]
    (stale,) = arms([request(0)], [request(0, stale="ff")]).requests
    assert (stale.verdict, stale.stale) == ("equal", True)
    bare = "T 0\nT 1\nT 2\nT 3\nDONE 4 10 5.0 40.0 stop 1 2 0\n"
    assert verdicts(arms([request(0)], [bare])) == [("missing", "the on run has no state hash")]


def without(text: str, *starts: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(starts))


def test_a_reply_counts_only_where_it_was_seen() -> None:
    """DONE tells how many tokens there were: without them nothing is equal by reply."""
    bare = without(request(0), "T ", "STATE_HASH")
    assert verdicts(arms([bare], [bare])) == [("not comparable", "neither reply nor state hash")]
    other = bare.replace("DONE 4", "DONE 5")
    assert verdicts(arms([bare], [other])) == [("differs", "reply: 4 and 5 tokens")]
    some = without(request(0), "T 2", "T 3", "STATE_HASH")
    assert verdicts(arms([some], [some])) == [("not comparable", "the off run has 2 of 4 tokens")]
    assert verdicts(arms([some.replace("T 1", "T 9")], [some]))[0][0] == "differs"
    hashed = without(request(0), "T ")
    (found,) = arms([hashed], [hashed]).requests
    assert (found.verdict, found.replied, found.hashed) == ("equal", False, True)
    assert "by reply 0, by every item of the state hash 1" in render_text(arms([hashed], [hashed]))


def test_without_an_end_another_length_is_not_comparable() -> None:
    """Standard output was not captured: the length limit may have cut the request."""
    ends = ((20, "aa"), (22, "bb"), (20, "b"))
    one, other, wrong = (without(request(0, L=at, gdn=gdn), "T ", "DONE") for at, gdn in ends)
    assert verdicts(arms([one], [other])) == [
        ("not comparable", "state: L is 20 and 22, and no DONE says whether the length limit cut it")
    ]
    assert verdicts(arms([one], [wrong])) == [("differs", "state: gdn is aa and b")]


def test_every_run_of_either_arm_is_held_against_one() -> None:
    same, other = log(request(0)), log(request(0, gdn="ff"))
    on = log(request(0), ring=True)
    assert [found.verdict for found in compare([same, other], [on]).requests] == ["equal", "differs"]
    assert [found.verdict for found in compare([same], [on, on]).requests] == ["equal", "equal"]


def test_arms_without_any_hash_compared_no_state() -> None:
    bare = without(request(0), "STATE_HASH")
    found = arms([bare], [bare])
    assert (found.count("equal"), found.comparable) == (1, False)
    assert found.problems == ["no run has a state hash, so no state was compared: record with STRATA_STATE_HASH=1"]
    assert arms([request(0), bare], [request(0), bare]).comparable


def test_drafts_that_differ_are_told_and_their_times_not_compared() -> None:
    other = request(0).replace("stop 1 2 0", "stop 0 2 0")
    found = arms([request(0)], [other])
    assert [(one.verdict, one.drafts) for one in found.requests] == [("equal", "1/2 and 0/2")]
    assert "request 0: equal; drafts accepted/offered are 1/2 and 0/2" in render_text(found)
    assert found.speeds[1].why == "not comparable: request 0 has 0/2 and 1/2 drafts accepted and offered"


def test_arms_that_are_not_what_they_should_be() -> None:
    found = compare([log(request(0), ring=True)], [log(request(0))])
    assert found.problems == [
        "off run 1 says that the ring was engaged",
        "on run 1 never says that the ring was engaged",
    ]
    assert not found.comparable
    switched = read_logs([lines(RING + "strata pipeline switch: pw=2 theta=0.9\n" + request(0))])
    assert compare([log(request(0))], [switched]).problems == ["the runs echoed different pipeline switches"]


def test_what_could_not_be_placed_is_a_problem() -> None:
    """A hash is missing in one arm: the others stay where they are, or the arms are not comparable."""
    stdout = "".join(f"T 1\nDONE 1 {prompt} 5.0 40.0 stop 1 2 0\n" for prompt in (10, 40, 70))
    hashes = [HASH.format(L=length, gdn=length, stale=1) + "\n" for length in (11, 41, 71)]
    off = read_logs([lines("".join(hashes)), lines(stdout)])
    on = read_logs([lines(RING + hashes[0] + hashes[2]), lines(stdout)])
    found = compare([off], [on])
    assert verdicts(found) == [("equal", ""), ("missing", "the on run has no state hash"), ("equal", "")]
    assert found.problems == []
    alike = stdout.replace("40 5.0", "10 5.0").replace("70 5.0", "10 5.0")
    off, on = (read_logs([lines(text + hashes[0] * 2), lines(alike)]) for text in ("", RING))
    assert compare([off], [on]).problems[0] == (
        "off run 1: line 1: a state hash with L=11 is of no request that can be told"
    )


def test_what_the_hash_covers_is_said() -> None:
    assert (
        "state hashes cover stage 0 and the drafter only: later front stages are not in them"
        in arms([request(0)], [request(0)]).notes
    )


def rates(off: list[float], on: list[float]) -> Any:
    def of(rate: float, ring: bool) -> Log:
        return log(request(0, tokens=1000, ms=1000 * 1000 / rate, windows=500), ring=ring)

    return compare([of(rate, False) for rate in off], [of(rate, True) for rate in on]).speeds[0]


def test_the_seeds_speed_comes_out() -> None:
    speed = rates([57.84, 57.73], [58.22, 58.26])
    assert speed.name == "decode tokens/s, token-weighted"
    assert speed.claim == pytest.approx(0.008, abs=0.0005)
    assert speed.spread == pytest.approx(0.11, abs=0.01)


def test_no_claim_where_the_spread_is_wider() -> None:
    assert rates([57.0, 58.5], [58.22, 58.26]).claim is None
    assert rates([57.0, 58.5], [58.22, 58.26]).why == "no claim: the spread within an arm is as wide as the difference"
    assert rates([57.8], [58.2]).why.startswith("no claim: an arm of one run has no spread")


def test_long_requests_weigh_more() -> None:
    one = log(request(0, tokens=10, ms=1000.0), request(1, tokens=990, ms=9000.0))
    assert compare([one], [one]).speeds[0].off == (100.0,)


def test_other_tokens_a_window_are_not_comparable() -> None:
    off = [log(request(0, windows=2)), log(request(0, windows=2))]
    on = [log(request(0, windows=2), ring=True), log(request(0, windows=1), ring=True)]
    speed = compare(off, on).speeds[1]
    assert (speed.name, speed.claim) == ("ms per window, request 0", None)
    assert speed.why == "not comparable: 2.000 to 4.000 tokens per window"
    faster = [log(request(0, ms=30.0), ring=True), log(request(0, ms=30.2), ring=True)]
    assert compare(off, faster).speeds[1].claim == pytest.approx(-0.2475)


def test_a_rate_that_no_request_allows_names_one_that_differs() -> None:
    """Request 0 is of the same work, and took no time: what keeps the rates apart is the other one."""
    off = [log(request(0, ms=0.0), request(1, windows=2))] * 2
    on = [log(request(0, ms=0.0), request(1, windows=1), ring=True)] * 2
    (rate, *_) = compare(off, on).speeds
    assert rate.why == "not comparable: request 1 has 1 and 2 windows"


def speeds(off: list[str], on: list[str]) -> list[tuple[float | None, str]]:
    """Two runs of each arm, the second a bit slower."""

    def again(parts: list[str], ring: bool) -> list[Log]:
        return [log(*parts, ring=ring), log(*(part.replace("ms 40.0", "ms 40.1") for part in parts), ring=ring)]

    return [(one.claim, one.why) for one in compare(again(off, False), again(on, True)).speeds]


def test_speed_is_of_the_same_work_or_none() -> None:
    """A request that failed, stopped early or took other windows in one run counts in none."""
    one, fast = request(0), request(0, ms=30.0)
    claim = -1 + 40 / 30
    assert speeds([one], [fast])[0] == (pytest.approx(claim), "")
    for off, on in (
        (request(1), "ERR no room\n"),
        (request(1, tokens=20, windows=10), request(1, tokens=400, windows=200, ms=9.0)),
        (request(1, windows=4), request(1, windows=2)),
    ):
        assert speeds([one, off], [fast, on])[0] == (
            pytest.approx(claim), "over 1 of 2 requests, of the same work",
        )  # fmt: skip
        (overall, why), *_ = speeds([off], [on]) or [(None, "not comparable")]
        assert (overall, why[:14]) == (None, "not comparable")
    (_, (_, why)) = speeds([request(0, tokens=4)], [request(0, tokens=8, windows=4)])
    assert why == "not comparable: request 0 has 4 and 8 tokens"
    found = compare([log(one, one)] * 2, [log(fast, "ERR a\n", ring=True)] * 2)
    assert "+33.3% (over 1 of 2 requests, of the same work)" in render_text(found)


def test_simulated_arms_are_equal_and_a_bug_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From files: one capture a run, a folder of captures, or captures joined by commas."""
    off, on, bug = (write_logs(run(mode, fault=fault, hashes=True, seed=2)) for mode, fault in (
        ("copy", ""), ("ring", ""), ("ring", "undo-in-current"),
    ))  # fmt: skip
    (tmp_path / "off").mkdir()
    for name in ("trace", "stderr", "stdout"):
        (tmp_path / "off" / name).write_text(getattr(off, name))
        (tmp_path / f"on.{name}").write_text(getattr(on, name))
    (tmp_path / "bug.log").write_text(bug.mixed)
    joined = ",".join(str(tmp_path / f"on.{name}") for name in ("trace", "stderr", "stdout"))
    assert state_diff([str(tmp_path / "off")], [joined]) == 0
    assert capsys.readouterr().out.startswith("6 of 6 requests equal (6 in all)\n")
    assert state_diff([str(tmp_path / "off")], [str(tmp_path / "bug.log")], form="json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["equal"] + data["differs"] == 6
    assert data["differs"] > 0
    assert state_diff([joined], [str(tmp_path / "off")]) == 4, "the arms are the wrong way round"
    capsys.readouterr()
    (tmp_path / "empty").write_text("nothing\n")
    with pytest.raises(TraceError, match="no request of a Strata run in it"):
        read_run(str(tmp_path / "empty"))
    with pytest.raises(TraceError, match="cannot be read"):
        read_run(str(tmp_path / "none"))


def test_equality_cannot_see_what_rules_see() -> None:
    """A ring that keeps its records is equal in every item, and no sound ring."""
    from hbtrace.strata.checks.protocol import rules

    off, bug = run("copy", hashes=True), run("ring", fault="records-not-cleared", hashes=True)
    logs = [read_logs([lines(write_logs(found).mixed)]) for found in (off, bug)]
    found = compare(logs[:1], logs[1:])
    assert (found.count("equal"), found.comparable) == (6, True)
    assert {finding.id for finding in rules(bug.events)} == {"strata.R6"}
