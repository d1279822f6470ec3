"""Traces that tests of several rooms read: the contract's cases, and recorded runs of llama.cpp."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
SAMPLES = _HERE.parent / "sample_traces"
CASES = sorted((_HERE / "cases").glob("*.jsonl"))


def cases(of: Iterable[Path] = CASES) -> list[Any]:
    """Cases as parameters."""
    return [pytest.param(p, id=p.stem) for p in of]


RECORDINGS = ("cuda", "cuda_integrated", "discrete", "integrated", "ngl2", "pipeline_src", "vulkan")
_AMONG_SAMPLES = {"cuda": "pipeline_cuda", "discrete": "discrete", "integrated": "integrated"}


@cache
def recording(name: str) -> Path:
    """A recorded run as JSON Lines, byte for byte: one of the samples' sources, or unpacked for this process."""
    if name in _AMONG_SAMPLES:
        return SAMPLES / "src" / f"{_AMONG_SAMPLES[name]}.jsonl"
    path = _unpacked() / f"{name}.jsonl"
    path.write_bytes(gzip.decompress((_HERE / "recordings" / f"{name}.jsonl.gz").read_bytes()))
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Held until the process ends, and removed then."""
    return tempfile.TemporaryDirectory(prefix="hbtrace-recordings-")


def _unpacked() -> Path:
    return Path(_folder().name)
