"""The importer of Strata logs, as the rest of hbtrace sees it: which kind of log bytes are, and their events.

What it is: the steps of each request's pipeline trace, played by the engine model (`hbtrace.strata.model.engine`)
in the mode that the log says, so that windows, commits, snapshots, undos and settles get their true edges. What it is
not: a recording. What a log cannot tell (prompt windows, serial windows, sizes, stages between the first and the last)
is inferred, and `meta` says so. Broken logs are played as far as they go: the T rules name what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from hbtrace.errors import TraceError
from hbtrace.strata.logs.lines import StateHash, Timing, ToldLine, TraceBegin, broken, record
from hbtrace.strata.logs.reading import read_logs
from hbtrace.strata.logs.run import CaptureError, Log, LoggedRequest, TraceBlock

_LAYERS: Final = 9
_LAYER_BYTES: Final = 3268608
"""The seed's: nine layers are its 29.4 MB."""
_DEPTHS: Final = range(2, 9)
"""Windows in flight that the model plays: those of `--windows`. More is no source's, and each costs memory."""
_MOST_STAGES: Final = 16
"""That the model plays: those of `--stages`."""


_OF_THE_MODEL: Final = frozenset({"engage", "refuse", "unclear"})
"""What is told of the ring: the model's own notes say it."""


@dataclass(frozen=True)
class LogSettings:
    """What the log does not say. None: as it says, else the seed's or the smallest that fits."""

    mode: str | None = None
    stages: int | None = None
    windows: int | None = None
    layers: int = _LAYERS
    layer_bytes: int = _LAYER_BYTES


