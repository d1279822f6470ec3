"""`Recorder`: an engine tells what it does, event by event, and a trace comes of it. Needs neither Arrow nor NumPy.

What it is not: the recorder of llama.cpp, which is `hbtrace record`. Each event is a line of `NAME.spool.jsonl` when
its method returns, so that a process that is killed leaves all that it told, in a form that every verb reads. On
closing the spool gets its name, or is made into Arrow; only then is pyarrow imported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Final, Self

from hbtrace import __version__
from hbtrace.errors import HbtraceError, UsageError
from hbtrace.outfile import give_name
from hbtrace.record.recorder_events import Events
from hbtrace.record.recorder_values import Row, kept, row_of, shown
from hbtrace.trace import vocabulary as v
from hbtrace.trace.jsontext import dumps_bytes

_LONGEST: Final = 1 << 27
"""The reader takes no longer line."""
_LONGEST_REASON: Final = 1000
"""Characters of an exception's text that the trace keeps."""
_ROOM: Final = 16
"""Whole lines that can be taken back to make room for the note that the disk is full; the note is shorter than ten."""


class Recorder(Events):
    """Records a trace; a context manager. Its methods are the events, `hbtrace docs format` says what they mean.

    path: `.arrow`, `.arrows` or `.jsonl`. meta: the keys of the `meta` row; `producer`, `started_at` and `command` are
    filled in. force: overwrite what is there, unless a recorder still writes it. times: fill in `time` (ns since some
    start, never backwards).

    Threads may share it. An event stands where its method was called; where that must not be torn from the work it
    tells of, hold `lock` over both: `with run.lock: run.tensor_set(0); copy()`. Each event carries its thread's number,
    0 for the thread that opened the recorder.

    Half a surrogate pair in a text, as in a file name that is no UTF-8, is kept as its escape: `\\udcff`.

    Raises FileExistsError if the path, or the spool of a crash, exists and force is False, or if the spool is still
    written; UsageError for another suffix and what cannot be written, TypeError and ValueError from meta and from the
    methods. If the disk is full the engine goes on: one RuntimeWarning, a `recording_stopped` note, and `stopped` is
    why.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, meta: Mapping[str, Any] | None = None, force: bool = False,
        times: bool = True,
    ) -> None:  # fmt: skip
        self.path = Path(path)
        self.spool = self.path.with_name(f"{self.path.name}.spool.jsonl")
        """Where the events are until the trace has its name."""
        self.rows = 0
        self.stopped: str | None = None
        self.lock = threading.RLock()
        self._times = times
        self._force = force
        self._pid = os.getpid()
        self._threads = 0
        self._thread = threading.local()
        self._number()  # of the opener
        self._ends: deque[int] = deque([0], maxlen=_ROOM + 1)
        if meta is not None:  # before anything is on the disk
            if not isinstance(meta, Mapping):
                raise TypeError(f"meta: must be its keys and their values (a dict), not {shown(meta)}")
            row_of("meta", meta)
        self._file = _open(self.path, self.spool, force=force)
        self._open = True
        if meta is not None:
            self._event("meta", **meta)

    def close(self) -> None:
        """Finish the trace. Raises UsageError if that fails; the spool has all the events then. Again: does nothing.

        A spool that another program has taken away or replaced is not touched: UsageError says what became of it.
        Where the disk was full while the run went on, a failure here is no more than a warning, too.
        """
        if os.getpid() != self._pid:  # a fork's copy: the trace is its parent's, and so may be who held the lock
            self._open = False
            self._file.close()
            return
        with self.lock:
            if not self._open:
                return
            if self.rows == 0:
                self._append(_own_meta({}))
            self._open = False
        try:
            _finish(self.path, self.spool, self._file, force=self._force)
        except UsageError as error:
            if self.stopped is None:
                raise
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
            return
        # The block's own exception is what the caller must see, whatever becomes of the trace.
        try:
            if self._open and os.getpid() == self._pid:
                self.note("recording_ended", attrs={"exception": _reason(kind, error)})
        except Exception as failure:
            warnings.warn(f"{self.path}: {failure}", RuntimeWarning, stacklevel=2)
        finally:  # even where a warning is made an error
            self._close_whatever_comes()

    def _close_whatever_comes(self) -> None:
        try:
            self.close()
        except Exception as failure:
            warnings.warn(f"{self.path}: {failure}", RuntimeWarning, stacklevel=3)

    def _event(self, ev: str, /, **given: Any) -> int:
        """Check and write one event; its row, or -1 once the recording has stopped."""
        row = row_of(ev, given)
        if os.getpid() != self._pid:
            raise ValueError(f"{ev}: {self.path} belongs to process {self._pid}; a fork needs a recorder of its own")
        with self.lock:
            if not self._open:
                raise ValueError(f"{ev}: the recording of {self.path} is closed")
            if ev == "meta":
                if self.rows:
                    raise ValueError(f"meta: must be the first event, not row {self.rows}")
                return self._append(_own_meta(row))
            if self.rows == 0:
                self._append(_own_meta({}))
            row.setdefault("thread", self._number())
            if self._times:
                row.setdefault("time", time.monotonic_ns())
            return self._append(row)

    def _number(self) -> int:
        """This thread's number. Not by its `ident`, which the next thread can get when this one has ended."""
        number: int | None = getattr(self._thread, "number", None)
        if number is None:
            with self.lock:
                number = self._thread.number = self._threads
                self._threads += 1
        return number

    def _append(self, row: Row) -> int:
        if self.stopped is not None:
            return -1
        line = dumps_bytes(row) + b"\n"
        if len(line) > _LONGEST:
            raise ValueError(f"{row['ev']}: is longer than {_LONGEST >> 20} MiB")
        try:
            self._write(line)
        except OSError as error:
            self._stop(error)
            return -1
        self.rows += 1
        return self.rows - 1

    def _write(self, line: bytes) -> None:
        """A whole line, or nothing of it: the next one must not go on where half a line ends."""
        try:
            written = self._file.write(line)
            while written < len(line):
                written += self._file.write(line[written:])
        except BaseException:
            self._cut(self._ends[-1])
            raise
        self._ends.append(self._ends[-1] + len(line))

    def _cut(self, end: int) -> None:
        with contextlib.suppress(OSError):
            self._file.truncate(end)
            self._file.seek(end)

    def _stop(self, error: OSError) -> None:
        """The engine matters more than its trace: it goes on, and the trace says where it ends."""
        reason = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "write_failed"
        self.stopped = error.strerror or str(error)
        note = dumps_bytes({"ev": "note", "what": "recording_stopped", "attrs": {"reason": reason}}) + b"\n"
        ends = list(self._ends)
        while len(ends) > 1 and self._ends[-1] - ends[-1] < len(note):
            ends.pop()
            self.rows -= 1
        self._ends = deque(ends, maxlen=_ROOM + 1)
        self._cut(ends[-1])
        with contextlib.suppress(OSError):
            self._write(note)
            self.rows += 1
        warnings.warn(
            f"{self.path}: {self.stopped}: the recording stops, the trace ends with row {self.rows - 1}",
            RuntimeWarning, stacklevel=5,
        )  # fmt: skip


