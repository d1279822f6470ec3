"""`copy-unordered` and `stale-copy`: a scheduler's copies, one slot for each round in flight."""

from __future__ import annotations

from hbtrace.checks.model import Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay.canonical import without_slot
from hbtrace.replay.reports import Report
from hbtrace.replay.tables import tensors_of
from hbtrace.trace.vocabulary import COMPUTING, COPIES, EVENTS, SLOT_FILLS, EventRow


class CopyUnordered(Rule):
    """A copy into a slot that is not ordered after the slot's last reader."""

    id = "copy-unordered"
    severity = "error"
    title = "a copy between queues is not ordered after the last reader of the slot it fills"
    needs = "`copy_async` with `runs_on` (and `after_dst`)"
    why = "The wait for the slot's reader was put on the destination's queue, and the copy runs on the source's."
    about = """\
Pipeline parallelism fills a slot of the destination (`backend#tensor#slot`) by an asynchronous copy. The scheduler
makes the *destination* wait for whoever read the slot last; a backend that runs the copy on the *source* queue
(CUDA, HIP) is not ordered by that. `error` for each race of such a copy with work of the destination, naming the
slots. Fix: let the source wait for the destination's earlier work (`after_dst`), or put the event on the queue
that copies. In a trace of Strata, what its own rules name (`strata.copy` and others) is left to them."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._met = {"read": Tally(), "write": Tally()}
        self._waits: dict[int, int] = {}
        self._copies = self._told = 0
        self._waited = {"read": 0, "write": 0}
        self._wait_before: dict[int, int] = {}

    @on("event_wait")
    def _wait(self, at: DoneRow) -> None:
        self._waits[at.backend] = at.row

    @on("copy_async")
    def _copy(self, at: DoneRow) -> None:
        dst = at.backend
        src = at.event.get("src_backend", dst)
        self._copies += 1
        self._told += src == dst or "runs_on" in at.event
        if dst in self._waits:
            self._wait_before = {at.row: self._waits[dst]}

    def race(self, report: Report, sort: Sort) -> None:
        engine = self.survey.engine
        if sort != "copy" or (engine is not None and engine.tells(report)):
            return
        rows = [report.earlier.row, report.current.row]
        wait = self._wait_before.get(report.current.row)
        if wait is not None:
            self._waited[report.earlier.mode] += 1
            rows.append(wait)
        did = "read" if report.earlier.mode == "read" else "written"
        who = f"{report.touched(report.current)} ({did} by {report.earlier.actor}, copied by {report.current.actor})"
        self._met[report.earlier.mode].add(rows, who)

    def finish(self) -> None:
        for mode, met in self._met.items():
            if not met:
                continue
            number = self._waited[mode]
            waited = f"; {number} had a wait on the destination, which does not hold the copy" if number else ""
            self.find(
                "error",
                f"{_fill(met.count)} a slot before its last {'reader' if mode == 'read' else 'writer'} is known to be"
                f" done: {met.names(8)}{waited}",
                met,
            )

    def missing(self) -> str | None:
        return None if self._told or not self._copies else self.needs

    def seen(self) -> str:
        return f"{self._copies} asynchronous copies"


def _fill(number: int) -> str:
    return "1 copy fills" if number == 1 else f"{number:,} copies fill"


class StaleCopy(Rule):
    """What a round computes on is what the round copied."""

    id = "stale-copy"
    severity = "error"
    title = "a compute reads another slot of a scheduler's copy than the one that its round filled"
    needs = "`sched_compute` or `ubatch`, copies named `backend#tensor#slot`, and `graph` with `nodes`"
    why = "Every wait is in place, and the compute goes on with the values of an earlier round, whatever the schedule."
    about = """\
A scheduler with several copies fills slot k of a tensor's copy (`backend#tensor#k`) and computes on it. `error` for
each compute or kernel that reads slot j where its round (from one `sched_compute`, or `ubatch` where there are none, to
the next) filled other slots of that copy and not this one: a graph that is used again still points at the slot of the
round that it was split in. No race shows it: both slots are ordered. Mend: split the graph anew, or point its sources
at the present slot (and stamp its uid), wherever the slot moves on."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._met = Tally()
        self._copies: dict[int, tuple[str, str]] = {}
        """(name without the slot, name) of each tensor that is a slot of a copy, or a view of one."""
        self._filled: dict[str, dict[str, int]] = {}
        """By name without the slot: the slots that the present round filled, each with the row that did."""
        self._reads: dict[int, tuple[EventRow | None, list[int]]] = {}
        """By graph, as long as it is the same one: the slots of copies that it reads."""
        self._rounds = self._fills = self._checked = 0

    @on("sched_compute", "sched_compute_end", "ubatch")
    def _round(self, at: DoneRow) -> None:
        self._rounds += 1
        self._filled.clear()

    @on("tensor")
    def _tensor(self, at: DoneRow) -> None:
        tables, ident = self.survey.tables, at.event["id"]
        name = tables.name(tables.root(ident))
        family = without_slot(name)
        before = self._copies.pop(ident, None)
        if family != name:
            self._copies[ident] = family, name
        if before != self._copies.get(ident):
            self._reads.clear()

    @on(*SLOT_FILLS)
    def _fill(self, at: DoneRow) -> None:
        target = at.event.get("dst") if at.ev in COPIES else at.event
        copied = self._copies.get(target.get("tensor", -1)) if isinstance(target, dict) else None
        if copied is not None:
            self._fills += 1
            self._filled.setdefault(copied[0], {})[copied[1]] = at.row

    @on(*COMPUTING)
    def _compute(self, at: DoneRow) -> None:
        if not self._filled or not self._rounds:
            return
        for tensor in self._read(at):
            family, name = self._copies[tensor]
            filled = self._filled.get(family)
            if filled is None:
                continue
            self._checked += 1
            if name not in filled:
                newest = max(filled, key=filled.__getitem__)
                self._met.add((filled[newest], at.row), f"{name} ({newest} was filled)")

    def _read(self, at: DoneRow) -> list[int]:
        """The slots of copies that a row reads."""
        if "graph" not in EVENTS[at.ev].keys:
            return [t for t in sorted(tensors_of(at.event.get("reads"))) if t in self._copies]
        key, graph = at.event["graph"], self.survey.tables.graphs.get(at.event["graph"])
        known = self._reads.get(key)
        if known is None or known[0] is not graph:
            read = set().union(*(tensors_of(node.get("reads")) for node in self.survey.tables.nodes(key)))
            known = self._reads[key] = graph, sorted(read & self._copies.keys())
        return known[1]

    def finish(self) -> None:
        if self._met:
            reads = "1 compute reads" if self._met.count == 1 else f"{self._met.count:,} computes read"
            self.find(
                "error",
                f"{reads} another slot of a copy than the one that was filled for it: {self._met.names(8)}",
                self._met,
            )

    def missing(self) -> str | None:
        return None if self._checked else self.needs

    def seen(self) -> str:
        return f"{self._checked} reads of copies, each in the slot that its round filled"
