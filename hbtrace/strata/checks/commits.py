"""Strata's selection rules (R), and what a commit keeps (R8, C4): the checker's own table of every front stage.

What it is: what notes of commits and of the ring's records say, held against that table. What it is not: the other
rules (`protocol`), which stand on the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hbtrace.strata.checks.notes import Breaches


@dataclass
class Front:
    """What is known of one stage, from its notes alone."""

    number: int
    front: bool = True
    state: list[int] = field(default_factory=list)
    """Tensor ids: the session's own buffer, then the others."""
    side: int = -1
    stream: int = -1
    cur: int = 0
    word: int = 0
    records: dict[int, int] = field(default_factory=dict)
    """Verifier to buffer."""
    live: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Verifier to the window (seq, attempt) whose verdict or undo is due."""
    versions: dict[int, int] = field(default_factory=dict)
    recorded: dict[int, int] = field(default_factory=dict)
    """Verifier to the version that its record had."""
    open: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Verifier to the window whose inputs must stay."""
    running: set[tuple[int, int]] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    drained: bool = True
    settled: bool = False
    must_clear: int = -1
    """The row of an undo after which the records were not yet cleared."""
    bound: set[int] = field(default_factory=set)
    captured: set[int] = field(default_factory=set)
    previous: dict[tuple[int, int], str] = field(default_factory=dict)
    """Window to `ple_prev` before its speculative commit."""


