"""The engine: steps of the pipelined loop as queued work with its true edges, and notes for the protocol.

What it is: one request after another in program order of the host thread, for copy and ring mode, two and more stages,
depth 2 and more. What it is not: it decides nothing (the steps were planned, or come from a log) and checks nothing.
`strata_stage` has what one stage does; the order here is the order of `read_windows_pl` and the pipelined decode loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbtrace.strata.model.stage import Stage, StageWindow
from hbtrace.strata.model.steps import MOST_TOKENS, RING, LoopStep, Observed, Request, RunShape
from hbtrace.strata.model.tape import BlockMemory, StrataTape
from hbtrace.strata.model.values import ROW, advanced, fnv, token_of


class StrataEngine:
    """Makes a tape of requests."""

    def __init__(self, shape: RunShape, requests: Sequence[Request]) -> None:
        self.shape = shape
        self.tape = StrataTape()
        self.seen = Observed()
        self.lengths: dict[int, int] = {}
        """By request: the session's length after it, as the host knows it."""
        self._length = 0
        self._windows: dict[int, StageWindow] = {}
        """By seq: the newest attempt of each window of this request."""
        self._previous = bytes(8)
        self._undo_previous: dict[int, bytes] = {}
        self._drafted = False
        cells = sum(_tokens(request) for request in requests) + (shape.windows + 1) * MOST_TOKENS
        self._define(cells)
        for request in requests:
            self._request(request)
        self._end()

    # set up and tear down

    def _define(self, cells: int) -> None:
        shape, tape = self.shape, self.tape
        tape.rows.append(
            {
                "ev": "meta", "version": 1, "producer": "hbtrace simulate strata", "engine": "strata",
                "notes": "An executable model of the pipelined loop, not a recording.",
            }
        )  # fmt: skip
        self.stages = [Stage(shape, tape, number, cells) for number in range(shape.stages)]
        tape.queue("drafter")
        tape.queue("main")
        tape.block("chain", MOST_TOKENS * ROW, "CUDA_Host", host=True)
        tape.block("checkpoint", shape.last * shape.state_bytes, "CUDA_Host", host=True)
        tape.note(
            "strata", mode=shape.mode, stages=shape.stages, windows=shape.windows, buffers=shape.kept_apart,
            layers=shape.layers, layer_bytes=shape.layer_bytes,
            beyond_source=shape.stages > 2 or shape.windows > 2,
        )  # fmt: skip
        if shape.mode == RING:
            if shape.refused:
                tape.note("refuse", why=shape.refused)
            else:
                tape.note("engage", what="the GDN snapshot ring")
        for stage in self.stages:
            stage.describe()

    def _end(self) -> None:
        """The process ends: memory is freed, which waits for the device, the side streams too."""
        self._synchronize_all()
        for stage in self.stages[:-1]:
            stage.free()

    def _synchronize_all(self) -> None:
        for stage in self.stages:
            for queue in stage.queues:
                self.tape.synchronize(queue)
        self.tape.synchronize("drafter")
        self.tape.synchronize("main")

    # requests

    def _request(self, request: Request) -> None:
        tape = self.tape
        self.request = request
        self._windows.clear()
        self._undo_previous.clear()
        for stage in self.stages:
            stage.speculative.clear()
        self.seen.replies[request.number] = bytearray()
        kind = "pipelined" if request.pipelined else "untraced" if request.untraced else "serial"
        attrs: dict[str, Any] = {"request": request.number, "kind": kind}
        if request.why:
            attrs["why"] = request.why
        if request.line:
            attrs["line"] = request.line
        tape.note("request", do="begin", **attrs)
        if request.fresh:
            self._zero()
        elif request.resume:
            self._restore()
        if request.pipelined:
            self._pipelined(request)
        else:
            self._serially(request)
        self.lengths[request.number] = self._length
        if self.shape.state_hash:
            self._hash(request.number)
        if request.after:
            self._save(request.after)
        tape.note("request", do="end", request=request.number, finish=request.finish)

    def _pipelined(self, request: Request) -> None:
        self._settle("start")
        for tokens in request.prompt:
            self._prompt_window(tokens)
        if self.shape.fault == "settle-before-drain":
            self._play(request.steps)
            self._settle("end")
            self._drain()
            return
        self._play(request.steps)
        self._drain()
        self._settle("end")

    def _play(self, steps: Sequence[LoopStep]) -> None:
        for step in steps:
            if step.op == "L":
                self._launch(step)
            elif step.op == "F":
                self._finish(step)
            elif step.op == "V":
                self._verdict(step)
            elif step.op == "U":
                self._undo(step)
            else:
                self.tape.note("gate", seq=step.seq, kind=step.kind, value=step.value, **_line(step))

    # the loop's steps

    def _launch(self, step: LoopStep) -> None:
        stage = self.stages[step.stage]
        window = self._new_window(step) if step.stage == 0 else self._known(step)
        if not stage.is_last:
            ahead = self._windows.get(window.seq - 1)
            if ahead is not None and not ahead.verified and window.seq - 1 not in stage.speculative:
                self._speculative_commit(stage, ahead)
        if stage.number == 0 and self._drafted:
            self.tape.query("drafted")
            self.tape.host("read drafts", ["chain"], [])
        stage.launch(window, speculative=step.spec, attrs={"tokens": step.tokens, **_line(step)})

    def _new_window(self, step: LoopStep) -> StageWindow:
        before = self._windows.get(step.seq)
        attempt = before.attempt + 1 if before is not None else 0
        ahead = self._windows.get(step.seq - 1)
        position = self._length
        if ahead is not None and not ahead.verified:
            position = ahead.position + ahead.tokens
        guess, count = step.spec, _played(step.tokens)
        tokens = [token_of(self.request.number, step.seq, attempt, at, guess=guess) for at in range(count)]
        window = StageWindow(step.seq, attempt, count, position, tokens, forced=step.forced)
        self._windows[step.seq] = window
        return window

    def _known(self, step: LoopStep) -> StageWindow:
        """The window of a step; a log may name one that it never launched."""
        found = self._windows.get(step.seq)
        return found if found is not None else self._new_window(step)

    def _speculative_commit(self, stage: Stage, window: StageWindow) -> None:
        if stage.number == 0:
            self._undo_previous[window.seq] = self._previous
            self._advance(window, window.tokens)
        stage.speculative_commit(window, self._host_state(stage))

    def _finish(self, step: LoopStep) -> None:
        self.stages[step.stage].finish(self._known(step), attrs={"tokens": step.tokens, **_line(step)})

    def _verdict(self, step: LoopStep) -> None:
        window, last = self._known(step), self.stages[-1]
        kept = _played(step.accepted + 1)
        last.read_out(window, kept, self.seen.replies[self.request.number])
        self.tape.note(
            "verdict", seq=window.seq, attempt=window.attempt, a=step.accepted, on=step.on, tokens=window.tokens,
            forced=step.forced, **_line(step),
        )  # fmt: skip
        last.commit(window, kept, "last commit", {})
        window.verified = True
        self._length = window.position + kept
        for stage in self.stages[:-1]:
            if window.seq not in stage.speculative:
                if stage.number == 0:
                    self._advance(window, kept)
                stage.commit(window, kept, "in-place commit", self._host_state(stage))
        last.draft(window)
        self._drafted = True

    def _undo(self, step: LoopStep) -> None:
        window = self._known(step)
        keep = _played(step.keep)
        if self.shape.fault == "undo-keeps-one-more" and keep < window.tokens:
            keep += 1
        self.tape.note("undo", seq=window.seq, attempt=window.attempt, keep=step.keep, **_line(step))
        for stage in self.stages[:-1]:
            if window.seq in stage.speculative:
                if stage.number == 0:
                    if self.shape.fault != "ple-prev-not-restored":
                        self._previous = self._undo_previous[window.seq]
                    before = self._previous
                    self._advance(window, keep)
                    stage.undo(window, keep, {**self._host_state(stage), "ple_before": before.hex()})
                else:
                    stage.undo(window, keep, {})
        self._length = window.position + keep
        for seq in [seq for seq in self._windows if seq > window.seq]:
            self._windows[seq].doomed = True

    # the host's own state

    def _advance(self, window: StageWindow, count: int) -> None:
        """`ple_prev`: the host moves it on in the commit call itself."""
        self._previous_before = self._previous
        for token in window.words[:count]:
            self._previous = advanced(self._previous, token)
        self._steps = count

    def _host_state(self, stage: Stage) -> dict[str, Any]:
        """What a commit's note says of it: once for all stages, by the first."""
        if stage.number:
            return {}
        return {
            "ple_before": self._previous_before.hex(), "ple_after": self._previous.hex(), "ple_steps": self._steps
        }  # fmt: skip

    # around the loop

    def _prompt_window(self, tokens: int) -> None:
        seq = -1 - len([seq for seq in self._windows if seq < 0])
        words = [token_of(self.request.number, seq, 0, at, guess=False) for at in range(tokens)]
        window = StageWindow(seq, 0, tokens, self._length, words, kind="prompt")
        self._windows[seq] = window
        for stage in self.stages:
            stage.launch(window, speculative=False, attrs={})
            stage.finish(window, attrs={})
            if stage.number == 0:
                self._advance(window, tokens)
            label = "last commit" if stage.is_last else "prompt commit"
            stage.commit(window, tokens, label, self._host_state(stage))
        window.verified = True
        self._length += tokens

    def _drain(self) -> None:
        """Serves windows to their end, then waits for the stages and the drafter: not for the side streams."""
        self.tape.note("drain")
        for stage in self.stages:
            self.tape.synchronize(stage.stream)
        self.tape.synchronize("drafter")
        self._drafted = False

    def _settle(self, when: str) -> None:
        if not self.shape.ring or self.shape.fault == "no-settle":
            return
        fronts = self.stages[:1] if self.shape.fault == "settle-first-stage-only" else self.stages[:-1]
        for stage in fronts:
            stage.settle(when)

    def _serially(self, request: Request) -> None:
        for number, (tokens, kept) in enumerate(request.serial):
            words = [token_of(request.number, number, 0, at, guess=False) for at in range(tokens)]
            window = StageWindow(number, 0, tokens, self._length, words, kind="serial")
            for stage in self.stages:
                stage.launch(window, speculative=False, attrs={})
                stage.finish(window, attrs={})
            self.stages[-1].read_out(window, kept, self.seen.replies[request.number])
            for stage in self.stages:
                if stage.number == 0:
                    self._advance(window, kept)
                label = "last commit" if stage.is_last else "serial commit"
                stage.commit(window, kept, label, self._host_state(stage))
                self.tape.synchronize(stage.stream)
            self._length += kept

    def _zero(self) -> None:
        """A new session: its state is zeroed by the main stream."""
        states = [stage.session for stage in self.stages]

        def zeroed(memory: BlockMemory) -> None:
            for name in states:
                memory[name][:] = bytes(len(memory[name]))

        self.tape.note("session", do="zero")
        self.tape.kernel("main", "session_zero", [], states, zeroed)
        self.tape.synchronize("main")
        self._length, self._previous = 0, bytes(8)

    def _save(self, what: str) -> None:
        """A checkpoint, or parking: the main stream reads the session's own buffers."""
        size = self.shape.state_bytes
        states = [stage.session for stage in self.stages[:-1]]

        def read(memory: BlockMemory) -> None:
            for at, name in enumerate(states):
                memory["checkpoint"][at * size : (at + 1) * size] = memory[name]

        self.tape.note("session", do=what)
        self.tape.kernel("main", what, states, ["checkpoint"], read)
        self.tape.synchronize("main")
        self.tape.host(
            f"{what} saved", ["checkpoint"], [], lambda memory: self.seen.saved.append(bytes(memory["checkpoint"]))
        )

    def _restore(self) -> None:
        size = self.shape.state_bytes
        states = [stage.session for stage in self.stages[:-1]]

        def written(memory: BlockMemory) -> None:
            for at, name in enumerate(states):
                memory[name][:] = memory["checkpoint"][at * size : (at + 1) * size]

        self.tape.note("session", do="restore")
        self.tape.kernel("main", "restore", ["checkpoint"], states, written)
        self.tape.synchronize("main")

    def _hash(self, number: int) -> None:
        """`STRATA_STATE_HASH`: of the main session only, that is of stage 0, after a device synchronization."""
        self._synchronize_all()
        stage, length, previous = self.stages[0], self._length, self._previous
        cells, limit = stage.cells, length * ROW

        def hashed(memory: BlockMemory) -> None:
            empty = fnv(b"")
            self.seen.hashes[number] = {
                "L": length, "gdn": fnv(memory[stage.session]), "ple": empty, "tail": empty, "pooled": empty,
                "kv": fnv(memory[cells][:limit]), "mtp": empty,
                "stale": fnv(memory[cells][limit : limit + MOST_TOKENS * ROW]), "dead": empty, "pooled_full": empty,
                "ple_prev_0": int.from_bytes(previous[:4], "little"),
                "ple_prev_1": int.from_bytes(previous[4:], "little"),
            }  # fmt: skip

        self.tape.note("state_hash", request=number, L=length, stages=[0])
        self.tape.host("state hash", [stage.session, (cells, 0, limit)], [], hashed)


def _tokens(request: Request) -> int:
    steps = sum(_played(step.tokens) for step in request.steps if step.op == "L" and step.stage == 0)
    return sum(request.prompt) + steps + sum(tokens for tokens, _ in request.serial)


def _played(tokens: int) -> int:
    """What a broken log says can be any number: the notes have it, the model goes on with one that it can play."""
    return min(max(tokens, 1), MOST_TOKENS)


def _line(step: LoopStep) -> dict[str, Any]:
    return {"line": step.line, "time": step.time} if step.line else {}
