"""Record real GPUs: `python -m tests.record.cuda SOURCE WORK OUT` where there are nvcc, CMake, ninja and CUDA devices.

SOURCE is llama.cpp v0.5.0 as the PyPI source package llama-cpp-python 0.3.36 holds it (`vendor/llama.cpp`). It is
built twice in WORK: as it stands, and with the one constant that makes the CUDA device call itself integrated, so that
the scheduler hands it host memory in place. Each case is run without and with the recorder; a line tells whether the
recorded run's tokens and logits are those of the unmodified build, and what races the trace has, beside what is
expected. The traces go to OUT. No part of the tests that CI runs: it has no GPU.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hbtrace.record.build import library
from hbtrace.record.launch import Options, environment_for
from tests.record.engine import NATIVE
from tests.record.runs import Run, hbtrace
from tests.record.tiny_model import Shape, write_model

_OFF = ("GGML_CUDA_FA", "GGML_CUDA_NCCL", "GGML_NATIVE", "GGML_OPENMP", "LLAMA_OPENSSL")
_UNBUILT = ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER", "APP", "MTMD")
_ON = ("GGML_CUDA", "GGML_AVX2", "GGML_FMA", "GGML_F16C", "GGML_BMI2", "BUILD_SHARED_LIBS")
_CONSTANT = ("info.devices[id].integrated = false;", "info.devices[id].integrated = true ;")
_MID = Shape(layers=16, width=1024, heads=16, kv_heads=8, feed_forward=2048)
_WARM_UP = 2


@dataclass(frozen=True)
class Case:
    """A run, and how many races its trace is expected to have; `of` names the tensors they may be of."""

    name: str
    expected: int
    build: str = "stock"
    devices: str = "0"
    exact: bool = False
    of: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


_LONG = {"PROMPT": "400", "LLAMA_GRAPH_REUSE_DISABLE": "1"}
CASES = (
    Case("a1", 0),
    Case("a1x", 0, exact=True),
    Case("d1", 0, settings={"LAYERS": "2"}),
    Case("d0", 0, settings={"LAYERS": "0"}),
    Case("c1", 0, devices="0,1"),
    Case("c3", 9, devices="0,1", of="l_out", settings=_LONG),
    Case("c3x", 9, devices="0,1", exact=True, of="l_out", settings=_LONG),
    Case("e1", 30, build="hazard"),
    Case("e1x", 30, build="hazard", exact=True),
    Case("e256", 0, build="hazard", settings={"UBATCH": "256"}),
    Case("e2", 20, build="hazard", settings={"LAYERS": "2"}),
    Case("e0", 0, build="hazard", settings={"LAYERS": "0"}),
)


def main() -> None:
    """Build, run every case, and measure what recording costs."""
    source, work, out = (Path(argument).resolve() for argument in sys.argv[1:4])
    os.environ.setdefault("HBTRACE_CACHE", str(work / "recorder"))
    libraries = {name: _build(source, work, name) for name in ("stock", "hazard")}
    drivers = {name: _driver(folder, work / f"driver-{name}") for name, folder in libraries.items()}
    model, middle = work / "tiny.gguf", work / "mid.gguf"
    write_model(model)
    write_model(middle, _MID)
    devices = _devices()
    for case in CASES:
        if len(case.devices.split(",")) > devices:
            print(f"{case.name}: not run, {devices} device(s)", flush=True)
            continue
        _case(case, drivers, libraries, model, out)
    long = {"PROMPT": "1000", "UBATCH": "128", "CONTEXT": "2048"}
    for name, path, extra in (("tiny", model, {}), ("mid", middle, long)):
        for visible in ("0", "0,1")[:devices]:
            _overhead(f"{name}, devices {visible}", drivers["stock"], libraries["stock"], path, visible, extra)


def _devices() -> int:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())


def _build(source: Path, work: Path, name: str) -> Path:
    """The folder of the libraries of one of the two builds; the second recompiles one file."""
    target = work / name
    if target.is_dir():
        return target
    copy, build = work / "source", work / "build"
    if not copy.is_dir():
        shutil.copytree(source, copy)
    file = copy / "ggml/src/ggml-cuda/ggml-cuda.cu"
    text = file.read_text()
    if name == "hazard":
        if text.count(_CONSTANT[0]) != 1:
            sys.exit(f"{file}: the constant to change is not there once")
        file.write_text(text.replace(*_CONSTANT))
    flags = [f"-D{key}=OFF" for key in (*_OFF, *(f"LLAMA_BUILD_{part}" for part in _UNBUILT))]
    flags += [f"-D{key}=ON" for key in _ON] + ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_ARCHITECTURES=90-real"]
    started = time.monotonic()
    subprocess.run(["cmake", "-S", copy, "-B", build, "-G", "Ninja", *flags], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", build, "--quiet"], check=True)
    file.write_text(text)
    shutil.copytree(build / "bin", target, symlinks=True)
    print(f"{name}: built in {time.monotonic() - started:.0f} s", flush=True)
    return target


def _driver(libraries: Path, target: Path) -> Path:
    linked = ["-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}"]
    source = str(NATIVE / "driver.cpp")
    command = ["g++", "-O2", "-std=c++17", "-pthread", source, "-o", str(target), f"-L{libraries}", *linked]
    subprocess.run(command, check=True)
    return target


def _environment(case: Case, libraries: Path, model: Path) -> dict[str, str]:
    base = {"LIBS": str(libraries), "MODEL": str(model), "LAYERS": "99", "CUDA_VISIBLE_DEVICES": case.devices}
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries), **base, **case.settings}


def _case(case: Case, drivers: Mapping[str, Path], libraries: Mapping[str, Path], model: Path, out: Path) -> None:
    reference = _environment(case, libraries["stock"], model)
    plain = subprocess.run([drivers["stock"]], env=reference, capture_output=True, text=True, check=True)
    trace = out / f"cuda_{case.name}.arrow"
    options = ["--exact-writes"] if case.exact else []
    environment = _environment(case, libraries[case.build], model)
    done = hbtrace("record", "-f", "-o", trace, *options, "--", drivers[case.build], env=environment)
    if done.returncode != 0:
        print(f"{case.name}: FAILED {done.returncode}: {done.stderr[-600:]}", flush=True)
        return
    run = Run(done.returncode, done.stdout, done.stderr, trace)
    races = run.races
    verdict = "as expected" if races.total() == case.expected and all(case.of in name for name in races) else "DIFFERS"
    output = "right" if run.tokens == plain.stdout.strip() else "WRONG"
    print(f"{case.name}: {verdict}: {races.total()} races (expected {case.expected}), output {output}", flush=True)
    print(f"    {dict(races)} events {sum(1 for _ in run.events)} warnings {run.warnings}", flush=True)


def _overhead(
    title: str, driver: Path, libraries: Path, model: Path, visible: str, extra: Mapping[str, str], processes: int = 4
) -> None:
    """Alternating processes, medians of their repeats; the spread is the quartiles' distance without the recorder."""
    case = Case(title, 0, devices=visible, settings={"DECODE": "64", "REPEATS": "23", **extra})
    plain = _environment(case, libraries, model)
    spool = model.parent / "overhead"
    recording = {**plain, **_recording(spool)}
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(processes):
        for mode, environment in (("without", plain), ("with", recording)):
            done = subprocess.run([driver], env=environment, capture_output=True, text=True, check=True)
            lines = [line.split() for line in done.stderr.splitlines() if line.startswith(("prefill", "decode"))]
            for phase, wall, *_ in lines[2 * _WARM_UP :]:
                times[phase, mode].append(float(wall))
        for path in spool.parent.glob("overhead.*"):
            path.unlink()
    for phase in ("prefill", "decode"):
        base, with_it = (statistics.median(times[phase, mode]) for mode in ("without", "with"))
        quartiles = statistics.quantiles(times[phase, "without"], n=4)
        spread = (quartiles[2] - quartiles[0]) / base
        ratio = with_it / base
        print(f"{title}: {phase} {base:.3f} -> {with_it:.3f} ms, ratio {ratio:.3f}, spread {spread:.3f}", flush=True)


def _recording(spool: Path) -> dict[str, str]:
    """What the recorder needs of the environment, and nothing that is there already."""
    full = environment_for(Options(spool.with_suffix(".arrow")), spool, library(print))
    return {key: value for key, value in full.items() if os.environ.get(key) != value}


if __name__ == "__main__":
    main()
