"""The replay under other rules, beside the replay as it is: the trace is read and lowered once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from hbtrace.replay.kernel import Hit
from hbtrace.replay.kernels import AnyKernel, new_kernel
from hbtrace.replay.recording import Recorder, Recording
from hbtrace.replay.reports import Naming, Report
from hbtrace.replay.session import Observer, Replayed, Session
from hbtrace.replay.settings import Settings
from hbtrace.what_if.patch import CannotPatchError, Patch
from hbtrace.what_if.rewriting import Rule


class Variant(Observer):
    """The replay under one set of rules. `recording` is None once the rules need rows that must be lowered anew."""

    def __init__(self, rules: Sequence[Rule], settings: Settings) -> None:
        self._patch = Patch(rules, settings)
        self._kernel: AnyKernel | None = None
        self._recording: Recording | None = Recording()

    def take(self, replayed: Replayed) -> None:
        """One batch more."""
        if self._recording is None:
            return
        try:
            patched = self._patch.program(replayed)
        except CannotPatchError:
            self._recording = self._kernel = None
            return
        self._kernel = self._kernel or new_kernel(ordered=replayed.lowering.ordered)
        hits = sorted(hit for program in patched for hit in self._kernel.run(program))  # by row, wherever bytes are
        self._recording.programs += patched
        self._recording.hits += hits
        self._recording.reports += (self._report(hit, replayed.naming) for hit in hits)

    def remembered(self) -> set[int]:
        return set() if self._kernel is None else self._kernel.remembered()

    def _report(self, hit: Hit, naming: Naming) -> Report:
        there, moved = self._patch.home_of(hit)
        report = naming.report(there)
        return report if moved < 0 else replace(report, buffer_id=moved)

    def finish(self, base: Recording) -> Recording | None:
        """What was replayed; all but the program is as in the trace."""
        if self._recording is None:
            return None
        try:
            self._patch.finish()
        except CannotPatchError:
            return None
        stalled = {base.actors[actor] for actor in self._patch.stalled}
        queues = {
            name: event | ({"synchronous": True, "async": False} if name in stalled else {})
            for name, event in base.queues.items()
        }
        its = self._recording
        return replace(base, programs=its.programs, hits=its.hits, reports=its.reports, queues=queues)


def replayed(
    batches: Iterable[pa.RecordBatch], variants: Sequence[Sequence[Rule]], settings: Settings, *, base: bool = True
) -> tuple[Recording, list[Recording | None]]:
    """The trace as it is and under each set of rules; None for sets that must be rewritten row by row.

    base: false leaves the races of the trace as it is out.
    """
    recorder = Recorder()
    each = [Variant(rules, settings) for rules in variants]
    Session(batches, settings, [recorder, *each], kernel=base).run()
    recording = recorder.finish()
    return recording, [variant.finish(recording) for variant in each]
