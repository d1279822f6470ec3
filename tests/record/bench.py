"""What recording costs: `python -m tests.record.bench [PROCESSES]`.

One thread; processes with and without the recorder take turns, so that a machine that slows down slows both. Medians
of all repeats, wall and CPU time, prefill and decode apart. No claim is made where the spread is wider than the cost;
on a busy machine the ratio of the least times, beside it, says more.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from hbtrace.record.build import library
from hbtrace.record.launch import Options, environment_for
from tests.record.engine import CACHE, build_driver, fetch
from tests.record.tiny_model import Shape, write_model

_PROMPT, _DECODE = 200, 64
_MODELS = {"small": (Shape(), 31), "large": (Shape(layers=4, width=768, heads=12, kv_heads=6, feed_forward=2048), 3)}
_GOALS = {"small": 1.10, "large": 1.02}
Times = dict[tuple[str, str], list[float]]
"""Phase and clock: milliseconds."""


def main() -> None:
    """Print a table for each model."""
    os.environ.setdefault("HBTRACE_CACHE", str(CACHE / "recorder"))
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        for model, (shape, repeats) in _MODELS.items():
            path = Path(name) / f"{model}.gguf"
            write_model(path, shape)
            _report(model, path, repeats, processes, Path(name))


def _report(model: str, path: Path, repeats: int, processes: int, folder: Path) -> None:
    print(f"{model} model, {path.stat().st_size / 1e6:.0f} MB, goal {_GOALS[model]:.2f}")
    engine = fetch()
    driver = build_driver(engine)
    settings = {"LIBS": str(engine), "MODEL": str(path), "LAYERS": "0", "DECODE": str(_DECODE), "THREADS": "1"}
    modes = {"without": None, "with": False, "exact": True}
    times: dict[str, Times] = {mode: defaultdict(list) for mode in modes}
    size = 0
    for _ in range(processes):
        for mode, exact in modes.items():
            count = repeats if mode != "exact" else 1
            wrote = _run(driver, {**settings, "REPEATS": str(count)}, exact, folder, times[mode])
            size = wrote if mode == "with" else size
    for (phase, clock), plain in sorted(times["without"].items()):
        _row(f"{phase}, {clock}", plain, {mode: times[mode][phase, clock] for mode in ("with", "exact")})
    print(f"  spool: {size / (repeats * (_PROMPT + _DECODE)):.0f} bytes a token\n")


def _run(driver: Path, settings: dict[str, str], exact: bool | None, folder: Path, times: Times) -> int:
    """One process; its times are added. Returns the bytes that it recorded."""
    prefix = folder / "spool"
    environment = dict(os.environ)
    if exact is not None:
        options = Options(folder / "run.arrow", exact_writes=exact)
        environment = environment_for(options, prefix, library(print))
    done = subprocess.run([driver], env={**environment, **settings}, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    for line in lines[2:] or lines:  # the first repeat of a process is a warm-up
        phase, wall, _, _, cpu, _ = line.split()
        times[phase, "wall"].append(float(wall))
        times[phase, "cpu"].append(float(cpu))
    spools = list(folder.glob("spool.*"))
    size = sum(path.stat().st_size for path in spools)
    for path in spools:
        path.unlink()
    return size


def _row(name: str, plain: list[float], others: dict[str, list[float]]) -> None:
    base = statistics.median(plain)
    quartiles = statistics.quantiles(plain, n=4)
    spread = (quartiles[2] - quartiles[0]) / base
    text = f"  {name:<14} {base:9.3f} ms"
    for mode, values in others.items():
        ratio = statistics.median(values) / base
        doubt = " (within the spread)" if abs(ratio - 1) < spread else ""
        text += f"   {mode} {ratio:6.3f}{doubt}, least {min(values) / min(plain):.3f}"
    print(f"{text}   spread {spread:.3f}")


if __name__ == "__main__":
    main()
