"""The flat workload on whatever peers are installed, each in a process of its own. Each does what it can of it.

* a plain-Python interval yardstick, ours: vector clocks and a shadow of byte intervals, none of the contract's detail;
  a measure of speed, not a second `tests.oracle`, which is slow on purpose
* PyTorch's CUDA sanitizer, its handler fed directly: exact pointers only; the host is made a stream
* ThreadSanitizer with a fiber a queue: its cost is by the byte
* RAPID, if HBTRACE_RAPID_JAR is its class path: a block is a variable

`python -m tests.bench.peers yardstick|csan PROGRAM` prints JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.bench.measure import ROOT, measure, peak_mib
from tests.bench.workloads import FOLDER, KIB, Workload, flat

READ, WRITE, RECORD, WAIT, SYNC, ISSUE = range(6)
_STEP = struct.Struct("<qqqq")
_LIMIT_S = 120

Step = tuple[int, int, int, int]
"""Operation, actor (the host is 0), offset or event, size."""


def steps_of(path: Path) -> Iterator[Step]:
    """A flat trace as the peers take it."""
    from hbtrace.trace.reader import open_trace

    for event in open_trace(path):
        ev, actor = event["ev"], event.get("backend", 0)
        if ev in ("kernel", "host_access"):
            if ev == "kernel":
                yield ISSUE, actor, 0, 0
            for operation, key in ((READ, "reads"), (WRITE, "writes")):
                for span in event.get(key, ()):
                    yield operation, actor, span["offset"], span["size"]
        elif ev in ("event_record", "event_wait"):
            yield RECORD if ev == "event_record" else WAIT, actor, event["event"], 0
        elif ev == "synchronize":
            yield SYNC, actor, 0, 0


def run(*, steps: int) -> Iterator[dict[str, Any]]:
    """Print a line a peer, and yield its figures. The racy twin is small: TSan crawls where bytes race."""
    sync, racy = flat(64 * KIB, steps=steps), flat(64, steps=4, racy=True)
    programs = []
    for workload in (sync, racy):
        programs.append(FOLDER / f"{workload.path.stem}.{os.getpid()}.bin")
        programs[-1].write_bytes(b"".join(_STEP.pack(*step) for step in steps_of(workload.path)))
    print(
        f"peers, one run each of {sync.accesses:,} flat accesses of 64 KiB, sync; then {racy.accesses:,} of 64 B, racy"
    )
    print(f"{'peer':<28}{'accesses/s':>12}{'MiB':>6}   told: sync, racy")
    try:
        for name, peer in PEERS.items():
            timed, seen = _run_twice(peer, (sync, racy), programs)
            if isinstance(timed, str):
                print(f"{name:<28}{timed}", flush=True)
                yield {"peer": name, "absent": timed}
                continue
            rate = sync.accesses / timed["seconds"]
            peak = "-" if timed["peak_mib"] is None else f"{timed['peak_mib']:.0f}"
            print(f"{name:<28}{rate:>12,.0f}{peak:>6}   {timed['told']}, {seen}", flush=True)
            yield {"peer": name, "accesses": sync.accesses, "rate": rate, "racy": seen, **timed}
    finally:
        for program in programs:
            program.unlink()


def _run_twice(peer: Peer, workloads: tuple[Workload, Workload], programs: list[Path]) -> tuple[Facts | str, Any]:
    """(figures of the sync program or why there are none, what is told of the racy one)."""
    timed = peer(workloads[0], programs[0])
    if isinstance(timed, str):
        return timed, None
    seen = peer(workloads[1], programs[1])
    return timed, seen if isinstance(seen, str) else seen["told"]


Facts = dict[str, Any]
Peer = Callable[[Workload, Path], "Facts | str"]
"""Takes the trace and the same as a program file; gives seconds, peak_mib and told, or says why not."""


def _hbtrace(workload: Workload, _: Path) -> Facts:
    done = measure("replay", workload.path)
    return {"seconds": done.seconds, "peak_mib": done.peak_mib, "told": done.reports}


def _python(name: str) -> Peer:
    """A peer of this file, in a process of its own."""

    def peer(_: Workload, program: Path) -> Facts | str:
        if name == "csan" and importlib.util.find_spec("torch") is None:
            return "not installed (torch)"
        command = [sys.executable, "-m", "tests.bench.peers", name, str(program)]
        facts: Facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
        return facts

    return peer


class _Yardstick:
    """Cells by their first byte: [end, writer, its clock, {reader: its clock}]. Races are counted, not named."""

    def __init__(self) -> None:
        self.clocks = [[0, 0, 0] for _ in range(3)]
        self.events: dict[int, list[int]] = {}
        self.starts: list[int] = []
        self.cells: dict[int, list[Any]] = {}
        self.races = 0

    def replay(self, program: Iterable[Step]) -> int:
        clocks, cells = self.clocks, self.cells
        for operation, actor, place, size in program:
            known = clocks[actor]
            if operation <= WRITE:
                if actor == 0:
                    known[0] += 1
                cell = cells.get(place)
                exact = cell is not None and cell[0] == place + size
                for one in (cell,) if exact else self.cut(place, place + size):
                    self.touch(one, actor, known, write=operation == WRITE)
            elif operation == ISSUE:
                clocks[actor] = list(map(max, known, clocks[0]))
                clocks[actor][actor] += 1
            elif operation == RECORD:
                clocks[actor] = list(map(max, known, clocks[0]))
                self.events[place] = list(clocks[actor])
            elif operation == WAIT:
                clocks[actor] = list(map(max, known, clocks[0], self.events.get(place, known)))
            else:
                clocks[0] = list(map(max, clocks[0], known))
        return self.races

    def touch(self, cell: list[Any], actor: int, known: list[int], *, write: bool) -> None:
        _, writer, clock, reads = cell
        self.races += writer != actor and clock > known[writer]
        if write:
            self.races += sum(reader != actor and at > known[reader] for reader, at in reads.items())
            cell[1:] = actor, known[actor], {}
        else:
            reads[actor] = known[actor]

    def cut(self, lo: int, hi: int) -> list[list[Any]]:
        """The cells of [lo, hi), cut at its edges, with new ones where nothing was."""
        starts, cells = self.starts, self.cells
        for edge in (lo, hi):
            at = bisect_left(starts, edge)
            left = starts[at - 1] if at else None
            if left is not None and cells[left][0] > edge:
                end, writer, clock, reads = cells[left]
                self.put(edge, [end, writer, clock, dict(reads)])
                cells[left][0] = edge
        found, at = [], lo
        while at < hi:
            if at not in cells:
                after = bisect_right(starts, at)
                self.put(at, [min([hi, *starts[after : after + 1]]), 0, 0, {}])
            found.append(cells[at])
            at = cells[at][0]
        return found

    def put(self, start: int, cell: list[Any]) -> None:
        self.starts.insert(bisect_left(self.starts, start), start)
        self.cells[start] = cell


def _csan(program: Iterable[Step]) -> int:
    """Errors that the sanitizer's handler returns. Issuing and waiting for the host become events of a stream 100."""
    from torch.cuda._sanitizer import EventHandler  # type: ignore[import-not-found]

    handler, errors = EventHandler(), 0
    for stream in (100, 1, 2):
        handler._handle_stream_creation(stream)
    reads: set[int] = set()
    writes: set[int] = set()
    stream = 100

    def launch() -> int:
        if not reads and not writes:
            return 0
        aliases: dict[int, list[str]] = {pointer: [] for pointer in reads | writes}
        found = handler._handle_kernel_launch(stream, reads - writes, set(writes), set(), "k", aliases)
        reads.clear()
        writes.clear()
        return len(found)

    for operation, actor, offset, _ in program:
        if operation in (READ, WRITE):
            if actor == 0 and stream != 100:
                errors += launch()
                stream = 100
            (writes if operation == WRITE else reads).add(offset)
            continue
        errors += launch()
        stream = actor
        if operation == RECORD:
            handler._handle_event_record(offset, actor)
        elif operation == WAIT:
            handler._handle_event_wait(offset, actor)
        elif operation == SYNC:
            handler._handle_stream_synchronization(actor)
        else:  # issuing is the host's order, which it knows only as an event
            handler._handle_event_record(999, 100)
            handler._handle_event_wait(999, actor)
    return errors + launch()


