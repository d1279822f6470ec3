"""`ring-rotation`, `prepare-missing`, `prepare-twice`: the input ring and its callers' obligation."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hbtrace.checks.model import Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rounds import Round
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.reports import Report
from hbtrace.trace.vocabulary import HOST_SETS, HOST_WRITES
from hbtrace.words import count, times

_DEPTHS: Final = (2, 3, 4)
_UNKNOWN: Final = "unknown phase"


class RingRotation(Rule):
    """The slot being entered is read by nobody, and rotation happens where it must and nowhere else."""

    id = "ring-rotation"
    severity = "error"
    title = "the ring enters a slot that a compute in flight reads, or rotates for nothing"
    needs = "`sched` with `ring`, and `sched_alloc` or `sched_prepare` with `slot`"
    why = "A ring of N slots is a promise for N computes in flight; the next one must wait for the slot that it enters."
    about = """\
`error`: the host writes an input in a slot that was just entered while a compute in flight reads these bytes; the
wait on entry is missing, or the slot was not left (`rotated` is false though a compute in flight reads it).
`warning`: a `sched_prepare` or a `sched_alloc` in decode rotated though nothing was in flight: what tracks computes
in flight is not cleared by a wait, and every token pays. `info`: slots used, depth, rotations by phase, and the
memory: one more copy of each graph input a slot, at depth 2, 3 and 4. Fix: wait for the slot's last compute on all
backends when entering it."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._races = Tally()
        self._stayed = Tally()
        self._idle: list[tuple[Round, int]] = []
        self._slots: set[int] = set()
        self._rotations: Counter[str] = Counter()
        self._previous: dict[int, int] = {}
        self._inputs: dict[str, int] = {}
        self._writes: dict[str, int] = {}

    @on("sched_prepare")
    def _prepare(self, at: DoneRow) -> None:
        found = self.survey.rounds.current.get(at.event.get("sched", -1))
        if found is not None and found.prepares[-1].rotated and not self._busy(found.sched):
            self._idle.append((found, at.row))

    @on("sched_alloc")
    def _alloc(self, at: DoneRow) -> None:
        found = self.survey.rounds.current.get(at.event.get("sched", -1))
        if found is None or found.row != at.row or not self._deep(found.sched):
            return
        before = self._previous.get(found.sched, -1)
        if -1 not in (before, found.slot) and before != found.slot and not self._busy(found.sched):
            self._idle.append((found, at.row))

    @on("sched_compute", "compute")
    def _settled(self, at: DoneRow) -> None:
        """The round's inputs are written and its slot is settled."""
        found = self.survey.rounds.settled
        if found is None or not self._deep(found.sched):
            return
        before = self._previous.get(found.sched)
        rotated = any(p.rotated for p in found.prepares) or (found.way == "alloc" and before not in (None, found.slot))
        if rotated:
            self._rotations[found.phase or _UNKNOWN] += 1
        self._slots.add(found.slot)
        self._previous[found.sched] = found.slot
        names = self.survey.tables
        for tensor in found.inputs:
            self._most(self._inputs, tensor, names.told_size(tensor))

    @on(*HOST_SETS)
    def _set(self, at: DoneRow) -> None:
        """What the ring has to keep a copy of."""
        tensor = at.event.get("tensor", -1)
        found = self.survey.rounds.preparing(self.survey.tables.root(tensor))
        if found is not None and at.event.get("split", -1) == -1:
            self._most(self._writes, tensor, self.survey.tables.told_size(tensor))

    def race(self, report: Report, sort: Sort) -> None:
        found = self.survey.rounds.preparing(report.earlier.root_id, report.current.root_id)
        if sort != "input" or found is None or not self._deep(found.sched) or unprepared(found):
            return
        moved = found.way == "alloc" or any(p.rotated for p in found.prepares)
        rows = (*(p.row for p in found.prepares), report.earlier.row, report.current.row)
        root = report.current.root or report.earlier.root or "-"
        name = f"{root} (slot {found.slot})" if found.slot >= 0 else root
        (self._races if moved else self._stayed).add(rows, name)

    def finish(self) -> None:
        if self._races:
            self.find(
                "error",
                f"{times(self._races.count)} an input is written in a slot just entered that a compute in flight still"
                f" reads: {self._races.names()}; the wait on entry is missing, or too shallow",
                self._races,
            )
        if self._stayed:
            self.find(
                "error",
                f"{times(self._stayed.count)} an input is written that a compute in flight reads:"
                f" {self._stayed.names()}; the inputs were prepared, and the slot was not left",
                self._stayed,
            )
        idle = Tally()
        for found, row in self._idle:
            if found.phase == "decode":
                idle.add([row])
        if idle:
            self.find(
                "warning",
                f"{count(idle.count, 'rotation')} in decode though nothing was in flight: none is expected there",
                idle,
            )
        self._statistics()

    def missing(self) -> str | None:
        depths = [sched.get("ring") for sched in self.survey.tables.scheds.values()]
        if not depths or all(depth is None for depth in depths):
            return self.needs
        if any((depth or 0) > 1 for depth in depths) and self._slots <= {-1}:
            return "`slot` in `sched_alloc` and `sched_prepare`" if self.survey.rounds.current else self.needs
        return None

    def seen(self) -> str:
        return "no ring (`ring` is 0)" if not self._slots else ""

    def _statistics(self) -> None:
        inputs = self._inputs or self._writes
        each = sum(inputs.values())
        cost = ", ".join(f"{_size(each * (depth - 1))} at depth {depth}" for depth in _DEPTHS)
        memory = f"one more copy of {count(len(inputs), 'input')} a slot: {cost}"
        if self._slots - {-1}:
            depth = max(self.survey.rounds.ring(sched) or 0 for sched in self.survey.tables.scheds)
            told = [f"{self._rotations.get(phase, 0)} in {phase}" for phase in ("prefill", "decode")]
            told += [
                f"{n} in {phase}" for phase, n in sorted(self._rotations.items()) if phase not in ("prefill", "decode")
            ]
            known = set(self._rotations) - {_UNKNOWN}
            unknown = "" if known or not self._rotations else "; no `ubatch` with `phase` tells which were in decode"
            self.find(
                "info",
                f"depth {depth}, slots used {len(self._slots)}, rotations {sum(self._rotations.values())}"
                f" ({', '.join(told)}){unknown}; {memory}",
            )
        elif each and self.survey.sorts["input"]:
            self.find("info", f"no ring is engaged; it would cost {memory}")

    def _most(self, sizes: dict[str, int], tensor: int, size: int) -> None:
        """Shapes of one input share their bytes: the largest counts."""
        name = without_slot(self.survey.tables.name(tensor))
        sizes[name] = max(size, sizes.get(name, 0))

    def _deep(self, sched: int) -> bool:
        return (self.survey.rounds.ring(sched) or 0) > 1

    def _busy(self, sched: int) -> bool:
        """Whether any asynchronous queue of the scheduler has work that the host does not know to be done."""
        survey = self.survey
        backends = survey.tables.scheds.get(sched, {}).get("backends") or list(survey.actors)
        return any(backend in survey.actors and survey.pending(survey.actors[backend]) for backend in backends)


