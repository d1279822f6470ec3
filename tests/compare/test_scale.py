"""Two hundred traces a side, in bounded memory: no more than a few of them need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from hbtrace.trace.writer import open_writer
from tests.compare.samples import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc or rusage of Linux")

_MEASURED = """
import resource, sys
from hbtrace.cli import run
code = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak(*arguments):
    """(exit code, standard output, MiB)"""
    done = subprocess.run([sys.executable, "-c", _MEASURED, *arguments], capture_output=True, check=False, text=True)
    return done.returncode, done.stdout, int(done.stderr.splitlines()[-1]) / 1024


def test_two_hundred_traces_a_side(tmp_path):
    names = [f"l_out-{n}" for n in range(12)]
    for side, more in (("base", ()), ("head", ("inp_new",))):
        (tmp_path / side).mkdir()
        with open_writer(str(tmp_path / f"{side}.arrow")) as writer:
            writer.write_rows(run(*names, *more, ubatches=40))
        for n in range(200):
            os.link(tmp_path / f"{side}.arrow", tmp_path / side / f"{n:03}.arrow")
    few = peak("diff", str(tmp_path / "base.arrow"), str(tmp_path / "head.arrow"), "--format", "json")
    begun = time.monotonic()
    many = peak("diff", str(tmp_path / "base"), str(tmp_path / "head"), "--format", "json")
    assert time.monotonic() - begun < 60
    assert few[0] == many[0] == 1
    assert many[2] < few[2] + 60, (few[2], many[2])
    documents = [json.loads(out) for out in (few[1], many[1])]
    assert [len(d["persisting"]) for d in documents] == [12, 12]
    assert documents[1]["new"][0]["head"] == {"min": 39, "max": 39, "runs": 200, "of": 200}
