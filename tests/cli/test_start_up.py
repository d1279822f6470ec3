"""What a verb imports before it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("verb", ["analyze", "check", "info", "triage", "diff"])
def test_pandas_stays_out(verb: str) -> None:
    """pyarrow would import it where it is installed, which takes longer than a small trace."""
    trace = str(ROOT / "sample_traces/seed.arrow")
    traces = [trace, trace] if verb == "diff" else [trace]
    command = [sys.executable, "-X", "importtime", "-m", "hbtrace", verb, *traces]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"})
    assert done.returncode in (0, 1)
    assert "hbtrace.cli" in done.stderr
    assert "pandas.core" not in done.stderr
