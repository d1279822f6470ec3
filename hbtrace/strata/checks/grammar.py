"""The grammar of the pipeline trace (T1 to T9): which order of launches, ends, verdicts and undos a log can have.

What it is: rules on the notes `window`, `verdict`, `undo`, `request` and `summary`, each with the line it stood in, so
they hold for an imported log as for a simulated run. What it is not: the protocol of buffers (`protocol`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hbtrace.strata.checks.notes import Breach, Breaches
from hbtrace.trace.vocabulary import EventRow

_Place = tuple[int, int, str]
"""Row, line, and the capture that the line stands in, if there were several."""


@dataclass
class _Attempt:
    """The newest attempt of a window."""

    tokens: int
    spec: bool
    where: _Place
    """Of its launch."""
    launched: dict[int, _Place] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    verdict: int | None = None
    doomed: bool = False


@dataclass
class _Request:
    number: int = -1
    windows: dict[int, _Attempt] = field(default_factory=dict)
    speculative: int = 0
    undos: int = 0
    right: int = 0
    verdict: tuple[int, int, int] | None = None
    """Of the newest: seq, accepted, on."""
    verdict_at: _Place = (0, 0, "")
    undone: int = -1
    """An undo was the last thing on stage 0, of this window."""
    undone_right: bool = False
    undo_due: bool = False
    in_loop: bool = False
    next: int | None = None
    """The number of the next window on stage 0; None before the first."""
    time: tuple[float, int] = (0.0, 0)
    """Of the newest line: milliseconds, line."""


class Grammar:
    """Reads the events once."""

    def __init__(self) -> None:
        self.breaches = Breaches()
        self._request = _Request()
        self._depth, self._last = 2, 1
        self._at = (0, 0, "")
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "strata": self._shape, "request": self._border, "window": self._window, "verdict": self._verdict,
            "undo": self._undo, "summary": self._summary,
        }  # fmt: skip

    def read(self, events: Iterable[EventRow]) -> Breaches:
        """All events, in order."""
        for row, event in enumerate(events):
            self.feed(row, event)
        return self.end()

    def feed(self, row: int, event: EventRow) -> None:
        """The next event; only notes count."""
        handler = self._handlers.get(str(event.get("what"))) if event.get("ev") == "note" else None
        attrs = event.get("attrs")
        if handler is not None and isinstance(attrs, dict):
            self._at = (row, attrs.get("line", 0), attrs.get("capture", ""))
            self._clock(attrs)
            handler(attrs)

    def end(self) -> Breaches:
        """After the last event."""
        self._close()
        return self.breaches

    def _find(self, rule: str, message: str, at: _Place | None = None) -> None:
        row, line, capture = at or self._at
        self.breaches.add(rule, "error", (row,), message, line, capture)

    def _clock(self, attrs: dict[str, Any]) -> None:
        """T9: a log is written in the order in which things happened."""
        time = attrs.get("time")
        if not isinstance(time, float) or not self._at[1]:
            return
        before, line = self._request.time
        if time < before:
            self._find("T9", f"{time:.3f} ms is before line {line}, {before:.3f} ms")
        self._request.time = time, self._at[1]

    def _shape(self, attrs: dict[str, Any]) -> None:
        self._depth, self._last = attrs.get("windows", 2), attrs.get("stages", 2) - 1

    def _border(self, attrs: dict[str, Any]) -> None:
        if attrs.get("do") == "begin":
            self._close()
            self._request = _Request(attrs.get("request", -1), in_loop=True)
        else:
            self._close()

    def _close(self) -> None:
        """T7: what a request leaves open."""
        request = self._request
        if not request.in_loop:
            return
        request.in_loop = False
        for seq, window in request.windows.items():
            self._left_open(seq, window)
        if request.undo_due and request.verdict is not None:
            self._find("T7", f"window {request.verdict[0] + 1} was doomed, and no U follows", request.verdict_at)

    def _left_open(self, seq: int, window: _Attempt) -> None:
        for stage, at in window.launched.items():
            if stage not in window.done:
                self._find("T7", f"L{stage} {seq} has no F{stage}", at)

    # windows

    def _window(self, attrs: dict[str, Any]) -> None:
        if attrs.get("kind", "decode") != "decode":
            return
        if attrs.get("do") == "done":
            self._finished(attrs["seq"], attrs["stage"], attrs.get("tokens", 0))
        elif attrs["stage"] == 0:
            self._launched(attrs["seq"], attrs.get("tokens", 0), bool(attrs.get("spec")))
        else:
            self._advanced(attrs["seq"], attrs["stage"], attrs.get("tokens", 0))

    def _launched(self, seq: int, tokens: int, spec: bool) -> None:
        request = self._request
        if request.undo_due and request.verdict is not None:
            self._find("T3", f"L0 {seq} between the wrong guess after window {request.verdict[0]} and its U")
        elif request.undone >= 0 and (seq != request.undone + 1 or spec):
            wanted = f"L0 {request.undone + 1} on the path"
            self._find("T9", f"after U {request.undone} comes L0 {seq}{' as a guess' if spec else ''}, not {wanted}")
        elif request.next is not None and seq != request.next:
            self._out_of_turn(seq, request.next)
        elif spec:
            self._guessed(seq)
        elif any(window.verdict is None for number, window in request.windows.items() if number < seq):
            self._find("T1", f"L0 {seq} is on the path, and V {seq - 1} has not been")
        if request.undone_right:
            self._find("T6", f"L0 {seq} after an undo of a right guess, which only ends a request")
        request.undone, request.undone_right = -1, False
        before = request.windows.get(seq)
        if before is not None:
            self._left_open(seq, before)
        request.windows[seq] = window = _Attempt(tokens, spec, self._at)
        window.launched[0] = self._at
        request.speculative += spec
        request.next = seq + 1

    def _out_of_turn(self, seq: int, due: int) -> None:
        if seq in self._request.windows:
            self._find("T7", f"L0 {seq} again, and no U has given its number back")
        else:
            self._find("T9", f"L0 {seq}, and L0 {due} is due")

    def _guessed(self, seq: int) -> None:
        ahead = self._request.windows.get(seq - 1)
        if ahead is None or 0 not in ahead.done:
            self._find("T1", f"L0 {seq} is a guess, and F0 {seq - 1} has not been")
        elif ahead.verdict is not None:
            self._find("T1", f"L0 {seq} is a guess, and V {seq - 1} has been")

    def _advanced(self, seq: int, stage: int, tokens: int) -> None:
        window = self._request.windows.get(seq)
        if window is None or stage - 1 not in window.done:
            self._find("T5", f"L{stage} {seq} before F{stage - 1} {seq}")
            window = window or self._unknown(seq)
        elif window.doomed:
            self._find("T5", f"L{stage} {seq} of a doomed attempt")
        elif stage in window.launched:
            self._find("T7", f"L{stage} {seq} again")
        elif tokens != window.tokens:
            self._find("T7", f"L{stage} {seq} has {tokens} tokens, its L0 {window.tokens}")
        window.launched[stage] = self._at

    def _finished(self, seq: int, stage: int, tokens: int) -> None:
        window = self._request.windows.get(seq)
        if window is None or stage not in window.launched or stage in window.done:
            self._find("T7", f"F{stage} {seq} without its L{stage}")
            window = window or self._unknown(seq)
            window.launched.setdefault(stage, self._at)
        elif tokens != window.tokens:
            self._find("T7", f"F{stage} {seq} has {tokens} tokens, its L0 {window.tokens}")
        window.done.add(stage)

    def _unknown(self, seq: int) -> _Attempt:
        return self._request.windows.setdefault(seq, _Attempt(0, False, self._at))

    # verdicts

    def _verdict(self, attrs: dict[str, Any]) -> None:
        request, seq, accepted, on = self._request, attrs["seq"], attrs.get("a", 0), attrs.get("on", 0)
        window = request.windows.get(seq)
        if window is None or self._last not in window.done:
            self._find("T5", f"V {seq} before F{self._last} {seq}")
            window = window or self._unknown(seq)
        elif window.verdict is not None:
            self._find("T6", f"V {seq} again")
        elif (before := request.windows.get(seq - 1)) is not None and before.verdict is None:
            self._find("T6", f"V {seq} before V {seq - 1}")
        elif on not in (-1, 0, 1):
            self._find("T2", f"V {seq} says {on} of the next guess, and 1, 0 and -1 are what it can say")
        elif not 0 <= accepted < window.tokens:
            self._find("T2", f"V {seq} accepts {accepted} drafts of a window of {window.tokens} tokens")
        elif on == 1 and accepted != window.tokens - 1:
            self._find("T2", f"V {seq} accepts {accepted} of {window.tokens} tokens, and says the next guess was right")
        else:
            self._guess_told(seq, on)
        window.verdict = on
        request.right += on == 1
        request.verdict, request.verdict_at = (seq, accepted, on), self._at
        if on == -1:
            request.undo_due = True
            for later, other in request.windows.items():
                other.doomed |= later > seq and other.verdict is None

    def _guess_told(self, seq: int, on: int) -> None:
        """T3 and T4: what a verdict says of the next guess."""
        following = self._request.windows.get(seq + 1)
        launched = following is not None and following.verdict is None
        if on == 0 and launched:
            self._find("T4", f"V {seq} says that no guess was launched, and L0 {seq + 1} has been")
        elif on == -1 and not launched:
            self._find("T3", f"V {seq} says that the guess was wrong, and no L0 {seq + 1} has been")
        elif on == 1 and not launched:
            self._find("T4", f"V {seq} says that the guess was right, and no L0 {seq + 1} has been")

    def _undo(self, attrs: dict[str, Any]) -> None:
        request, seq, keep = self._request, attrs["seq"], attrs.get("keep", 0)
        request.undos += 1
        told = request.verdict
        following = request.windows.get(seq + 1)
        if told is None or told[0] != seq or told[2] == 0:
            after = "no verdict" if told is None else f"V {told[0]} {told[1]} {told[2]}"
            self._find("T6", f"U {seq} follows {after}")
        elif request.undone == seq:
            self._find("T6", f"U {seq} again")
        elif keep != told[1] + 1:
            self._find("T6", f"U {seq} keeps {keep}, its verdict accepted {told[1]}: {told[1] + 1} are to be kept")
        elif following is not None and 0 not in following.done:
            self._find("T3", f"U {seq} before F0 {seq + 1}: the doomed window still runs")
        request.undone_right = told is not None and told[2] == 1
        if request.undone_right:
            for later, other in request.windows.items():
                other.doomed |= later > seq and other.verdict is None
        request.undo_due, request.undone = False, seq
        request.next = seq + 1
        for later in [later for later in request.windows if later > seq]:
            if request.windows[later].done >= request.windows[later].launched.keys():
                del request.windows[later]  # its number is free for the corrected window

    # the summary

    def _summary(self, attrs: dict[str, Any]) -> None:
        """T8, exactly. With more than two windows an undo may roll back several, so only then #U may be less than R."""
        request = self._request
        said, on_path, rolled = attrs.get("speculative", 0), attrs.get("on_path", 0), attrs.get("rolled_back", 0)
        ended_right = int(request.undone_right)
        parts = []
        if request.speculative != said:
            parts.append(f"{said} speculative, the trace has {request.speculative}")
        if said != on_path + rolled:
            parts.append(f"{said} speculative are not {on_path} on the path and {rolled} rolled back")
        if request.undos != rolled and (self._depth == 2 or request.undos > rolled):
            parts.append(f"{rolled} rolled back, the trace has {request.undos} undos")
        if request.right != on_path + ended_right:
            parts.append(f"{on_path} on the path, the trace has {request.right} right guesses, {ended_right} undone")
        if parts:
            self._find("T8", f"the summary of request {request.number}: {'; '.join(parts)}")


def grammar(events: Iterable[EventRow]) -> list[Breach]:
    """What the events break of T1 to T9, in order."""
    return Grammar().read(events).found
