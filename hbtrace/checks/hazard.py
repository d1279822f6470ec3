"""`hazard` and `cpu-split-in-place`: host memory that an asynchronous queue computes on in place."""

from __future__ import annotations

from typing import Final

from hbtrace.checks.model import Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.info.contents import Contents
from hbtrace.info.hazard import CAN_ARISE, NOT_KNOWN, Hazard, hazard_in, with_cpu_slots
from hbtrace.info.records import Queue, Scheduler
from hbtrace.replay.reports import Report
from hbtrace.replay.session import Replayed

RING_VARIABLE: Final = "GGML_SCHED_UMA_RING"


class InPlaceHazard(Rule):
    """A host buffer type in the CPU slot that an asynchronous backend accepts for compute."""

    id = "hazard"
    severity = "warning"
    title = "host memory computed on in place by an asynchronous backend, and no input ring"
    needs = "`sched` with `cpu_buffer_type` and `ring`, `backend` with `async` or `synchronous`, and `accepts`"
    why = (
        "No copy of an input is made and nothing waits for its last reader, so the host overwrites what the device"
        " may still read."
    )
    about = """\
The scheduler copies an input of a split only if the split's backend cannot use the buffer that it lies in; the same
test decides whether anything waits. The hazard needs two conditions: the CPU slot was handed a host buffer type,
and an *asynchronous* backend of that scheduler accepts it for compute. Devices are not told by name, and a
synchronous backend (CPU, BLAS) cannot have it. What the trace does not say of a backend is taken from the table of
backends.

`warning` if the ring is off; `info` if it is engaged, or asked for by `GGML_SCHED_UMA_RING` and rightly off;
`warning` too for a ring where there is no hazard, for nobody there meets its callers' obligation. Fix: a ring of
two slots, and `sched_prepare_inputs` in the reuse path; or a backend that refuses the buffer type."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._contents = Contents()
        self._races = Tally()
        self._verdicts: dict[Queue, Hazard] = {}

    def batch(self, replayed: Replayed) -> None:
        self._contents.add(replayed.batch)

    def race(self, report: Report, sort: Sort) -> None:
        if sort == "input":
            name = report.current.root or report.earlier.root or "-"
            self._races.add((report.earlier.row, report.current.row), name)

    def finish(self) -> None:
        contents = self._contents
        contents.finish()
        schedulers = with_cpu_slots(contents)
        self._verdicts = {queue: hazard_in(queue, schedulers) for queue in contents.queues}
        for sched in schedulers:
            self._scheduler(sched, [q for q in self._verdicts if not sched.backends or q.id in sched.backends])

    def missing(self) -> str | None:
        unknown = [q for q, h in self._verdicts.items() if h.verdict == NOT_KNOWN and q.work["compute"]]
        if self._arising() or (self._verdicts and not unknown):
            return None
        return self.needs if not self._verdicts else f"{self.needs}: {self._verdicts[unknown[0]].reason}"

    def seen(self) -> str:
        arising = [queue.name for queue in self._arising()]
        if arising:
            return f"can arise on {', '.join(arising)}"
        return "no asynchronous backend computes on the buffer type of the CPU slot"

    def _arising(self) -> list[Queue]:
        return [queue for queue, hazard in self._verdicts.items() if hazard.verdict == CAN_ARISE]

    def _scheduler(self, sched: Scheduler, queues: list[Queue]) -> None:
        ring, met = sched.ring, Tally()
        met.add([sched.row])
        affected = [queue.name for queue in queues if self._verdicts[queue].verdict == CAN_ARISE]
        if not affected and any(self._verdicts[queue].verdict == NOT_KNOWN for queue in queues):
            return
        who = ", ".join(affected)
        place = f"scheduler {sched.id}: {who} computes asynchronously and in place on {sched.cpu_buffer_type}"
        if affected and ring is not None and ring > 1:
            self.find("info", f"{place}; an input ring of depth {ring} is engaged", met)
        elif affected:
            state = (
                "no input ring is engaged" if ring is not None else "and the trace does not say if a ring is engaged"
            )
            raced = ""
            if self._races:
                raced = f"; {self._races.count} input races: {self._races.names()}"
                met.rows += self._races.rows
            self.find("warning", f"{place}; {state}{raced}", met)
        elif ring is not None and ring > 1:
            self.find(
                "warning",
                f"scheduler {sched.id}: an input ring of depth {ring} where there is no hazard: its callers' obligation"
                " is met by nobody there",
                met,
            )
        elif (asked := self._asked()) is not None:
            self.find(
                "info",
                f"scheduler {sched.id}: {RING_VARIABLE}={asked} asks for a ring where there is no hazard; it stays off,"
                " as it must",
                met,
            )

    def _asked(self) -> str | None:
        """What the environment of the run asks for, if it asks for a ring."""
        env = self.survey.meta.get("env")
        value = str(env.get(RING_VARIABLE, "")) if isinstance(env, dict) else ""
        return value if value.isdigit() and int(value) > 1 else None


class CpuSplitInPlace(Rule):
    """Memory that a CPU split computes into and an asynchronous queue reads in place."""

    id = "cpu-split-in-place"
    severity = "error"
    title = "a CPU split computes into memory that an asynchronous queue reads in place"
    needs = "`backend` with `synchronous` or `type`, `graph` with the `reads` and `writes` of its nodes"
    why = "It is no graph input, so neither the input ring nor a copy of the inputs can fix it."
    about = """\
