"""Strata's protocol rules on a trace: write protection, the word, commit inputs, settle and mode (P, W, M, C, S, X).

What it is: one pass over the events that keeps its own table of every front stage from the notes, and holds each
selection, launch and settle against it. What it is not: happens-before (`races` names races by these rules)
or the log's grammar (`grammar`). Rules and sources: `hbtrace docs strata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from hbtrace.strata.checks.commits import Front, Selections, named
from hbtrace.strata.checks.notes import Breach, Breaches
from hbtrace.trace.vocabulary import EventRow

_SELECTING: Final = frozenset({"ring", "commit"})
"""Notes between which an undo may still clear its records."""


class Protocol(Selections):
    """Reads the events once; `breaches` has what they break."""

    def __init__(self) -> None:
        super().__init__()
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "strata": self._shape, "stage": self._stage, "engage": self._engage, "refuse": self._refuse,
            "bind": self._bind, "capture": self._capture, "request": self._request, "window": self._window,
            "commit": self._commit, "ring": self._ring, "verdict": self._verdict_of, "undo": self._undo,
            "snap_take": self._snapshot, "settle": self._settle, "drain": self._drain, "session": self._session,
            "state_hash": self._state_hash, "flag": self._flag,
        }  # fmt: skip

    def read(self, events: Iterable[EventRow]) -> Breaches:
        """All events, in order."""
        for row, event in enumerate(events):
            self.feed(row, event)
        return self.end()

    def feed(self, row: int, event: EventRow) -> None:
        """The next event."""
        self._row = row
        ev = event.get("ev")
        if ev == "note":
            attrs = event.get("attrs")
            what = str(event.get("what"))
            if what in self._handlers and isinstance(attrs, dict):
                # What a step makes of commits has no line of its own: it is the step's.
                if "line" in attrs or what == "request":
                    self._line, self._log = attrs.get("line", 0), attrs.get("capture", "")
                if what not in _SELECTING:
                    self._missing_clear()
                self._handlers[what](attrs)
        elif ev == "backend":
            self._queues[event["id"]] = str(event.get("name"))
        elif ev == "synchronize":
            for front in self._stages.values():
                front.drained |= front.stream == event.get("backend")
        elif self._seen and ev in ("kernel", "copy_async"):
            self._missing_clear()
            self._work(event)

    def end(self) -> Breaches:
        """After the last event."""
        self._missing_clear()
        for front in self._fronts():
            if front.captured and front.bound and front.bound != front.captured:
                unbound = ", ".join(map(str, sorted(front.captured - front.bound)))
                self._find(
                    "W4", f"stage {front.number}: the graphs of verifier {unbound} do not carry the ring, others do"
                )
        return self.breaches

    # set-up

    def _shape(self, attrs: dict[str, Any]) -> None:
        self._seen = True
        self._buffers, self._windows = attrs.get("buffers", 3), attrs.get("windows", 2)
        if "layers" in attrs and "layer_bytes" in attrs:
            self._state_bytes = attrs["layers"] * attrs["layer_bytes"]

    def _stage(self, attrs: dict[str, Any]) -> None:
        number = attrs["stage"]
        queues = {name: queue for queue, name in self._queues.items()}
        self._stages[number] = Front(
            number, bool(attrs.get("front")), list(attrs.get("state", ())), queues.get(attrs.get("side", ""), -1),
            queues.get(attrs.get("stream", ""), -1),
        )  # fmt: skip

    def _engage(self, _: dict[str, Any]) -> None:
        self._engaged = True

    def _refuse(self, _: dict[str, Any]) -> None:
        self._refused = True

    def _bind(self, attrs: dict[str, Any]) -> None:
        front, verifier = self._of(attrs), attrs["verifier"]
        self._ring_operation()
        if verifier in front.captured:
            self._find("W5", f"stage {front.number}: verifier {verifier} got the ring after its graphs were captured")
        front.bound.add(verifier)

    def _capture(self, attrs: dict[str, Any]) -> None:
        self._of(attrs).captured.add(attrs["verifier"])

    # requests

    def _request(self, attrs: dict[str, Any]) -> None:
        if attrs.get("do") == "begin":
            self._request_kind = attrs.get("kind", "")
            self._verdict, self._doomed = (-1, -1, 0, 0), False
            self._unverified.clear()
            for front in self._stages.values():
                front.open.clear()
                front.running.clear()
                front.done.clear()
                front.live.clear()
                front.previous.clear()
                front.settled = False
            if self._request_kind == "serial":
                self._must_be_settled("a serial request begins")
            return
        self._must_be_settled("the request ends")
        if not self._engaged or self._request_kind != "pipelined":
            return
        some = any(front.settled for front in self._fronts())
        for front in self._fronts():
            if front.settled:
                continue
            if some:
                self._find("S5", f"stage {front.number} did not settle at the request's end, other stages did")
            elif ("S1", front.number) not in self._blamed:  # in place by luck: the next request's state may not be
                self._blamed.add(("S1", front.number))
                self._find("S1", f"stage {front.number}: the request ends, and nobody settled")

    def _must_be_settled(self, when: str) -> None:
        """S1, once a stage and request: afterwards its state is taken to be where it should be."""
        if not self._engaged:
            return
        for front in self._fronts():
            if (front.cur or front.word) and ("S1", front.number) not in self._blamed:
                self._blamed.add(("S1", front.number))
                what = f"buffer {front.cur}" if front.cur else f"its own buffer, but the word names {front.word}"
                self._find("S1", f"stage {front.number}: {when}, and the state is in {what}: not settled")

    def _session(self, attrs: dict[str, Any]) -> None:
        self._must_be_settled(f"{attrs.get('do')} follows")

    def _state_hash(self, _: dict[str, Any]) -> None:
        self._must_be_settled("the state is hashed")

    def _drain(self, _: dict[str, Any]) -> None:
        for front in self._stages.values():
            front.drained = True

    # windows and verdicts

    def _window(self, attrs: dict[str, Any]) -> None:
        front, window = self._of(attrs), (attrs["seq"], attrs.get("attempt", 0))
        if attrs.get("do") == "done":
            front.running.discard(window)
            front.done.add(window[0])
            return
        front.running.add(window)
        front.drained = False
        self._word(front, attrs)
        if attrs.get("kind", "decode") != "decode":
            return
        verifier = attrs["verifier"]
        if front.front and self._doomed:
            self._find("C2", f"stage {front.number}: window {named(window)} was launched before the undo")
        elif verifier in front.open and front.open[verifier] != window:
            held = named(front.open[verifier])
            self._find(
                "C1", f"stage {front.number}: window {named(window)} takes the verifier of {held}, which has no verdict"
            )
        if not front.front and any(seq < window[0] for seq in self._unverified):
            self._find("C5", f"the last stage runs window {named(window)}, which is only a guess")
        following = self._stages.get(front.number + 1)
        before = window[0] - self._windows
        if (
            following is not None
            and before in front.done
            and before not in following.done
            and before in self._unverified
        ):
            self._find("C3", f"stage {front.number}: window {named(window)} writes the rows of {before}, unread yet")
        front.open[verifier] = window
        front.done.discard(window[0])
        self._unverified.add(window[0])

    def _flag(self, attrs: dict[str, Any]) -> None:
        front, window = self._of(attrs), (attrs["seq"], attrs.get("attempt", 0))
        if window not in front.running:
            self._find(
                "M3", f"stage {front.number}: a flag is raised for window {named(window)}, which is not in flight"
            )

    def _word(self, front: Front, attrs: dict[str, Any]) -> None:
        if "word" not in attrs:
            return
        word, mirror = attrs["word"], attrs.get("mirror", front.cur)
        if word != mirror or word != front.cur:
            expected = mirror if word != mirror else front.cur
            self._find(
                "W2",
                f"stage {front.number}: window {attrs['seq']} reads buffer {word}, the host's mirror says {expected}",
            )
        front.word = word

    def _verdict_of(self, attrs: dict[str, Any]) -> None:
        seq, attempt, on = attrs["seq"], attrs.get("attempt", 0), attrs.get("on", 0)
        self._verdict = (seq, attempt, attrs.get("a", 0), on)
        self._unverified.discard(seq)
        self._doomed = on == -1
        for front in self._stages.values():
            verifier = seq % self._windows
            if on != -1 or not front.front:
                front.live.pop(verifier, None)
                front.open.pop(verifier, None)

    def _undo(self, attrs: dict[str, Any]) -> None:
        self._doomed = False
        self._unverified = {seq for seq in self._unverified if seq <= attrs["seq"]}
        for front in self._stages.values():
            front.open.clear()

    # settle and mode

    def _settle(self, attrs: dict[str, Any]) -> None:
        front = self._of(attrs)
        self._ring_operation()
        source, copied = attrs.get("source", 0), attrs.get("bytes", 0)
        who = f"stage {front.number}: settle"
        if attrs.get("when") == "end":
            front.settled = True
        if not front.drained:
            self._find("S1", f"{who} comes before the stages are drained")
        if front.running:
            self._find("W3", f"{who} sets the word while a window runs")
        if (copied > 0) != (source != 0):
            self._find("S3", f"{who} copies {copied} bytes from buffer {source}")
        elif copied and self._state_bytes >= 0 and copied != self._state_bytes:
            self._find("S3", f"{who} copies {copied} bytes, the state has {self._state_bytes}")
        if source != front.cur:
            self._find("S1", f"{who} copies from buffer {source}, the state is in {front.cur}")
        front.cur, front.word = 0, attrs.get("word", 0)
        front.records.clear()
        front.recorded.clear()
        front.live.clear()
        self._blamed.discard(("S1", front.number))
        self._blamed.discard(("S4", front.number))
        if front.word:
            self._must_be_settled("settled")

    def _snapshot(self, attrs: dict[str, Any]) -> None:
        if self._engaged and ("X1", attrs["stage"]) not in self._blamed:
            self._blamed.add(("X1", attrs["stage"]))
            self._find("X1", f"stage {attrs['stage']}: a snapshot is copied in a ring run")

    def _work(self, event: EventRow) -> None:
        """Queued work: who writes which buffer of which stage's state."""
        label = str(event.get("label", ""))
        ranges = event.get("writes") or ([event["dst"]] if "dst" in event else [])
        reads = event.get("reads") or ([event["src"]] if "src" in event else [])
        for front in self._fronts():
            written = {front.state.index(part["tensor"]) for part in ranges if part.get("tensor") in front.state}
            touched = written or any(part.get("tensor") in front.state for part in reads)
            aside = touched and self._engaged and event.get("backend") == front.side
            if aside and ("X1", front.number) not in self._blamed:
                self._blamed.add(("X1", front.number))
                self._find("X1", f"stage {front.number}: the side stream touches the state in a ring run")
            for buffer in written:
                self._written(front, buffer, label)

    def _written(self, front: Front, buffer: int, label: str) -> None:
        front.versions[buffer] = front.versions.get(buffer, 0) + 1
        if not self._engaged:
            return
        if label.startswith("window"):
            self._find("P2", f"stage {front.number}: a window writes buffer {buffer} of the state")
        elif label in ("session_zero", "restore") and (front.cur or front.word or front.running):
            self._find(
                "P3", f"stage {front.number}: {label} writes the session's buffer of a stage that is not settled"
            )
        elif label in ("spec commit", "in-place commit") and not self._spoiled:
            live = {front.records.get(at): window for at, window in front.live.items()}
            if buffer in live:
                self._find(
                    "P1", f"stage {front.number}: {label} writes {buffer}, the live record of {named(live[buffer])}"
                )
        if label not in ("settle", "session_zero", "restore"):
            front.word = buffer if label.endswith("commit") else front.word


def rules(events: Iterable[EventRow]) -> list[Breach]:
    """What the events break of the protocol rules, in order."""
    return Protocol().read(events).found
