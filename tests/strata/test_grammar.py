"""T1 to T9: each kind of broken log is rejected with its line, its sound twin is not."""

from __future__ import annotations

import random

import pytest

from hbtrace.errors import TraceError
from hbtrace.strata.checks.grammar import grammar
from hbtrace.strata.logs.importer import events, events_of
from hbtrace.strata.model.written_logs import write_logs
from tests.strata.runs import lines, run

SOUND = """# request p0=9
0.100 L0 0 3 0
0.200 F0 0 3 0
0.300 L1 0 3 0
0.400 L0 1 2 1
0.500 F1 0 3 0
0.600 F0 1 2 1
0.700 V 0 2 1
0.800 L1 1 2 0
0.900 L0 2 4 1
1.000 F1 1 2 0
1.100 V 1 0 -1
1.200 F0 2 4 1
1.300 U 1 1 0
1.400 L0 2 1 0
1.500 F0 2 1 0
1.600 L1 2 1 0
1.700 F1 2 1 0
1.800 V 2 0 0
strata pipeline: 3 windows in 1.8 ms (0.60 ms/window): 2 speculative, 1 on the path, 1 rolled back, \
0 below the gate (theta 0.50)
"""


def found(text: str) -> list[tuple[str, int]]:
    return [(finding.id.removeprefix("strata."), finding.line) for finding in grammar(events(lines(text)))]


def moved(text: str, line: int, before: int) -> str:
    """Line `line` moved in front of line `before`, both from 1."""
    rows = text.splitlines(keepends=True)
    row = rows.pop(line - 1)
    rows.insert(before - 1 - (line < before), row)
    return "".join(rows)


def without(text: str, line: int) -> str:
    rows = text.splitlines(keepends=True)
    del rows[line - 1]
    return "".join(rows)