class Selections:
    """The table, and the rules on each choice of buffers."""

    def __init__(self) -> None:
        self.breaches = Breaches()
        self._stages: dict[int, Front] = {}
        self._buffers, self._windows, self._state_bytes = 3, 2, -1
        self._engaged = self._refused = False
        self._seen = False
        """A `strata` note was met: this is such a trace."""
        self._queues: dict[int, str] = {}
        self._verdict: tuple[int, int, int, int] = (-1, -1, 0, 0)
        """Of the newest verdict: seq, attempt, accepted, on."""
        self._doomed = False
        self._unverified: set[int] = set()
        self._blamed: set[tuple[str, int]] = set()
        self._request_kind = ""
        self._row = 0
        self._line = 0
        self._log = ""
        self._spoiled = False

    def _find(self, rule: str, message: str, *rows: int, severity: str = "error") -> None:
        self.breaches.add(rule, severity, rows or (self._row,), message, self._line, self._log)

    def _fronts(self) -> list[Front]:
        return [front for front in self._stages.values() if front.front]

    def _of(self, attrs: dict[str, Any]) -> Front:
        return self._stages.setdefault(attrs.get("stage", 0), Front(attrs.get("stage", 0)))

    def _ring_operation(self) -> None:
        if self._refused and ("X2", 0) not in self._blamed:
            self._blamed.add(("X2", 0))
            self._find("X2", "the ring was refused, and works all the same")
        elif not self._engaged and ("X2", 1) not in self._blamed:
            self._blamed.add(("X2", 1))
            self._find("X2", "the ring works, and no line said that it was engaged")

    # commits

    def _commit(self, attrs: dict[str, Any]) -> None:
        front = self._of(attrs)
        if not front.front:
            return
        self._missing_clear()
        self._spoiled = False
        front.drained = False
        kind, before = attrs.get("kind", ""), len(self.breaches.found)
        self._counts(front, attrs, kind)
        if "src" in attrs:
            self._ring_operation()
            if not self._engaged and not self._refused:
                self._find("X1", "a commit chooses buffers in a run without the ring")
            chooser = {"spec commit": self._speculative, "undo commit": self._undone, "serial commit": self._serial}
            chooser.get(kind, self._in_place)(front, attrs)
            front.cur = attrs["dst"]
        elif self._engaged:
            self._find("X1", f"stage {front.number}: a commit of a ring run chooses no buffer")
        self._spoiled = len(self.breaches.found) > before
        if kind == "undo commit":
            front.live.clear()

    def _speculative(self, front: Front, attrs: dict[str, Any]) -> None:
        src, dst, window = attrs["src"], attrs["dst"], (attrs["seq"], attrs.get("attempt", 0))
        verifier = attrs["verifier"]
        taken = {front.cur, *front.records.values()}
        who = f"stage {front.number}: the speculative commit of {named(window)}"
        live = {front.records.get(at): held for at, held in front.live.items()}
        if src != front.cur or dst == front.cur:
            self._find("R1", f"{who} goes from {src} to {dst}, the current buffer is {front.cur}")
        elif dst in live:
            self._find("R2", f"{who} writes {dst}, which is the live record of {named(live[dst])}")
        elif verifier in front.records:
            self._find("R7", f"{who} keeps its verifier's old record while it chooses: {table(front)}")
        elif not set(range(self._buffers)) - taken:
            self._find("R7", f"{who} finds no free buffer among {self._buffers}: {table(front)}")
        elif dst in front.records.values():
            self._find("R3", f"{who} writes {dst}, which is recorded: {table(front)}", severity="warning")
        front.live[verifier] = window
        if "ple_before" in attrs:
            front.previous[window] = attrs["ple_before"]

    def _in_place(self, front: Front, attrs: dict[str, Any]) -> None:
        if not attrs["src"] == attrs["dst"] == front.cur:
            self._find(
                "R4", f"stage {front.number}: a commit in place goes from {attrs['src']} to {attrs['dst']},"
                f" the current buffer is {front.cur}",
            )  # fmt: skip

    def _serial(self, front: Front, attrs: dict[str, Any]) -> None:
        if front.cur and ("S4", front.number) not in self._blamed:
            self._blamed.add(("S4", front.number))
            self._find("S4", f"stage {front.number}: a serial commit while the state is in buffer {front.cur}")
        elif attrs["src"] or attrs["dst"]:
            self._find("S4", f"stage {front.number}: a serial commit outside the session's own buffer")
        front.word = 0

    def _undone(self, front: Front, attrs: dict[str, Any]) -> None:
        window, verifier = (attrs["seq"], attrs.get("attempt", 0)), attrs["verifier"]
        record = front.records.get(verifier, -1)
        seq, attempt, _, on = self._verdict
        who = f"stage {front.number}: the undo of {named(window)}"
        if not attrs["src"] == attrs["dst"] == record:
            self._find("R5", f"{who} replays from {attrs['src']} in {attrs['dst']}, its record is buffer {record}")
        elif (seq, attempt) != window or on == 0:
            self._find("R5", f"{who} follows the verdict of {named((seq, attempt))}")
        elif (
            front.versions.get(record, 0) != front.recorded.get(verifier, -1)
            and front.recorded.get(verifier) is not None
        ):
            self._find("P1", f"{who} reads buffer {record}, which was written since the window read it")
        front.must_clear = self._row

    def _counts(self, front: Front, attrs: dict[str, Any], kind: str) -> None:
        """R8 and C4: how many tokens a commit keeps, and the host's two previous tokens."""
        keep, tokens = attrs.get("keep", 0), attrs.get("tokens", 0)
        window = (attrs["seq"], attrs.get("attempt", 0))
        expected = tokens if kind == "spec commit" else keep
        if kind == "undo commit" and self._verdict[:2] == window:
            expected = self._verdict[2] + 1
        if keep != expected or not 1 <= keep <= tokens:
            wanted = f", not {expected}" if keep != expected else ""
            self._find(
                "R8", f"stage {front.number}: the {kind} of {named(window)} keeps {keep} of {tokens} tokens{wanted}"
            )
        elif "ple_steps" in attrs and attrs["ple_steps"] != keep:
            self._find("C4", f"ple_prev was advanced {attrs['ple_steps']} times for the {keep} kept of {named(window)}")
        if kind == "spec commit" and "ple_before" in attrs:
            front.previous[window] = attrs["ple_before"]
        undone = front.previous.get(window)
        if kind == "undo commit" and undone is not None and attrs.get("ple_before", undone) != undone:
            self._find("C4", f"the replay of {named(window)} begins with another ple_prev than its window did")

    def _ring(self, attrs: dict[str, Any]) -> None:
        front, verifier = self._of(attrs), attrs.get("verifier", -1)
        self._ring_operation()
        if attrs["do"] == "drop":
            front.records.pop(verifier, None)
            front.recorded.pop(verifier, None)
        elif attrs["do"] == "clear":
            front.records.clear()
            front.recorded.clear()
            front.must_clear = -1
        else:
            front.records[verifier] = attrs["buffer"]
            if self._spoiled:
                front.recorded.pop(verifier, None)
            else:
                front.recorded[verifier] = front.versions.get(attrs["buffer"], 0)
            if len(front.records) > self._windows:
                self._find("R7", f"stage {front.number}: more than {self._windows} records: {table(front)}")

    def _missing_clear(self) -> None:
        for front in self._fronts():
            if front.must_clear >= 0:
                row, front.must_clear = front.must_clear, -1
                if front.records:
                    self._find("R6", f"stage {front.number}: records are left after an undo: {table(front)}", row)


def named(window: tuple[int, int]) -> str:
    return f"{window[0]}" if not window[1] else f"{window[0]} (attempt {window[1] + 1})"


def table(front: Front) -> str:
    records = ", ".join(f"verifier {at}: {buffer}" for at, buffer in sorted(front.records.items()))
    return f"current {front.cur}, records {records or 'none'}"