def identify(lines: Iterable[bytes]) -> bool:
    """Whether these are lines of a Strata log. Ends at the first proof; one line of a reply proves nothing."""
    for line in broken(lines):
        if line.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t").startswith((b"{", b"[")):
            continue
        with suppress(TraceError):  # a number that nothing counts to proves nothing: reading says what is wrong
            if isinstance(record(line), TraceBegin | StateHash | Timing):
                return True
    return False


def is_line(line: bytes) -> bool:
    """Whether a line is a whole one of a Strata log, and not other output or the beginning of one."""
    try:
        return record(line) is not None
    except TraceError:  # reading says what is wrong with it
        return True


def events(lines: Iterable[bytes], settings: LogSettings | None = None) -> Iterator[dict[str, Any]]:
    """The events of one capture."""
    return events_of([lines], settings)


def events_of(
    captures: Sequence[Iterable[bytes]], settings: LogSettings | None = None, warnings: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The events of a run whose captures are apart. warnings: what was assumed is added to it, as sentences.

    Raises `TraceError` where none holds a pipeline trace, one is not of this run, or a count is beyond the model.
    """
    from hbtrace.strata.model.engine import StrataEngine

    given = settings or LogSettings()
    log = read_logs(captures)
    if len(captures) > 1:
        log.only()
    if not any(request.block is not None for request in log.requests):
        raise TraceError(
            log.crowded or "no pipeline trace in this Strata log: record with STRATA_PIPELINE_DEBUG=1 and"
            " STRATA_PIPELINE_TRACE=FILE"
        )
    shape = _shape(log, given)
    requests = [_request(number, logged, shape.stages, log) for number, logged in enumerate(log.requests)]
    engine = StrataEngine(shape, requests)
    if warnings is not None:
        warnings += log.unassigned + (log.unclear if given.mode is None else [])
    if warnings is not None and given.mode is None and not log.told_mode:
        warnings.append(
            "no capture tells the mode: copy is assumed; hbtrace convert --with FILE gives the run's standard error,"
            " --mode ring says that its snapshot ring was on"
        )
    yield from _with_log(engine.tape.rows, log, shape.mode, assumed=given.mode is None)


def _shape(log: Log, given: LogSettings) -> Any:
    from hbtrace.strata.model.steps import COPY, RING, RunShape

    seen = max((_last_stage(request.block) for request in log.requests if request.block), default=1)
    mode = given.mode or (RING if log.ring or log.refused else COPY)
    return RunShape(
        mode=mode, stages=max(given.stages or 2, seen + 1, 2), windows=given.windows or _depth(log),
        layers=given.layers, layer_bytes=given.layer_bytes, refused="" if given.mode else log.refused,
    )  # fmt: skip


def _last_stage(block: TraceBlock) -> int:
    """The highest stage that a trace names. Raises `CaptureError` for what the model does not play."""
    from hbtrace.strata.model.steps import MOST_TOKENS

    last = 1
    for line, step in block.steps:
        if step.event[0] in "LF":
            last = max(last, stage := int(step.event[1:]))
            if stage >= _MOST_STAGES:
                raise CaptureError(f"line {line}: {step.event} is beyond the {_MOST_STAGES} stages that are played")
            if step.x0 > MOST_TOKENS:
                raise CaptureError(
                    f"line {line}: {step.event} has {step.x0} tokens, and at most {MOST_TOKENS} are played"
                )
    return last


def _depth(log: Log) -> int:
    """Windows in flight, by the log's own word. Raises `CaptureError` for a count that the model does not play."""
    if (windows := log.windows) not in _DEPTHS:
        raise CaptureError(
            f"{log.places['start']}: --pipeline-windows {windows} is not one of {_DEPTHS[0]} to {_DEPTHS[-1]};"
            " --windows overrules it"
        )
    return windows


def _request(number: int, logged: LoggedRequest, stages: int, log: Log) -> Any:
    """A logged request as the engine plays it."""
    from hbtrace.strata.model.steps import Request

    reused = logged.done.reused if logged.done is not None else -1
    request = Request(number, resume=logged.resumed, fresh=reused == 0 and not logged.resumed, line=logged.line)
    if logged.done is not None:
        request.finish = logged.done.finish
    if logged.error:
        request.finish = "error"
    if logged.block is None:
        request.pipelined, request.why = False, logged.serial or logged.error or "no pipeline trace"
        request.untraced = not logged.error and not log.was_serial(logged)
        request.serial = [] if logged.error or request.untraced else [(1, 1)]
        return request
    request.p0, request.line = logged.block.p0, logged.block.line
    if logged.block.p0 + 1 > max(reused, 0):
        request.prompt = [1]
    request.steps = _widened(_steps(logged.block), stages)
    return request


def _steps(block: TraceBlock) -> list[Any]:
    from hbtrace.strata.model.steps import LoopStep

    steps = []
    for line, told in block.steps:
        at = LoopStep("", seq=max(told.seq, 0), line=line, time=told.time)
        kind = told.event[0]
        if kind in "LF":
            stage = int(told.event[1:])
            steps.append(at._replace(op=kind, stage=stage, tokens=told.x0, spec=stage == 0 and told.x1 == 1))
        elif told.event == "V":
            steps.append(at._replace(op="V", accepted=told.x0, on=told.x1))
        elif told.event == "U":
            steps.append(at._replace(op="U", keep=told.x0))
        else:
            steps.append(at._replace(op="C", kind=told.event, value=told.x0))
    return steps


def _widened(steps: list[Any], stages: int) -> list[Any]:
    """The log of a deeper split that names the first and the last stage only: those between, where they can be."""
    named = max((step.stage for step in steps if step.op in "LF"), default=1)
    if named + 1 >= stages or named != 1:
        return steps
    last, out = stages - 1, []
    for step in steps:
        if step.op == "L" and step.stage == 1:
            for stage in range(1, last):
                out += [step._replace(stage=stage, line=0), step._replace(op="F", stage=stage, line=0)]
        if step.op in "LF" and step.stage == 1:
            step = step._replace(stage=last)
        out.append(step)
    return out


def _with_log(rows: Sequence[dict[str, Any]], log: Log, mode: str, *, assumed: bool) -> Iterator[dict[str, Any]]:
    """The engine's rows, with what the log says beside them: hashes, summaries, replies."""
    from hbtrace.strata.model.steps import COPY, RING

    told = RING if log.ring else COPY
    notes = (
        f"Made from a Strata log of {log.lines} lines, mode {mode}. Prompt and serial windows, sizes and the end of"
        " memory are inferred: the log does not tell them."
    )
    if assumed and not log.told_mode:
        notes += " No capture tells the mode: copy is assumed."
    if log.told_mode and told != mode and not log.refused:
        notes += f" The log itself says {told} mode."
    if log.unassigned:
        notes += " " + "; ".join(log.unassigned) + "."
    names = log.names
    for row in rows:
        if names and row["ev"] == "note" and "line" in row["attrs"]:
            row = row | {"attrs": row["attrs"] | {"capture": _capture(row, names)}}
        if row["ev"] == "meta":
            row = row | {"producer": "hbtrace importer of Strata logs", "notes": notes}
        elif row["ev"] == "note" and row["what"] == "request" and row["attrs"]["do"] == "end":
            number = row["attrs"]["request"]
            yield from _ending(number, log.requests[number], names)
            if log.cut and number == len(log.requests) - 1:
                row = row | {"attrs": row["attrs"] | {"cut": True}}
        elif row["ev"] == "note" and row["what"] == "stage" and row["attrs"]["stage"] == 0:
            yield from (_said(line, told) for line, told in log.told if told.what not in _OF_THE_MODEL)
        yield row


def _said(line: int, told: ToldLine) -> dict[str, Any]:
    values: dict[str, Any] = dict(told.values)
    if told.what == "start":
        values["windows"] = int(values["windows"])
    return _note(told.what, {**values, "text": told.text, "line": line})


def _capture(row: dict[str, Any], names: dict[str, str]) -> str:
    """The name of the capture that a step's line, or a request's, stands in."""
    traced = row["what"] != "request" or row["attrs"]["kind"] == "pipelined"
    return names.get("a pipeline trace" if traced else "replies", "")


def _ending(number: int, logged: LoggedRequest, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    timing = logged.timing
    if timing is not None and logged.block is not None:
        yield _note(
            "summary",
            {
                "request": number, "line": logged.timing_line, "windows": timing.windows, "ms": timing.ms,
                "speculative": timing.speculative, "on_path": timing.on_path, "rolled_back": timing.rolled_back,
                "gated": timing.gated, "theta": timing.theta,
                **({"capture": names["timing summaries"]} if names else {}),
            },
        )  # fmt: skip
    if logged.hash is not None:
        yield _note("state_hash_items", {"request": number, "stages": [0], "items": logged.hash.items})
    if logged.layers is not None:
        yield _note("state_hash_layers", {"request": number, "stages": [0], "hashes": list(logged.layers.layers)})
    if logged.done is not None:
        yield _note("reply", {"request": number, **asdict(logged.done)})


def _note(what: str, attrs: dict[str, Any]) -> dict[str, Any]:
    return {"ev": "note", "what": what, "attrs": attrs}