A CPU split writes a tensor into a host buffer (`embd` of the token look-up), and a queue that accepts this buffer
reads it there. The next ubatch's CPU split is a host write without a wait. It looks like an input race and is none:
rotating inputs moves other bytes. `error` for each race between such a CPU split and a queue; `info` where the
memory is shared so and every write was ordered. Fix: wait for the queue before the CPU split, or keep that memory
until the queue was synchronized. Which split is the CPU's is told by `synchronous` or `type` of its backend, or else by
the table of backends, or by its place: last of a scheduler."""

    def __init__(self, survey: Survey) -> None:
        super().__init__(survey)
        self._written: set[int] = set()
        self._shared: dict[str, int] = {}
        self._races = Tally()
        self._where: set[str] = set()
        self._computed: set[bool | None] = set()
        """By whether it was work of the host, where that is known."""
        self._told: set[bool | None] = set()
        """Of these, those with accesses."""

    @on("compute")
    def _compute(self, at: DoneRow) -> None:
        lowering = self.survey.lowering
        template = lowering.call(at.row).template if lowering is not None else None
        if template is None or at.work is None:
            return
        host_work = self.survey.host_work(at.backend)
        self._computed.add(host_work)
        if template.accesses:
            self._told.add(host_work)
        if host_work:
            pairs = zip(template.accesses, template.roots, strict=True)
            self._written.update(root for (write, _), root in pairs if write and root != -1)
        elif self._written and self.survey.asynchronous(at.backend):
            for root in template.read_roots & self._written:
                if self.survey.tables.buffer_of(root).get("host"):
                    self._shared.setdefault(self.survey.tables.name(root), at.row)

    def race(self, report: Report, sort: Sort) -> None:
        if sort == "cpu-split":
            name = report.current.root or report.earlier.root or "-"
            self._races.add((report.earlier.row, report.current.row), name)
            self._where.add(report.buffer)

    def finish(self) -> None:
        if self._races:
            self.find(
                "error",
                f"a CPU split and a queue meet in {', '.join(sorted(self._where))} without order: {self._races.names()}"
                f" ({self._races.count} races); no graph input, so no ring fixes it",
                self._races,
            )
        ordered = sorted(set(self._shared) - set(self._races.words))
        if ordered:
            met = Tally()
            met.add(self._shared[name] for name in ordered)
            self.find(
                "info", f"a queue reads in place what a CPU split computes, in order here: {', '.join(ordered)}", met
            )

    def missing(self) -> str | None:
        if not self._computed:
            return self.needs
        if self._computed - self._told:
            return "`graph` with the `reads` and `writes` of its nodes"
        # who declares it of one backend leaves it out of others because it is false there
        return "`synchronous` or `type` of `backend`" if None in self._computed and True not in self._computed else None

    def seen(self) -> str:
        return "no asynchronous queue reads in place what a CPU split computes" if not self._shared else ""
