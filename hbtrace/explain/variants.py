"""One pass over a trace that replays it as it is and under several sets of rules: it is read and lowered only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from hbtrace.explain.draft import Rule
from hbtrace.explain.patch import CannotPatchError, Patch
from hbtrace.explain.recording import Chunk, Recorder, Recording, Settings
from hbtrace.replay.kernel import Hit, Kernel
from hbtrace.replay.program import Program
from hbtrace.replay.races import Naming, Report


class _Variant:
    """The replay under one set of rules. `recording` is None once the rules need rows that must be lowered anew."""

    def __init__(self, rules: Sequence[Rule], recorder: Recorder) -> None:
        self._patch = Patch(rules, recorder.lowering)
        self._kernel: Kernel | None = None
        self.recording: Recording | None = Recording()

    def take(self, batch: pa.RecordBatch, program: Program, first: int, recorder: Recorder) -> set[int]:
        """One batch more; the rows that can still be met."""
        if self.recording is None:
            return set()
        try:
            patched = self._patch.program(batch, program)
        except CannotPatchError:
            self.recording = self._kernel = None
            return set()
        self._kernel = self._kernel or Kernel(closed=not recorder.lowering.ordered)
        hits = sorted(self._kernel.run(patched))  # by row and number, wherever moved bytes are
        self.recording.chunks.append(Chunk(patched, {}, first))
        self.recording.hits += hits
        self.recording.reports += (self._report(hit, recorder.naming) for hit in hits)
        return self._kernel.remembered()

    def _report(self, hit: Hit, naming: Naming) -> Report:
        there, moved = self._patch.home_of(hit)
        report = naming.report(there)
        return report if moved < 0 else replace(report, buffer_id=moved)

    def finish(self, base: Recording) -> Recording | None:
        """What was replayed; all but the program is as in the trace."""
        if self.recording is None:
            return None
        try:
            self._patch.finish()
        except CannotPatchError:
            return None
        out = self.recording
        out.events, out.times, out.actors, out.warnings = base.events, base.times, base.actors, base.warnings
        out.rows, out.renamed, out.inputs = base.rows, base.renamed, base.inputs
        out.closed, out.late = base.closed, base.late
        stalled = {base.actors[actor] for actor in self._patch.stalled}
        out.queues = {
            name: event | ({"synchronous": True, "async": False} if name in stalled else {})
            for name, event in base.queues.items()
        }
        return out


def replayed(
    batches: Iterable[pa.RecordBatch], variants: Sequence[Sequence[Rule]], settings: Settings, *, base: bool = True
) -> tuple[Recording, list[Recording | None]]:
    """The trace as it is and under each set of rules; None for sets that must be rewritten row by row.

    base: false leaves the races of the trace as it is out.
    """
    recorder = Recorder(settings, replay=base)
    each = [_Variant(rules, recorder) for rules in variants]
    for batch in batches:
        first = recorder.lowering.rows
        program = recorder.take(batch)
        rows = recorder.remembered()
        for variant in each:
            rows |= variant.take(batch, program, first, recorder)
        recorder.naming.keep(rows)
    recording = recorder.finish()
    return recording, [variant.finish(recording) for variant in each]
