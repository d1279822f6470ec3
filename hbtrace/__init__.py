"""hbtrace finds races in recorded backend event logs of ggml and llama.cpp, offline.

    import hbtrace

    with hbtrace.open("run.arrow") as trace:      # Arrow IPC or JSON Lines
        for event in trace:
            print(event["ev"])

    outcome = hbtrace.analyze("run.arrow")
    for report in outcome:
        print(report.kind, report.current.tensor)

Importing the package is cheap: what a name needs is imported when the name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hbtrace.compare.outcome import Outcome, analyze
    from hbtrace.consequence.taint import Consequence, consequences
    from hbtrace.errors import HbtraceError, TraceError, UsageError
    from hbtrace.explain.explanation import Explanation, explain_race
    from hbtrace.explain.minimize import minimize
    from hbtrace.explain.triage import Triage, triage
    from hbtrace.races.filters import Filters
    from hbtrace.record.recorder import Recorder, recorder_header
    from hbtrace.replay.reports import Access, Report
    from hbtrace.replay.session import Result, analyze_events
    from hbtrace.trace.reader import Trace
    from hbtrace.trace.reader import open_trace as open
    from hbtrace.trace.writer import Writer, open_writer
    from hbtrace.what_if.fix import fix
    from hbtrace.what_if.waits import weigh
    from hbtrace.what_if.whatif import whatif

__all__ = [
    "Access", "Consequence", "Explanation", "Filters", "HbtraceError", "Outcome", "Recorder", "Report", "Result",
    "Trace", "TraceError", "Triage", "UsageError", "Writer", "analyze", "analyze_events", "consequences",
    "explain_race", "fix", "minimize", "open", "open_writer", "recorder_header", "triage", "weigh",
    "whatif",
]  # fmt: skip

_HOMES = {
    "Access": "replay.reports", "Filters": "races.filters", "HbtraceError": "errors", "Outcome": "compare.outcome",
    "Report": "replay.reports", "Result": "replay.session", "Trace": "trace.reader", "TraceError": "errors",
    "Consequence": "consequence.taint", "consequences": "consequence.taint", "fix": "what_if.fix",
    "Explanation": "explain.explanation", "explain_race": "explain.explanation",
    "minimize": "explain.minimize", "Triage": "explain.triage", "triage": "explain.triage", "whatif": "what_if.whatif",
    "UsageError": "errors", "Writer": "trace.writer", "analyze": "compare.outcome", "analyze_events": "replay.session",
    "open": "trace.reader", "open_writer": "trace.writer", "Recorder": "record.recorder",
    "recorder_header": "record.recorder", "weigh": "what_if.waits",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), "open_trace" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