class PrepareMissing(Rule):
    """Who writes into a reused graph prepares its inputs first."""

    id = "prepare-missing"
    severity = "error"
    title = "a reused graph's inputs are written without prepare while a compute in flight reads them"
    needs = "`sched_reuse`, and the host's writes of the inputs (`set_direct` among them)"
    why = "The reuse path allocates nothing and so cannot rotate on its own: the inputs stay where they are being read."
    about = """\
Three things together: the graph is reused (`sched_reuse`), a compute in flight reads input bytes in place, and the
host writes these bytes before any `sched_prepare`. `error` where the scheduler has a ring; `warning` where it has
none (there is nothing to call then: see `hazard`). Reuse without prepare where no compute in flight reads the
inputs breaks nothing and is not reported. Fix: `ggml_backend_sched_prepare_inputs` before the first write."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._with_ring, self._without = Tally(), Tally()
        self._times: set[int] = set()

    def race(self, report: Report, sort: Sort) -> None:
        found = self.survey.rounds.preparing(report.earlier.root_id, report.current.root_id)
        if sort != "input" or found is None or not unprepared(found):
            return
        self._times.add(found.row)
        deep = (self.survey.rounds.ring(found.sched) or 0) > 1
        met = self._with_ring if deep else self._without
        met.add((found.row, report.earlier.row, report.current.row), report.current.root or report.earlier.root or "-")

    def finish(self) -> None:
        for met, severity, rest in (
            (self._with_ring, "error", ""),
            (self._without, "warning", "; this scheduler has no ring to prepare"),
        ):
            if met:
                self.find(
                    "error" if severity == "error" else "warning",
                    f"{len(self._times)} of {self.survey.rounds.reuses} reuses write inputs without prepare while a"
                    f" compute in flight reads them: {met.names()}{rest}",
                    met,
                )

    def missing(self) -> str | None:
        events = self.survey.events
        if not events.get("sched_reuse") and not events.get("sched_alloc"):
            return "`sched_alloc` and `sched_reuse`"
        if not any(events.get(ev) for ev in HOST_WRITES):
            return "the host's writes of the inputs"
        return None

    def seen(self) -> str:
        rounds = self.survey.rounds
        return f"{rounds.reuses} reuses, {rounds.prepares} prepares"


class PrepareTwice(Rule):
    """An allocation has rotated already; prepare after it is nothing."""

    id = "prepare-twice"
    severity = "error"
    title = "inputs are rotated twice for one compute"
    needs = "`sched_alloc`, and `sched_prepare` with `rotated`"
    why = "The second rotation skips a slot, so that a ring of N has room for fewer computes than it was made for."
    about = """\
`sched_prepare_inputs` after `sched_alloc_graph` is to be a no-op: allocating has rotated. `error` for a
`sched_prepare` with `rotated` in a round that allocated or rotated before it; where the key is absent, another slot
than before tells. Fix: clear the scheduler's "inputs are prepared" state in compute only."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._met = Tally()

    @on("sched_prepare")
    def _prepare(self, at: DoneRow) -> None:
        found = self.survey.rounds.current.get(at.event.get("sched", -1))
        if found is None or not found.prepares[-1].rotated:
            return
        before = [p.row for p in found.prepares if p.rotated and p.row != at.row]
        if found.way == "alloc" or before:
            self._met.add([found.row, *before, at.row])

    def finish(self) -> None:
        if self._met:
            self.find("error", f"{self._met.count} prepares rotate though the round has rotated already", self._met)

    def missing(self) -> str | None:
        events, rounds = self.survey.events, self.survey.rounds
        if not events.get("sched_alloc") and not events.get("sched_prepare"):
            return self.needs
        return "`rotated` or `slot` in `sched_prepare`" if rounds.prepares and not rounds.told else None

    def seen(self) -> str:
        return f"{self.survey.rounds.prepares} prepares"


def unprepared(found: Round) -> bool:
    """Whether a round reuses its graph and nobody prepared its inputs so far."""
    return found.way == "reuse" and not found.prepares


def _size(number: int) -> str:
    """Bytes as people read them."""
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