def recorder_header() -> Path:
    """The C header with the same vocabulary: one file, `cc -I$(dirname ...)`; its first lines say how to use it."""
    return Path(__file__).with_name("hbtrace_recorder.h")


def _own_meta(row: Row) -> Row:
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    own = {"version": v.VERSION, "producer": f"hbtrace.Recorder {__version__}", "started_at": started}
    return {"ev": "meta", **own, "command": [kept(str(word)) for word in getattr(sys, "argv", ())], **row}


def _reason(kind: type[BaseException], error: BaseException | None) -> str:
    """An exception in words, though its `__str__` may fail, or give more than a line of the trace can hold."""
    try:
        text = f"{kind.__name__}: {error}"
    except Exception:
        text = kind.__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def _open(path: Path, spool: Path, *, force: bool) -> FileIO:
    """The spool, new and unbuffered. Raises FileExistsError and UsageError."""
    if path.suffix not in v.SUFFIXES:
        raise UsageError(f"{path}: name it .arrow or .arrows (Arrow IPC file or stream) or .jsonl (JSON Lines)")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")
    if not force and os.path.lexists(path):
        raise FileExistsError(f"{path} exists; give force=True to overwrite it")
    try:
        if force:
            _clear(spool)
        file = spool.open("xb", buffering=0)
    except _HeldError:
        raise FileExistsError(f"{spool} is still written by another recorder, or by what was forked from it") from None
    except FileExistsError:
        raise FileExistsError(
            f"{spool} exists: a crash left it, or it is still written; analyze or rename it, or give force=True to "
            "overwrite it"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    _lock(file.fileno())
    return file


class _HeldError(FileExistsError):
    """A recorder still writes this spool."""


def _clear(spool: Path) -> None:
    """Removes what a crash left. Raises _HeldError for the spool of a recorder that lives."""
    try:
        there = os.open(spool, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # nothing is there, or unlinking says what is wrong
        spool.unlink(missing_ok=True)
        return
    try:
        if not _lock(there):
            raise _HeldError
        spool.unlink(missing_ok=True)
    finally:
        os.close(there)


def _lock(descriptor: int) -> bool:
    """Locks a file until it is closed. False: another has it. Where there are no locks `_check` alone is left."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _check(path: Path, spool: Path, file: FileIO) -> None:
    """Raises UsageError if what has the spool's name is not the file that was written."""
    own = os.fstat(file.fileno())
    try:
        happened = None if os.path.samestat(own, spool.stat()) else "replaced by another file"
    except OSError:
        happened = "removed or renamed"
    if happened is not None:
        left = "its events are lost" if own.st_nlink == 0 else "its events have another name now"
        raise UsageError(f"{path}: {spool} was {happened} while it was written: {left}")


def _finish(path: Path, spool: Path, file: FileIO, *, force: bool) -> None:
    """The spool becomes the trace. Raises UsageError, and keeps the spool then."""
    _check(path, spool, file)
    if os.name == "nt":  # renames nothing that is open. Elsewhere the lock is held until the trace is made
        file.close()
    try:
        if path.suffix == ".jsonl":
            give_name(spool, path, force=force)
        else:
            _convert(path, spool, force=force)
    except (HbtraceError, OSError) as error:
        raise UsageError(f"{error}; the events are kept in {spool}") from None


def _convert(path: Path, spool: Path, *, force: bool) -> None:
    from hbtrace.trace.reader import open_trace
    from hbtrace.trace.writer import write_batches

    with open_trace(str(spool)) as trace:
        write_batches(path, trace.batches(), force=force)
    spool.unlink()
