"""Strata's rules as checks of the registry: their words, and one pass that serves them all.

What it is: a table of ids with title, severity and reason, and the adapter from `protocol`, `grammar` and
`races` to `Rule`. What it is not: the rules themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from hbtrace.checks.model import Judgement, Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.findings import Finding, Severity
from hbtrace.replay.reports import Report
from hbtrace.strata.checks.coverage import StrataExerciser
from hbtrace.strata.checks.grammar import Grammar
from hbtrace.strata.checks.notes import Breach, is_sound
from hbtrace.strata.checks.protocol import Protocol
from hbtrace.strata.checks.races import COPY_RACES, broken_rule, copy_race
from hbtrace.strata.checks.vacuity import LOOKED_AT, WINDOW, Looked
from hbtrace.words import count

NOTES: Final = "notes of a Strata run: hbtrace simulate strata writes them, the importer makes them of its logs"

TABLE: Final[dict[str, tuple[str, str]]] = {
    "R1": (
        "a speculative commit reads the current buffer and writes another",
        "its window's snapshot is the buffer left behind",
    ),
    "R2": ("a commit never writes a live record", "an undo would go back to bytes that are gone"),
    "R3": (
        "a commit never writes a recorded buffer",
        "dead records are spared too; at depth 3 the same drift destroys live ones",
    ),
    "R4": ("a commit in place stays in the current buffer", "another buffer holds another state"),
    "R5": (
        "an undo replays in the record of the window whose verdict missed",
        "any other buffer holds another window's state",
    ),
    "R6": (
        "an undo clears every record, and none is current",
        "a stale record is later undone to, or starves the choice",
    ),
    "R7": ("a speculative commit always finds a free buffer", "the machine sticks, or overwrites what it may need"),
    "R8": ("commits keep what the verdict says", "one token more or less is another state"),
    "P1": (
        "nobody writes a record between its commit and its verdict",
        "the undo reads the version that its window read",
    ),
    "P2": ("windows never write the state", "a self-committing window changes what an undo goes back to"),
    "P3": ("who writes the session's buffer finds it settled", "the write lands beside the state in use"),
    "W1": ("a window's read of the word is ordered with every setter", "it reads an old or a torn address"),
    "W2": ("the word says what the host's mirror says", "windows compute on another buffer than commits think"),
    "W3": ("the word is set by hand only with nothing in flight", "a running window changes buffers halfway"),
    "W4": ("all verifiers' graphs carry the ring, or none", "every other window would use the session's buffer"),
    "W5": ("the ring is bound before the graphs are captured", "a captured graph keeps the old addresses"),
    "M1": ("commit words are rewritten after the commit has read them", "the commit keeps another count or buffer"),
    "M2": ("window words are rewritten after the window is done", "the window reads the next one's tokens"),
    "M3": ("flags are raised for the window in flight only", "a stale flag lets the next window run on early"),
    "C1": ("a verifier is used again after its window's verdict or undo", "the replay reads the window's own inputs"),
    "C2": ("nothing is launched on a front stage before a due undo", "it would read the doomed state"),
    "C3": ("hand-off rows are rewritten after the next stage has read them", "the next stage computes on other rows"),
    "C4": ("ple_prev is restored for a replay and advanced as often as it keeps", "later tokens see another history"),
    "C5": ("the last stage runs verified windows only", "its state has no undo"),
    "S1": ("drain, then settle, then anybody else", "the next reader finds the session's buffer stale"),
    "S2": (
        "a settle is ordered with everybody who uses the session's buffer",
        "it copies a state that is still written",
    ),
    "S3": ("a settle copies once and whole, and only if it must", "half a state, or a copy that the ring was to save"),
    "S4": ("a serial commit finds the state settled", "it writes the session's buffer, the state is elsewhere"),
    "S5": ("every front stage settles", "a later stage's state is left behind"),
    "X1": ("ring and copy are never mixed", "snapshots cost what the ring was to save, and race with it"),
    "X2": ("engaged means said, refused means copy", "an arm that measured the wrong mode measures nothing"),
    "T1": ("a guess is launched after its predecessor ended on stage 0, before its verdict", ""),
    "T2": ("a verdict accepts no more than was drafted, and all of it before a right guess", ""),
    "T3": ("a wrong guess ends, then its undo, and nothing is launched between", ""),
    "T4": ("a verdict says whether a guess was launched", ""),
    "T5": ("a stage follows the one before, never with a doomed attempt", ""),
    "T6": ("a window has one verdict, and one undo at most, which keeps one more than was accepted", ""),
    "T7": ("what is launched is launched once and ends, and what is doomed is undone", ""),
    "T8": ("the summary line counts what the trace shows", ""),
    "T9": ("windows follow in order, after an undo the corrected one, on the path", ""),
}
"""Rule -> what must hold, and why it matters."""

_GRAMMAR: Final = "a log that breaks it is cut, mixed up, or of another version: what is read out of it is wrong"


class _Family:
    """One pass for all rules of a survey."""

    def __init__(self) -> None:
        self.protocol, self.grammar, self.exerciser = Protocol(), Grammar(), StrataExerciser()
        self.races: dict[str, Tally] = {}
        self.copies: dict[str, Tally] = {}
        self.looked = Looked()
        self.notes = 0
        self.unsound = Tally()
        """Notes that lack what the rules need: left out."""
        self._ended: dict[str, list[Breach]] | None = None

    def feed(self, at: DoneRow) -> None:
        event = {"ev": at.ev, **at.event}
        if at.ev == "note":
            what, attrs = str(at.event.get("what")), at.event.get("attrs")
            if isinstance(attrs, dict) and not is_sound(what, attrs):
                self.unsound.add([at.row], what)
                return
            self.notes += what == "strata"
            self.grammar.feed(at.row, event)
            self.exerciser.feed(event)
            if isinstance(attrs, dict):
                self.looked.feed(what, attrs)
        self.protocol.feed(at.row, event)

    def race(self, report: Report) -> None:
        named, rows = copy_race(report), (report.earlier.row, report.current.row)
        if named is not None:
            self.copies.setdefault(named, Tally()).add(rows)
        elif (rule := broken_rule(report)) is not None:
            self.races.setdefault(rule, Tally()).add(rows, report.current.root or "-")

    def breaches(self) -> dict[str, list[Breach]]:
        if self._ended is None:
            self._ended = {}
            for breach in (*self.protocol.end().found, *self.grammar.end().found):
                self._ended.setdefault(breach.id, []).append(breach)
        return self._ended


_FAMILIES: WeakKeyDictionary[Survey, _Family] = WeakKeyDictionary()


class StrataRule(Rule):
    """One id of the table. Only the first of them feeds the family."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self.family = _FAMILIES.setdefault(survey, _Family())

    def finish(self) -> None:
        found = self.family.breaches().get(self.id, [])
        if self.id.startswith("strata.T"):
            for breach in found:  # each has a line of its own
                self.findings.append(Finding(self.id, "error", breach.message, list(breach.rows)))
        elif found:
            tally = Tally()
            for breach in found:
                tally.add(breach.rows)
            first = f"{found[0].message}{' (the first of them)' if len(found) > 1 else ''}"
            self.find("warning" if found[0].severity == "warning" else "error", first, tally)
        met = self.family.races.get(self._rule) if self.family.notes else None
        if met is not None:
            self.find("error", f"accesses to {met.names()} are not ordered", met)

    def missing(self) -> str | None:
        if not self.family.notes:
            return self.needs
        return None if self.family.looked.counts[self._looks_at] else f"at least one {self._looks_at}"

    def judgement(self) -> Judgement:
        judged = super().judgement()
        return replace(judged, foreign=judged.status == "not checkable" and not self.family.notes)

    def seen(self) -> str:
        return count(self.family.looked.counts[self._looks_at], self._looks_at)

    @property
    def _rule(self) -> str:
        return self.id.removeprefix("strata.")

    @property
    def _looks_at(self) -> str:
        return LOOKED_AT.get(self._rule, WINDOW)