_REPLAYER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
void *__tsan_get_current_fiber(void); void *__tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_acquire(void *); void __tsan_release(void *);
void __tsan_read_range(void *, unsigned long); void __tsan_write_range(void *, unsigned long);
struct step { int64_t operation, actor, place, size; };
static int64_t queue_token[3], event_token[8], host_token;
static void *fibers[3]; static int64_t current;
#define PLAIN __attribute__((no_sanitize("thread")))
PLAIN static void be(int64_t actor) {
    if (actor != current) __tsan_switch_to_fiber(fibers[actor], 1); /* 1: a switch is no edge */
    current = actor;
}
PLAIN int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "rb");
    fseek(file, 0, SEEK_END); long count = ftell(file) / sizeof(struct step); rewind(file);
    struct step *steps = malloc(count * sizeof *steps);
    if (fread(steps, sizeof *steps, count, file) != (size_t)count) return 2;
    char *memory = mmap(0, atol(argv[2]), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 3;
    fibers[0] = __tsan_get_current_fiber(); fibers[1] = __tsan_create_fiber(0); fibers[2] = __tsan_create_fiber(0);
    struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);
    for (struct step *s = steps; s < steps + count; s++)
        switch (s->operation) {
        case 0: be(s->actor); __tsan_read_range(memory + s->place, s->size); break;
        case 1: be(s->actor); __tsan_write_range(memory + s->place, s->size); break;
        case 2: be(s->actor); __tsan_release(&event_token[s->place]); break;
        case 3: be(s->actor); __tsan_acquire(&event_token[s->place]); break;
        case 4: /* the host learns what the queue did so far */
            be(s->actor); __tsan_release(&queue_token[s->actor]); be(0); __tsan_acquire(&queue_token[s->actor]); break;
        case 5: be(0); __tsan_release(&host_token); be(s->actor); __tsan_acquire(&host_token); break;
        }
    be(0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    char line[256]; double peak = 0; /* getrusage would count whoever started this, too */
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %lf", &peak);
    printf("%f %f\n", (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9, peak / 1024);
    return 0;
}
"""


def _tsan(_: Workload, program: Path) -> Facts | str:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return "not installed (gcc or clang)"
    source, binary = program.with_suffix(".c"), program.with_suffix(".out")
    source.write_text(_REPLAYER)
    build = [compiler, "-O2", "-w", "-fsanitize=thread", str(source), "-o", str(binary)]
    steps = _STEP.iter_unpack(program.read_bytes())
    end = max(place + size for operation, _, place, size in steps if operation in (READ, WRITE))
    try:
        if subprocess.run(build, capture_output=True, check=False).returncode:
            return "not installed (the compiler has no -fsanitize=thread)"
        options = {"TSAN_OPTIONS": "exitcode=0"}
        done = subprocess.run(
            [str(binary), str(program), str(end)], capture_output=True, check=False, timeout=_LIMIT_S, env=options
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {_LIMIT_S} s"
    finally:
        source.unlink()
        binary.unlink(missing_ok=True)
    if done.returncode or not done.stdout:
        return "does not run here"
    seconds, peak = map(float, done.stdout.split())
    return {"seconds": seconds, "peak_mib": peak, "told": done.stderr.count(b"WARNING: ThreadSanitizer")}


def _rapid(_: Workload, program: Path) -> Facts | str:
    """RAPID's epoch engine on its STD text; the start of Java is in its time."""
    jar, java = os.environ.get("HBTRACE_RAPID_JAR"), shutil.which("java")
    if not jar or java is None:
        return "not installed (HBTRACE_RAPID_JAR)"
    text = program.with_suffix(".std")
    text.write_text("".join(line + "\n" for line in _std(_STEP.iter_unpack(program.read_bytes()))))
    command = [java, "-cp", jar, "HBEpoch", "-f=std", f"-p={text}"]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"not finished after {_LIMIT_S} s"
    finally:
        text.unlink()
    seconds = time.perf_counter() - start
    found = re.search(r"'racy' events found = (\d+)", done.stdout)
    if found is None:
        return f"does not run here: {(done.stderr or done.stdout).strip()[:60]!r}"
    return {"seconds": seconds, "peak_mib": None, "told": int(found[1])}


def _std(program: Iterable[Step]) -> Iterator[str]:
    """RAPID's text: an actor is a thread, an edge a lock that one releases and the other acquires."""
    for operation, actor, place, size in program:
        if operation <= WRITE:
            yield f"T{actor}|{'rw'[operation]}(V{place // size})|{place // size}"
        elif operation == RECORD:
            yield f"T{actor}|rel(E{place})|1"
        elif operation == WAIT:
            yield f"T{actor}|acq(E{place})|2"
        elif operation == SYNC:
            yield from (f"T{actor}|rel(D{actor})|3", f"T0|acq(D{actor})|4")
        else:
            yield from (f"T0|rel(Q{actor})|5", f"T{actor}|acq(Q{actor})|6")


PEERS: dict[str, Peer] = {
    "hbtrace": _hbtrace,
    "plain-Python yardstick": _python("yardstick"),
    "PyTorch CUDA Sanitizer": _python("csan"),
    "ThreadSanitizer, fibers": _tsan,
    "RAPID, HBEpoch": _rapid,
}


def main() -> None:
    name, path = sys.argv[1:]
    if name == "csan":  # not on the clock
        importlib.import_module("torch.cuda._sanitizer")
    program = list(_STEP.iter_unpack(Path(path).read_bytes()))
    peer = {"yardstick": lambda steps: _Yardstick().replay(steps), "csan": _csan}[name]
    start = time.perf_counter()
    told = peer(program)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib(), "told": told}))


if __name__ == "__main__":
    main()
