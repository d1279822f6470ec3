"""Records `sample_traces/recorded_*.arrow` anew: `python -m tests.record.samples [NAME...]`.

A smaller model and fewer ubatches than the tests', so that each trace is small. What is of this machine (the command's
paths) is taken out of the first row; all other rows are as recorded.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hbtrace.trace.writer import open_writer
from tests.record.engine import CACHE, build_driver, build_plugin, fetch
from tests.record.runs import Recorder, events_of
from tests.record.tiny_model import Shape, write_model

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
_SHAPE = Shape(layers=3, width=64, heads=2, kv_heads=1, feed_forward=128)
_HELD = {"HBTEST_HOLD": "1"}
# Ubatches of 32, 32, 32 and 8 tokens, and two tokens more.
_PROMPT = {"PROMPT": "104", "UBATCH": "32", "DECODE": "2"}
# 7 ubatches of 8 tokens, and nothing that waits between them.
_PIPELINE = {
    "HBTEST_TYPE": "gpu", "HBTEST_DISCRETE": "1", "HBTEST_DEVICES": "2", "LLAMA_GRAPH_REUSE_DISABLE": "1",
    "PROMPT": "56", "UBATCH": "8", "DECODE": "0",
}  # fmt: skip
_IN_PLACE = "a device that computes on host memory in place"

# By name: how copies run, what it shows, and the settings of device, driver and engine.
RUNS: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "integrated": ("src", f"{_IN_PLACE}; 4 ubatches in one llama_decode, then 2 decodes", {**_HELD, **_PROMPT}),
    "one_ubatch": ("src", f"{_IN_PLACE}; the prompt is one ubatch", {**_HELD, **_PROMPT, "UBATCH": "128"}),
    "discrete": ("src", "a device that does not take host memory: inputs are copied",
                 {**_HELD, **_PROMPT, "HBTEST_DISCRETE": "1"}),
    "synchronous": ("src", f"{_IN_PLACE}, and is done when a call returns", {**_PROMPT, "HBTEST_SYNC": "1"}),
    "partial_offload": ("src", f"{_IN_PLACE}, with one layer of three", {**_HELD, **_PROMPT, "LAYERS": "2"}),
    "no_offload": ("src", f"{_IN_PLACE}, with no layer: it is given some nodes all the same",
                   {**_HELD, **_PROMPT, "LAYERS": "0"}),
    "copy_unordered": ("src", "two devices in a pipeline; the copy between them does not wait for the destination",
                       _PIPELINE),
    "copy_ordered": ("src,after-dst", "two devices in a pipeline; the copy between them waits for the destination",
                     {**_PIPELINE, "HBTEST_ORDERED": "1"}),
}  # fmt: skip


def main() -> None:
    """Record those named, by default all."""
    os.environ.setdefault("HBTRACE_CACHE", str(CACHE / "recorder"))
    engine = fetch()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "tiny.gguf"
        write_model(model, _SHAPE)
        recorder = Recorder(engine, build_plugin(engine), build_driver(engine), model, folder)
        for run in sys.argv[1:] or RUNS:
            target = SAMPLES / f"recorded_{run}.arrow"
            make(recorder, run, target)
            print(f"{target.name}: {target.stat().st_size:,} bytes")


def make(recorder: Recorder, name: str, target: Path) -> None:
    """Record one, and write it without this machine's paths."""
    copies, shows, settings = RUNS[name]
    run = recorder.record("-f", copies=copies, **settings)
    if run.status != 0:
        raise SystemExit(run.told)
    meta, *rows = events_of(run.trace)
    meta["command"] = ["driver"]
    meta["notes"] = f"llama.cpp v0.5.0 with a model of random weights on the device of hbtrace's tests: {shows}."
    with open_writer(target, force=True) as writer:
        writer.write_rows([meta, *rows])


if __name__ == "__main__":
    main()
