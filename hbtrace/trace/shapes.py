"""What a row of somebody else's file is, by its keys: for the sentence on a trace that was not understood.

Only for rows without `ev`; files that are no rows at all are told apart where they are opened.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_SHAPES: Final = (
    ({"traceEvents", "schemaVersion"}, "a trace of the torch profiler"),
    ({"traceEvents"}, "a Chrome trace"),
    ({"ph", "name"}, "a Chrome trace"),
    ({"ph", "ts"}, "a Chrome trace"),
    ({"CudaEvent"}, "an export of Nsight Systems"),
    ({"TraceProcessEvent"}, "an export of Nsight Systems"),
    ({"log", "stream"}, "a log wrapped by docker"),
    ({"MESSAGE", "__REALTIME_TIMESTAMP"}, "a log wrapped by journald"),
    ({"resourceSpans"}, "an OpenTelemetry trace"),
    ({"$schema", "runs"}, "a SARIF file"),
    ({"signature", "earlier", "current"}, "a result of `hbtrace analyze`"),
    ({"format", "reports"}, "a result of `hbtrace analyze`"),
)
"""Keys that a row has at least, and what it is then; the first counts."""


def shape_of(keys: Collection[str]) -> str:
    """What has a row with these keys; empty where nobody knows."""
    return next((what for wanted, what in _SHAPES if wanted.issubset(keys)), "")
