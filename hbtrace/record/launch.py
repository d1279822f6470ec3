"""Run a program with the recorder library in it. Its input, output and exit status stay its own."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from hbtrace.errors import UsageError
from hbtrace.record import ProgramNotFoundError, RecordError
from hbtrace.record.build import library
from hbtrace.record.facts import encode_facts, load_facts
from hbtrace.record.finish import Recorded, finish, further_traces, spools
from hbtrace.record.program import UNREACHABLE, check_program, mentions_ggml, wants_ggml
from hbtrace.trace.vocabulary import SUFFIXES

Say = Callable[[str], None]

_FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


LEAST_SIZE: Final = 16 << 10
"""Of a spool. The first row holds the command and what the environment says of backends."""


@dataclass(frozen=True)
class Options:
    """What to record, and to where. `max_size`: bytes of a spool, 0 = no limit. `ubatches`: first and last."""

    output: Path
    force: bool = False
    exact_writes: bool = False
    ubatches: tuple[int, int] | None = None
    max_size: int = 0
    copies: Sequence[str] = ()


def record(command: Sequence[str], options: Options, say: Say) -> int:
    """Run the command and make its traces; the exit status is the command's, 128 + n if signal n ended it.

    Raises RecordError if it cannot be recorded, or was not.
    """
    program = check_program(command[0])
    if options.exact_writes and platform.machine() != "x86_64":
        raise RecordError("--exact-writes steps through single instructions, which needs x86-64: record without it")
    if options.max_size and options.max_size < LEAST_SIZE:
        raise UsageError(f"--max-size must be {LEAST_SIZE >> 10}K or more: the first definitions take as much")
    prefix = _spool_prefix(options)
    environment = environment_for(options, prefix, library(say))
    status = _run(command, environment)
    traces = finish(options.output, prefix, force=options.force)
    for trace in traces:
        tell(trace, say, exact=options.exact_writes)
    tell_unused(options.copies, traces, say)
    tell_earlier(options.output, traces, say)
    if not traces:
        reason = _why_nothing(command[0], program)
        if status != 0:
            say(f"{reason}; it ended with {status}")
            return status
        raise RecordError(reason)
    if readable := [trace for trace in traces if trace.kept and (trace.rows > 1 or trace.failure)]:
        first = readable[0]
        say(f"next: hbtrace analyze {first.spool if first.failure else first.path}")
    elif status == 0:
        raise RecordError(traces[0].notes or "nothing was recorded: the program used no device, or its disk was full")
    return status


def _spool_prefix(options: Options) -> Path:
    """Where the library writes; nothing that exists is overwritten without force. Raises RecordError."""
    output = options.output
    if output.suffix not in SUFFIXES:
        raise RecordError(f"{output}: name it .arrow or .arrows (Arrow IPC file or stream) or .jsonl (JSON Lines)")
    if output.is_dir():
        raise RecordError(f"{output} is a folder")
    if not output.absolute().parent.is_dir():
        raise RecordError(f"{output}: its folder does not exist")
    if not os.access(output.absolute().parent, os.W_OK):
        raise RecordError(f"{output}: its folder cannot be written")
    prefix = output.absolute().with_name(f"{output.name}.spool")
    left = spools(prefix)
    if not options.force:
        for path in (output, *further_traces(output)):
            if os.path.lexists(path):
                raise RecordError(f"{path} exists; give -f to overwrite it")
        if left:
            raise RecordError(
                f"{left[0]} exists: a crash left it, or it is still written; analyze or rename it, or give -f to "
                "overwrite it"
            )
    for path in left:
        path.unlink(missing_ok=True)
    return prefix


def environment_for(options: Options, prefix: Path, recorder: Path) -> dict[str, str]:
    """This process's environment, and what makes a program write the spool PREFIX.<pid>.jsonl."""
    environment = dict(os.environ)
    others = environment.get("LD_PRELOAD", "")
    environment["LD_PRELOAD"] = f"{recorder}:{others}" if others else str(recorder)
    environment["HBTRACE_RECORD_SPOOL"] = str(prefix)
    environment["HBTRACE_RECORD_FACTS"] = encode_facts(load_facts(options.copies))
    if options.exact_writes:
        environment["HBTRACE_RECORD_EXACT"] = "1"
    if options.ubatches is not None:
        environment["HBTRACE_RECORD_UBATCHES"] = "{}-{}".format(*options.ubatches)
    if options.max_size:
        environment["HBTRACE_RECORD_MAX_SIZE"] = str(options.max_size)
    return environment


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    sys.stdout.flush()
    with _Signals() as signals:
        try:
            child = subprocess.Popen(command, env=environment)
        except FileNotFoundError:
            raise ProgramNotFoundError(f"{command[0]}: program not found") from None
        except OSError as error:
            raise RecordError(f"{command[0]} cannot be run: {error.strerror}") from None
        signals.forward_to(child)
        status = child.wait()
    return status if status >= 0 else 128 - status