class _Feeder(StrataRule):
    @on("note", "backend", "kernel", "copy_async", "synchronize")
    def _feed(self, at: DoneRow) -> None:
        self.family.feed(at)

    def race(self, report: Report, sort: Sort) -> None:
        self.family.race(report)


class CopyRaces(StrataRule):
    """The three of copy mode, told as what they are: a fact of the engine, dead, and no error of this run."""

    id = "strata.copy"
    severity = "info"
    title = "copy mode's races with the side stream"
    needs = NOTES
    why = "they are unordered on paper, and dead: what they can tear is overwritten before an undo reads it"
    about = "; ".join(f"{name}: {text}" for name, text in COPY_RACES.items()) + (
        ". `analyze` prints each with its consequence. The ring has none of them."
    )

    def finish(self) -> None:
        for name, met in sorted(self.family.copies.items()):
            if name in COPY_RACES:
                self.find("info", f"{name}: {COPY_RACES[name]}", met)
            else:
                self.find(
                    "error", "a speculative commit does not wait for the snapshot of the state that it overwrites", met
                )


class StrataCoverageRule(StrataRule):
    """What the run exercised: always a word of its own, never an error."""

    id = "strata.coverage"
    severity = "warning"
    title = "what the run did with guesses, undos and buffers"
    needs = NOTES
    why = "a green run that undid, settled and rotated nothing proves nothing of the ring"
    about = "Counts each front stage by itself, and says what was never seen. See `hbtrace docs strata`."

    def finish(self) -> None:
        covered = self.family.exerciser.coverage
        if self.family.notes and covered.lacks():
            self.find("info", f"{covered.verdict}: {'; '.join(covered.lacks())}")
        if self.family.notes and self.family.unsound:
            told = self.family.unsound.names()
            self.find("warning", f"notes lack keys that the rules need, and were left out: {told}", self.family.unsound)

    def seen(self) -> str:
        counters = self.family.exerciser.coverage.counters()
        return f"{self.family.exerciser.coverage.verdict}: {', '.join(f'{k} {v}' for k, v in counters.items())}"


def _made(rule: str, base: type[StrataRule]) -> type[Rule]:
    title, why = TABLE[rule]
    severity: Severity = "warning" if rule == "R3" else "error"
    words = {
        "id": f"strata.{rule}", "severity": severity, "title": title, "needs": NOTES, "why": why or _GRAMMAR,
        "about": f"{title[:1].upper()}{title[1:]}. See `hbtrace docs strata`.",
    }  # fmt: skip
    return type(f"Strata{rule}", (base,), words)


STRATA_RULES: Final[tuple[type[Rule], ...]] = (
    *(_made(rule, _Feeder if at == 0 else StrataRule) for at, rule in enumerate(TABLE)),
    CopyRaces,
    StrataCoverageRule,
)
"""For the registry, in the order of the documentation."""