def put(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


BROKEN = {
    "a guess before its predecessor ended": (moved(SOUND, 5, 3), "T1", 3),
    "a guess after the verdict": (put(moved(SOUND, 5, 9), "V 0 2 1", "V 0 2 0"), "T1", 8),
    "a right guess after a rejected draft": (put(SOUND, "V 0 2 1", "V 0 1 1"), "T2", 8),
    "an undo before the doomed window ended": (moved(SOUND, 13, 15), "T3", 13),
    "a launch before the undo": (moved(SOUND, 15, 14), "T3", 14),
    "a wrong guess that was never launched": (put(SOUND, "V 2 0 0", "V 2 0 -1"), "T3", 19),
    "a launched guess that the verdict denies": (put(SOUND, "V 0 2 1", "V 0 2 0"), "T4", 8),
    "the next stage before the one before": (moved(SOUND, 4, 3), "T5", 3),
    "a doomed attempt on the last stage": (put(SOUND, "1.300 U", "1.250 L1 2 4 0\n1.260 F1 2 4 0\n1.300 U"), "T5", 14),
    "a verdict before the last stage ended": (moved(SOUND, 11, 13), "T5", 11),
    "an undo of another count": (put(SOUND, "U 1 1 0", "U 1 2 0"), "T6", 14),
    "an undo of another window": (put(SOUND, "U 1 1 0", "U 0 1 0"), "T6", 14),
    "a launch after the undo of a right guess": (
        put(put(SOUND, "V 1 0 -1", "V 1 1 1"), "U 1 1 0", "U 1 2 0"), "T6", 15,
    ),
    "a launch without an end": (without(SOUND, 18), "T7", 17),
    "an end without a launch": (without(SOUND, 2), "T7", 2),
    "a doomed window without an undo": ("".join(SOUND.splitlines(keepends=True)[:13]), "T7", 12),
    "an end of another size": (put(SOUND, "F0 0 3 0", "F0 0 2 0"), "T7", 3),
    "too many speculative": (put(SOUND, "2 speculative", "3 speculative"), "T8", 20),
    "too few on the path": (put(SOUND, "1 on the path", "0 on the path"), "T8", 20),
    "too many rolled back": (put(SOUND, "1 rolled back", "2 rolled back"), "T8", 20),
    "another window after the undo": (put(put(SOUND, "L0 2 1 0", "L0 3 1 0"), "F0 2 1 0", "F0 3 1 0"), "T9", 15),
    "a verdict twice": (put(SOUND, "0.700 V 0 2 1\n", "0.700 V 0 2 1\n0.710 V 0 2 1\n"), "T6", 9),
    "a verdict left out": (without(SOUND, 8), "T6", 11),
    "an undo twice": (put(SOUND, "1.300 U 1 1 0\n", "1.300 U 1 1 0\n1.310 U 1 1 0\n"), "T6", 15),
    "an undo of a negative count": (put(SOUND, "U 1 1 0", "U 1 -5 0"), "T6", 14),
    "a launch twice": (put(SOUND, "1.500 F0 2 1 0\n", "1.500 F0 2 1 0\n1.510 L0 2 1 0\n1.520 F0 2 1 0\n"), "T7", 17),
    "a later stage twice": (put(SOUND, "0.500 F1 0 3 0\n", "0.500 F1 0 3 0\n0.510 L1 0 3 0\n"), "T7", 7),
    "a later stage of another size": (put(SOUND, "L1 0 3 0", "L1 0 2 0"), "T7", 4),
    "a window left out": (SOUND.replace(" 2 1 0\n", " 3 1 0\n").replace("V 2 0 0", "V 3 0 0"), "T9", 15),
    "a number that is not due": (put(put(SOUND, "L0 1 2 1", "L0 5 2 1"), "F0 1 2 1", "F0 5 2 1"), "T9", 5),
    "a launch on the path before the verdict": (put(SOUND, "L0 1 2 1", "L0 1 2 0"), "T1", 5),
    "a word that no verdict has": (put(SOUND, "V 2 0 0", "V 2 0 2"), "T2", 19),
    "more accepted than drafted": (put(SOUND, "V 2 0 0", "V 2 1 0"), "T2", 19),
    "fewer accepted than none": (put(SOUND, "V 2 0 0", "V 2 -1 0"), "T2", 19),
    "a window of no tokens": (SOUND.replace(" 2 1 0\n", " 2 0 0\n"), "T2", 19),
    "a time that runs back": (put(SOUND, "1.700 F1 2 1 0", "1.550 F1 2 1 0"), "T9", 18),
    "a guess after the undo": (put(SOUND, "L0 2 1 0", "L0 2 1 1"), "T9", 15),
}  # fmt: skip


def test_the_sound_log_is_sound() -> None:
    assert found(SOUND) == []


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_log_is_rejected_with_its_line(name: str) -> None:
    text, rule, line = BROKEN[name]
    assert (rule, line) in found(text)


def test_the_sentences() -> None:
    (finding,) = grammar(events(lines(put(SOUND, "V 0 2 1", "V 0 1 1"))))
    assert finding.message == "line 8: V 0 accepts 1 of 3 tokens, and says the next guess was right"
    text = put(SOUND, "1 rolled back", "2 rolled back")
    (finding,) = grammar(events(lines(text)))
    assert finding.message == (
        "line 20: the summary of request 0: 2 speculative are not 1 on the path and 2 rolled back;"
        " 2 rolled back, the trace has 1 undos"
    )


def test_of_several_captures_the_line_says_of_which() -> None:
    steps = SOUND.splitlines(keepends=True)
    trace, stderr = without("".join(steps[:-1]), 18), put(steps[-1], "1 rolled back", "2 rolled back")
    stdout = "".join(f"T {n}\n" for n in range(5)) + "DONE 5 10 1.0 2.0 stop 0 0 0\n"
    rows = list(events_of([_Capture("/logs/pipeline.trace", trace), _Capture("err", stderr), lines(stdout)]))
    said = [finding.message.partition(":")[0] for finding in grammar(rows)]
    assert said == ["pipeline.trace, line 18", "err, line 1", "pipeline.trace, line 17"]


class _Capture(list[bytes]):
    def __init__(self, path: str, text: str) -> None:
        super().__init__(lines(text))
        self.path = path


def test_a_right_guess_is_undone_where_the_request_ends() -> None:
    """The engine's own exception: T6 allows it, T8 counts it."""
    text = "".join(SOUND.splitlines(keepends=True)[:8]) + "0.900 U 0 3 0\n"
    summary = (
        "strata pipeline: 1 windows in 0.9 ms (0.90 ms/window): 1 speculative, {} on the path, {} rolled back,"
        " 0 below the gate (theta 0.50)\n"
    )
    assert found(text + summary.format(0, 1)) == []
    assert ("T8", 10) in found(text + summary.format(1, 0))


def test_no_line_twice_is_harmless() -> None:
    """Of a launch, an end, a verdict or an undo."""
    rows = SOUND.splitlines(keepends=True)
    for at in range(1, 19):
        assert found("".join(rows[: at + 1] + rows[at:])), rows[at]


def test_a_window_that_the_model_cannot_hold_is_refused() -> None:
    text = SOUND.replace(" 0 3 0\n", " 0 17 0\n")
    with pytest.raises(TraceError, match=r"^line 2: L0 has 17 tokens, and at most 16 are played"):
        found(text)


def test_any_line_left_out_or_swapped_is_noticed_or_harmless() -> None:
    """Over random damage nothing crashes, and most is noticed; order of independent stages may be swapped."""
    noticed = total = 0
    for seed in range(4):
        rows = write_logs(run(seed=seed)).mixed.splitlines(keepends=True)
        steps = [at for at, row in enumerate(rows) if row[0].isdigit()]
        rng = random.Random(seed)
        for _ in range(12):
            damaged, at = list(rows), rng.choice(steps)
            del damaged[at]
            total += 1
            noticed += bool(found("".join(damaged)))
    assert noticed > total * 0.9