class _Signals:
    """While the program runs, signals are for it. A terminal sends its own to both of us anyway: those are let be.

    Handlers, not SIG_IGN, as the program would inherit that. One that is ignored already (`nohup`) stays so, for the
    program, too. Set before it is there, as it may be told to end at once; what comes until then is kept for it.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Self:
        by_terminal = (signal.SIGINT, signal.SIGQUIT)
        from_terminal = os.isatty(0) or os.isatty(2)
        for number in (*_FORWARDED, *by_terminal):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            handler = _let_be if from_terminal and number in by_terminal else self._forward
            self._old[number] = signal.signal(number, handler)
        return self

    def forward_to(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def _forward(self, number: int, _: object) -> None:
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


def _let_be(number: int, _: object) -> None:
    pass


def _why_nothing(name: str, program: Path) -> str:
    """Why a program left no spool, as far as its file tells."""
    if wants_ggml(program):
        return f"nothing was recorded: {name} ended before it used a device; see what it says itself"
    if mentions_ggml(program):
        return f"nothing was recorded: {name} has ggml linked into it, so that {UNREACHABLE}"
    return (
        f"nothing was recorded: {name} never called ggml through a shared library; name the program that loads "
        "libggml, built with BUILD_SHARED_LIBS=ON"
    )


def tell(trace: Recorded, say: Say, *, exact: bool) -> None:
    for warning in trace.warnings:
        say(f"warning: {warning}")
    if not trace.kept:
        say(f"warning: process {trace.pid} is not recorded: {trace.failure}")
        return
    if trace.failure:
        say(f"warning: the trace is not written, its events are kept in {trace.spool}: {trace.failure}")
        _tell_stopped(trace, say)
        return
    say(f"recorded {trace.path}: {_counts(trace)}, {trace.size:,} bytes")
    if trace.notes:
        say(f"warning: {trace.notes}")
    for registry in sorted(trace.unknown_copies):
        say(
            f"warning: which queue runs the asynchronous copies of {registry} is not known, so that of the source is "
            f"taken: say it by --copies {registry}=src, dst or both"
        )
    if trace.several_ggml:
        say(
            "warning: the program loaded ggml more than once, and the calls of all copies went to one of them: its "
            "results may be wrong; record a process that loads one"
        )
    if trace.events["compute"] and not trace.from_outside:
        say(
            "warning: all recorded calls are ggml's own: the program takes ggml's functions by handle (dlsym, ctypes), "
            "and what it calls so is not seen; see `hbtrace docs record`"
        )
    if trace.lost_stores:
        say(
            f"warning: {trace.lost_stores:,} stores into inputs are not in the trace, as a call made more than can be "
            "kept: record a smaller ubatch"
        )
    _tell_stopped(trace, say)
    if trace.unseen and not exact:
        say(
            f"note: {trace.unseen} times the program was about to write an input in host memory and its content did "
            "not change: such a write is seen with --exact-writes only"
        )


def _tell_stopped(trace: Recorded, say: Say) -> None:
    if trace.stopped:
        say(f"warning: the trace ends early: {_STOPPED.get(trace.stopped, trace.stopped)}")


def tell_unused(rules: Sequence[str], traces: Sequence[Recorded], say: Say) -> None:
    """Of rules for the copies of backends that were not there: a name that is mistyped, perhaps."""
    there = {registry for trace in traces for registry in trace.registries}
    for name in (rule.partition("=")[0] for rule in rules):
        if there and name not in there:
            say(f"warning: --copies {name}: the program has no such backend; it has {', '.join(sorted(there))}")


def tell_earlier(output: Path, traces: Sequence[Recorded], say: Say) -> None:
    """Of traces that another recording has left beside these, and that look like more of this one."""
    names = {trace.path.name for trace in traces}
    for path in further_traces(output):
        if traces and path.name not in names:
            say(f"note: {path} is of an earlier recording: remove it, or keep it under another name")


_STOPPED: Final = {
    "max_size": "it reached the size of --max-size",
    "disk_full": "the disk was full",
    "write_failed": "the spool could not be written",
    "descriptor_closed": "the program closed all files that it did not know, the recorder's, too",
}


def _counts(trace: Recorded) -> str:
    parts = [
        (trace.rows, "event", "events"),
        (trace.events["ubatch"], "ubatch", "ubatches"),
        (trace.events["compute"], "compute", "computes"),
        (trace.events["backend"], "queue", "queues"),
        (trace.events["set_direct"], "direct write", "direct writes"),
    ]
    return ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in parts)
