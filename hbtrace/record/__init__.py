"""Recording a real run: a library that is loaded into an unpatched program, and what starts it and takes its events.

`native/` is the library (C++, no ggml headers). `build` compiles it once, `program` looks whether it can be loaded at
all, `launch` runs the program with it, `finish` makes the trace of what it wrote. No analysis is here.
"""

from __future__ import annotations

from hbtrace.errors import HbtraceError


class RecordError(HbtraceError):
    """Nothing was recorded, and nothing will be until the named thing is mended."""

    exit_code = 125


class ProgramNotFoundError(RecordError):
    """The program to record is not there."""

    exit_code = 127
