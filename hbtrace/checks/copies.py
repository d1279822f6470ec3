"""`copy-unordered`: a copy between queues runs on one queue, and the other one was made to wait."""

from __future__ import annotations

from hbtrace.checks.model import Tally
from hbtrace.checks.race_sorts import Sort
from hbtrace.checks.rule import Rule, on
from hbtrace.checks.survey import DoneRow, Survey
from hbtrace.replay.reports import Report


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
