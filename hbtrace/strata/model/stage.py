"""One stage of the pipeline: its stream, its memory, and what windows, commits, snapshots and undos do to them.

What it is: the rows and edges of each operation of section 1 and 4 of the model, in ring and copy mode, with the bytes.
The word and the selection words are data: kernels read them when they run, and a row names what was in force at its
launch. What it is not: it keeps no order between stages; that is the host's (`strata_engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hbtrace.strata.model.ring import RingSelection, Selector
from hbtrace.strata.model.steps import MOST_TOKENS, RunShape
from hbtrace.strata.model.tape import BlockMemory, BlockPlace, StrataTape
from hbtrace.strata.model.values import ROW, committed, rows_of

WORD: Final = 8
_COMMIT_WORDS: Final = 3 * WORD
"""n_keep, and the two selection words."""


@dataclass
class StageWindow:
    """A window of a request. `seq` is used again after a wrong guess: (seq, attempt) tells windows apart."""

    seq: int
    attempt: int
    tokens: int
    position: int
    words: list[int]
    forced: bool = False
    kind: str = "decode"
    verified: bool = False
    doomed: bool = False


class Stage:
    """A front stage, or the last one, whose state never needs an undo."""

    def __init__(self, shape: RunShape, tape: StrataTape, number: int, cells: int) -> None:
        self.shape, self.tape, self.number = shape, tape, number
        self.is_last = number == shape.last
        self.selector = Selector(shape.windows, shape.fault)
        self.speculative: set[int] = set()
        """Windows (by seq) of this request whose commit here was speculative."""
        self.word = 0
        """What the device word holds once all that was launched has run."""
        self.stream, self.side = f"s{number}", f"side{number}"
        self.queues = [self.stream] if self.is_last else [self.stream, self.side]
        self.session = f"gdn{number}"
        self.buffers = [self.session]
        self.cells = f"kv{number}"
        self._kind = f"CUDA{number}"
        self._define(cells)

    def _define(self, cells: int) -> None:
        tape, number, size = self.tape, self.number, self.shape.state_bytes
        tape.queue(self.stream, device=self._kind)
        tape.block(self.session, size, self._kind)
        tape.block(self.cells, cells * ROW, self._kind)
        if not self.is_last:
            tape.queue(self.side, device=self._kind)
            for at in range(self.shape.windows):
                self.buffers.append(f"snap{number}.{at}")
                tape.block(self.buffers[-1], size, self._kind)
            if self.shape.ring:
                tape.block(f"cur{number}", WORD, self._kind)
        for parity in range(self.shape.windows):
            tape.block(f"commit_in{number}.{parity}", MOST_TOKENS * ROW, self._kind)
            for name, length in (
                ("h_commit", _COMMIT_WORDS), ("h_win", MOST_TOKENS * 4), ("rows", MOST_TOKENS * ROW),
                ("h_x", ROW), ("h_y", ROW),
            ):  # fmt: skip
                tape.block(f"{name}{number}.{parity}", length, "CUDA_Host", host=True)

    def describe(self) -> None:
        """Notes that name this stage's memory for the rules, and what was bound before what was captured."""
        tape = self.tape
        names = [tape.blocks[name].ident for name in self.buffers]
        ring = self.shape.ring and not self.is_last
        word = {"word": tape.blocks[f"cur{self.number}"].ident} if ring else {}
        tape.note(
            "stage", stage=self.number, front=not self.is_last, stream=self.stream,
            side="" if self.is_last else self.side, state=names, **word,
        )  # fmt: skip
        late = self.shape.fault == "bind-after-capture"
        for parity in range(self.shape.windows):
            bound = ring and not (self.shape.fault == "one-verifier-unbound" and parity == 1)
            for what in ("capture", "bind") if late else ("bind", "capture"):
                if what == "capture" or bound:
                    tape.note(what, stage=self.number, verifier=parity)

    def free(self) -> None:
        for name in self.buffers[1:]:
            self.tape.free(name)

    # windows

    def launch(self, window: StageWindow, *, speculative: bool, attrs: Mapping[str, Any]) -> None:
        """Restage the verifier's words, take the snapshot (copy mode), and launch up to the doorbell."""
        tape, parity = self.tape, self._parity(window)
        copies = not self.shape.ring or self.shape.fault == "snapshot-in-ring"
        if copies and window.kind == "decode" and not self.is_last:
            self._snapshot(window)
        extra = {"word": self.word, "mirror": self.selector.cur} if self._ringed else {}
        told = {"tokens": window.tokens, **extra, **attrs}  # a log may give a number that cannot be played
        tape.note(
            "window", do="launch", stage=self.number, seq=window.seq, attempt=window.attempt, spec=speculative,
            forced=window.forced, kind=window.kind, verifier=parity, **told,
        )  # fmt: skip
        words, ask = f"h_win{self.number}.{parity}", f"h_x{self.number}.{parity}"
        text = b"".join(token.to_bytes(4, "little") for token in window.words)

        def staged(memory: BlockMemory) -> None:
            memory[words][: len(text)] = text

        def asked(memory: BlockMemory) -> None:
            memory[ask][:] = rows_of(b"", b"", bytes(memory[words][:4]), b"", b"")

        tape.host("stage words", [], [(words, 0, len(text))], staged)
        tape.kernel(self.stream, "window: ask", [(words, 0, len(text))], [ask], asked)
        tape.release(f"ring{self.number}.{parity}", self.stream)
        if self.shape.fault == "window-words-early":
            tape.host("stage words", [], [(words, 0, len(text))], _cleared(words))

    def finish(self, window: StageWindow, *, attrs: Mapping[str, Any]) -> None:
        """Answer the window's doorbell, let it run to its end, and see its event done."""
        tape, parity = self.tape, self._parity(window)
        ask, answer = f"h_x{self.number}.{parity}", f"h_y{self.number}.{parity}"

        def answered(memory: BlockMemory) -> None:
            memory[answer][:] = bytes(byte ^ 0xFF for byte in memory[ask])

        tape.acquire(f"ring{self.number}.{parity}")
        tape.host("answer", [ask], [answer], answered)
        self._raise_flag(window, parity)
        tape.acquire(f"flag{self.number}.{parity}", self.stream)
        self._body(window, parity)
        tape.record(self.stream, f"done{self.number}.{parity}")
        tape.query(f"done{self.number}.{parity}")
        told = {"tokens": window.tokens, **attrs}  # a log may give another number than at the launch
        tape.note(
            "window", do="done", stage=self.number, seq=window.seq, attempt=window.attempt, kind=window.kind,
            verifier=parity, **told,
        )  # fmt: skip
        if self.shape.fault == "flag-raised-late":
            self._raise_flag(window, parity)

    def _raise_flag(self, window: StageWindow, parity: int) -> None:
        self.tape.note("flag", stage=self.number, seq=window.seq, attempt=window.attempt)
        self.tape.release(f"flag{self.number}.{parity}")

    def _body(self, window: StageWindow, parity: int) -> None:
        number, tokens = self.number, window.tokens
        inputs, rows, words = f"commit_in{number}.{parity}", f"rows{number}.{parity}", f"h_win{number}.{parity}"
        above = f"rows{number - 1}.{parity}" if number else ""
        answer, cells, ringed, session = f"h_y{number}.{parity}", self.cells, self._ringed, self.session
        low, high, end = window.position * ROW, (window.position + tokens) * ROW, tokens * ROW
        buffers = self.buffers
        writes_state = self.shape.fault == "window-writes-state" and not self.is_last

        def ran(memory: BlockMemory) -> None:
            state = memory[_at(buffers, memory[f"cur{number}"]) if ringed else session]
            made = rows_of(
                bytes(state), bytes(memory[cells][:low]), bytes(memory[words][: 4 * tokens]),
                bytes(memory[above][:end]) if above else b"", bytes(memory[answer]),
            )  # fmt: skip
            memory[inputs][:end] = made
            memory[rows][:end] = made
            memory[cells][low:high] = made

        current = self.buffers[self.word]
        reads: list[BlockPlace] = [f"cur{number}"] if ringed else []
        reads += [current, (cells, 0, low), (words, 0, 4 * tokens), answer]
        if above:
            reads.append((above, 0, end))
        writes: list[BlockPlace] = [(inputs, 0, end), (rows, 0, end), (cells, low, high)]
        self.tape.kernel(self.stream, "window", reads, [*writes, current] if writes_state else writes, ran)

    def _snapshot(self, window: StageWindow) -> None:
        """`snap_take`: the side stream copies the state beside the window."""
        tape, slot = self.tape, self._parity(window)
        tape.note("snap_take", stage=self.number, seq=window.seq, attempt=window.attempt, slot=slot)
        tape.record(self.stream, f"snap_pre{self.number}.{slot}")
        tape.wait(self.side, f"snap_pre{self.number}.{slot}")
        tape.copy(self.side, "snap_take", self.session, self.buffers[1 + slot])
        tape.record(self.side, f"snap_ev{self.number}.{slot}")

    # commits

    def speculative_commit(self, window: StageWindow, attrs: Mapping[str, Any]) -> None:
        """The commit of a window whose verdict is due, so that the next one can be launched."""
        parity = self._parity(window)
        if self._ringed:
            chosen = self.selector.speculative(parity)
        else:
            chosen = RingSelection(0, 0)
            if self.shape.fault != "snap-wait-removed":
                self.tape.wait(self.stream, f"snap_ev{self.number}.{parity}")
        self._commit(window, window.tokens, "spec commit", chosen, attrs)
        self.speculative.add(window.seq)

    def commit(self, window: StageWindow, kept: int, label: str, attrs: Mapping[str, Any]) -> None:
        """Any commit that nobody will undo."""
        chosen = RingSelection(0, 0)
        if self._ringed and label != "serial commit":
            chosen = self.selector.in_place()
        elif self._ringed:
            self.selector.cur = 0  # the serial path knows no ring: it writes the session's own buffer
        self._commit(window, kept, label, chosen, attrs)

    def undo(self, window: StageWindow, kept: int, attrs: Mapping[str, Any]) -> None:
        """Back to what the window read, and its commit again with what was really accepted."""
        parity = self._parity(window)
        if self._ringed:
            chosen = self.selector.undo(parity)
        else:
            chosen = RingSelection(0, 0)
            self.tape.note("restore", stage=self.number, seq=window.seq, slot=parity)
            self.tape.copy(self.stream, "undo restore", self.buffers[1 + parity], self.session)
        self._commit(window, kept, "undo commit", chosen, attrs)
        self.speculative.clear()

    def _commit(
        self, window: StageWindow, kept: int, label: str, chosen: RingSelection, attrs: Mapping[str, Any]
    ) -> None:
        tape, parity, number = self.tape, self._parity(window), self.number
        words, inputs = f"h_commit{number}.{parity}", f"commit_in{number}.{parity}"
        if f"commit{number}.{parity}" in tape.recorded:
            tape.query(f"commit{number}.{parity}")
        self._notes(window, parity, kept, label, chosen, attrs)
        text = b"".join(value.to_bytes(WORD, "little") for value in (kept, chosen.src, chosen.dst))
        ringed, buffers = self._ringed, self.buffers
        sets_word = ringed and self.shape.fault != "word-not-set"

        def staged(memory: BlockMemory) -> None:
            memory[words][:] = text

        def ran(memory: BlockMemory) -> None:
            told = memory[words]
            source, target = (_at(buffers, told[WORD:]), _at(buffers, told[2 * WORD :])) if ringed else buffers[:1] * 2
            state = committed(bytes(memory[source]), bytes(memory[inputs]), told[0])
            memory[target][:] = state
            if sets_word:
                memory[f"cur{number}"][:] = told[2 * WORD :]

        tape.host("commit words", [], [words], staged)
        writes: list[BlockPlace] = [buffers[chosen.dst]]
        if sets_word:
            writes.append(f"cur{number}")
            self.word = chosen.dst
        tape.kernel(self.stream, label, [words, (inputs, 0, kept * ROW), buffers[chosen.src]], writes, ran)
        if self.shape.fault == "commit-words-early":
            tape.host("commit words", [], [words], _cleared(words))
        tape.record(self.stream, f"commit{number}.{parity}")

    def _notes(
        self, window: StageWindow, parity: int, kept: int, label: str, chosen: RingSelection, attrs: Mapping[str, Any]
    ) -> None:
        tape, number = self.tape, self.number
        if chosen.dropped:
            tape.note("ring", do="drop", stage=number, verifier=parity)
        selection = {"src": chosen.src, "dst": chosen.dst} if self._ringed else {}
        tape.note(
            "commit", stage=number, seq=window.seq, attempt=window.attempt, verifier=parity, kind=label, keep=kept,
            tokens=window.tokens, **selection, **attrs,
        )  # fmt: skip
        if chosen.recorded >= 0:
            tape.note("ring", do="record", stage=number, verifier=parity, buffer=chosen.recorded)
        if chosen.cleared:
            tape.note("ring", do="clear", stage=number)

    # what a session's end needs

    def settle(self, when: str) -> None:
        """The state goes back into the session's own buffer, once, and the word with it."""
        tape, number = self.tape, self.number
        self.speculative.clear()
        was = self.selector.settle()
        keeps_word = self.shape.fault == "settle-keeps-word"
        copied = self.shape.state_bytes if was or self.shape.fault == "settle-always-copies" else 0
        tape.note("settle", stage=number, when=when, source=was, bytes=copied, word=self.word if keeps_word else 0)
        if not copied:
            return
        tape.copy(self.stream, "settle", self.buffers[was], self.session)
        if not keeps_word:

            def reset(memory: BlockMemory) -> None:
                memory[f"cur{number}"][:] = bytes(WORD)

            tape.kernel(self.stream, "settle: word", [], [f"cur{number}"], reset)
            self.word = 0
        tape.synchronize(self.stream)

    # the last stage

    def read_out(self, window: StageWindow, kept: int, reply: bytearray) -> None:
        """The host reads the rows of the tokens that it keeps: the request's reply."""
        rows = f"rows{self.number}.{self._parity(window)}"
        self.tape.host("read rows", [(rows, 0, window.tokens * ROW)], [], _appended(rows, kept * ROW, reply))

    def draft(self, window: StageWindow) -> None:
        """The drafter's chain for the windows after this one."""
        rows = f"rows{self.number}.{self._parity(window)}"

        def drafted(memory: BlockMemory) -> None:
            memory["chain"][:ROW] = memory[rows][:ROW]

        self.tape.kernel("drafter", "draft", [(rows, 0, window.tokens * ROW)], ["chain"], drafted)
        self.tape.record("drafter", "drafted")

    # inside

    @property
    def _ringed(self) -> bool:
        return self.shape.ring and not self.is_last

    def _parity(self, window: StageWindow) -> int:
        return window.seq % self.shape.windows


def _at(buffers: list[str], word: bytearray) -> str:
    """The buffer that a device word names."""
    return buffers[int.from_bytes(word[:WORD], "little") % len(buffers)]


def _cleared(name: str) -> Callable[[BlockMemory], None]:
    def clear(memory: BlockMemory) -> None:
        memory[name][:] = bytes(len(memory[name]))

    return clear


def _appended(name: str, end: int, reply: bytearray) -> Callable[[BlockMemory], None]:
    def read(memory: BlockMemory) -> None:
        reply.extend(memory[name][:end])

    return read
