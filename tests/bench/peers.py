"""The flat workload on whatever peers are installed: PyTorch's CUDA sanitizer, ThreadSanitizer with a fiber a queue.

Each does what it can of the same trace. A peer that is not there is said to be absent.
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.workloads import FOLDER, Workload

READ, WRITE, RECORD, WAIT, SYNC, ISSUE = range(6)
_STEP = struct.Struct("<qqqq")  # operation, actor, offset or event, size


def steps(path: Path) -> Iterator[tuple[int, int, int, int]]:
    """A flat trace as (operation, actor, offset, size); the host is actor 0."""
    from hbtrace.trace.reader import open_trace

    for event in open_trace(path):
        ev = event["ev"]
        actor = event.get("backend", 0)
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


def run(workload: Workload) -> list[str]:
    """A line a peer."""
    program = list(steps(workload.path))
    return [_csan(program, workload), _tsan(program, workload)]


def _line(name: str, workload: Workload, seconds: float, told: str) -> str:
    return f"{name:<28}{workload.accesses:>12,}{workload.accesses / seconds:>14,.0f} accesses/s   {told}"


def _csan(program: list[tuple[int, int, int, int]], workload: Workload) -> str:
    if importlib.util.find_spec("torch") is None:
        return "PyTorch CUDA Sanitizer      not installed (torch)"
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

    start = time.perf_counter()
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
    errors += launch()
    return _line("PyTorch CUDA Sanitizer", workload, time.perf_counter() - start, f"{errors} errors")


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
struct step { int64_t operation, actor, offset, size; };
static char queue_token[8], event_token[8], host_token;
int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "rb");
    fseek(file, 0, SEEK_END); long count = ftell(file) / sizeof(struct step); rewind(file);
    struct step *steps = malloc(count * sizeof *steps);
    if (fread(steps, sizeof *steps, count, file) != (size_t)count) return 2;
    char *memory = mmap(0, atol(argv[2]), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *fibers[3] = {__tsan_get_current_fiber(), __tsan_create_fiber(0), __tsan_create_fiber(0)};
    struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);
    for (long k = 0; k < count; k++) {
        struct step s = steps[k];
        int actor = s.operation == 4 || s.operation == 5 ? 0 : (int)s.actor;
        __tsan_switch_to_fiber(fibers[actor], 1);
        switch (s.operation) {
        case 0: __tsan_read_range(memory + s.offset, s.size); break;
        case 1: __tsan_write_range(memory + s.offset, s.size); if (actor) __tsan_release(&queue_token[actor]); break;
        case 2: __tsan_release(&event_token[s.offset]); break;
        case 3: __tsan_acquire(&event_token[s.offset]); break;
        case 4: __tsan_acquire(&queue_token[s.actor]); break;
        case 5:
            __tsan_release(&host_token);
            __tsan_switch_to_fiber(fibers[s.actor], 1);
            __tsan_acquire(&host_token);
            break;
        }
    }
    __tsan_switch_to_fiber(fibers[0], 1);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%f\n", (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9);
    return 0;
}
"""


def _tsan(program: list[tuple[int, int, int, int]], workload: Workload) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        return "ThreadSanitizer, fibers     not installed (a C compiler)"
    source, binary, data = (FOLDER / f"tsan_replay{suffix}" for suffix in (".c", "", ".bin"))
    source.write_text(_REPLAYER)
    built = subprocess.run(
        [compiler, "-O2", "-w", "-fsanitize=thread", str(source), "-o", str(binary)], capture_output=True, check=False
    )
    if built.returncode:
        return "ThreadSanitizer, fibers     not installed (the compiler has no -fsanitize=thread)"
    data.write_bytes(b"".join(_STEP.pack(*step) for step in program))
    end = max(offset + size for operation, _, offset, size in program if operation in (READ, WRITE))
    try:
        done = subprocess.run(
            [str(binary), str(data), str(end)],
            capture_output=True, check=False, timeout=120, env={"TSAN_OPTIONS": "exitcode=0 report_signal_unsafe=0"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "ThreadSanitizer, fibers     not finished after 120 s"
    if done.returncode or not done.stdout:
        return "ThreadSanitizer, fibers     does not run here"
    told = f"{done.stderr.count(b'WARNING: ThreadSanitizer')} warnings"
    return _line("ThreadSanitizer, fibers", workload, float(done.stdout), told)
